r"""A law of size and tokens whose every coefficient is the average over corpora."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.additive_mixture import AdditiveMixture
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class AveragedCoefficients(Law):
    r"""The loss at one unit of size and tokens, and how it moves from there, averaged over corpora by share.

    .. math:: L = E(h) + A(h) \left(n^{-\alpha} - 1\right) + B(h) \left(d^{-\beta} - 1\right)
        + S(h)\, n^{-\alpha_S} d^{-\beta_S}, \qquad X(h) = \sum_i X_i h_i, \quad n = N / u_N, \quad d = D / u_D

    :math:`E(h) + S(h)` is the loss at one unit of both, so it is read off the runs themselves; A and B say how much of
    it size and tokens can take away for each corpus, and S what a short run still lacks. Exponents are shared. An
    average over corpora has no diminishing returns: add a law of the mixture for these (`averaged`).

    Parameters
    ----------
    corpora : names, in the order of the columns
    tokens_unit, size_unit : tokens and parameters; best inside the range of the runs

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`; may be 0
    model_size : [n], parameters, :math:`N`
    tokens : [n], tokens, :math:`D`

    Coefficients
    ------------
    E[corpus] : nats per token, in [.1, 20], searched in log; prior 2.5, within a factor of 2.7
    A[corpus], B[corpus] : nats per token, in [.01, 20], searched in log; prior 1, within a factor of 4.5
    S[corpus] : nats per token, in [1e-4, 10], searched in log; prior .1, within a factor of 4.5
    alpha, beta : in [.02, 2]; prior .155 and .146 +- .1, as published
    alpha_S : in [-1, 1]; prior .014 +- .2, about the published value
    beta_S : in [.05, 3]; prior 1.06 +- .5, about the published value

    References
    ----------
    github.com/marin-community/marin, 2026 (MCT), with exponents .154791, .146425, .014295 and 1.063376. Its
    last term is less S(h), which is in E(h) here.

    Examples
    --------
    At one unit of each, 3 nats on web and 2 on code; 100 times the size takes 1.02 and .51 of it:

    >>> law = AveragedCoefficients(("web", "code"), tokens_unit=1e9, size_unit=1e8)
    >>> theta = np.array([2.9, 1.9, 2.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.155, 0.146, 0.0, 1.06])
    >>> web, code = [1.0, 0.0], [0.0, 1.0]
    >>> size = np.array([1e8, 1e8, 1e10, 1e10])
    >>> law(theta, {"mixture": np.array([web, code] * 2), "model_size": size, "tokens": np.full(4, 1e9)}).round(2)
    array([3.  , 2.  , 1.98, 1.49])
    """

    corpora: tuple[str, ...]
    tokens_unit: float
    size_unit: float

    inputs = ("mixture", "model_size", "tokens")
    output = "loss"
    published = {"alpha": 0.154791, "beta": 0.146425, "alpha_S": 0.014295, "beta_S": 1.063376}  # noqa: RUF012
    reference = "github.com/marin-community/marin, 2026"

    def __post_init__(self) -> None:
        boxes = {"E": (0.1, 20.0, 2.5, 1.0), "A": (0.01, 20.0, 1.0, 1.5), "B": (0.01, 20.0, 1.0, 1.5)}
        boxes["S"] = (1e-4, 10.0, 0.1, 1.5)
        heads = (
            Coefficient(f"{head}[{name}]", lower, upper, log=True, prior=(float(np.log(center)), sd))
            for head, (lower, upper, center, sd) in boxes.items()
            for name in self.corpora
        )
        exponents = (
            Coefficient("alpha", 0.02, 2.0, prior=(0.155, 0.1)),
            Coefficient("beta", 0.02, 2.0, prior=(0.146, 0.1)),
            Coefficient("alpha_S", -1.0, 1.0, prior=(0.014, 0.2)),
            Coefficient("beta_S", 0.05, 3.0, prior=(1.06, 0.5)),
        )
        self._declare(coefficients=(*heads, *exponents))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        heads, factors = self._read(theta, columns)
        total = heads[0] + heads[1] * factors[0] + heads[2] * factors[1]
        return total + heads[3] * factors[2]

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        (E, A, B, S), (size, data, both) = self._read(theta, columns)
        n, d = self._logs(columns)
        h = columns["mixture"]
        loss = E + A * size + B * data + S * both
        blocks = [
            h,
            size[..., None] * h,
            data[..., None] * h,
            both[..., None] * h,
            (-A * n * (1 + size))[..., None],
            (-B * d * (1 + data))[..., None],
            (-S * n * both)[..., None],
            (-S * d * both)[..., None],
        ]
        return loss, np.concatenate([np.broadcast_to(b, (*loss.shape, b.shape[-1])) for b in blocks], -1)

    def _read(self, theta: Array, columns: Columns) -> tuple[list[Array], tuple[Array, Array, Array]]:
        """Averages over corpora, and the factors in size, in tokens and in both that they come with."""
        m, h = len(self.corpora), columns["mixture"]
        heads = [(theta[..., None, i * m : (i + 1) * m] * h).sum(-1) for i in range(4)]
        alpha, beta, alpha_S, beta_S = (theta[..., 4 * m + i : 4 * m + i + 1] for i in range(4))
        size, tokens = self._logs(columns)
        both = np.exp(-alpha_S * size - beta_S * tokens)
        return heads, (np.exp(-alpha * size) - 1, np.exp(-beta * tokens) - 1, both)

    def _logs(self, columns: Columns) -> tuple[Array, Array]:
        return np.log(columns["model_size"] / self.size_unit), np.log(columns["tokens"] / self.tokens_unit)


def averaged(corpora: Sequence[str], *, tokens_unit: float, size_unit: float) -> Law:
    """Coefficients averaged over corpora, and on top a mixture's own part with diminishing returns.

    >>> print(*averaged(["web"], tokens_unit=1e9, size_unit=1e8).names)
    C[web] gamma[web] E[web] A[web] B[web] S[web] alpha beta alpha_S beta_S
    """
    names = tuple(corpora)
    return AdditiveMixture(names) + AveragedCoefficients(names, tokens_unit, size_unit)


def examples() -> tuple[Law, ...]:
    return (AveragedCoefficients(("web", "code", "math"), 1e8, 1e7),)
