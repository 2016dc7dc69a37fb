r"""The final loss by peak learning rate, cooldown and horizon."""

from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.power_annealing_gain import PowerAnnealingGain
from mixopt.laws.power_law import PowerLaw


def cooldown_law(
    *,
    lr_unit: float = 1e-3,
    steps_unit: float = 1e3,
    batch_unit: float = 5e5,
    tokens_unit: float = 1e9,
    power: float = 0.7,
    gain_power: float = 0.5,
) -> Law:
    r"""The loss at the end of runs that differ in peak learning rate, in cooldown and in length.

    .. math:: L = L_0 + A \left(\frac{S_1}{u\,s}\right)^{-\alpha} - \mathrm{gain} + c \, (\log \eta - \log \eta^*)^2

    A high rate comes further and holds the loss higher, which a cooldown takes back: the longer the cooldown, the
    higher the best rate. These two are `multi_power_law`; what neither says, that far too high and far too low a rate
    is worse than that, is `LearningRatePenalty` at the square-root rule for the batch.

    Parameters
    ----------
    lr_unit, steps_unit : learning rate :math:`u` and steps :math:`s`, where A is defined
    batch_unit, tokens_unit : tokens; where the best learning rate is defined
    power, gain_power : of the learning rate in :math:`S_1` and in the gain; see `LearningRateSum`, `PowerAnnealingGain`

    Inputs
    ------
    step_knots, lr_knots : [n, q], the learning rate up to the row; `mixopt.schedules.history` makes them of a schedule
    peak_lr : [n]
    batch_tokens, tokens : [n], tokens of a step and of the run

    References
    ----------
    The question is that of Schaipp et al., *The Surprising Agreement Between Convex Optimization Theory and
    Learning-Rate Scheduling for Large Model Training*, 2025, arXiv:2501.18965.

    Examples
    --------
    A model of 124M parameters, 3 billion tokens, peak 1e-3: cooldowns of 10, 40 and 90 % of the run. Too short keeps
    the noise, too long comes less far.

    >>> import numpy as np
    >>> from mixopt.schedules.history import history, joined
    >>> from mixopt.schedules.wsd import wsd
    >>> end, law = np.array([3e9]), cooldown_law()
    >>> schedules = [wsd(1e-3, 3e9, warmup=0.01, decay=share) for share in (0.1, 0.4, 0.9)]
    >>> rows = joined([history(schedule, end, batch_tokens=1e5) for schedule in schedules])
    >>> run = {**rows, "peak_lr": np.full(3, 1e-3), "batch_tokens": np.full(3, 1e5)}
    >>> theta = [2.6, 0.83, 0.31, 0.24, 0.32, 0.64, 0.14, 0.012, 1e-3, 0.5, 0.06]
    >>> law(np.array(theta), run).round(2)
    array([3.  , 2.98, 2.99])
    """
    come = PowerLaw("lr_sum", lr_unit * steps_unit, "A", "alpha", prior=(0.46, 0.1))
    gain = PowerAnnealingGain(lr_unit, power=gain_power)
    off = LearningRatePenalty(batch_unit=batch_unit, tokens_unit=tokens_unit)
    return LearningRateSum(power, lr_unit) >> (Constant("L0") + come + gain + off)


def examples() -> tuple[Law, ...]:
    return (cooldown_law(lr_unit=1e-2, batch_unit=1e5, tokens_unit=1e8),)
