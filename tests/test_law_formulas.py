"""Laws against their formulas as printed, in plain powers of plain numbers: size, tokens, batch and rates by hand."""

from collections.abc import Mapping

import numpy as np
import pytest

from mixopt.laws.annealing_gain import AnnealingGain, momentum_law
from mixopt.laws.annealing_gain import from_paper as momentum_from_paper
from mixopt.laws.averaged_coefficients import AveragedCoefficients
from mixopt.laws.bimix import BiMix
from mixopt.laws.capacity_split import CapacitySplit
from mixopt.laws.chinchilla import BESIROGLU, HOFFMANN, chinchilla, from_paper
from mixopt.laws.constant import Constant
from mixopt.laws.cooldown import cooldown_law
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty, OptimalLearningRate
from mixopt.laws.log_linear import LogLinear
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.optimal_batch import OptimalBatch
from mixopt.laws.power_annealing_gain import PowerAnnealingGain
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import CorpusRepetition, Repetition
from mixopt.laws.saturation import Saturation
from mixopt.laws.size_tokens import size_and_tokens
from mixopt.laws.size_tokens_mixture import size_tokens_mixture
from mixopt.laws.three_term import three_term
from mixopt.laws.tied_exponent import GADRE, TiedExponent
from mixopt.laws.tied_exponent import from_paper as tied_from_paper
from mixopt.laws.to_target import ToTarget
from mixopt.laws.token_exchange import TokenExchange
from mixopt.laws.tuning import TuningPenalty
from mixopt.schedules.history import history
from mixopt.schedules.wsd import wsd
from mixopt.testing import draw_theta

N, D, B, S = (
    np.array([3e7, 4e8, 7e9]),
    np.array([2e9, 5e10, 1e11]),
    np.array([6e4, 5e5, 3e6]),
    np.array([3e3, 4e4, 2e5]),
)
LR, H = np.array([4e-3, 1e-3, 2e-4]), np.array([[0.7, 0.3], [0.4, 0.6], [0.1, 0.9]])
RUNS = {"model_size": N, "tokens": D, "batch_tokens": B, "steps": S, "peak_lr": LR, "mixture": H}
CORPORA = ("web", "code")
exactly = pytest.approx


@pytest.mark.parametrize("paper", [HOFFMANN, BESIROGLU], ids=["Hoffmann", "Besiroglu"])
def test_chinchilla(paper: Mapping[str, float]):
    expected = paper["E"] + paper["A"] / N ** paper["alpha"] + paper["B"] / D ** paper["beta"]
    law, at = chinchilla(size_unit=1e8, tokens_unit=1e10), from_paper(paper, size_unit=1e8, tokens_unit=1e10)
    assert law(np.array([at[name] for name in law.names]), RUNS) == exactly(expected, rel=1e-12)


def test_three_terms():
    law = three_term(size_unit=1e8, steps_unit=1e4, batch_unit=1e6)
    expected = 1.7 + 0.4 * (N / 1e8) ** -0.3 + 0.2 * (S / 1e4) ** -0.5 + 0.05 * (B / 1e6) ** -0.7
    assert law(np.array([1.7, 0.4, 0.3, 0.2, 0.5, 0.05, 0.7]), RUNS) == exactly(expected, rel=1e-12)


def test_averaged_coefficients():
    """Each term with a coefficient of its own for each corpus."""
    E, A, beside, last = np.array([[2.5, 1.5], [0.9, 0.4], [0.7, 0.3], [0.2, 0.05]])
    n, d = N / 1e8, D / 1e10
    expected = H @ E + H @ A * (n**-0.15 - 1) + H @ beside * (d**-0.25 - 1) + H @ last * n**-0.4 * d**-1.1
    theta = np.concatenate([E, A, beside, last, [0.15, 0.25, 0.4, 1.1]])
    assert AveragedCoefficients(CORPORA, 1e10, 1e8)(theta, RUNS) == exactly(expected, rel=1e-12)


def test_bimix():
    """A h^-a (B S^-b + C) with A = 1, of the second corpus; the published form has no floor under the share."""
    expected = H[:, 1] ** -0.12 * (0.6 * (S / 1e4) ** -0.4 + 1.4)
    assert BiMix(CORPORA, "code", 1e4, floor=0.0)(np.array([0.12, 0.6, 0.4, 1.4]), RUNS) == exactly(expected, rel=1e-12)


def test_capacity_split_of_one_corpus_is_chinchilla_in_its_tokens():
    theta = np.array([0.6, 0.3, 0.8, 0.4, 1.5])
    columns = {**RUNS, "mixture": np.ones((3, 1))}
    expected = 1.5 + 0.6 * (N / 1e8) ** -0.3 + 0.8 * (D / 1e10) ** -0.4
    assert CapacitySplit(("web",), "web", 1e10, 1e8)(theta, columns) == exactly(expected, rel=1e-12)


def test_log_linear_and_its_form_in_the_paper():
    law, theta = LogLinear(CORPORA, (0.8, 0.2)), np.array([-0.3, 0.5, -1.2])
    expected = np.exp(-0.3 + 0.5 * (H[:, 0] - 0.8) - 1.2 * (H[:, 1] - 0.2))
    assert law(theta, RUNS) == exactly(expected, rel=1e-12)
    t = law.to_paper(dict(zip(law.names, theta.tolist(), strict=True)))
    assert np.exp(H @ [t["t[web]"], t["t[code]"]]) == exactly(expected, rel=1e-9)


def test_mixing_law_with_tokens():
    columns = {"mixture": H, "corpus_tokens": H * D[:, None]}
    expected = np.exp(H @ [0.4, -1.1]) * (D / 1e10) ** -0.3
    assert MixingLaw(CORPORA, 1e10)(np.array([0.4, -1.1, 0.3]), columns) == exactly(expected, rel=1e-12)


def test_token_exchange_with_interference():
    columns = {"mixture": H, "corpus_tokens": H * D[:, None]}
    worth = ((np.array([0.5, 3.0]) * H * D[:, None] / 1e10) ** 0.6).sum(-1)
    expected = 0.8 * (0.02 + worth) ** -0.7 * np.exp(H @ [0.3, -0.5])
    law = TokenExchange(CORPORA, 1e10, floor=1e-14, interference=True)
    assert law(np.array([0.5, 3.0, 0.6, 0.3, -0.5, 0.02, 0.8, 0.7]), columns) == exactly(expected, rel=1e-6)


def test_effective_tokens_of_repeated_corpora():
    """Half a pass, exactly one, and four: U + U R (1 - e^(-3 / R)) with R the published 15.39."""
    unique = np.array([[2.8e9, 1e10, 2e9], [1.4e9, 3e10, 5e8]]).T
    columns = {"tokens": D, "mixture": H, "unique_tokens": unique}
    seen = H * D[:, None]
    again = np.maximum(seen / unique - 1, 0)
    expected = np.minimum(seen, unique) + unique * 15.387756 * (1 - np.exp(-again / 15.387756))
    R = np.array([CorpusRepetition.published["R"]])
    assert CorpusRepetition()(R, columns) == exactly(expected, rel=1e-12)
    assert Repetition()(R, columns) == exactly(expected.sum(-1), rel=1e-12)


def test_effective_tokens_of_large_batches():
    expected = D / (1 + B / (8e5 * (D / 1e10) ** 0.47))
    theta = np.array([8e5, 0.47])
    assert CriticalBatch("tokens", 1e10)(theta, RUNS) == exactly(expected, rel=1e-12)
    wide = CriticalBatch("corpus_tokens", 1e10)(theta, {**RUNS, "corpus_tokens": H * D[:, None]})
    assert wide == exactly(H * expected[:, None], rel=1e-12)


@pytest.mark.parametrize("counts", ["tokens", "steps"])
def test_tokens_and_steps_to_a_target_of_models_that_grow(counts: str):
    tokens = 2e9 * (N / 1e8) ** 1.1 * (1 + B / (4e5 * (N / 1e8) ** 0.3))
    law = ToTarget(counts, 1e9, 1e6, size_unit=1e8)
    expected = tokens if counts == "tokens" else tokens / B
    assert law(np.array([2e9, 4e5, 1.1, 0.3]), RUNS) == exactly(expected, rel=1e-12)


def test_step_law():
    """Learning rate and batch of Li et al. for the three runs, as printed, and one's own power of the batch."""
    printed = 1.79 * N**-0.713 * D**0.307
    rate = OptimalLearningRate(batch_unit=1e6, tokens_unit=1.0, size_unit=1.0)
    assert rate(np.array([1.79, 0.0, 0.307, -0.713]), RUNS) == exactly(printed, rel=1e-12)
    assert rate(np.array([1.79, 0.5, 0.307, -0.713]), RUNS) == exactly(printed * np.sqrt(B / 1e6), rel=1e-12)
    batch = OptimalBatch(1.0, 1.0)(np.array([0.58, 0.571]), RUNS)
    assert batch == exactly(0.58 * D**0.571, rel=1e-12)
    off = LearningRatePenalty(1e6, 1.0, 1.0)(np.array([0.05, 1.79, 0.5, 0.307, -0.713]), RUNS)
    assert off == exactly(0.05 * np.log(LR / (printed * np.sqrt(B / 1e6))) ** 2, rel=1e-9)


def test_tuning_penalty():
    """Around Step Law's optimum, its batch given a power of the size as well."""
    x = np.log(LR / (2e-3 * (N / 1e8) ** -0.7 * (D / 1e10) ** 0.3))
    z = np.log(B / (4e5 * (N / 1e8) ** 0.1 * (D / 1e10) ** 0.57))
    noisy, few, unstable = 0.5 * x - 0.4 * z, 0.6 * z, 0.9 * x + 0.2 * z
    g = [np.exp(u) - 1 - u for u in (noisy, few, unstable)]
    expected = (D / 1e10) ** -0.2 * (0.05 * g[0] + 0.02 * g[1] + 0.03 * g[2])
    theta = np.array([2e-3, -0.7, 0.3, 4e5, 0.1, 0.57, 0.2, 0.05, 0.5, 0.4, 0.02, 0.6, 0.03, 0.9, 0.2])
    assert TuningPenalty(1e8, 1e10)(theta, RUNS) == exactly(expected, rel=1e-9)


def test_first_phase_counts_in_full_and_the_second_by_its_factor():
    law, theta = Saturation(("code",), phases=2), np.array([0.5, 0.3, 0.02, 1.0, 2.5])
    both = law(theta, {"epochs": np.array([[2.0]]), "epochs_anneal": np.array([[0.4]])})
    assert both == exactly(Saturation(("code",))(theta[:-1], {"epochs": np.array([[3.0]])}), rel=1e-12)


def test_momentum_law_is_the_double_sum_of_the_paper():
    """S1 and S2 over every step of a schedule with warm-up, decay and a stretch at its end, at other units than 1."""
    paper = {"L0": 2.65, "A": 0.6, "alpha": 0.45, "C": 0.4, "lambda": 0.99}
    schedule, end = wsd(3e-4, 2000.0, warmup=0.1, decay=0.3, final=0.1), 2000
    lr = schedule(np.arange(end + 1))
    drops = lr[:-1] - lr[1:]
    s2 = sum((drops[:i] * 0.99 ** np.arange(i - 1, -1, -1)).sum() for i in range(1, end + 1))
    law = momentum_law(lr_unit=2e-4, steps_unit=500.0)
    at = momentum_from_paper(paper, lr_unit=2e-4, steps_unit=500.0)
    found = law(np.array([at[name] for name in law.names]), history(schedule, np.array([2000.0]), batch_tokens=1.0))
    assert found == exactly([2.65 + 0.6 * lr.sum() ** -0.45 - 0.4 * s2], abs=1e-5)
    gain = AnnealingGain(2e-4)
    assert gain.describe(np.array([at[name] for name in gain.names])) == "-0.4 S2 with lambda = 0.99"


def test_cooldown_law_is_the_sum_of_its_parts():
    """Rates bend by `power` in the distance come, by `gain_power` in the gain."""
    rows = history(wsd(2e-3, 3e9, warmup=0.01, decay=0.4), np.array([3e9]), batch_tokens=1e5)
    rows |= {"peak_lr": np.array([2e-3]), "batch_tokens": np.array([1e5])}
    theta = np.array([2.6, 0.8, 0.3, 0.24, 0.32, 0.64, 0.14, 0.012, 1e-3, 0.5, 0.06])
    come = LearningRateSum(0.8, 1e-3)(np.empty(0), rows)
    gain = PowerAnnealingGain(1e-3, power=0.6)(theta[3:7], rows)
    expected = 2.6 + 0.8 * come**-0.3 + gain + LearningRatePenalty(5e5, 1e9)(theta[7:], rows)
    assert cooldown_law(power=0.8, gain_power=0.6)(theta, rows) == exactly(expected, rel=1e-12)


def test_gain_of_bent_rates_is_the_drop_of_their_powers_in_the_end():
    """Long after a drop from 9 to 4 units, at power 1/2, all of B (3 - 2) is gained, whatever the rest."""
    rows = {"step_knots": np.array([[0, 10.0, 10.0, 1e12]]), "lr_knots": np.array([[9.0, 9.0, 4.0, 4.0]])}
    assert PowerAnnealingGain(1.0, power=0.5)(np.array([0.3, 1.0, 2.0, 0.5]), rows) == exactly([-0.3], rel=1e-3)


def test_laws_are_described_as_the_papers_print_them():
    law = PowerLaw("tokens", 1e9, "B", "beta")
    assert law.describe(np.array([from_paper(BESIROGLU)["B"], 0.3658])) == "2085 / tokens^0.3658"
    at = tied_from_paper(GADRE)
    size, tokens = GADRE["a"] * 6**-0.136, GADRE["b"] * 6**-0.136
    described = (Constant("E") + TiedExponent()).describe(np.array([at[name] for name in ("E", "A", "B", "alpha")]))
    assert described.endswith(f"{size:.4g} / model_size^0.272 + {tokens:.4g} / tokens^0.272")


SIZED = size_and_tokens(1e8, 1e10) | size_tokens_mixture(CORPORA, 1e8, 1e10)


@pytest.mark.parametrize("law", SIZED.values(), ids=SIZED.keys())
def test_units_are_where_the_powers_of_size_and_tokens_are_1(law: Law):
    """At 1e8 parameters and 1e10 tokens no exponent of theirs moves the loss; beta of an exchange is of its worth."""
    columns = {"model_size": np.full(3, 1e8), "tokens": np.full(3, 1e10), "mixture": H, "corpus_tokens": 1e10 * H}
    slopes = law.jacobian(draw_theta(law, np.random.default_rng(0), 1)[0], columns)[1]
    powers = {"alpha", "aN", "alpha_S", "beta_S", "tau", "kappa_T", "k", "q"} | (
        set() if "eps" in law.names else {"beta"}
    )
    assert np.abs(slopes[:, [name in powers for name in law.names]]).max() <= 1e-12
