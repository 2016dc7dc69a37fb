r"""What lowering the learning rate gains, as a memory of it that fades in steps."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.power_law import PowerLaw


@dataclass(frozen=True)
class AnnealingGain(Law):
    r"""The loss that falls when the learning rate does.

    .. math:: L = -G \sum_{k \le t} \frac{\eta_{k-1} - \eta_k}{u} \left(1 - \lambda^{t-k+1}\right), \qquad
        \lambda = 1 - 1 / M

    Each drop of the learning rate lowers the loss in proportion, not at once but over about :math:`M` steps. Raising
    it raises the loss as slowly. What is given up for a decay is the distance that a high rate would have come, which
    is in another term: add this one to a law of size and tokens, or use `momentum_law`.

    Parameters
    ----------
    lr_unit : learning rate, :math:`u`; best near the peak of the runs

    Inputs
    ------
    step_knots, lr_knots : [n, q], the learning rate up to the row; `mixopt.schedules.history` makes them of a schedule

    Coefficients
    ------------
    gain : :math:`G`, nats per token for a drop of one unit, in the long run, in [1e-3, 3], searched in log; prior .1,
        within a factor of 2.7
    memory : steps, :math:`M`, in [10, 1e5], searched in log; prior 1000, within a factor of 2.7. Published:
        1000 (:math:`\lambda` = .999), which is set, not fitted

    References
    ----------
    Tissue et al., *Scaling Law with Learning Rate Annealing*, 2024, arXiv:2408.11029, equation 1: the paper's
    :math:`C S_2` has :math:`C = G / (u M)`.

    Examples
    --------
    A model of 100M parameters after 10B tokens at a constant learning rate, and with the last fifth of the steps
    decayed to 0, which lowers its loss by .09 nats:

    >>> from mixopt.laws.chinchilla import BESIROGLU, chinchilla, from_paper
    >>> from mixopt.schedules.constant import constant
    >>> from mixopt.schedules.history import history, joined
    >>> from mixopt.schedules.wsd import wsd
    >>> law = chinchilla().fix(**from_paper(BESIROGLU)) + AnnealingGain(lr_unit=1e-3)
    >>> schedules = constant(1e-3, 1e10, warmup=0.01), wsd(1e-3, 1e10, warmup=0.01, decay=0.2)
    >>> end = np.array([1e10])
    >>> rows = joined([history(schedule, end, batch_tokens=5e5) for schedule in schedules])
    >>> law(np.array([0.12, 1000.0]), {**rows, "model_size": np.array([1e8])}).round(2)
    array([3.19, 3.1 ])
    """

    lr_unit: float = 1e-3

    inputs = ("step_knots", "lr_knots")
    output = "loss"
    coefficients = (
        Coefficient("gain", 1e-3, 3.0, log=True, prior=(float(np.log(0.1)), 1.0)),
        Coefficient("memory", 10.0, 1e5, log=True, prior=(float(np.log(1e3)), 1.0)),
    )
    published = {"memory": 1000.0}  # noqa: RUF012
    reference = "Tissue et al. 2024, arXiv:2408.11029"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        gain, rate = theta[..., :1], -np.log1p(-1 / theta[..., 1:2])[..., None]
        steps, drops = columns["step_knots"], -np.diff(columns["lr_knots"]) / self.lr_unit
        since = steps[..., -1:] - steps[..., 1:] + 1
        length = rate * np.diff(steps)
        kept = np.exp(-rate * since) * _mean_decay(length) / _mean_decay(rate)
        return -gain * (drops * (1 - kept)).sum(-1)

    def describe(self, theta: Array) -> str:
        gain, memory = theta
        return f"-{gain / self.lr_unit / memory:.4g} S2 with lambda = {1 - 1 / memory:.6g}"


def momentum_law(*, lr_unit: float = 1e-3, steps_unit: float = 1e3, power: float = 1.0) -> Law:
    r"""The loss along a run of any schedule: a power of the distance come, less what annealing gains.

    .. math:: L = L_0 + A \left(\frac{S_1}{u\,s}\right)^{-\alpha} - C S_2

    Parameters
    ----------
    lr_unit, steps_unit : learning rate :math:`u` and steps :math:`s`, where A is defined
    power : of the learning rate in :math:`S_1`, see `LearningRateSum`; 1 is the paper's

    Inputs and references are those of `AnnealingGain` and `LearningRateSum`; published coefficients, by the paper's
    names and units, are read by `from_paper`. The prior of alpha is that of `multi_power_law`.

    Examples
    --------
    The same 24000 steps, held at 3e-4 and decayed over the last sixth:

    >>> from mixopt.schedules.constant import constant
    >>> from mixopt.schedules.history import history, joined
    >>> from mixopt.schedules.wsd import wsd
    >>> law, tokens = momentum_law(), np.array([24e3])
    >>> schedules = constant(3e-4, 24e3, warmup=0.09), wsd(3e-4, 24e3, warmup=0.09, decay=1 / 6)
    >>> rows = joined([history(schedule, tokens, batch_tokens=1.0) for schedule in schedules])
    >>> paper = {"L0": 2.65, "A": 0.6, "alpha": 0.45, "C": 0.4, "lambda": 0.999}
    >>> law.fix(**from_paper(paper))(np.empty(0), rows).round(2)
    array([3.02, 2.94])
    """
    come = PowerLaw("lr_sum", lr_unit * steps_unit, "A", "alpha", prior=(0.46, 0.04))
    return LearningRateSum(power, lr_unit) >> (Constant("L0") + come + AnnealingGain(lr_unit))


def from_paper(paper: Mapping[str, float], *, lr_unit: float = 1e-3, steps_unit: float = 1e3) -> dict[str, float]:
    """L0, A, alpha, C and lambda as the paper prints them, restated at the units of `momentum_law`."""
    memory = 1 / (1 - paper["lambda"])
    return {
        "L0": paper["L0"],
        "A": paper["A"] * (lr_unit * steps_unit) ** -paper["alpha"],
        "alpha": paper["alpha"],
        "gain": paper["C"] * lr_unit * memory,
        "memory": memory,
    }


def _mean_decay(x: Array) -> Array:
    """Mean of e^-y over y from 0 to x; 1 at 0, complex-safe."""
    small = np.real(x) < 1e-8
    safe = np.where(small, 1.0, x)
    return np.where(small, 1 - x / 2, -np.expm1(-safe) / safe)


def examples() -> tuple[Law, ...]:
    return (AnnealingGain(1e-2), momentum_law(lr_unit=1e-2, steps_unit=1e3))
