"""The stack: never far behind its best member, honest about its errors, and about what choosing by it would cost."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.exchange import Exchange, Exchanged
from mixopt.fit.ranks import spearman
from mixopt.fit.stack import Stack, Stacked, _groups, default_candidates
from mixopt.fit.standing import replicate_noise, standing
from mixopt.predictors.gaussian_process import GaussianProcess
from mixopt.predictors.log_linear import LogLinear
from mixopt.predictors.predictor import Predictor
from mixopt.predictors.ridge import Ridge

SIMPLE = (("ridge", Ridge()), ("gaussian_process", GaussianProcess()))


def sparse(rows: int, corpora: int, rng: np.random.Generator) -> Array:
    shares = np.zeros((rows, corpora))
    for row in shares:
        used = rng.choice(corpora, rng.integers(1, 5), replace=False)
        row[used] = rng.dirichlet(np.ones(len(used)))
    return shares


def exchange(shares: Array, rng: np.random.Generator) -> Array:
    worth = np.exp(rng.normal(0, 1.5, shares.shape[1]))
    return 1 + (0.05 + ((worth * shares) ** 0.6).sum(-1)) ** -0.5


def exponential(shares: Array, rng: np.random.Generator) -> Array:
    return 1 + np.exp(0.3 + shares @ rng.normal(0, 1, shares.shape[1]))


def interacting(shares: Array, rng: np.random.Generator) -> Array:
    """Corpora that help or hinder one another, which none of the laws says."""
    m = shares.shape[1]
    pairs, root = np.where(rng.random((m, m)) < 0.1, rng.normal(0, 1, (m, m)), 0), np.sqrt(shares)
    return 4 + 0.5 * np.tanh(0.5 * np.einsum("ni,ij,nj->n", root, pairs, root)) - 0.5 * root @ rng.random(m)


@pytest.mark.parametrize("truth", [exchange, exponential, interacting])
def test_beside_the_best_of_its_members(truth, rng):
    """64 runs of 22 corpora under three truths: rmse at most a fifth above the best member's, and inside intervals."""
    shares = sparse(264, 22, rng)
    exact = np.stack([truth(shares, rng) for _ in range(2)], 1)
    seen = exact + 0.04 * exact.std(0) * rng.standard_normal(exact.shape)
    learned = Stack().learn({"mixture": shares[:64], "loss": seen[:64]})
    new = {"mixture": shares[64:]}

    def error(one) -> float:
        return float(np.sqrt((((one.predict(new) - exact[64:]) / exact.std(0)) ** 2).mean()))

    assert error(learned) <= 1.2 * min(error(member) for member in learned.members.values())
    lower, upper = learned.interval(new, 0.9, observation=True)
    assert 0.8 <= ((lower <= seen[64:]) & (seen[64:] <= upper)).mean() <= 0.99
    assert min(spearman(learned.predict(new)[:, k], exact[64:, k]) for k in range(2)) > 0.85


@dataclass(frozen=True)
class Oracle(Predictor):
    """Ridge, for what it learns; made a candidate that fails where a test asks."""

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)

    def learn(self, columns: Columns, *, seed: int = 0):
        raise FitError("the oracle is silent.")


@pytest.fixture
def runs(rng: np.random.Generator) -> dict[str, Array]:
    """40 mixtures, twenty of them run twice, and a noise of .02."""
    shares = sparse(40, 6, rng)
    shares = np.concatenate([shares, shares[:20]])
    return {"mixture": shares, "loss": exchange(shares, np.random.default_rng(5)) + 0.02 * rng.standard_normal(60)}


def test_a_candidate_that_fails_is_left_out_and_named(runs):
    learned = Stack(candidates=(("oracle", Oracle()), *SIMPLE)).learn(runs)
    assert list(learned.members) == ["ridge", "gaussian_process"]
    assert "oracle was left out: the oracle is silent." in learned.report()
    with pytest.raises(FitError, match="No candidate could be learned: the oracle is silent"):
        Stack(candidates=(("oracle", Oracle()),)).learn(runs)


def test_noise_is_that_between_runs_of_one_mixture(runs):
    """Intervals for the mean are narrower than for one run by it; the ceiling is what it leaves of the variance."""
    learned = Stack(candidates=SIMPLE).learn(runs)
    assert learned.noise == pytest.approx([0.02], rel=0.35)
    ceiling = learned.standings["stack"].ceiling[0]
    assert ceiling == pytest.approx(1 - learned.noise[0] ** 2 / runs["loss"].var())
    mean, one = (learned.interval(runs, observation=observed) for observed in (False, True))
    assert ((mean[1] - mean[0]) < (one[1] - one[0])).all()
    assert "leaves an r2 of" in learned.report()


def test_repeated_mixtures_are_never_split(runs):
    """Twins in other folds would make a model that remembers look perfect: a nearest-neighbor's error shows it."""
    neighbors = pytest.importorskip("sklearn.neighbors")

    @dataclass(frozen=True)
    class Memory(Oracle):
        def learn(self, columns: Columns, *, seed: int = 0):
            model = neighbors.KNeighborsRegressor(1).fit(columns["mixture"], columns["loss"])
            ridge = Ridge().learn(columns)
            object.__setattr__(ridge, "predict", lambda new: model.predict(new["mixture"]).reshape(-1, 1))
            return ridge

    twins = {name: np.concatenate([values[:20], values[40:]]) for name, values in runs.items()}
    learned = Stack(candidates=(("memory", Memory()), SIMPLE[0])).learn(twins)
    assert learned.standings["memory"].rmse[0] > 3 * 0.02


def test_checkpoints_of_one_run_stay_together(runs):
    once = {name: values[:40] for name, values in runs.items()}
    one = Stack(candidates=SIMPLE[:1]).learn({**once, "run": np.arange(40) // 4})
    other = Stack(candidates=SIMPLE[:1]).learn(once)
    assert not np.array_equal(one.missed, other.missed)


def test_rows_tied_by_a_run_or_by_a_mixture_stay_together(runs):
    """One mixture under two run ids, and two mixtures under one, make one group: connected components."""
    mixture = np.array([[0.1, 0.9], [0.2, 0.8], [0.1, 0.9], [0.3, 0.7], [0.2, 0.8], [0.4, 0.6]])
    group = _groups({"mixture": mixture}, ("mixture",), np.array(["a", "a", "b", "b", "c", "d"]))
    assert group.tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(FitError, match="All rows are of one run or one mixture"):
        Stack(candidates=SIMPLE).learn({**runs, "run": np.zeros(60)})


def test_what_takes_too_long_is_named_with_the_limit(rng):
    shares = sparse(10, 40, rng)
    runs = {"mixture": shares, "loss": 1 + shares @ rng.random((40, 1280))}
    learned = Stack().learn(runs)
    assert list(learned.members) == ["ridge", "gaussian_process"]
    assert list(learned.dropped) == ["log_linear", "token_exchange"]
    assert "10 runs x 40 corpora squared x 1280 targets = 20,480,000, and above 20,000,000" in learned.report()


def test_one_target_is_a_vector_and_plain_data_come_back(runs):
    learned = Stack(candidates=(*SIMPLE, ("token_exchange", Exchange()))).learn(runs)
    new = {"mixture": np.eye(6)}
    assert learned.predict(new).shape == (6,)
    lower, upper = learned.interval(new)
    assert (lower <= learned.predict(new)).all()
    assert (learned.predict(new) <= upper).all()
    assert learned.weights.sum(0) == pytest.approx([1.0])
    again = Stacked.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert np.array_equal(again.predict(new), learned.predict(new))
    assert np.allclose(again.interval(new), learned.interval(new))
    assert again.report() == learned.report()


def test_standing_of_a_choice():
    """Predicted best is the second run: it costs .2 more than the best there was, and .5 more than it promised."""
    observed, predicted = np.array([[1.0], [1.2], [2.0]]), np.array([[1.1], [0.7], [2.0]])
    one = standing(predicted, observed, np.array([0.1]))
    assert (one.regret[0], one.optimism[0]) == pytest.approx((0.2, 0.5))
    assert one.r2[0] == pytest.approx(1 - (0.01 + 0.25) / 3 / observed.var())
    assert one.ceiling[0] == pytest.approx(1 - 0.01 / observed.var())
    assert one.rank[0] == pytest.approx(0.5)


def test_noise_of_groups_is_pooled(rng):
    """100 pairs of sd .3: numpy's sd of the differences over the root of two."""
    pairs = rng.normal(0, 0.3, (100, 2))
    noise = replicate_noise(pairs.reshape(-1, 1), np.repeat(np.arange(100), 2))
    assert noise[0] == pytest.approx(np.sqrt(((pairs[:, 0] - pairs[:, 1]) ** 2).mean() / 2))
    assert np.isnan(replicate_noise(pairs, np.arange(100))).all()


def test_candidates_suit_the_table():
    def names(n: int, m: int, k: int, least: float = 1.0) -> list[str]:
        return list(default_candidates({"mixture": np.ones((n, m)), "loss": np.full((n, k), least)}, "loss"))

    assert "boosted_trees" not in names(127, 24, 110)
    assert "token_exchange" in names(127, 24, 110)
    assert names(512, 64, 110) == ["ridge", "gaussian_process"]
    assert "token_exchange" not in names(127, 24, 3, least=-0.1)
    assert "token_exchange_full" in names(512, 17, 13)
    assert "token_exchange_full" not in names(430, 17, 13)
    pytest.importorskip("sklearn")
    assert "boosted_trees" in names(512, 17, 1)
    assert "boosted_trees" not in names(512, 17, 13)


def test_exchange_with_tokens_and_size(rng):
    """Rates, exponents and a size term, found again from noisy runs of three sizes: other runs to half a percent."""
    shares = rng.dirichlet(np.full(4, 0.7), 160)
    tokens, size = 10 ** rng.uniform(8, 10, 160), rng.choice([1e7, 1e8, 1e9], 160)
    worth = ((np.array([1.0, 3.0, 0.3, 0.1]) * shares * tokens[:, None] / 1e9) ** 0.5).sum(-1)
    loss = 1.5 + 0.4 * (size / 1e8) ** -0.3 + (0.05 + worth) ** -0.6
    table = {"mixture": shares, "tokens": tokens, "model_size": size, "loss": loss}
    noisy = {**table, "loss": loss * np.exp(2e-3 * rng.standard_normal(160))}
    predictor = Exchange(inputs=("mixture", "tokens", "model_size"), replicates=20)
    learned = predictor.learn({name: values[:120] for name, values in noisy.items()})
    new = {name: values[120:] for name, values in table.items()}
    assert np.sqrt((np.log(learned.predict(new) / new["loss"]) ** 2).mean()) < 5e-3
    lower, upper = learned.interval(new, observation=True)
    assert ((lower <= new["loss"]) & (new["loss"] <= upper)).mean() > 0.8
    again = Exchanged.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert np.array_equal(again.predict(new), learned.predict(new))


def test_exchange_refuses_what_it_cannot_read(runs):
    with pytest.raises(FitError, match="Exchange reads mixture, tokens, model_size, not peak_lr"):
        Exchange(inputs=("mixture", "peak_lr")).learn(runs)
    with pytest.raises(FitError, match=r"has the value -0\.5; this law is of positive losses"):
        Exchange().learn({**runs, "loss": np.full(60, -0.5)})


def test_log_linear_learns_what_the_law_says(rng):
    """Runs made by the law of that name are learned by the predictor of that name."""
    from mixopt.laws.log_linear import LogLinear as Law

    law = Law(("a", "b", "c", "d"))
    shares, new = rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)
    theta = np.array([-0.5, 1.0, -1.0, 0.5, -0.5])
    learned = LogLinear().learn({"mixture": shares, "loss": 2 + law(theta, {"mixture": shares})})
    assert learned.predict({"mixture": new}) == pytest.approx(2 + law(theta, {"mixture": new}), abs=0.02)
