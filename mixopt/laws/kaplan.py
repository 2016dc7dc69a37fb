r"""The loss when model and data are each a bottleneck of the other."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law, softplus

KAPLAN: Mapping[str, float] = {"Nc": 6.4e13, "Dc": 1.8e13, "aN": 0.076, "aD": 0.103}


@dataclass(frozen=True)
class Kaplan(Law):
    r"""The loss of a model of a given size after a given number of tokens, without a floor.

    .. math:: L = \left[\left(\frac{N_c}{N}\right)^{\alpha_N / \alpha_D} + \frac{D_c}{D}\right]^{\alpha_D}
        = \left[L_N(N)^{1 / \alpha_D} + L_D(D)^{1 / \alpha_D}\right]^{\alpha_D}

    :math:`L_N = (N_c / N)^{\alpha_N}` is the loss of this model with unlimited data, :math:`L_D = (D_c / D)^{\alpha_D}`
    that of an unlimited model with these data. The larger of the two rules, the smaller hardly adds: a power mean,
    where Chinchilla adds the two. It goes to 0, not to an entropy, so it is for sizes near those fitted.

    Parameters
    ----------
    size_unit, tokens_unit : where the two losses are coefficients, parameters and tokens

    Inputs
    ------
    model_size : [n], parameters without embeddings, :math:`N`
    tokens : [n], tokens, :math:`D`

    Coefficients
    ------------
    LN : nats per token of a model of one size unit with unlimited data, in [.2, 20], searched in log. Published: 2.32
        at 1e9 parameters
    LD : nats per token of an unlimited model after one unit of tokens, in [.2, 20], searched in log. Published: 2.74
        at 1e9 tokens
    aN, aD : in [.02, 1]. Published: .076 and .103

    References
    ----------
    Kaplan et al., *Scaling Laws for Neural Language Models*, 2020, arXiv:2001.08361, equation 1.5 and table 2.

    Examples
    --------
    The largest model of the paper, 1.5B parameters, on all 22B tokens of its data, and on a hundredth of them:

    >>> run = {"model_size": np.full(2, 1.5e9), "tokens": np.array([22e9, 22e7])}
    >>> law = Kaplan()
    >>> law(np.array([from_paper(KAPLAN)[name] for name in law.names]), run).round(2)
    array([2.31, 3.22])
    """

    size_unit: float = 1e9
    tokens_unit: float = 1e9

    inputs = ("model_size", "tokens")
    output = "loss"
    decreasing = ("model_size", "tokens")
    coefficients = (
        Coefficient("LN", 0.2, 20.0, log=True),
        Coefficient("LD", 0.2, 20.0, log=True),
        Coefficient("aN", 0.02, 1.0),
        Coefficient("aD", 0.02, 1.0),
    )
    published = {"LN": 2.3188, "LD": 2.7434, "aN": 0.076, "aD": 0.103}  # noqa: RUF012
    reference = "Kaplan et al. 2020, arXiv:2001.08361"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        LN, LD, aN, aD = (theta[..., i : i + 1] for i in range(4))
        by_size = np.log(LN) - aN * np.log(columns["model_size"] / self.size_unit)
        by_tokens = np.log(LD) - aD * np.log(columns["tokens"] / self.tokens_unit)
        return np.exp(by_tokens + aD * softplus((by_size - by_tokens) / aD))

    def describe(self, theta: Array) -> str:
        ours = dict(zip(self.names, theta, strict=True))
        paper = to_paper(ours, size_unit=self.size_unit, tokens_unit=self.tokens_unit)
        return "[({Nc:.4g}/model_size)^({aN:.4g}/{aD:.4g}) + {Dc:.4g}/tokens]^{aD:.4g}".format(**paper)


def from_paper(paper: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """Coefficients as the paper prints them, :math:`N_c` and :math:`D_c`, restated as losses at our units.

    >>> round(from_paper(KAPLAN)["LN"], 2)
    2.32
    """
    aN, aD = paper["aN"], paper["aD"]
    LN, LD = (paper["Nc"] / size_unit) ** aN, (paper["Dc"] / tokens_unit) ** aD
    return {"LN": LN, "LD": LD, "aN": aN, "aD": aD}


def to_paper(ours: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """Losses at our units, restated as the paper's scales, in parameters and in tokens.

    >>> f"{to_paper(from_paper(KAPLAN))['Nc']:.2g}"
    '6.4e+13'
    """
    aN, aD = ours["aN"], ours["aD"]
    Nc, Dc = size_unit * math.exp(math.log(ours["LN"]) / aN), tokens_unit * math.exp(math.log(ours["LD"]) / aD)
    return {"Nc": Nc, "Dc": Dc, "aN": aN, "aD": aD}


def examples() -> tuple[Law, ...]:
    return (Kaplan(1e7, 1e8),)
