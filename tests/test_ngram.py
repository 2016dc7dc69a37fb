"""The ngram proxy against its formulas written out with dictionaries, laws of probability, and known entropies."""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mixopt.columns import Array
from mixopt.corpora import Corpus
from mixopt.proxy import ngram
from mixopt.proxy._kneser_ney import FALLBACK, KneserNey, discounts, estimate, log_probabilities
from mixopt.proxy._token_bytes import byte_level_alphabet, read_token_bytes
from mixopt.proxy.data import TokenData, prepare
from mixopt.sweep.settings import RunSettings

SAMPLES = Path(__file__).parents[1] / "data_samples" / "corpora"


def text_of(name: str) -> bytes:
    with gzip.open(SAMPLES / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return "\n".join(json.loads(line)["text"] for line in lines).encode("ascii", "ignore")


ENGLISH = text_of("technical_prose")
EOS = 256


def as_text(content: bytes) -> Array:
    return np.frombuffer(content, np.uint8)


def bits(model: KneserNey, content: bytes) -> float:
    return -float(log_probabilities(model, as_text(content), np.array([0])).mean() / np.log(2))


class Dictionaries:
    """Chen and Goodman's equations as they stand in section 3 of their report, one n-gram at a time."""

    def __init__(self, windows: list[bytes], order: int) -> None:
        self.counts: dict[int, Counter[bytes]] = {}
        self.counts[order] = Counter(w[i : i + order] for w in windows for i in range(len(w) - order + 1))
        for n in range(order - 1, 0, -1):
            before: dict[bytes, set[int]] = defaultdict(set)
            for gram in self.counts[n + 1]:
                before[gram[1:]].add(gram[0])
            self.counts[n] = Counter({gram: len(different) for gram, different in before.items()})
        self.discounts = {n: self.estimate_discounts(self.counts[n]) for n in self.counts}

    @staticmethod
    def estimate_discounts(counts: Mapping[bytes, int]) -> tuple[float, float, float]:
        n = [sum(1 for count in counts.values() if count == k) for k in range(5)]
        if 0 in n[1:4]:
            return 0.5, 1.0, 1.5
        y = n[1] / (n[1] + 2 * n[2])
        d = tuple(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
        return (d[0], d[1], d[2]) if min(d) > 0 else (0.5, 1.0, 1.5)

    def probability(self, history: bytes, byte: int) -> float:
        n = len(history) + 1
        lower = self.probability(history[1:], byte) if history else 1 / 256
        following = {g: c for g, c in self.counts[n].items() if g[:-1] == history}
        if not following:
            return lower
        d1, d2, d3 = self.discounts[n]
        classes = Counter(min(count, 3) for count in following.values())
        total = sum(following.values())
        backoff = (d1 * classes[1] + d2 * classes[2] + d3 * classes[3]) / total
        count = following.get(history + bytes([byte]), 0)
        return (count - (0.0, d1, d2, d3)[min(count, 3)]) / total + backoff * lower


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_are_those_of_the_published_formulas(order: int) -> None:
    windows = [ENGLISH[at : at + 150] for at in (0, 5000, 9000, 9150, 20_000)]
    model = estimate(as_text(b"".join(windows)), np.arange(5) * 150, order=order)
    slow = Dictionaries(windows, order)
    held_out = ENGLISH[30_000:30_300] + bytes(range(0, 256, 7))
    expected = [
        np.log(slow.probability(held_out[max(0, at - order + 1) : at], held_out[at])) for at in range(len(held_out))
    ]
    np.testing.assert_allclose(log_probabilities(model, as_text(held_out), np.array([0])), expected, rtol=0, atol=1e-10)


def test_the_six_grams_of_the_proxy_are_those_of_the_published_formulas() -> None:
    model, slow = estimate(as_text(ENGLISH[:1500]), np.array([0])), Dictionaries([ENGLISH[:1500]], 6)
    assert 0.5 < slow.discounts[6][0] < 1
    assert slow.discounts[6] != FALLBACK
    held_out = ENGLISH[1400:1600]
    expected = [np.log(slow.probability(held_out[max(0, at - 5) : at], held_out[at])) for at in range(200)]
    np.testing.assert_allclose(log_probabilities(model, as_text(held_out), np.array([0])), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", [1, 3, 6, 8])
def test_probabilities_sum_to_one_after_any_history(order: int, rng: np.random.Generator) -> None:
    model = estimate(as_text(ENGLISH[:50_000]), np.arange(0, 50_000, 300), order=order)
    seen = [ENGLISH[at : at + order - 1] for at in rng.integers(0, 50_000 - order, 20)]
    unseen = [rng.bytes(order - 1) for _ in range(20)]
    half = [unseen[at][: order // 2] + seen[at][order // 2 :] for at in range(20)]
    windows = [history + bytes([byte]) for history in seen + unseen + half for byte in range(256)]
    log_p = log_probabilities(model, as_text(b"".join(windows)), np.arange(len(windows)) * order)
    sums = np.exp(log_p[order - 1 :: order]).reshape(60, 256).sum(1)
    np.testing.assert_allclose(sums, 1, rtol=0, atol=1e-9)


def test_no_n_gram_runs_across_windows() -> None:
    together = estimate(as_text(b"abcdefghij" * 2), np.array([0]), order=3).orders[-1].grams
    apart = estimate(as_text(b"abcdefghij" * 2), np.array([0, 10]), order=3).orders[-1].grams
    packed = {int.from_bytes(gram, "big") for gram in (b"ija", b"jab")}
    assert set(together.tolist()) - set(apart.tolist()) == packed


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1] * 80 + [2] * 20 + [3] * 10 + [4] * 5, (2 / 3, 2 - 3 * 2 / 3 / 2, 3 - 4 * 2 / 3 / 2)),
        ([2] * 20 + [3] * 10 + [4] * 5, FALLBACK),
        ([1] * 9 + [2] + [3] * 10 + [4] * 5, FALLBACK),
        ([5, 6], FALLBACK),
    ],
    ids=["by hand", "nothing seen once", "negative D2", "nothing rare"],
)
def test_discounts(counts: list[int], expected: tuple[float, float, float]) -> None:
    assert discounts(np.array(counts)) == pytest.approx(expected)


@pytest.mark.parametrize(("order", "excess"), [(1, 0.005), (6, 0.2)])
def test_uniform_bytes_cost_eight_bits(order: int, excess: float, rng: np.random.Generator) -> None:
    found = bits(estimate(as_text(rng.bytes(300_000)), np.array([0]), order=order), rng.bytes(30_000))
    # No model does better on average; one that looks for patterns in noise pays for those it finds.
    assert 8 - 0.001 < found < 8 + excess


def test_a_periodic_text_costs_nothing() -> None:
    period = bytes(range(97, 123))
    assert bits(estimate(as_text(period * 2000), np.array([0])), period * 200) < 0.01


def test_a_markov_source_costs_its_entropy_rate(rng: np.random.Generator) -> None:
    chain = rng.dirichlet(np.full(8, 0.5), size=8)
    state, states = 0, []
    for draw in rng.random(120_000):
        state = min(int(np.searchsorted(np.cumsum(chain[state]), draw)), 7)
        states.append(state)
    text = bytes(states)
    eigenvalues, vectors = np.linalg.eig(chain.T)
    stationary = vectors[:, np.argmax(eigenvalues.real)].real
    rate = -float((stationary / stationary.sum()) @ (chain * np.log2(chain)).sum(1))
    excess = bits(estimate(as_text(text[:100_000]), np.array([0]), order=2), text[100_000:]) / rate - 1
    # 20 000 draws of about 1.3 bits of standard deviation: the held-out text itself is within 2 % of the rate.
    assert abs(excess) < 0.02


def test_longer_n_grams_and_more_text_predict_english_better() -> None:
    held_out = ENGLISH[400_000:430_000]
    by_order = [bits(estimate(as_text(ENGLISH[:200_000]), np.array([0]), order=order), held_out) for order in (1, 2, 6)]
    by_size = [bits(estimate(as_text(ENGLISH[:size]), np.array([0])), held_out) for size in (20_000, 80_000, 320_000)]
    assert by_order == sorted(by_order, reverse=True)
    assert by_size == sorted(by_size, reverse=True)
    assert by_size[0] - by_size[-1] > 0.3


@pytest.mark.parametrize("order", [0, 9])
def test_an_order_that_does_not_fit_is_refused(order: int) -> None:
    with pytest.raises(ValueError, match=f"order {order} is out of range; an n-gram holds 1 to 8 bytes"):
        estimate(as_text(b"abcdefghij"), np.array([0]), order=order)


def test_a_text_without_an_n_gram_is_refused() -> None:
    with pytest.raises(ValueError, match="no window of the text is 6 bytes long; order 6 needs one"):
        estimate(as_text(b"abcdefghij"), np.array([0, 5]))


def write_tokenizer(path: Path, *extra: str) -> Path:
    """One token per byte, the special token <eos>, and the extra tokens."""
    character = {byte: character for character, byte in byte_level_alphabet().items()}
    vocabulary = {character[byte]: byte for byte in range(256)} | {"<eos>": EOS}
    vocabulary |= {token: EOS + 1 + place for place, token in enumerate(extra)}
    special = {"id": EOS, "content": "<eos>", "special": True}
    path.write_text(json.dumps({"added_tokens": [special], "model": {"vocab": vocabulary}}))
    return path


def test_tokens_decode_to_their_bytes(tmp_path: Path) -> None:
    table = read_token_bytes(write_tokenizer(tmp_path / "tokenizer.json", "Ġthe", "ÃŁ"))
    tokens = np.array([104, 257, EOS, 258, 10], np.uint16)
    assert table.decode(tokens).tobytes() == b"h the\0" + "ß".encode() + b"\n"
    assert table.decode(tokens[:0]).tobytes() == b""


def test_prepared_tokens_decode_to_the_documents(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="data is prepared by the tokenizers package")
    texts = (ENGLISH[:20_000].decode(), " naïve Straße 東京 \u00a0 🙂\n", ENGLISH[30_000:50_000].decode())
    corpus = Corpus("manual", texts, (ENGLISH[60_000:64_000].decode(), "Ünïcode 🙂"), None, "samples")
    prepared = prepare({"manual": corpus}, {"manual": corpus.valid}, tmp_path, vocabulary=400)
    table = read_token_bytes(prepared.tokenizer_path)
    for tokens, documents in ((prepared.train["manual"], corpus.train), (prepared.valid["manual"], corpus.valid)):
        assert table.decode(tokens).tobytes() == b"".join(text.encode() + b"\0" for text in documents)
    valid = prepared.valid["manual"]
    assert table.lengths[valid[~table.special[valid]]].sum() == prepared.valid_bytes["manual"]
    everything = {"manual": len(prepared.train["manual"])}
    result = ngram.train(RunSettings("ngram", everything["manual"], {"manual": 1.0}, everything, seed=0), prepared)
    nats_per_byte = result.loss["manual"] * len(valid) / prepared.valid_bytes["manual"]
    assert nats_per_byte / np.log(2) == pytest.approx(result.bits_per_byte["manual"])


def test_a_vocabulary_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = write_tokenizer(tmp_path / "tokenizer.json", "▁the")
    with pytest.raises(ValueError, match=r"tokenizer.json: token '▁the' is not in the byte-level alphabet"):
        read_token_bytes(path)
    path.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 2}}}))
    with pytest.raises(ValueError, match=r"tokenizer.json has no token with id 1; ids must run from 0 without a gap"):
        read_token_bytes(path)


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> TokenData:
    """English documents, and noise over 16 letters, whose loss on English data is poor."""
    english = np.frombuffer(ENGLISH, np.uint8).astype(np.uint16)
    noise = rng.integers(97, 113, 100_000).astype(np.uint16)
    end = np.array([EOS], np.uint16)
    valid = {"english": np.concatenate([english[300_000:345_000], end]), "noise": np.append(noise[90_000:], end)}
    return TokenData(
        train={"english": english[:300_000], "noise": noise[:90_000]},
        valid=valid,
        bytes_per_token_train={"english": 1.0, "noise": 1.0},
        valid_bytes={name: len(tokens) - 1 for name, tokens in valid.items()},
        vocabulary=257,
        tokenizer_path=write_tokenizer(tmp_path / "tokenizer.json"),
        documents={"english": 1, "noise": 1},
    )


UNIQUE = {"english": 300_000, "noise": 90_000}


def settings(tokens: int, english: float, *, seed: int = 0, **other: object) -> RunSettings:
    mixture = {"english": english, "noise": 1 - english}
    return RunSettings("ngram", tokens, mixture, **{"unique_tokens": UNIQUE, "seed": seed, **other})  # type: ignore[arg-type]


def test_a_run_reports_both_units_and_what_it_read(data: TokenData) -> None:
    result = ngram.train(settings(50_000, 0.7), data)
    assert result.status == "finished"
    assert (result.steps, result.flops, result.model_size) == (1, 0.0, None)
    assert result.seconds > 0
    assert result.realized == pytest.approx({"english": 0.7, "noise": 0.3})
    assert result.epochs == pytest.approx({"english": 35 / 300, "noise": 15 / 90})
    # Ten thousand tokens of one byte each and one <eos>, which is a token but no byte of text.
    ratio = result.loss["noise"] * 10_001 / (result.bits_per_byte["noise"] * np.log(2) * 10_000)
    assert ratio == pytest.approx(1)
    # Sixteen equally likely letters are 4 bits; no model predicts them better, and guessing bytes costs 8.
    assert 4 - 0.01 < result.bits_per_byte["noise"] < 4.6


def test_a_target_gains_from_its_own_corpus(data: TokenData) -> None:
    found = [ngram.train(settings(50_000, share), data).bits_per_byte for share in (0.1, 0.3, 0.9)]
    english = [losses["english"] for losses in found]
    assert english == sorted(english, reverse=True)
    assert found[0]["noise"] < found[2]["noise"]
    more = ngram.train(settings(200_000, 0.9), data).bits_per_byte
    assert more["english"] < found[2]["english"]


def test_a_run_is_reproducible_and_the_seed_matters(data: TokenData) -> None:
    first, again, other = (ngram.train(settings(30_000, 0.5, seed=seed), data).loss for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert other["english"] == pytest.approx(first["english"], rel=0.1)


def test_a_corpus_is_read_once_at_most(data: TokenData) -> None:
    result = ngram.train(settings(100_000, 0.5, unique_tokens={"english": 300_000, "noise": 10_000}), data)
    assert result.epochs == {"english": 50_000 / 300_000, "noise": 1.0}
    assert result.realized == {"english": 5 / 6, "noise": 1 / 6}
    capped = settings(60_000, 5 / 6, unique_tokens={"english": 300_000, "noise": 10_000})
    assert ngram.train(capped, data).loss == result.loss


def test_a_corpus_read_once_is_read_whole(data: TokenData) -> None:
    runs = [ngram.train(settings(300_000, 1.0, seed=seed, unique_tokens=UNIQUE), data) for seed in (0, 1)]
    assert runs[0].epochs == {"english": 1.0, "noise": 0.0}
    # Windows in another order are the same windows, so the n-gram counts do not change.
    assert runs[0].loss == runs[1].loss


def test_a_corpus_without_a_share_may_be_left_out(data: TokenData) -> None:
    with_it = ngram.train(settings(20_000, 1.0), data)
    without = ngram.train(RunSettings("ngram", 20_000, {"english": 1.0}, {"english": 300_000}, seed=0), data)
    assert without.loss == with_it.loss
    assert without.realized == {"english": 1.0, "noise": 0.0}


def test_a_longer_target_is_scored_in_part(data: TokenData) -> None:
    starts, lengths = ngram._held_out(data.valid["english"], read_token_bytes(data.tokenizer_path))
    assert len(starts) == 8
    assert lengths.sum() == pytest.approx(30_000, abs=8)
    assert (starts[0], starts[-1] + lengths[-1]) == (0, len(data.valid["english"]))
    assert (starts[1:] > starts[:-1] + lengths[:-1]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peak_lr": 1e-3}, "peak_lr is 0.001, but an ngram model has none. Leave it None, or choose the transformer"),
        ({"model_size": 10}, "model_size is 10, but an ngram model has none"),
        ({"batch_tokens": 512}, "batch_tokens is 512, but an ngram model has none"),
        (
            {"unique_tokens": {"english": 10**6, "noise": 9}},
            "1000000 unique tokens of english; give 1 to 300000, all it",
        ),
        ({"unique_tokens": {"noise": 9}}, "0 unique tokens of english; give 1 to 300000, all it has"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data: TokenData, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ngram.train(settings(1000, 0.5, **changes), data)


def test_names_and_sizes_that_leave_no_text_are_refused(data: TokenData) -> None:
    with pytest.raises(ValueError, match="no corpus 'web'; the data has english, noise"):
        ngram.train(RunSettings("ngram", 1000, {"web": 1.0}, {"web": 10}, seed=0), data)
    with pytest.raises(ValueError, match="reads no text; its 1 tokens round to none of any corpus"):
        ngram.train(settings(1, 0.5), data)
