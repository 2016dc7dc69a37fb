"""Sampling against its promises: quotas at every prefix, epochs without replacement, one order for all mixtures."""

import numpy as np
import pytest

from mixopt.columns import Array
from mixopt.sampling.quota import counts, quota_order
from mixopt.sampling.stream import Stream, draw


def random_shares(rng: np.random.Generator, case: int) -> Array:
    """Shares of 1 to 12 corpora: even, lopsided, down to 1e-9, with zeros, with halves that tie."""
    m = int(rng.integers(1, 13))
    if case % 4 == 0:
        values = rng.integers(0, 5, m).astype(float) + np.eye(m)[0]
    else:
        values = rng.dirichlet(np.full(m, (1.0, 0.1, 10.0)[case % 3])) + 1e-9
        values[rng.random(m) < 0.2] = 0.0
        values[0] += 1e-6
    return values / values.sum()


@pytest.mark.parametrize("case", range(120))
def test_every_prefix_is_within_one_sample_of_its_quota(case: int, rng: np.random.Generator) -> None:
    shares = random_shares(np.random.default_rng([case, int(rng.integers(1 << 30))]), case)
    order = quota_order(shares, 700)
    drawn = np.cumsum(order[:, None] == np.arange(len(shares)), axis=0)
    ahead = drawn - np.arange(1, 701)[:, None] * shares
    assert np.abs(ahead).max() < 1 + 1e-9
    assert not np.isin(order, np.flatnonzero(shares == 0)).any()


def test_equal_shares_take_turns() -> None:
    assert [sorted(turn) for turn in quota_order(np.full(3, 1 / 3), 30).reshape(10, 3).tolist()] == [[0, 1, 2]] * 10


@pytest.mark.parametrize("case", range(40))
def test_counts_are_the_whole_numbers_nearest_to_the_quotas(case: int, rng: np.random.Generator) -> None:
    shares = random_shares(np.random.default_rng([case, int(rng.integers(1 << 30))]), case)
    found = counts(shares, 101)
    assert found.sum() == 101
    assert np.abs(found - 101 * shares).max() < 1
    # Largest remainder is the apportionment of least squared error: no sample moved makes it better.
    error = found - 101 * shares
    assert error.max() - error.min() <= 1 + 1e-9


def test_hamilton_apportionment_of_a_textbook() -> None:
    # The Alabama paradox in its smallest form (Balinski and Young, Fair Representation, 1982): states of 6, 6 and 2
    # share 10 seats as 4, 4, 2; with an eleventh, the small one has fewer.
    assert counts(np.array([6, 6, 2]) / 14, 10).tolist() == [4, 4, 2]
    assert counts(np.array([6, 6, 2]) / 14, 11).tolist() == [5, 5, 1]


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ([0.5, 0.4], r"shares sum to 0\.9; they must sum to 1 within 1e-6\. Divide them by the sum"),
        ([1.5, -0.5], r"one number of at least 0 per corpus is needed"),
        ([np.nan, 1.0], r"one number of at least 0 per corpus is needed"),
    ],
)
def test_shares_that_are_none_are_refused(shares: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quota_order(np.array(shares), 5)
    with pytest.raises(ValueError, match=message):
        counts(np.array(shares), 5)


def corpora() -> dict[str, Array]:
    """Tokens that tell where they come from: web 0 to 999, code 10000 to 10299."""
    return {"web": np.arange(1000, dtype=np.uint16), "code": np.arange(10_000, 10_300, dtype=np.uint16)}


def stream(n: int, web: float = 0.5, unique: int = 1000, seed: int = 0) -> Stream:
    return draw(corpora(), {"web": web, "code": 1 - web}, {"web": unique, "code": 300}, n, 8, seed)


def test_an_epoch_reads_no_token_twice_and_misses_less_than_a_window() -> None:
    per_epoch = 1003 // 8
    source = np.arange(1003, dtype=np.uint16)
    drawn = draw({"web": source}, {"web": 1.0}, {"web": 1003}, 3 * per_epoch, 8, seed=1)
    for epoch in range(3):
        inputs = drawn.tokens(epoch * per_epoch, (epoch + 1) * per_epoch)[:, :-1].ravel()
        assert len(np.unique(inputs)) == inputs.size == per_epoch * 8 > 1003 - 8
    first, second = (drawn.tokens(e * per_epoch, (e + 1) * per_epoch)[:, 0] for e in (0, 1))
    assert set(first.tolist()) == set(second.tolist())
    assert first.tolist() != second.tolist()  # a fresh order
    assert drawn.epochs["web"] == 3


def test_the_label_of_a_token_is_the_token_after_it() -> None:
    for row in stream(100).tokens(0, 100).astype(int):
        base, size = (0, 1000) if row[0] < 1000 else (10_000, 300)
        assert ((row[:-1] - base + 1) % size == row[1:] - base).all()


def test_unique_tokens_bound_what_is_seen_and_smaller_sets_are_part_of_larger() -> None:
    seen = [stream(400, unique=unique).tokens(0, 400)[:, :-1] for unique in (64, 256)]
    web = [{token for token in inputs.ravel().tolist() if token < 1000} for inputs in seen]
    assert [len(tokens) for tokens in web] == [64, 256]
    assert web[0] < web[1]


@pytest.mark.parametrize("unique", [40, 160, 400])
def test_a_part_of_a_corpus_is_spread_over_all_of_it(unique: int) -> None:
    """No stretch without a window is longer than thrice the even spacing (three-gap theorem), whatever the seed."""
    for seed in range(20):
        inputs = stream(400, unique=unique, seed=seed).tokens(0, 400)[:, 0].astype(int)
        starts = np.unique(inputs[inputs < 1000])
        gaps = np.diff(np.concatenate([starts, [starts[0] + 1000]]))
        assert len(starts) == unique // 8
        assert gaps.max() <= 3 * 1000 / len(starts) + 8


def test_epochs_are_passes_over_what_a_run_may_see() -> None:
    drawn = draw(corpora(), {"web": 1.0}, {"web": 100}, 36, 8, seed=0)  # 12 windows of 8 tokens
    _, times = np.unique(drawn.starts, return_counts=True)
    assert times.tolist() == [3] * 12
    assert drawn.epochs["web"] == 3


def test_realized_shares_are_within_a_sequence() -> None:
    drawn = stream(333, web=0.123)
    assert abs(drawn.realized["web"] - 0.123) < 1 / 333
    assert drawn.epochs["code"] == pytest.approx(drawn.realized["code"] * 333 / (300 // 8))


def test_mixtures_with_one_seed_read_each_corpus_in_one_order() -> None:
    few, many, other = stream(300, web=0.2), stream(300, web=0.7), stream(300, web=0.7, seed=1)
    reads = [s.tokens(0, 300)[s.corpus == 0] for s in (few, many, other)]
    assert (reads[0] == reads[1][: len(reads[0])]).all()
    assert not (reads[1] == reads[2][: len(reads[1])]).all()


def test_the_first_sequences_are_a_stream() -> None:
    drawn = stream(50)
    assert (drawn.first(20).tokens(0, 20) == drawn.tokens(0, 20)).all()
    assert drawn.first(0).realized == {"web": 0.0, "code": 0.0}


def test_unknown_corpora_and_tokens_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match=r"mixture names corpus 'wb'; there are web, code\. Correct the name"):
        draw(corpora(), {"wb": 1.0}, {}, 10, 8, seed=0)
    with pytest.raises(ValueError, match=r"unique_tokens 1001 of corpus 'web'; it has 1000 tokens"):
        draw(corpora(), {"web": 1.0}, {"web": 1001}, 10, 8, seed=0)
    with pytest.raises(ValueError, match=r"unique_tokens 0 of corpus 'web'"):
        draw(corpora(), {"web": 1.0}, {}, 10, 8, seed=0)
    with pytest.raises(ValueError, match=r"unique_tokens 5 of corpus 'tiny'; it has 5 tokens, and a sequence has 8"):
        draw({"tiny": np.arange(5, dtype=np.uint16)}, {"tiny": 1.0}, {"tiny": 5}, 10, 8, seed=0)
