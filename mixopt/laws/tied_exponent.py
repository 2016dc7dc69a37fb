r"""A loss that falls alike with size and with tokens, so that the best ratio of the two is the same at every budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

# E, a, b and eta of the paper's table for RedPajama, whose form is E + (a M^eta + b M^-eta) C^-eta with M = D / N.
# Three digits of eta are worth .02 to .06 nats: the runs themselves give .1364.
GADRE: Mapping[str, float] = {"E": 1.84, "a": 212.0, "b": 367.0, "eta": 0.136}


@dataclass(frozen=True)
class TiedExponent(Law):
    r"""The loss that a finite model and finite data add, with one exponent for both.

    .. math:: L = A \, (N / u_N)^{-\alpha} + B \, (D / u_D)^{-\alpha}
        = \left(a\, M^\eta + b\, M^{-\eta}\right) C^{-\eta}, \qquad M = D / N, \; C = 6 N D, \; \alpha = 2 \eta

    At a fixed number of tokens per parameter the excess loss is one power law of compute: overtraining moves the line
    but does not tilt it. One coefficient less than Chinchilla, which a handful of runs can bear. Add a floor:
    ``Constant("E") + TiedExponent()``.

    Parameters
    ----------
    size_unit, tokens_unit : where :math:`A` and :math:`B` are defined, parameters and tokens

    Inputs
    ------
    model_size : [n], parameters, :math:`N`; the paper counts embeddings
    tokens : [n], tokens, :math:`D`

    Coefficients
    ------------
    A : nats per token at one size unit, in [.001, 10], searched in log. Published: .59 at 1e9 parameters
    B : nats per token at one unit of tokens, in [.001, 10], searched in log. Published: 1.02 at 1e9 tokens
    alpha : in [.02, 2]. Published: .272

    References
    ----------
    Gadre et al., *Language models scale reliably with over-training and on downstream tasks*, 2024, arXiv:2403.08540;
    published values are those of RedPajama.

    Examples
    --------
    The paper's 1.4B model after 900B tokens of RedPajama, 640 a parameter:

    >>> from mixopt.laws.constant import Constant
    >>> law, published = Constant("E") + TiedExponent(), from_paper(GADRE)
    >>> run = {"model_size": np.array([1.44e9]), "tokens": np.array([921e9])}
    >>> law(np.array([published[name] for name in law.names]), run).round(2)
    array([2.54])
    """

    size_unit: float = 1e9
    tokens_unit: float = 1e9

    inputs = ("model_size", "tokens")
    output = "loss"
    decreasing = ("model_size", "tokens")
    coefficients = (
        Coefficient("A", 1e-3, 10.0, log=True),
        Coefficient("B", 1e-3, 10.0, log=True),
        Coefficient("alpha", 0.02, 2.0),
    )
    published = {"A": 0.5923, "B": 1.0253, "alpha": 0.272}  # noqa: RUF012
    reference = "Gadre et al. 2024, arXiv:2403.08540"

    def __call__(self, theta: Array, columns: Columns) -> Array:
        A, B, alpha = (theta[..., i : i + 1] for i in range(3))
        size, tokens = np.log(columns["model_size"] / self.size_unit), np.log(columns["tokens"] / self.tokens_unit)
        return A * np.exp(-alpha * size) + B * np.exp(-alpha * tokens)

    def describe(self, theta: Array) -> str:
        A, B, alpha = theta
        size, tokens = (x * np.exp(alpha * np.log(u)) for x, u in ((A, self.size_unit), (B, self.tokens_unit)))
        return f"{size:.4g} / model_size^{alpha:.4g} + {tokens:.4g} / tokens^{alpha:.4g}"


def from_paper(paper: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """The paper's coefficients of compute and tokens per parameter, restated at our units of size and tokens.

    >>> {name: round(value, 3) for name, value in from_paper(GADRE).items()}
    {'E': 1.84, 'A': 0.592, 'B': 1.025, 'alpha': 0.272}
    """
    eta = paper["eta"]
    return {
        "E": paper["E"],
        "A": paper["a"] * math.exp(-eta * math.log(6 * size_unit**2)),
        "B": paper["b"] * math.exp(-eta * math.log(6 * tokens_unit**2)),
        "alpha": 2 * eta,
    }


def to_paper(ours: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """Coefficients at our units, restated as the paper prints them.

    >>> round(to_paper(from_paper(GADRE))["a"])
    212
    """
    eta = ours["alpha"] / 2
    return {
        "E": ours["E"],
        "a": ours["A"] * math.exp(eta * math.log(6 * size_unit**2)),
        "b": ours["B"] * math.exp(eta * math.log(6 * tokens_unit**2)),
        "eta": eta,
    }


def examples() -> tuple[Law, ...]:
    return (TiedExponent(1e7, 1e8),)
