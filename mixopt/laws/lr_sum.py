r"""How far training has come, in learning rate times steps."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Law

# Gauss-Legendre on [0, 1], between two knots: exact for a line, close enough for its powers.
_NODES, _GAUSS = np.polynomial.legendre.leggauss(3)
_X, _WEIGHTS = (_NODES + 1) / 2, _GAUSS / 2
# Of the unit. The power of a learning rate of 0 has an infinite slope.
_FLOOR = 1e-6


@dataclass(frozen=True)
class LearningRateSum(Law):
    r"""The learning rate summed over the steps so far.

    .. math:: S_1(t) = u \sum_{i=0}^{t} (\eta_i / u)^{p}

    With :math:`p = 1`, as published, half the learning rate takes twice the steps to come as far. With :math:`p < 1`
    low rates come further than that; .7 predicts curves of other schedules better (`benchmarks/tables/mpl.py`). It is
    set and compared on curves held out, not fitted: curves at one rate cannot tell it from the exponent of the loss.

    Parameters
    ----------
    power : :math:`p`
    lr_unit : learning rate, :math:`u`, at which a step counts in full; says nothing where the power is 1

    Inputs
    ------
    step_knots, lr_knots : [n, q], the learning rate up to the row; `mixopt.schedules.history` makes them of a schedule

    Output
    ------
    lr_sum : [n], learning rate times steps

    References
    ----------
    Tissue et al., *Scaling Law with Learning Rate Annealing*, 2024, arXiv:2408.11029, equation 1.

    Examples
    --------
    1000 steps of warm-up to 3e-4 and 9000 steps there count as 9501 steps at 3e-4, the last one included:

    >>> row = {"step_knots": np.array([[0.0, 1e3, 1e4]]), "lr_knots": np.array([[0.0, 3e-4, 3e-4]])}
    >>> (LearningRateSum()(np.empty(0), row) / 3e-4).round()
    array([9501.])
    """

    power: float = 1.0
    lr_unit: float = 1e-3

    inputs = ("step_knots", "lr_knots")
    output = "lr_sum"
    coefficients = ()
    increasing = ("lr_knots",)
    reference = "Tissue et al. 2024, arXiv:2408.11029"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        lr, lengths = columns["lr_knots"], np.diff(columns["step_knots"])
        before, after = lr[..., :-1], lr[..., 1:]
        means = sum(weight * self._pace(before + (after - before) * x) for x, weight in zip(_X, _WEIGHTS, strict=True))
        # The sum counts the first and the last step in full, an integral half.
        whole = (lengths * means).sum(-1) + (self._pace(lr[..., 0]) + self._pace(lr[..., -1])) / 2
        return whole + np.zeros((*theta.shape[:-1], 1))

    def _pace(self, lr: Array) -> Array:
        """How far one step comes at a learning rate."""
        if self.power == 1:
            return lr
        return self.lr_unit * np.exp(self.power * np.log(lr / self.lr_unit + _FLOOR))


def examples() -> tuple[Law, ...]:
    return (LearningRateSum(), LearningRateSum(power=0.7))
