"""Published values and sources of every law: restated at the units that the law has by default, by hand."""

import inspect
import re

import numpy as np
import pytest

from mixopt._discover import available, load
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty, OptimalLearningRate
from mixopt.laws.optimal_batch import OptimalBatch
from mixopt.laws.power_annealing_gain import PowerAnnealingGain
from mixopt.laws.tuning import TuningPenalty

MODULES = [load("laws", name) for name in available("laws")]
KINDS = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Law) and kind.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_cites_its_source(kind: type[Law]):
    assert kind.reference
    for number in re.findall(r"arXiv:(\S+?)[,;.]?(?=\s|$)", kind.reference):
        assert re.fullmatch(r"\d{2}(0[1-9]|1[0-2])\.\d{5}", number)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.published], ids=lambda kind: kind.__name__)
def test_published_values_are_coefficients_inside_their_boxes(kind: type[Law]):
    corpora = {"corpora": ("web", "code"), "tokens_unit": 1e9, "size_unit": 1e9}
    asked = inspect.signature(kind).parameters
    if kind in (OptimalLearningRate, LearningRatePenalty):
        law = kind(size_unit=1e9)  # pyright: ignore[reportCallIssue]
    elif any(p.default is p.empty for p in asked.values()):
        law = kind(**{name: value for name, value in corpora.items() if name in asked})
    else:
        law = kind()
    boxes = {c.name: (c.lower, c.upper) for c in law.coefficients}
    for name, value in kind.published.items():
        assert boxes[name][0] <= value <= boxes[name][1], name


def test_step_law_at_our_units():
    """lr = 1.79 N^-.713 D^.307 and B = .58 D^.571 of Li et al., arXiv:2503.04715, at 1e8 parameters and 1e9 tokens."""
    at = TuningPenalty()
    assert at.published["lr0"] == pytest.approx(1.79 * at.size_unit**-0.713 * at.tokens_unit**0.307, rel=1e-3)
    assert at.published["batch0"] == pytest.approx(0.58 * at.tokens_unit**0.571, rel=1e-3)
    assert OptimalBatch.published["batch0"] == pytest.approx(0.58 * OptimalBatch().tokens_unit ** 0.571, rel=1e-3)


def test_critical_batch_is_that_of_85M_parameters_in_the_paper():
    """93.2 (85M / 1M)^.468 sequences of 512 cost a fifth more than 256 do, after 20 tokens a parameter."""
    law, theirs = CriticalBatch(), 93.2 * 85**0.468
    critical = law.published["b"] * (20 * 85e6 / law.unit) ** law.published["kappa"] / 512
    assert (1 + theirs / critical) / (1 + 256 / critical) == pytest.approx(1.2, rel=1e-3)


def test_multi_power_law_of_25M_parameters_at_our_units():
    """B 363.8, C 2.066, beta .5828 and gamma .6414 as released; C eta^-gamma S is a pure number."""
    law, lr, steps = PowerAnnealingGain(), 2e-4, 700.0
    ours = law.published
    assert ours["gain"] / law.lr_unit == pytest.approx(363.78751622, rel=1e-3)
    reached = ours["C_lr"] * (lr / law.lr_unit) ** -ours["gamma_lr"] * lr * steps / (law.lr_unit * law.steps_unit)
    assert reached == pytest.approx(2.06560812 * lr**-0.64142257 * lr * steps, rel=1e-3)
    assert law.describe(np.array([ours[name] for name in law.names])).startswith("-363.8 sum of drops (1 - (1 + 2.06")


def test_a_gain_of_bent_rates_is_described_in_its_own_unit():
    """At power 1/2 and a unit of 1e-4 a drop of one unit is one of .01 in the square root."""
    told = PowerAnnealingGain(1e-4, power=0.5).describe(np.array([0.1, 1.0, 0.6, 0.0]))
    assert told.startswith("-10 sum of drops of lr^0.5 (")
