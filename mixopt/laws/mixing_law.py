r"""How much of a target's loss a mixture leaves."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class MixingLaw(Law):
    r"""The excess loss of a target as the exponential of a weighted sum of shares.

    .. math:: L = e^{\sum_i t_i h_i}
        \qquad \text{or, with tokens,} \qquad
        L = e^{\sum_i t_i h_i} \left(\tfrac{1}{u} \sum_i D_i\right)^{-\beta}

    :math:`t_i` is the log of the excess loss after training on corpus i alone (for one unit of tokens); a mixture's is
    the average by share, so every share moved from one corpus to another multiplies the excess by a fixed factor. The
    paper writes :math:`c + k e^{\sum t_i h_i}`: on the simplex k only adds a constant to every t, so it is dropped,
    and c is a `Constant`. The published form has no tokens: one size, one number of tokens.

    Parameters
    ----------
    corpora : names, in the order of the columns
    unit : tokens at which :math:`t` is defined; None for the published form, without tokens
    lowest : lower end of the box of t, with which the prior widens. Where mixtures hold a few corpora each, a share of
        .01 of the right one can take away most of the excess, which asks for t of -500 (with hundreds of runs); the
        default keeps few runs from going there.

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`
    corpus_tokens : [n, m], effective tokens of each corpus, :math:`D_i`; only with `unit`

    Coefficients
    ------------
    t[corpus] : log of nats per token, in [lowest, 3], by default [-11, 3]; prior 0 +- 4, or .36 of `lowest`
    beta : in [0.02, 2]; prior .35 +- .25. Published for tokens alone: .37 (Besiroglu et al. 2024)

    References
    ----------
    Ye et al., *Data Mixing Laws*, 2024, arXiv:2403.16952, equation 1.

    Examples
    --------
    For a code target, web alone leaves 1.5 nats above the floor and code alone .375; half of each leaves .75:

    >>> law = MixingLaw(("web", "code"))
    >>> law(np.log([1.5, 0.375]), {"mixture": np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])})
    array([1.5  , 0.75 , 0.375])
    """

    corpora: tuple[str, ...]
    unit: float | None = None
    lowest: float = -11.0

    output = "loss"
    reference = "Ye et al. 2024, arXiv:2403.16952"

    def __post_init__(self) -> None:
        prior = (0.0, -self.lowest * 4 / 11)
        t = tuple(Coefficient(f"t[{corpus}]", self.lowest, 3.0, prior=prior) for corpus in self.corpora)
        if self.unit is None:
            self._declare(inputs=("mixture",), coefficients=t)
        else:
            beta = Coefficient("beta", 0.02, 2.0, prior=(0.35, 0.25))
            inputs = ("mixture", "corpus_tokens")
            self._declare(inputs=inputs, decreasing=("corpus_tokens",), coefficients=(*t, beta))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        m = len(self.corpora)
        exponent = (theta[..., None, :m] * columns["mixture"]).sum(-1)
        if self.unit is not None:
            exponent = exponent - theta[..., m:] * np.log(columns["corpus_tokens"].sum(-1) / self.unit)
        return np.exp(exponent)

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        # By hand: the complex step takes a complex exponential for each coefficient.
        value = self(theta, columns)
        slopes = np.empty((*value.shape, theta.shape[-1]))
        m = len(self.corpora)
        slopes[..., :m] = value[..., None] * columns["mixture"]
        if self.unit is not None:
            slopes[..., m] = -value * np.log(columns["corpus_tokens"].sum(-1) / self.unit)
        return value, slopes


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (MixingLaw(corpora), MixingLaw(corpora, unit=1e8))
