r"""A mixture's share of the loss, which size and tokens leave as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.power_law import PowerLaw

# h^g has an infinite slope at a share of 0; a millionth more keeps it finite, and a corpus not used adds nothing.
_FLOOR = 1e-6


@dataclass(frozen=True)
class AdditiveMixture(Law):
    r"""The excess loss of a target that a mixture leaves, at every size and length of run alike.

    .. math:: L = \frac{1}{\sum_i C_i h_i^{\gamma_i}}

    Shares help with diminishing returns: :math:`1 / C_i` nats are left by corpus i alone. The best mixture is then
    the same at every size and length (`JointMixture` lets it move).

    Parameters
    ----------
    corpora : names, in the order of the columns

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`; may be 0

    Coefficients
    ------------
    C[corpus] : one over nats per token, in [.01, 1000], searched in log; prior 1, within a factor of 7
    gamma[corpus] : in [.05, 2]; prior .5 +- .3

    References
    ----------
    Shukor et al., *Scaling Laws for Optimal Data Mixtures*, 2025, arXiv:2507.09404.

    Examples
    --------
    Web alone leaves 1 nat and code alone .25; half of each leaves .283, all but the .25 of pure code:

    >>> law = AdditiveMixture(("web", "code"))
    >>> shares = {"mixture": np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])}
    >>> law(np.array([1.0, 4.0, 0.5, 0.5]), shares).round(3)
    array([1.001, 0.283, 0.25 ])
    """

    corpora: tuple[str, ...]

    inputs = ("mixture",)
    output = "loss"
    decreasing = ("mixture",)
    reference = "Shukor et al. 2025, arXiv:2507.09404"

    def __post_init__(self) -> None:
        C = (Coefficient(f"C[{name}]", 1e-2, 1e3, log=True, prior=(0.0, 2.0)) for name in self.corpora)
        gamma = (Coefficient(f"gamma[{name}]", 0.05, 2.0, prior=(0.5, 0.3)) for name in self.corpora)
        self._declare(coefficients=(*C, *gamma))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        C, gamma = self._read(theta)
        used = np.exp(gamma * np.log(columns["mixture"] + _FLOOR)) - np.exp(gamma * np.log(_FLOOR))
        return 1 / (C * used).sum(-1)

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        C, gamma = self._read(theta)
        log_share, log_floor = np.log(columns["mixture"] + _FLOOR), np.log(_FLOOR)
        power, floor = np.exp(gamma * log_share), np.exp(gamma * log_floor)
        used = power - floor
        loss = 1 / (C * used).sum(-1)
        by_sum = -(loss**2)[..., None]
        return loss, np.concatenate([by_sum * used, by_sum * C * (power * log_share - floor * log_floor)], -1)

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        if name != "mixture":
            return super().partial(theta, columns, name)
        C, gamma = self._read(theta)
        slope = C * gamma * np.exp((gamma - 1) * np.log(columns["mixture"] + _FLOOR))
        return -(self(theta, columns) ** 2)[..., None] * slope

    def _read(self, theta: Array) -> tuple[Array, Array]:
        m = len(self.corpora)
        return theta[..., None, :m], theta[..., None, m:]


def additive(corpora: Sequence[str], *, tokens_unit: float, size_unit: float) -> Law:
    r"""The additive law of Shukor et al.: a floor, the mixture, the size and the tokens, each on its own.

    .. math:: L = E + \frac{1}{\sum_i C_i h_i^{\gamma_i}} + A\,(N / u_N)^{-\alpha} + B\,(D / u_D)^{-\beta}

    >>> print(*additive(["web", "code"], tokens_unit=1e9, size_unit=1e9).names)
    E C[web] C[code] gamma[web] gamma[code] A alpha B beta
    """
    size, tokens = PowerLaw("model_size", size_unit, "A", "alpha"), PowerLaw("tokens", tokens_unit, "B", "beta")
    return Constant("E") + AdditiveMixture(tuple(corpora)) + size + tokens


def examples() -> tuple[Law, ...]:
    return (AdditiveMixture(("web", "code", "math")),)
