r"""The batch size that is best for a run."""

from dataclasses import dataclass
from math import log

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class OptimalBatch(Law):
    r"""The batch size at which a run of given tokens ends lowest, its learning rate tuned.

    .. math:: B^* = B_0 \, (D / u_D)^{q_D}

    Ten times the tokens bear a batch 3.7 times as large, of whatever size the model is. As a substitution it takes the
    batch size out of a problem, as `OptimalLearningRate` does the learning rate.

    Parameters
    ----------
    batch_unit : tokens; about where the best batch is looked for, within a factor of 4.5 (1 sd)
    tokens_unit : tokens of the run at which batch0 is defined

    Inputs
    ------
    tokens : [n], tokens of the run, :math:`D`

    Output
    ------
    batch_tokens : [n]

    Coefficients
    ------------
    batch0 : tokens, in [1e-3, 1e3] batch_unit, searched in log. Published: .58 at one token, 79,900 at 1e9
    q_tokens : in [-.2, 1.2]; prior .5 +- .2. Published: .571

    References
    ----------
    Li et al., *Predictable Scale: Part I, Step Law*, 2025, arXiv:2503.04715, equation 1.

    Examples
    --------
    20B tokens want about 440 thousand tokens a step, 215 sequences of 2048:

    >>> law = OptimalBatch(batch_unit=1.0, tokens_unit=1.0)
    >>> law(np.array([0.58, 0.571]), {"tokens": np.array([20e9])}).round(-4)
    array([440000.])
    """

    batch_unit: float = 5e5
    tokens_unit: float = 1e9

    inputs = ("tokens",)
    output = "batch_tokens"
    published = {"batch0": 79_900.0, "q_tokens": 0.571}  # noqa: RUF012
    reference = "Li et al. 2025, arXiv:2503.04715"

    def __post_init__(self) -> None:
        b = self.batch_unit
        batch0 = Coefficient("batch0", 1e-3 * b, 1e3 * b, log=True, prior=(log(b), 1.5))
        self._declare(coefficients=(batch0, Coefficient("q_tokens", -0.2, 1.2, prior=(0.5, 0.2))))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return theta[..., :1] * np.exp(theta[..., 1:2] * np.log(columns["tokens"] / self.tokens_unit))


def examples() -> tuple[Law, ...]:
    return (OptimalBatch(1e5, 1e8),)
