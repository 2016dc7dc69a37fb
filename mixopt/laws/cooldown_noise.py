r"""What the noise of gradients leaves at the end of a schedule."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

# Gauss-Legendre on [0, 1] for v, with x = v^4 of the way from the end of a stretch: there the tails fall to nothing.
_NODES, _GAUSS = np.polynomial.legendre.leggauss(12)
_V = (_NODES + 1) / 2
_X, _WEIGHTS = _V**4, 2 * _GAUSS * _V**3
# Of the unit. Where the learning rate has ended there is no tail to divide by.
_FLOOR = 1e-9


@dataclass(frozen=True)
class CooldownNoise(Law):
    r"""The loss that noise adds to the last iterate, from the bound of convex optimization.

    .. math:: L = G \left(\frac{\Omega}{u}\right)^{\nu}, \qquad
        \Omega = \frac{Q_0}{2 S_0} + \frac12 \sum_{k<t} \frac{\eta_k}{S_{k+1}} \frac{Q_k}{S_k}, \qquad
        S_k = \sum_{i \ge k} \eta_i, \quad Q_k = \sum_{i \ge k} \eta_i^2

    Every step adds noise in proportion to its learning rate, and the steps after it average that out. At a constant
    rate :math:`\Omega` grows with the logarithm of the steps; a decay to 0 brings it down to a small multiple of the
    peak, which depends on the share of the run that it takes and not on its length. So the best share is the same for
    all horizons, where `PowerAnnealingGain` makes it shrink.

    Parameters
    ----------
    lr_unit : learning rate, :math:`u`

    Inputs
    ------
    step_knots, lr_knots : [n, q], the learning rate up to the row; `mixopt.schedules.history` makes them of a schedule

    Coefficients
    ------------
    noise : nats per token where Omega is one unit, :math:`G`, in [1e-4, 3], searched in log; prior .05, within a factor
        of 4.5
    nu : in [.1, 2]; prior .7 +- .3. In the bound: 1

    References
    ----------
    Schaipp et al., *The Surprising Agreement Between Convex Optimization Theory and Learning-Rate Scheduling for Large
    Model Training*, 2025, arXiv:2501.18965; the bound follows Defazio et al., 2023, arXiv:2310.07831.

    Examples
    --------
    10000 steps at 1e-3, and the same with the last fifth decayed to 0: the decay leaves under half of the noise.

    >>> rows = {"step_knots": np.array([[0, 8e3, 1e4], [0, 8e3, 1e4]])}
    >>> rows["lr_knots"] = np.array([[1e-3, 1e-3, 1e-3], [1e-3, 1e-3, 0]])
    >>> CooldownNoise(1e-3)(np.array([0.05, 1.0]), rows).round(3)
    array([0.27 , 0.105])
    """

    lr_unit: float = 1e-3

    inputs = ("step_knots", "lr_knots")
    output = "loss"
    coefficients = (
        Coefficient("noise", 1e-4, 3.0, log=True, prior=(float(np.log(0.05)), 1.5)),
        Coefficient("nu", 0.1, 2.0, prior=(0.7, 0.3)),
    )
    published = {"nu": 1.0}  # noqa: RUF012
    reference = "Schaipp et al. 2025, arXiv:2501.18965"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        noise, nu = theta[..., :1], theta[..., 1:2]
        return noise * np.exp(nu * np.log(self.bound(columns)))

    def bound(self, columns: Columns) -> Array:
        """Omega in units of learning rate, `[*s, n]`."""
        lr, lengths = columns["lr_knots"] / self.lr_unit, np.diff(columns["step_knots"])
        before, after = lr[..., :-1], lr[..., 1:]
        last = lr[..., -1:] + _FLOOR
        # The last step is its own tail, which keeps both sums above 0 where the learning rate does not end at 0.
        s = last + _after(lengths * (before + after) / 2)
        q = last * last + _after(lengths * (before * before + before * after + after * after) / 3)
        # At a constant rate the sum is harmonic, log n + Euler's constant: the integral from e^-.577 of a step on.
        total, short = 0, (1 - np.exp(-np.euler_gamma)) * last
        for x, weight in zip(_X, _WEIGHTS, strict=True):
            there, along = after + (before - after) * x, lengths * x
            tail = s + along * (after + there) / 2
            squares = q + along * (after * after + after * there + there * there) / 3
            total = total + (weight * lengths * there * squares / (tail * (tail - short))).sum(-1)
        whole = last[..., 0] + (lengths * (before + after) / 2).sum(-1)
        squares = last[..., 0] ** 2 + (lengths * (before * before + before * after + after * after) / 3).sum(-1)
        return (squares / whole + total) / 2


def _after(parts: Array) -> Array:
    """Sum of the parts that follow each, along the last axis."""
    return np.flip(np.cumsum(np.flip(parts, -1), -1), -1) - parts


def examples() -> tuple[Law, ...]:
    return (CooldownNoise(1e-2),)
