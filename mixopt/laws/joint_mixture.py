r"""A loss that falls as a power of size or data, by an amount that depends on the mixture."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.additive_mixture import AdditiveMixture
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class JointMixture(Law):
    r"""The loss that a finite model, or finite data, adds, where that depends on the mixture.

    .. math:: L = \left(\sum_i C_i h_i\right)^{\gamma} (x / u)^{-\alpha}

    A mixture of easy corpora leaves more room in a small model, and one of rich corpora is learned from fewer tokens;
    so the best mixture moves with size and tokens.

    Parameters
    ----------
    corpora : names, in the order of the columns
    column : the column :math:`x`, ``model_size`` or ``tokens``
    unit : where :math:`C` is defined, in the column's own unit; best inside the range of the runs
    scale, power, exponent : names of :math:`C`, :math:`\gamma` and :math:`\alpha`
    prior : (center, sd) of the exponent, or None

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`; may be 0
    column : [n], parameters or tokens

    Coefficients
    ------------
    scale[corpus] : in [.001, 30], searched in log; prior 1, within a factor of 7
    power : in [-3, 3]; prior 0 +- 1
    exponent : in [.02, 3]

    References
    ----------
    Shukor et al., *Scaling Laws for Optimal Data Mixtures*, 2025, arXiv:2507.09404.

    Examples
    --------
    A model of one unit is .6 nats short on web and .3 on code; half of each lies between, at gamma = 1 in the middle:

    >>> law = JointMixture(("web", "code"), "model_size", 1e8)
    >>> runs = {"mixture": np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), "model_size": np.full(3, 1e8)}
    >>> law(np.array([0.6, 0.3, 1.0, 0.35]), runs).round(2)
    array([0.6 , 0.45, 0.3 ])
    """

    corpora: tuple[str, ...]
    column: str
    unit: float
    scale: str = "A"
    power: str = "gamma_A"
    exponent: str = "alpha"
    prior: tuple[float, float] | None = None

    output = "loss"
    reference = "Shukor et al. 2025, arXiv:2507.09404"

    def __post_init__(self) -> None:
        C = (Coefficient(f"{self.scale}[{name}]", 1e-3, 30.0, log=True, prior=(0.0, 2.0)) for name in self.corpora)
        power = Coefficient(self.power, -3.0, 3.0, prior=(0.0, 1.0))
        exponent = Coefficient(self.exponent, 0.02, 3.0, prior=self.prior)
        inputs = ("mixture", self.column)
        self._declare(inputs=inputs, decreasing=(self.column,), coefficients=(*C, power, exponent))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        C, power, exponent = self._read(theta)
        total = (C * columns["mixture"]).sum(-1)
        return np.exp(power * np.log(total) - exponent * np.log(columns[self.column] / self.unit))

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        C, power, exponent = self._read(theta)
        total, x = (C * columns["mixture"]).sum(-1), np.log(columns[self.column] / self.unit)
        loss = np.exp(power * np.log(total) - exponent * x)
        by_C = (loss * power / total)[..., None] * columns["mixture"]
        return loss, np.concatenate([by_C, (loss * np.log(total))[..., None], (-loss * x)[..., None]], -1)

    def _read(self, theta: Array) -> tuple[Array, Array, Array]:
        m = len(self.corpora)
        return theta[..., None, :m], theta[..., m : m + 1], theta[..., m + 1 :]


def joint(corpora: Sequence[str], *, tokens_unit: float, size_unit: float) -> Law:
    r"""The joint law of Shukor et al.: the mixture moves the floor, what size adds and what tokens add.

    .. math:: L = E + \frac{1}{\sum_i C_i h_i^{\gamma_i}}
        + A(h)\,(N / u_N)^{-\alpha} + B(h)\,(D / u_D)^{-\beta}

    >>> print(*joint(["web", "code"], tokens_unit=1e9, size_unit=1e9).names)
    E C[web] C[code] gamma[web] gamma[code] A[web] A[code] gamma_A alpha B[web] B[code] gamma_B beta
    """
    names = tuple(corpora)
    size = JointMixture(names, "model_size", size_unit)
    tokens = JointMixture(names, "tokens", tokens_unit, "B", "gamma_B", "beta")
    return Constant("E") + AdditiveMixture(names) + size + tokens


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    size = JointMixture(corpora, "model_size", 1e7, prior=(0.35, 0.15))
    return (size, JointMixture(corpora, "tokens", 1e8, "B", "gamma_B", "beta"))
