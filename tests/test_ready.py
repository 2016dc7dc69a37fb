"""The laws that compete: at the scale of the runs, tame with few of them, and what each claims holds."""

import numpy as np
import pytest

from mixopt.columns import Array
from mixopt.fit.fit import fit
from mixopt.fit.norms import Huber
from mixopt.laws.chinchilla import BESIROGLU, HOFFMANN, chinchilla, from_paper, to_paper
from mixopt.laws.constant import Constant
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty, OptimalLearningRate
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.ready import candidates, units
from mixopt.laws.repetition import CorpusRepetition, Repetition
from mixopt.laws.token_exchange import TokenExchange
from mixopt.testing import simulated_columns

CORPORA = tuple("abcdefgh")
UNITS = {"tokens_unit": 1e6, "size_unit": 1e5, "batch_unit": 4e3}


def sweep(rng: np.random.Generator, rows: int, scale: float = 1.0) -> dict[str, Array]:
    """Proxy runs of two sizes and two lengths, as sparse in corpora as designs are."""
    tokens = rng.choice([1e6, 4e6], rows) * scale
    mixture = rng.dirichlet(np.full(len(CORPORA), 0.7), rows)
    return {
        "tokens": tokens,
        "model_size": rng.choice([5e4, 2e5], rows) * scale,
        "batch_tokens": rng.choice([2e3, 4e3, 8e3], rows),
        "peak_lr": np.exp(rng.normal(np.log(6e-3), 0.4, rows)),
        "mixture": mixture,
        "unique_tokens": tokens[:, None] * np.full(len(CORPORA), 0.3),
    }


def world(columns: dict[str, Array], worth: Array) -> Array:
    """A loss of no candidate's form: tokens saturate corpus by corpus, and add up in log."""
    seen = columns["tokens"][:, None] * columns["mixture"] / 1e6
    gain = np.log1p((worth * np.minimum(seen, 1.2)) ** 0.7).sum(-1)
    return 1.6 + 0.9 * (columns["model_size"] / 1e5) ** -0.3 + 3.0 / (1 + gain)


WORTH = np.array([4.0, 2.0, 1.0, 0.6, 0.3, 0.1, 0.1, 0.05])


@pytest.mark.parametrize("name", list(candidates(CORPORA, **UNITS, rates=dict.fromkeys(CORPORA, 1.0))))
def test_few_runs_do_not_go_wild(name: str, rng: np.random.Generator):
    """Over 20 coefficients, 60 runs with 1 % noise: what is predicted elsewhere stays a loss, and is about right."""
    law = candidates(CORPORA, **UNITS, rates=dict(zip(CORPORA, WORTH, strict=True)))[name]
    runs, larger = sweep(rng, 60), sweep(rng, 200, scale=8)
    runs["loss"] = world(runs, WORTH) * np.exp(0.01 * rng.standard_normal(60))
    fitted = fit(law, runs, norm=Huber(0.01), starts=4)
    alone = larger | {"mixture": np.eye(len(CORPORA))[rng.integers(len(CORPORA), size=200)]}
    for columns in (larger, alone):
        predicted = fitted.predict(columns)
        assert (predicted > 0.1).all()
        assert (predicted < 10).all()
    error = np.log(fitted.predict(larger) / world(larger, WORTH))
    assert np.median(np.abs(error)) < 0.12


def test_known_rates_replace_runs_and_need_no_scale(rng: np.random.Generator):
    """With 16 runs of 8 corpora, true rates known up to a factor halve the error, whatever the factor."""
    runs, others = ({"corpus_tokens": rng.dirichlet(np.full(8, 0.7), rows) * 1e6} for rows in (16, 200))
    truth = TokenExchange(CORPORA, 1e6)
    theta = np.concatenate([WORTH, [0.6, 0.05, 2.0, 0.6]])
    runs["loss"] = truth(theta, runs) * np.exp(0.01 * rng.standard_normal(16))

    def predicted(law: Law) -> Array:
        return fit(law, runs, norm=Huber(0.01), starts=4).predict(others)

    def off(loss: Array) -> float:
        return float(np.sqrt((np.log(loss / truth(theta, others)) ** 2).mean()))

    with_rates = [predicted(TokenExchange(CORPORA, 1e6, rates=tuple(f * WORTH), rates_sd=0.7)) for f in (1, 1000)]
    assert np.allclose(*with_rates, rtol=1e-6)
    assert off(with_rates[0]) < 0.5 * off(predicted(TokenExchange(CORPORA, 1e6)))


def test_enough_runs_outvote_wrong_rates(rng: np.random.Generator):
    """Rates in reverse order, and 200 runs that say otherwise."""
    backwards = dict(zip(CORPORA, WORTH[::-1], strict=True))
    law = candidates(CORPORA, **UNITS, rates=backwards)["token_exchange_rates"]
    runs, others = sweep(rng, 200), sweep(rng, 200)
    runs["loss"] = world(runs, WORTH) * np.exp(0.01 * rng.standard_normal(200))
    error = np.log(fit(law, runs, norm=Huber(0.01), starts=4).predict(others) / world(others, WORTH))
    assert np.sqrt((error**2).mean()) < 0.03


def test_units_make_coefficients_losses():
    """At the units, on one corpus worth 1, the loss is E + A + B: every scale is a number of nats."""
    law = candidates(["web"], **UNITS)["token_exchange"].fix(
        **{"m[web]": 1.0, "eps": 1e-4, "E": 1.5, "A": 0.7, "B": 1.1}
    )
    theta = np.array([{"R": 15.0, "b": 6e7, "c": 3e-4, "lr0": 3e-3}.get(name, 0.5) for name in law.names])
    run = {"tokens": 1e6, "model_size": 1e5, "batch_tokens": 4e3, "peak_lr": 3e-3}
    columns = {name: np.array([value]) for name, value in run.items()}
    columns |= {"mixture": np.ones((1, 1)), "unique_tokens": np.full((1, 1), 1e7)}
    assert law(theta, columns) == pytest.approx(1.5 + 0.7 + 1.1, abs=1e-3)


def test_units_are_medians_of_the_runs_that_have_them():
    columns = {"tokens": np.array([1e6, 3e6, 9e6]), "model_size": np.array([np.nan, 2e5, 4e5])}
    assert units(columns | {"batch_tokens": np.full(3, 4096.0)}) == {
        "tokens_unit": 3e6,
        "size_unit": 3e5,
        "batch_unit": 4100,
    }
    with pytest.raises(ValueError, match="No run has a batch_tokens; the laws need one"):
        units(columns | {"batch_tokens": np.full(3, np.nan)})


def test_rates_must_cover_the_corpora():
    with pytest.raises(ValueError, match="rates give web but not code; give a rate for each corpus"):
        candidates(["web", "code"], **UNITS, rates={"web": 1.0})
    with pytest.raises(ValueError, match="give one positive rate for each of web, code, in that order"):
        TokenExchange(("web", "code"), rates=(1.0, 0.0))


def test_a_common_factor_of_rates_is_a_change_of_amplitude(rng: np.random.Generator):
    law = TokenExchange(CORPORA, 1e8)
    columns = simulated_columns(law.inputs, 30, len(CORPORA), rng)
    g, eps, B, beta, s = 0.6, 0.2, 1.5, 0.5, 7.0
    ours = law(np.array([*WORTH, g, eps, B, beta]), columns)
    scaled = law(np.array([*(s * WORTH), g, eps * s**g, B * s ** (g * beta), beta]), columns)
    assert np.allclose(ours, scaled, rtol=1e-12)


def test_constant_rates_are_a_power_law_of_tokens_added_up():
    law = TokenExchange(("web", "code"), 1e9).fix(g=1.0)
    run = {"corpus_tokens": np.array([[1e9, 3e9]])}
    assert law(np.array([0.5, 2.0, 0.1, 1.2, 0.4]), run) == pytest.approx(1.2 * (0.1 + 0.5 + 6.0) ** -0.4)


def test_an_unused_corpus_adds_nothing_and_its_slope_is_that_of_the_first_token():
    law, one = TokenExchange(("web", "code"), 1e6), TokenExchange(("web",), 1e6)
    run = {"corpus_tokens": np.array([[1e6, 0.0], [1e6, 1.0]])}
    theta = np.array([1.0, 2.0, 0.5, 0.1, 1.0, 0.6])
    assert law(theta, run)[0] == pytest.approx(one(theta[[0, 2, 3, 4, 5]], {"corpus_tokens": np.array([[1e6]])})[0])
    slopes = law.partial(theta, run, "corpus_tokens")[:, 1]
    # d/dD of (m (D + 1) / u)^g, between D = 0 and 1: falls by 2^(g - 1).
    assert slopes[1] / slopes[0] == pytest.approx(2**-0.5, rel=1e-2)


def test_the_mixing_law_is_the_published_one_with_k_in_every_t(rng: np.random.Generator):
    mixture, t, c, k = rng.dirichlet(np.ones(3), 20), np.array([-1.0, 0.3, 0.5]), 1.7, 2.5
    law = Constant("c") + MixingLaw(("web", "code", "math"))
    ours = law(np.array([c, *(t + np.log(k))]), {"mixture": mixture})
    assert np.allclose(ours, c + k * np.exp(mixture @ t), rtol=1e-12)


@pytest.mark.parametrize("paper", [HOFFMANN, BESIROGLU])
def test_chinchilla_in_the_papers_form(paper: dict[str, float]):
    scales = {"size_unit": 3e8, "tokens_unit": 2e10}
    ours, law = from_paper(paper, **scales), chinchilla(**scales)
    N, D = np.array([44e6, 70e9]), np.array([1e9, 1.4e12])
    loss = law(np.array([ours[name] for name in law.names]), {"model_size": N, "tokens": D})
    assert np.allclose(loss, paper["E"] + paper["A"] / N ** paper["alpha"] + paper["B"] / D ** paper["beta"])
    assert to_paper(ours, **scales) == pytest.approx(dict(paper))


def test_repetition_is_a_sum_over_corpora_of_terms_bounded_by_unique_tokens(rng: np.random.Generator):
    columns = simulated_columns(Repetition().inputs, 50, 4, rng)
    by_corpus = CorpusRepetition()(np.array([15.0]), columns)
    seen, unique = columns["tokens"][:, None] * columns["mixture"], columns["unique_tokens"]
    assert np.allclose(Repetition()(np.array([15.0]), columns), by_corpus.sum(-1))
    assert np.allclose(by_corpus[seen <= unique], seen[seen <= unique])
    assert (by_corpus <= np.minimum(seen, 16 * unique) * (1 + 1e-12)).all()
    series = unique + np.where(seen > unique, 15 * unique * (1 - np.exp(-(seen / unique - 1) / 15)), 0)
    assert np.allclose(by_corpus[seen > unique], series[seen > unique])


@pytest.mark.parametrize("column", ["tokens", "corpus_tokens"])
def test_small_batches_waste_nothing_and_huge_ones_leave_a_number_of_steps(column: str):
    """McCandlish: at B >> B_crit only the number of steps D / B counts, times B_crit."""
    law = CriticalBatch(column, 1e9)
    tokens = np.full(2, 1e9)
    columns = {
        "tokens": tokens,
        "batch_tokens": np.array([1.0, 1e12]),
        "corpus_tokens": tokens[:, None] * [[0.25, 0.75]],
    }
    left = law(np.array([1e6, 0.5]), columns).reshape(2, -1).sum(-1)
    assert left == pytest.approx([1e9, 1e9 / 1e12 * 1e6], rel=1e-5)


def test_the_penalty_is_zero_and_flat_at_the_optimum_and_shares_its_law():
    penalty = LearningRatePenalty(1e5, 1e9, size_unit=1e8)
    theta = np.array([0.05, 2e-3, 0.5, 0.1, -0.5])
    columns = {"batch_tokens": np.array([4e5]), "tokens": np.array([1e10]), "model_size": np.array([1e9])}
    best = penalty.optimum(theta[1:], columns)
    assert best == pytest.approx(2e-3 * 2 * 10**0.1 * 10**-0.5)
    at_best = columns | {"peak_lr": best}
    assert penalty(theta, at_best) == pytest.approx(0, abs=1e-15)
    assert penalty.partial(theta, at_best, "peak_lr") == pytest.approx(0, abs=1e-9)
    chained = OptimalLearningRate(1e5, 1e9, 1e8).fix(lr0=2e-3, p_batch=0.5, p_tokens=0.1, p_size=-0.5) >> penalty
    assert chained(theta, columns) == pytest.approx(0, abs=1e-15)
