r"""What fine-tuning leaves over, when pre-training has already taught some of it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class Rectified(Law):
    r"""The loss that a power law adds, flat until the data outweigh what the model knew before.

    .. math:: L = A \, \frac{d^\beta + u^\beta}{d^\beta + D^\beta} = \frac{B}{D_l + D^\beta},
        \qquad D_l = d^\beta, \quad B = A (d^\beta + u^\beta)

    Pre-training was worth :math:`d` units of fine-tuning data. With much less than that the loss hardly moves; with
    much more it falls as a power law, of the same exponent for all. Add a floor: ``Constant("E") + Rectified(...)``.

    Parameters
    ----------
    column : how much data, ``tokens`` or examples by a name of one's own
    unit : where :math:`A` is defined, in the column's own unit; best inside the range of the runs
    scale, known, exponent : names of the coefficients

    Inputs
    ------
    column : [n], tokens or examples, above 0: the model before any fine-tuning also has to learn the format of the
        task, which the law does not describe

    Coefficients
    ------------
    scale : nats per token at one unit, in [.001, 10], searched in log
    known : what pre-training was worth, in the column's unit, in [1e-4, 100] units, searched in log
    exponent : in [.05, 2]

    References
    ----------
    Lin et al., *Selecting Large Language Model to Fine-tune via Rectified Scaling Law*, 2024, arXiv:2402.02314.

    Examples
    --------
    A model that pre-training taught as much as 10,000 examples would: 100 examples remove a thousandth of the excess
    when the exponent is 1.5, another 10,000 half of it.

    >>> law = Rectified("examples", 1e4)
    >>> law(np.array([1.0, 1e4, 1.5]), {"examples": np.array([1.0, 100.0, 1e4, 1e6])}).round(3)
    array([2.   , 1.998, 1.   , 0.002])
    """

    column: str = "tokens"
    unit: float = 1e6
    scale: str = "A"
    known: str = "known"
    exponent: str = "beta"

    output = "loss"
    reference = "Lin et al. 2024, arXiv:2402.02314"

    def __post_init__(self) -> None:
        scale = Coefficient(self.scale, 1e-3, 10.0, log=True)
        known = Coefficient(self.known, 1e-4 * self.unit, 100 * self.unit, log=True)
        exponent = Coefficient(self.exponent, 0.05, 2.0)
        self._declare(inputs=(self.column,), decreasing=(self.column,), coefficients=(scale, known, exponent))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        A, known, beta = (theta[..., i : i + 1] for i in range(3))
        taught = np.exp(beta * np.log(known / self.unit))
        return A * (1 + taught) / (taught + np.exp(beta * np.log(columns[self.column] / self.unit)))

    def describe(self, theta: Array) -> str:
        A, known, beta = theta
        paper = to_paper({"A": A, "known": known, "beta": beta}, unit=self.unit)
        return "{B:.4g} / ({D_l:.4g} + {column}^{beta:.4g})".format(**paper, column=self.column)


def to_paper(ours: Mapping[str, float], *, unit: float = 1e6) -> dict[str, float]:
    """Coefficients at our unit, restated as the paper prints them: B, the pre-learned data D_l, and beta.

    >>> {name: float(value) for name, value in to_paper({"A": 1.0, "known": 1e4, "beta": 1.5}, unit=1e4).items()}
    {'B': 2000000.0, 'D_l': 1000000.0, 'beta': 1.5}
    """
    taught = ours["known"] ** ours["beta"]
    return {"B": ours["A"] * (taught + unit ** ours["beta"]), "D_l": taught, "beta": ours["beta"]}


def examples() -> tuple[Law, ...]:
    return (Rectified("tokens", 1e8),)
