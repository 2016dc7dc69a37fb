r"""What lowering the learning rate gains, as a power of the distance come since."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.power_law import PowerLaw

# Gauss-Legendre on [0, 1] for v, with x = v^2: close to the row, at x = 0, the gain rises within a few steps.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_X = ((_NODES + 1) / 2) ** 2
_SHARE = _WEIGHTS * (_NODES + 1) / 2
# Of the unit. A learning rate of 0 has an infinite power, and a drop to it no distance to come.
_FLOOR = 1e-6


class _Drops(NamedTuple):
    """Nodes of all stretches over which the learning rate moves in some row, last axis `places * nodes`."""

    drop: Array  # fall of the learning rate at each node, in units, times its weight
    log_lr: Array  # log of the learning rate right after it
    since: Array  # learning rate times steps since, in units
    row: Array  # [places], row of each stretch


@dataclass(frozen=True)
class PowerAnnealingGain(Law):
    r"""The loss that falls when the learning rate does, more and more slowly.

    .. math:: L = -B \sum_{k \le t} \frac{\eta_{k-1} - \eta_k}{u}
        \left[1 - \left(1 + C \left(\frac{\eta_k}{u}\right)^{-\gamma} \frac{S_k}{u\,s}\right)^{-\beta}\right],
        \qquad S_k = \sum_{i=k}^{t} \eta_i

    Each drop of the learning rate lowers the loss in proportion, not at once but over the learning rate times steps
    that follow: half of it early, the rest in a long tail, and sooner the lower the rate is by then. Raising it raises
    the loss in the same way, in the warm-up too. Add it to a law of size and tokens, or use `multi_power_law`.

    Sums run over knots, not steps: a stretch of any length costs four evaluations, one over which the learning rate
    stays costs none, and the loss differs from the sum step by step by less than 1e-4 nats.

    Parameters
    ----------
    lr_unit : learning rate, :math:`u`; best near the peak of the runs
    steps_unit : steps, :math:`s`; where C is defined
    power : of the learning rates whose drops count, :math:`(\eta_{k-1}/u)^\nu - (\eta_k/u)^\nu`. 1 is the paper's, and
        all that runs of one peak can tell; .5 fits runs of several peaks better, where a high rate costs less than that

    Inputs
    ------
    step_knots, lr_knots : [n, q], the learning rate up to the row; `mixopt.schedules.history` makes them of a schedule

    Coefficients
    ------------
    gain : :math:`B`, nats per token for a drop of one unit, in the long run, in [1e-3, 3], searched in log; prior .1,
        within a factor of 2.7. Published: .109 at 3e-4 (25M)
    C_lr : :math:`C`, in [.01, 1000], searched in log; prior 1, within a factor of 7. Published: 1.13 at 3e-4 and 10
        steps
    beta_lr : :math:`\beta`, in [.05, 2], searched in log; prior .6, within a factor of 1.6. Published: .583
    gamma_lr : :math:`\gamma`, in [-.5, 1.5]; prior .64 +- .3. Published: .641

    References
    ----------
    Luo et al., *A Multi-Power Law for Loss Curve Prediction Across Learning Rate Schedules*, 2025, arXiv:2503.12811,
    equation 1, and the coefficients in the authors' repository, github.com/thu-yao-01-luo/MultiPowerLaw.

    Examples
    --------
    A drop from 3e-4 to 3e-5 gains .02 nats within 10 steps, .09 within 1000, and .10 in the end:

    >>> law = PowerAnnealingGain(lr_unit=3e-4)
    >>> rows = {"step_knots": np.array([[0, 1e4, 1e4, 1e4 + after] for after in (10, 1e3, 1e6)])}
    >>> rows["lr_knots"] = np.array([[3e-4, 3e-4, 3e-5, 3e-5]] * 3)
    >>> law(np.array([0.109, 1.12, 0.583, 0.641]), rows).round(3)
    array([-0.022, -0.088, -0.098])
    """

    lr_unit: float = 1e-3
    steps_unit: float = 10.0
    power: float = 1.0

    inputs = ("step_knots", "lr_knots")
    output = "loss"
    coefficients = (
        Coefficient("gain", 1e-3, 3.0, log=True, prior=(float(np.log(0.1)), 1.0)),
        Coefficient("C_lr", 1e-2, 1e3, log=True, prior=(0.0, 2.0)),
        Coefficient("beta_lr", 0.05, 2.0, log=True, prior=(float(np.log(0.6)), 0.5)),
        Coefficient("gamma_lr", -0.5, 1.5, prior=(0.64, 0.3)),
    )
    published = {"gain": 0.3638, "C_lr": 1.735, "beta_lr": 0.5828, "gamma_lr": 0.6414}  # noqa: RUF012
    reference = "Luo et al. 2025, arXiv:2503.12811"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        B, C, beta, gamma = (theta[..., i : i + 1] for i in range(4))
        drops = self._drops(columns)
        left = np.exp(-beta * np.log1p(C * np.exp(-gamma * drops.log_lr) * drops.since))
        return -B * _by_row(drops.drop * (1 - left), drops.row, columns["lr_knots"].shape[-2])

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        B, C, beta, gamma = (theta[..., i : i + 1] for i in range(4))
        drops, rows = self._drops(columns), columns["lr_knots"].shape[-2]
        reached = C * np.exp(-gamma * drops.log_lr) * drops.since
        log = np.log1p(reached)
        left = drops.drop * np.exp(-beta * log)
        tail = beta * left * reached / (1 + reached)

        def sums(values: Array) -> Array:
            return _by_row(values, drops.row, rows)

        gain = sums(drops.drop - left)
        by = (-gain, -B / C * sums(tail), -B * sums(left * log), B * sums(tail * drops.log_lr))
        return -B * gain, np.stack(np.broadcast_arrays(*by), axis=-1)

    def describe(self, theta: Array) -> str:
        B, C, beta, gamma = theta
        paper = C * self.lr_unit ** (gamma - 1) / self.steps_unit
        drops = "drops" if self.power == 1 else f"drops of lr^{self.power:g}"
        scale = B / self.lr_unit**self.power
        return f"-{scale:.4g} sum of {drops} (1 - (1 + {paper:.4g} lr^-{gamma:.4g} S)^-{beta:.4g})"

    def _drops(self, columns: Columns) -> _Drops:
        steps, lr = columns["step_knots"], columns["lr_knots"] / self.lr_unit
        before, after, length = lr[..., :-1], lr[..., 1:], np.diff(steps) / self.steps_unit
        areas = length * (before + after) / 2
        following = np.flip(np.cumsum(np.flip(areas, -1), -1), -1) - areas
        # Half of the first and the last step is what a trapezoid leaves out of a sum.
        following = following + lr[..., -1:] / (2 * self.steps_unit)
        moving = np.any(before != after, axis=tuple(range(lr.ndim - 2)))
        row, place = np.nonzero(moving)
        before, after, length, following = (x[..., row, place, None] for x in (before, after, length, following))
        # The sum runs over whole steps: a stretch of one step, or a jump, is one drop, at its end.
        one = 1 / self.steps_unit
        inside = length - np.where(np.real(length) > one, one, length)
        along = inside * _X
        share = along / np.where(np.real(length) > 0, length, 1.0)
        there = after + (before - after) * share
        since = following + along * (after + there) / 2 + there / (2 * self.steps_unit)
        fall = self._floor(before) - self._floor(after)
        drop, log_lr, since = (_flat(x) for x in (fall * _SHARE, np.log(there + _FLOOR), since))
        return _Drops(drop, log_lr, since, row)

    def _floor(self, lr: Array) -> Array:
        """What a constant learning rate, in units, holds the loss above, over `gain`."""
        return lr if self.power == 1 else np.exp(self.power * np.log(lr + _FLOOR))


def multi_power_law(*, lr_unit: float = 1e-3, steps_unit: float = 1e3, power: float = 1.0) -> Law:
    r"""The loss along a run of any schedule: a power of the distance come, less powers of that since each drop.

    .. math:: L = L_0 + A \left(\frac{S_1}{u\,s}\right)^{-\alpha} - B \sum_k \dots

    Parameters
    ----------
    lr_unit, steps_unit : learning rate :math:`u` and steps :math:`s`, where A is defined; C is at 10 steps
    power : of the learning rate in :math:`S_1`, see `LearningRateSum`; 1 is the paper's

    Inputs and references are those of `PowerAnnealingGain` and `LearningRateSum`. Published: `LUO`, restated by
    `from_paper`; the prior of alpha, .46 +- .04, is what it was for models of 25M to 400M parameters.

    Examples
    --------
    100M parameters after 24000 steps, held at 3e-4 and decayed over the last sixth; the runs ended at 3.04 and 2.95:

    >>> from mixopt.schedules.constant import constant
    >>> from mixopt.schedules.history import history, joined
    >>> from mixopt.schedules.wsd import wsd
    >>> law, tokens = multi_power_law(), np.array([24e3])
    >>> schedules = constant(3e-4, 24e3, warmup=0.09), wsd(3e-4, 24e3, warmup=0.09, decay=1 / 6, final=0.1)
    >>> rows = joined([history(schedule, tokens, batch_tokens=1.0) for schedule in schedules])
    >>> law.fix(**from_paper(LUO["100M"]))(np.empty(0), rows).round(2)
    array([3.03, 2.93])
    """
    come = PowerLaw("lr_sum", lr_unit * steps_unit, "A", "alpha", prior=(0.46, 0.04))
    return LearningRateSum(power, lr_unit) >> (Constant("L0") + come + PowerAnnealingGain(lr_unit))


def _luo(*values: float) -> Mapping[str, float]:
    return dict(zip(("L0", "A", "alpha", "B", "C", "beta", "gamma"), values, strict=True))


# By size: from the authors' repository, which prints them to three digits; these digits are of its configuration.
LUO: Mapping[str, Mapping[str, float]] = {
    "25M": _luo(3.04045406, 0.52468604, 0.50786857, 363.78751622, 2.06560812, 0.58279013, 0.64142257),
    "100M": _luo(2.6514477, 0.60115152, 0.45295811, 437.9464276, 2.13245612, 0.59785199, 0.65523644),
    "400M": _luo(2.37474466, 0.65421216, 0.42878731, 523.42464371, 2.02462735, 0.59350493, 0.63472457),
}


def from_paper(paper: Mapping[str, float], *, lr_unit: float = 1e-3, steps_unit: float = 1e3) -> dict[str, float]:
    """Coefficients as the paper prints them, restated at the units of `multi_power_law`.

    The published 438 nats per unit of learning rate are .13 nats for a drop of 3e-4:

    >>> round(from_paper(LUO["100M"], lr_unit=3e-4)["gain"], 2)
    0.13
    """
    distance = lr_unit * PowerAnnealingGain(lr_unit).steps_unit
    return {
        "L0": paper["L0"],
        "A": paper["A"] * (lr_unit * steps_unit) ** -paper["alpha"],
        "alpha": paper["alpha"],
        "gain": paper["B"] * lr_unit,
        "C_lr": paper["C"] * lr_unit ** -paper["gamma"] * distance,
        "beta_lr": paper["beta"],
        "gamma_lr": paper["gamma"],
    }


def _flat(nodes: Array) -> Array:
    return nodes.reshape(*nodes.shape[:-2], -1)


def _by_row(values: Array, row: Array, rows: int) -> Array:
    """Sums of nodes over rows, `[*s, rows]`; `row` rises."""
    out = np.zeros((*values.shape[:-1], rows), values.dtype)
    if len(row):
        found, first = np.unique(row, return_index=True)
        out[..., found] = np.add.reduceat(values, first * len(_X), axis=-1)
    return out


def examples() -> tuple[Law, ...]:
    return (PowerAnnealingGain(1e-2), multi_power_law(lr_unit=1e-2, steps_unit=1e3))
