r"""What a token of one corpus is worth to a target, where size of model and length of run have a say in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.undertraining import Undertraining

# As in `TokenExchange`: keeps the slope of x^g finite at a share of 0; a corpus not used adds exactly nothing.
_FLOOR = 1e-6
_ALPHA_PRIOR = (0.35, 0.15)


@dataclass(frozen=True)
class ExchangeWithSize(Law):
    r"""The excess loss of a target as a power law of the worth of a mixture, which size and tokens scale.

    .. math:: L = B \left(\epsilon + (N / u_N)^{k} \sum_i
        \left[(m_i (h_i + f))^{g_i} - (m_i f)^{g_i}\right] (D / u_D)^{q}\right)^{-\beta}

    `TokenExchange` lets tokens be worth the same to every model, and lets what a mixture makes of a target fade as
    fast as the loss falls with tokens. Here both are fitted: :math:`k` is how a model's size multiplies what a mixture
    is worth to it, and :math:`q` how the length of the run does. Near :math:`q = 0` a mixture moves the loss by as much
    at the end of a run as at its start, which is what corpora far from each other do; with ``tied=True`` q is g, so
    that only the tokens of each corpus count, :math:`(m_i h_i D)^{g_i}`.

    Parameters
    ----------
    corpora : names, in the order of the columns
    tokens_unit, size_unit : tokens and parameters where :math:`m` and :math:`B` are defined; best inside the runs
    shared_g : one g for all corpora (with few runs the better choice), or one for each
    tied : q is g

    Inputs
    ------
    corpus_tokens : [n, m], effective tokens of each corpus, :math:`D h_i`; may be 0
    model_size : [n], parameters, :math:`N`

    Coefficients
    ------------
    m[corpus] : worth of a share, in [.001, 1000], searched in log; prior 1, within a factor of 4.5
    g, or g[corpus] : in [.1, 1.5]; prior .6 +- .25
    eps : in [1e-4, 10], searched in log; prior .05, within a factor of 4.5
    B : nats per token, in [.01, 20], searched in log
    beta : in [.02, 8], searched in log; prior .6, within a factor of 2
    k : in [-1.5, 1.5]; prior 0 +- .3
    q : in [0, 1.5]; prior .3 +- .3; not where tied

    References
    ----------
    The sum is the constant-elasticity aggregate of Arrow et al., *Capital-Labor Substitution and Economic Efficiency*,
    1961; that size multiplies effective data follows Hernandez et al., *Scaling Laws for Transfer*, 2021,
    arXiv:2102.01293.

    Examples
    --------
    Half of the tokens in code leave a code target .16 nats better off than a tenth, for a model of 100M parameters;
    with k = .2 one 16 times larger gains .13:

    >>> law = ExchangeWithSize(("web", "code"), tokens_unit=1e10, size_unit=1e8)
    >>> theta = np.array([0.5, 8.0, 0.6, 0.05, 0.8, 0.5, 0.2, 0.0])
    >>> runs = {
    ...     "corpus_tokens": np.array([[5e9, 5e9], [9e9, 1e9], [5e9, 5e9], [9e9, 1e9]]),
    ...     "model_size": np.array([1e8, 1e8, 1.6e9, 1.6e9]),
    ... }
    >>> law(theta, runs).round(2)
    array([0.48, 0.64, 0.36, 0.49])
    """

    corpora: tuple[str, ...]
    tokens_unit: float = 1e9
    size_unit: float = 1e9
    shared_g: bool = True
    tied: bool = False

    inputs = ("corpus_tokens", "model_size")
    output = "loss"
    reference = "Hernandez et al. 2021, arXiv:2102.01293; Arrow et al. 1961"

    def __post_init__(self) -> None:
        powers = ("g",) if self.shared_g else tuple(f"g[{corpus}]" for corpus in self.corpora)
        k, q = Coefficient("k", -1.5, 1.5, prior=(0.0, 0.3)), Coefficient("q", 0.0, 1.5, prior=(0.3, 0.3))
        coefficients = (
            *(_factor(f"m[{corpus}]", 1e-3, 1e3, 1.0, 1.5) for corpus in self.corpora),
            *(Coefficient(name, 0.1, 1.5, prior=(0.6, 0.25)) for name in powers),
            _factor("eps", 1e-4, 10.0, 0.05, 1.5),
            Coefficient("B", 1e-2, 20.0, log=True),
            _factor("beta", 0.02, 8.0, 0.6, 0.7),
            k,
            *(() if self.tied else (q,)),
        )
        self._declare(coefficients=coefficients, decreasing=("corpus_tokens",) if self.tied else ())

    def __call__(self, theta: Array, columns: Columns) -> Array:
        at = self._read(theta, columns)
        worth = np.exp(at.g * np.log(at.m * (at.share + at.floor))) - np.exp(at.g * np.log(at.m * at.floor))
        scaled = (worth * np.exp(at.q * at.tokens[..., None])).sum(-1) * np.exp(at.k * at.size)
        return at.B * np.exp(-at.beta * np.log(at.eps + scaled))

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        at = self._read(theta, columns)
        log_used, log_floor = np.log(at.m * (at.share + at.floor)), np.log(at.m * at.floor)
        scale = np.exp(at.q * at.tokens[..., None] + (at.k * at.size)[..., None])
        used, floor = np.exp(at.g * log_used) * scale, np.exp(at.g * log_floor) * scale
        worth = used - floor
        total = worth.sum(-1)
        log_sum = np.log(at.eps + total)
        loss = at.B * np.exp(-at.beta * log_sum)
        by_sum = -at.beta * loss / (at.eps + total)
        by_g = used * log_used - floor * log_floor
        by_q = worth * at.tokens[..., None]
        if self.tied:
            by_g = by_g + by_q
        by_g = by_g.sum(-1, keepdims=True) if self.shared_g else by_g
        blocks = [
            by_sum[..., None] * at.g * worth / at.m,
            by_sum[..., None] * by_g,
            by_sum[..., None],
            (loss / at.B)[..., None],
            (-loss * log_sum)[..., None],
            (by_sum * total * at.size)[..., None],
            *(() if self.tied else ((by_sum * by_q.sum(-1))[..., None],)),
        ]
        return loss, np.concatenate([np.broadcast_to(b, (*loss.shape, b.shape[-1])) for b in blocks], -1)

    def _read(self, theta: Array, columns: Columns) -> "_At":
        m = len(self.corpora)
        n = m + (1 if self.shared_g else m)
        seen = columns["corpus_tokens"]
        total = seen.sum(-1)
        tokens = np.log(total / self.tokens_unit)
        g = theta[..., None, m:n]
        eps, B, beta, k = (theta[..., n + i : n + i + 1] for i in range(4))
        return _At(
            m=theta[..., None, :m],
            g=g,
            q=g if self.tied else theta[..., None, n + 4 :],
            eps=eps,
            B=B,
            beta=beta,
            k=k,
            share=seen / total[..., None],
            # Where the tokens of a corpus are all that counts, so does the floor: a millionth of the unit.
            floor=_FLOOR * np.exp(-tokens)[..., None] if self.tied else np.full(1, _FLOOR),
            tokens=tokens,
            size=np.log(columns["model_size"] / self.size_unit),
        )


class _At(NamedTuple):
    """Coefficients with a corpus axis (m, g, q) or without, shares, and logs of tokens and size in their units."""

    m: Array
    g: Array
    q: Array
    eps: Array
    B: Array
    beta: Array
    k: Array
    share: Array
    floor: Array
    tokens: Array
    size: Array


def exchange_with_size(
    corpora: Sequence[str], *, tokens_unit: float, size_unit: float, shared_g: bool = False, floor: Law | None = None
) -> Law:
    r"""The loss of runs of several sizes, lengths and mixtures, checkpoints along a run included.

    .. math:: L = E + A\,(N / u_N)^{-\alpha} + \text{exchange}(h, D, N) + T\,(D / u_D)^{-\tau} (N / u_N)^{\kappa_T}

    `ExchangeWithSize` for what the mixture leaves over, `Undertraining` for what the length of the run does.
    The exponent of the size has a prior at Chinchilla's, .35 +- .15: two sizes of model cannot tell it from a floor.

    >>> law = exchange_with_size(["web", "code"], tokens_unit=1e10, size_unit=2e8)
    >>> print(*law.names)
    E A alpha m[web] m[code] g[web] g[code] eps B beta k q T tau kappa_T
    """
    size = PowerLaw("model_size", size_unit, "A", "alpha", _ALPHA_PRIOR)
    exchange = ExchangeWithSize(tuple(corpora), tokens_unit, size_unit, shared_g)
    return (Constant("E") if floor is None else floor) + size + exchange + Undertraining(tokens_unit, size_unit)


def _factor(name: str, lower: float, upper: float, center: float, sd: float) -> Coefficient:
    return Coefficient(name, lower, upper, log=True, prior=(float(np.log(center)), sd))


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (
        ExchangeWithSize(corpora, 1e8, 1e7),
        ExchangeWithSize(corpora, 1e8, 1e7, shared_g=False),
        ExchangeWithSize(corpora, 1e8, 1e7, tied=True),
        ExchangeWithSize(corpora, 1e8, 1e7, shared_g=False, tied=True),
        exchange_with_size(corpora, tokens_unit=1e8, size_unit=1e7),
    )
