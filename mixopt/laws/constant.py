r"""A loss that no amount of training removes."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class Constant(Law):
    r"""The irreducible loss of a target.

    .. math:: L = E

    What is left when model and data are unlimited: the entropy of the text itself. Alone it predicts the same loss
    for every run, so it is used as the first term of a sum.

    Parameters
    ----------
    name : of the coefficient
    lower, upper : nats per token, ends of its box
    prior : center and sd of a Gaussian prior on log E; None for none

    Inputs
    ------
    None.

    Coefficients
    ------------
    E : nats per token, in [lower, upper], searched in log. Published: 1.82 for MassiveText (Besiroglu et al. 2024).

    References
    ----------
    Hoffmann et al., *Training Compute-Optimal Large Language Models*, 2022, arXiv:2203.15556, equation 2.

    Examples
    --------
    A loss of 1.82 nats is a perplexity of about 6:

    >>> loss = Constant()(np.array([1.82]), {})
    >>> np.exp(loss).round(1)
    array([6.2])
    """

    name: str = "E"
    lower: float = 0.1
    upper: float = 5.0
    prior: tuple[float, float] | None = None

    inputs = ()
    output = "loss"
    published = {"E": 1.8172}  # noqa: RUF012
    reference = "Hoffmann et al. 2022, arXiv:2203.15556; refitted by Besiroglu et al. 2024, arXiv:2404.10102"

    def __post_init__(self) -> None:
        self._declare(coefficients=(Coefficient(self.name, self.lower, self.upper, log=True, prior=self.prior),))

    def describe(self, theta: Array) -> str:
        return f"{theta[0]:.4g}"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return theta[..., :1]

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        return theta[..., :1], np.ones((*theta.shape[:-1], 1, 1))


def examples() -> tuple[Law, ...]:
    return (Constant(),)
