r"""A corpus's own loss from its own share and the steps trained."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class BiMix(Law):
    r"""The held-out loss of one of the corpora trained on, as a power of its own share times one of the steps.

    .. math:: L_i = (h_i + f)^{-a} \left(B \, (S / u)^{-b} + C\right)

    Only the corpus's own share counts, whatever the others are: the law cannot say that books help with code. The
    paper writes :math:`A h^{-a} (B S^{-b} + C)`; A times B and A times C are all that shows, so A is dropped. A share
    of 0 would give an infinite loss, where real ones are finite because the other corpora teach: :math:`f` stands for
    what they teach, as a share.

    Parameters
    ----------
    corpora : names, in the order of the columns
    own : the corpus whose held-out loss this is
    unit : steps at which :math:`B` is defined; best inside the range of the runs
    floor : :math:`f`; 0 is the published form, for runs in which no share is 0

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`
    steps : [n], optimizer steps, :math:`S`

    Coefficients
    ------------
    a : in [0, 1]
    B : nats per token at one unit of steps, in [.001, 10], searched in log
    b : in [.02, 3]
    C : nats per token, in [.05, 10], searched in log

    References
    ----------
    Ge et al., *BiMix: Bivariate Data Mixing Law for Language Model Pretraining*, 2024, arXiv:2405.14908.

    Examples
    --------
    With a = .1 four times the share lowers the loss by 13 %, from anywhere:

    >>> law = BiMix(("web", "code"), "code", unit=1e4)
    >>> runs = {"mixture": np.array([[0.8, 0.2], [0.2, 0.8]]), "steps": np.array([1e4, 1e4])}
    >>> law(np.array([0.1, 0.5, 0.5, 1.5]), runs).round(2)
    array([2.35, 2.04])
    """

    corpora: tuple[str, ...]
    own: str
    unit: float = 1e4
    floor: float = 1e-3

    inputs = ("mixture", "steps")
    output = "loss"
    decreasing = ("steps",)
    reference = "Ge et al. 2024, arXiv:2405.14908"

    def __post_init__(self) -> None:
        if self.own not in self.corpora:
            raise ValueError(f"{self.own} is not among the corpora {', '.join(self.corpora)}; name one of them.")
        B, C = Coefficient("B", 1e-3, 10.0, log=True), Coefficient("C", 0.05, 10.0, log=True)
        self._declare(coefficients=(Coefficient("a", 0.0, 1.0), B, Coefficient("b", 0.02, 3.0), C))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        a, B, b, C = (theta[..., i : i + 1] for i in range(4))
        share = columns["mixture"][..., self.corpora.index(self.own)] + self.floor
        return np.exp(-a * np.log(share)) * (B * np.exp(-b * np.log(columns["steps"] / self.unit)) + C)


def examples() -> tuple[Law, ...]:
    return (BiMix(("web", "code", "math"), "code", unit=1e3),)
