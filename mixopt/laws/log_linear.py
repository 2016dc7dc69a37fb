r"""How much of a target's loss a mixture leaves, beside a mixture that is known."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class LogLinear(Law):
    r"""The excess loss as the exponential of how far shares are from those of a reference mixture.

    .. math:: L = \exp\left(k + \sum_i a_i (h_i - p_i)\right), \qquad a_i \sim \mathcal{N}(0, s^2)

    The reference mixture p leaves :math:`e^k` nats; a share moved from corpus i to corpus j multiplies that by
    :math:`e^{a_j - a_i}` a whole. It is `MixingLaw` without tokens, written so that its prior says something one may
    believe: corpora are alike until runs show otherwise. The smaller s, the more runs that takes; with few runs of many
    corpora it is what keeps predictions finite (`mixopt.predictors.log_linear` chooses it by hold-out). The paper's
    law adds a floor, a `Constant`, and has :math:`t_i` for :math:`k + a_i - \sum_j a_j p_j`.

    Parameters
    ----------
    corpora : names, in the order of the columns
    reference_mixture : shares :math:`p`, in that order; None is all alike. Best the mean of the runs, or the corpora's
        natural shares
    sd : :math:`s`, of the prior of each :math:`a_i`

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`

    Coefficients
    ------------
    k : log of nats per token, in [-9, 3]; prior 0 +- 2
    a[corpus] : in [-7, 7]; prior 0 +- `sd`

    References
    ----------
    Chen et al., *Olmix*, 2026, arXiv:2602.12237; Ye et al., *Data Mixing Laws*, 2024, arXiv:2403.16952, equation 1.

    Examples
    --------
    The natural mixture, a tenth code, leaves 1 nat of a code target's loss, and pure code e^-1.8 as much:

    >>> law = LogLinear(("web", "code"), (0.9, 0.1))
    >>> law(np.array([0.0, 1.0, -1.0]), {"mixture": np.array([[0.9, 0.1], [0.0, 1.0]])}).round(3)
    array([1.   , 0.165])
    """

    corpora: tuple[str, ...]
    reference_mixture: tuple[float, ...] | None = None
    sd: float = 2.0

    inputs = ("mixture",)
    output = "loss"
    reference = "Chen et al. 2026, arXiv:2602.12237"

    def __post_init__(self) -> None:
        shares = self.reference_mixture
        if shares is not None and (len(shares) != len(self.corpora) or abs(sum(shares) - 1) > 1e-6 or min(shares) < 0):
            raise ValueError(
                f"reference_mixture is {shares}; give a share for each of {', '.join(self.corpora)}, summing to 1."
            )
        a = tuple(Coefficient(f"a[{corpus}]", -7.0, 7.0, prior=(0.0, self.sd)) for corpus in self.corpora)
        self._declare(coefficients=(Coefficient("k", -9.0, 3.0, prior=(0.0, 2.0)), *a))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        away = columns["mixture"] - self._center()
        return np.exp(theta[..., :1] + (theta[..., None, 1:] * away).sum(-1))

    def to_paper(self, ours: Mapping[str, float]) -> dict[str, float]:
        """Coefficients as the paper writes them, an exponent for each corpus alone.

        >>> LogLinear(("web", "code"), (0.9, 0.1)).to_paper({"k": 0.0, "a[web]": 1.0, "a[code]": -1.0})
        {'t[web]': 0.2, 't[code]': -1.8}
        """
        a = np.array([ours[f"a[{corpus}]"] for corpus in self.corpora])
        t = ours["k"] + a - (a * self._center()).sum()
        return {f"t[{corpus}]": round(float(value), 12) for corpus, value in zip(self.corpora, t, strict=True)}

    def _center(self) -> Array:
        m = len(self.corpora)
        return np.full(m, 1 / m) if self.reference_mixture is None else np.array(self.reference_mixture)


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (LogLinear(corpora), LogLinear(corpora, (0.7, 0.2, 0.1), sd=0.7))
