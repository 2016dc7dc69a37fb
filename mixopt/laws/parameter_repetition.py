r"""What parameters are worth when there is too little text for them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

PUBLISHED_R_N = 5.309743
# Coefficients of the paper's C4 runs: L = E + A N^-alpha + B D^-alpha, at one parameter and one token.
MUENNIGHOFF: Mapping[str, float] = {
    "E": math.exp(0.6254804),
    "A": math.exp(6.255414),
    "alpha": 0.3526596,
    "B": math.exp(7.3049974),
    "beta": 0.3526596,
}


@dataclass(frozen=True)
class ParameterRepetition(Law):
    r"""Effective parameters of a model that is larger than its unique tokens can fill.

    .. math:: N' = U_N \left(1 + R_N (1 - e^{-r / R_N})\right), \qquad
        U_N = \min\left(N, \; n \, (U / u)^p\right), \quad r = N / U_N - 1

    :math:`U_N` is the size that would be compute-optimal for the unique tokens :math:`U` seen once. Parameters up to
    it count in full; what lies beyond is worth exponentially less, as repeated tokens are: excess parameters are
    treated as repeats of the ones that the text can fill. The counterpart of `Repetition`, before which it stands in a
    chain, as both read the true tokens: ``ParameterRepetition() >> Repetition() >> chinchilla()``.

    Parameters
    ----------
    size : parameters that suit one unit of unique tokens, :math:`n`
    tokens_unit : tokens, :math:`u`
    power : how the suiting size grows with tokens, :math:`p`; 1 where size and tokens have one exponent.
        `suiting` gives all three from the coefficients of a loss law.
    prior : (center, sd) of log R_N, or None

    Inputs
    ------
    model_size : [n], parameters, :math:`N`
    tokens : [n], tokens seen in all; unique tokens beyond these were never read and do not count
    mixture : [n, m], share of each corpus; a share may be 0
    unique_tokens : [n, m], tokens of each corpus before repeating

    Output
    ------
    model_size : [n], effective parameters

    Coefficients
    ------------
    R_N : in [.1, 100], searched in log. Published: 5.31 (C4); the objective is flat in it.

    References
    ----------
    Muennighoff et al., *Scaling Data-Constrained Language Models*, 2023, arXiv:2305.16264.

    Examples
    --------
    A model of 1B parameters, with 100M unique tokens to read, is worth 32M:

    >>> run = {"model_size": np.array([1e9]), "tokens": np.array([3e9]), "mixture": np.ones((1, 1))}
    >>> ParameterRepetition()(np.array([PUBLISHED_R_N]), run | {"unique_tokens": np.array([[1e8]])}).round(-6)
    array([32000000.])
    """

    size: float = 5.0987e7
    tokens_unit: float = 1e9
    power: float = 1.0
    prior: tuple[float, float] | None = None

    inputs = ("model_size", "tokens", "mixture", "unique_tokens")
    output = "model_size"
    increasing = ("model_size", "unique_tokens")
    published = {"R_N": PUBLISHED_R_N}  # noqa: RUF012
    reference = "Muennighoff et al. 2023, arXiv:2305.16264"

    def __post_init__(self) -> None:
        self._declare(coefficients=(Coefficient("R_N", 0.1, 100.0, log=True, prior=self.prior),))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        R = theta[..., :1]
        seen, unique = columns["tokens"][..., None] * columns["mixture"], columns["unique_tokens"]
        once = np.where(np.real(seen) < np.real(unique), seen, unique).sum(-1)
        suits = self.size * np.exp(self.power * np.log(once / self.tokens_unit))
        size = columns["model_size"]
        beyond = np.real(size) > np.real(suits)
        # Where nothing lies beyond, the exponent is held at 0: the branch not taken must stay finite as well.
        repeats = np.where(beyond, size / suits - 1, 0)
        return np.where(beyond, suits * (1 - R * np.expm1(-repeats / R)), size + 0 * R)


def suiting(paper: Mapping[str, float], *, tokens_unit: float = 1e9) -> dict[str, float]:
    r"""Size, unit and power of `ParameterRepetition` for a loss of coefficients E, A, alpha, B, beta.

    .. math:: U_N = G\,(G\,U)^{\beta / \alpha}, \qquad G = \left(\frac{\alpha A}{\beta B}\right)^{1 / (\alpha + \beta)}

    The paper's coefficients put 20 unique tokens to a parameter at every size:

    >>> suits = suiting(MUENNIGHOFF)
    >>> round(1e9 / suits["size"], 1), suits["power"]
    (19.6, 1.0)
    """
    alpha, beta = paper["alpha"], paper["beta"]
    G = math.exp(math.log(alpha * paper["A"] / (beta * paper["B"])) / (alpha + beta))
    size = G * math.exp(beta / alpha * math.log(G * tokens_unit))
    return {"size": size, "tokens_unit": tokens_unit, "power": beta / alpha}


def examples() -> tuple[Law, ...]:
    return (ParameterRepetition(), ParameterRepetition(size=2e6, tokens_unit=1e8, power=1.1))
