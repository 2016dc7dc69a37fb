r"""A loss that falls as a power of size or data."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class PowerLaw(Law):
    r"""The loss that a finite model, or finite data, adds.

    .. math:: L = A \, (x / u)^{-\alpha}

    :math:`A` is the excess loss at one unit :math:`u` of the column, which a reader can picture and a solver can find;
    papers give it at one parameter or one token, a number in the hundreds (`chinchilla.to_paper` converts).

    Parameters
    ----------
    column : the column :math:`x`, ``model_size`` or ``tokens``
    unit : where :math:`A` is defined, in the column's own unit; best inside the range of the runs
    scale, exponent : names of the two coefficients
    prior : (center, sd) of the exponent, or None. Two sizes of model cannot tell an exponent from a floor.

    Inputs
    ------
    column : [n], parameters or tokens

    Coefficients
    ------------
    scale : nats per token at one unit, in [0.001, 10], searched in log. Published: .36 at 1e9 parameters, 1.06 at
        1e9 tokens (Besiroglu et al. 2024).
    exponent : in [0.02, 2]. Published: .35 for parameters, .37 for tokens.

    References
    ----------
    Hestness et al., *Deep Learning Scaling is Predictable, Empirically*, 2017, arXiv:1712.00409.
    Hoffmann et al., *Training Compute-Optimal Large Language Models*, 2022, arXiv:2203.15556, equation 2.

    Examples
    --------
    Eight times the tokens halve the excess loss when the exponent is 1/3:

    >>> law = PowerLaw("tokens", 1e9, "B", "beta")
    >>> law(np.array([1.06, 1 / 3]), {"tokens": np.array([1e9, 8e9])})
    array([1.06, 0.53])
    """

    column: str
    unit: float
    scale: str
    exponent: str
    prior: tuple[float, float] | None = None

    output = "loss"
    reference = "Hestness et al. 2017, arXiv:1712.00409; Hoffmann et al. 2022, arXiv:2203.15556"

    def __post_init__(self) -> None:
        scale = Coefficient(self.scale, 1e-3, 10.0, log=True)
        exponent = Coefficient(self.exponent, 0.02, 2.0, prior=self.prior)
        self._declare(inputs=(self.column,), decreasing=(self.column,), coefficients=(scale, exponent))

    def describe(self, theta: Array) -> str:
        A, alpha = theta
        return f"{A * np.exp(alpha * np.log(self.unit)):.4g} / {self.column}^{alpha:.4g}"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        A, alpha = theta[..., :1], theta[..., 1:2]
        return A * np.exp(-alpha * np.log(columns[self.column] / self.unit))

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        # By hand: most laws end in a power law, and one real exponential is a tenth of the cost of two complex ones.
        log = np.log(columns[self.column] / self.unit)
        slope = np.exp(-theta[..., 1:2] * log)
        value = theta[..., :1] * slope
        return value, np.stack([slope, -log * value], axis=-1)

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        value = self(theta, columns)
        return -theta[..., 1:2] * value / columns[name] if name == self.column else np.zeros(value.shape)


def examples() -> tuple[Law, ...]:
    return (PowerLaw("model_size", 1e7, "A", "alpha"), PowerLaw("tokens", 1e8, "B", "beta"))
