"""Laws of everything at once: mixture, size, tokens, repetition, batch, learning rate and its schedule in one law."""

import numpy as np
import pytest

from mixopt.laws.annealing_gain import AnnealingGain
from mixopt.laws.averaged_coefficients import averaged
from mixopt.laws.capacity_split import CapacitySplit
from mixopt.laws.constant import Constant
from mixopt.laws.cooldown_noise import CooldownNoise
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.exchange_with_size import exchange_with_size
from mixopt.laws.joint_mixture import joint
from mixopt.laws.kaplan import Kaplan
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty, OptimalLearningRate
from mixopt.laws.log_linear import LogLinear
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.optimal_batch import OptimalBatch
from mixopt.laws.parameter_repetition import ParameterRepetition
from mixopt.laws.plausible import plausible
from mixopt.laws.power_annealing_gain import PowerAnnealingGain
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import CorpusRepetition, Repetition
from mixopt.laws.saturation import Saturation
from mixopt.laws.three_term import three_term
from mixopt.laws.token_exchange import TokenExchange
from mixopt.laws.tuning import TuningPenalty
from mixopt.testing import CHECKS, Check, check_recovery, simulated_columns

CORPORA = ("web", "code", "math")
N, D, B, LR = 1e7, 1e8, 1e5, 1e-2
OFF, SIZE = LearningRatePenalty(B, D), PowerLaw("model_size", N, "A", "alpha")
TUNED = OptimalBatch(B, D).fix(batch0=1e5, q_tokens=0.5) >> OptimalLearningRate(B, D).fix(
    lr0=3e-3, p_batch=0.5, p_tokens=0.0
)
LAWS: dict[str, Law] = {
    "token exchange": CorpusRepetition()
    >> CriticalBatch("corpus_tokens", D)
    >> (Constant("E") + SIZE + TokenExchange(CORPORA, D, interference=True) + OFF + AnnealingGain(LR)),
    "exchange with size": ParameterRepetition(size=2e6, tokens_unit=D)
    >> CorpusRepetition()
    >> CriticalBatch("corpus_tokens", D)
    >> (exchange_with_size(CORPORA, tokens_unit=D, size_unit=N) + TuningPenalty(N, D, B) + PowerAnnealingGain(LR)),
    "averaged coefficients": Repetition()
    >> CriticalBatch("tokens", D)
    >> (averaged(CORPORA, tokens_unit=D, size_unit=N) + OFF + AnnealingGain(LR)),
    "capacity split": ParameterRepetition(size=2e6, tokens_unit=D)
    >> Repetition()
    >> CriticalBatch("tokens", D)
    >> (CapacitySplit(CORPORA, "code", D, N) + OFF + CooldownNoise(LR)),
    "joint": LearningRateSum(0.7, LR)
    >> Repetition()
    >> CriticalBatch("tokens", D)
    >> (joint(CORPORA, tokens_unit=D, size_unit=N) + PowerLaw("lr_sum", 1.0, "Y", "upsilon") + PowerAnnealingGain(LR)),
    "saturation": Saturation(CORPORA, phases=2) + three_term(size_unit=N, steps_unit=1e3, batch_unit=B) + OFF,
    "everything tuned": TUNED >> (Constant("E") + Kaplan(N, D) + LogLinear(CORPORA) + TuningPenalty(N, D, B)),
}


@pytest.mark.parametrize("check", [check for check in CHECKS if check is not check_recovery], ids=lambda c: c.__name__)
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_keeps_the_contract_of_a_law(law: Law, check: Check):
    """The structured Jacobian, through a wide column too, against the complex step of the whole, among others."""
    rng = np.random.default_rng(0)
    check(law, simulated_columns(law.inputs, 12, len(CORPORA), rng), rng)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_recovers_what_it_made(law: Law):
    rng = np.random.default_rng(0)
    check_recovery(law, simulated_columns(law.inputs, 12, len(CORPORA), rng), rng)


@pytest.mark.parametrize("still", [(), ("batch_tokens",), ("peak_lr",), ("batch_tokens", "peak_lr")], ids=str)
def test_a_sweep_that_varies_all_but_this_has_laws(still: tuple[str, ...]):
    """No two laws that meet share a coefficient; the batch and the learning rate came in by names taken before."""
    names = ["tokens", "model_size", "batch_tokens", "peak_lr", "mixture", "unique_tokens"]
    runs = simulated_columns(names, 20, len(CORPORA), np.random.default_rng(0))
    runs |= {name: np.full(20, runs[name][0]) for name in still}
    found = plausible(runs, CORPORA, least_loss=2.0)
    assert {"exchange_with_size", "averaged"} <= set(found)
    for law in found.values():
        assert len(set(law.names)) == len(law.names)
