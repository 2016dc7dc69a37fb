r"""What a token of one corpus is worth to a target, in tokens of another."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class TokenExchange(Law):
    r"""The excess loss of a target as a power law of what all corpora together are worth to it.

    .. math:: L = B \left(\epsilon + \sum_i \left[(m_i (x_i + f))^{g_i} - (m_i f)^{g_i}\right]\right)^{-\beta},
        \qquad x_i = D_i / u, \quad 0 < g_i \le 1

    A token of corpus i is worth :math:`m_i` tokens to the target, with diminishing returns: at :math:`g < 1` the first
    tokens of a corpus teach more than the last, so a mixture beats the best corpus alone. With :math:`g = 1`
    (``law.fix(g=1)``) tokens are exchanged at constant rates. :math:`\epsilon` is what the target learns anyway.

    Rates are relative: multiplying all of them by a constant is the same as changing :math:`B` and :math:`\epsilon`.
    Their priors are centered on 1, so :math:`B` is the excess loss after about one unit of tokens. Hence rates
    measured with a cheaper model are needed up to a common factor only, and B takes up the factor between the models.

    :math:`x^g` has an infinite slope at 0, where optimizers walk. Adding :math:`f`, a millionth of the unit, keeps it
    finite: it is the slope at the first token where the unit is 1e6 tokens. A corpus not used adds exactly nothing.

    Parameters
    ----------
    corpora : names, in the order of the columns
    unit : tokens; best near the tokens of the runs
    shared_g : one g for all corpora (with few runs the better choice), or one for each
    rates : rates known beforehand, in the order of `corpora`, up to a common factor; None knows nothing
    rates_sd : how far log rates are expected to lie from `rates`, or without them from a common value

    Inputs
    ------
    corpus_tokens : [n, m], effective tokens of each corpus, :math:`D_i`; may be 0

    Coefficients
    ------------
    m[corpus] : tokens per token, in [.001, 1000], searched in log; prior 1, within `rates_sd`. With `rates` it is
        d[corpus] instead, the factor by which the rate differs from that given; `exchange_rates` gives their product
    g, or g[corpus] : in [.1, 1]; prior .6 +- .25
    eps : in [1e-4, 10], searched in log; prior .05, within a factor of 4.5
    B : nats per token, in [.01, 20], searched in log
    beta : in [.02, 5], searched in log; prior .6, within a factor of 2. With one corpus only g * beta shows, which
        Chinchilla puts at .37 (Besiroglu et al. 2024)

    References
    ----------
    The sum is the constant-elasticity aggregate of Arrow et al., *Capital-Labor Substitution and Economic Efficiency*,
    1961; effective data as a discounted sum over corpora follows Hernandez et al., *Scaling Laws for Transfer*, 2021,
    arXiv:2102.01293.

    Examples
    --------
    For a code target code is worth 4 times as much as web, yet 20 % web beats pure code by .05 nats: the first web
    tokens teach what code repeats.

    >>> law = TokenExchange(("web", "code"), unit=1e9)
    >>> theta = np.array([0.5, 2.0, 0.5, 0.05, 1.0, 0.6])
    >>> law(theta, {"corpus_tokens": np.array([[1e9, 0.0], [0.2e9, 0.8e9], [0.0, 1e9]])}).round(3)
    array([1.182, 0.746, 0.796])
    """

    corpora: tuple[str, ...]
    unit: float = 1e9
    shared_g: bool = True
    rates: tuple[float, ...] | None = None
    rates_sd: float = 1.5
    floor: float = 1e-6

    inputs = ("corpus_tokens",)
    output = "loss"
    decreasing = ("corpus_tokens",)
    reference = "Hernandez et al. 2021, arXiv:2102.01293; Arrow et al. 1961"

    def __post_init__(self) -> None:
        if self.rates is not None and (len(self.rates) != len(self.corpora) or not min(self.rates) > 0):
            raise ValueError(
                f"rates are {self.rates}; give one positive rate for each of {', '.join(self.corpora)}, in that order."
            )
        letter = "m" if self.rates is None else "d"
        m = tuple(_factor(f"{letter}[{corpus}]", 1e-3, 1e3, 1.0, self.rates_sd) for corpus in self.corpora)
        powers = ("g",) if self.shared_g else tuple(f"g[{corpus}]" for corpus in self.corpora)
        g = tuple(Coefficient(name, 0.1, 1.0, prior=(0.6, 0.25)) for name in powers)
        eps, beta = _factor("eps", 1e-4, 10.0, 0.05, 1.5), _factor("beta", 0.02, 5.0, 0.6, 0.7)
        self._declare(coefficients=(*m, *g, eps, Coefficient("B", 1e-2, 20.0, log=True), beta))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        eps, B, beta = theta[..., -3:-2], theta[..., -2:-1], theta[..., -1:]
        g = theta[..., None, len(self.corpora) : -3]
        m = self.exchange_rates(theta)[..., None, :]
        x = columns["corpus_tokens"] / self.unit
        worth = np.exp(g * np.log(m * (x + self.floor))) - np.exp(g * np.log(m * self.floor))
        return B * np.exp(-beta * np.log(eps + worth.sum(-1)))

    def exchange_rates(self, theta: Array) -> Array:
        """What a token of each corpus is worth, `[*s, m]`; only ratios between corpora mean something.

        Code known from a cheap model to be worth 4 times as much as web, and found here to be worth twice that:

        >>> law = TokenExchange(("web", "code"), rates=(0.5, 2.0))
        >>> law.exchange_rates(np.array([1.0, 2.0, 0.5, 0.05, 1.0, 0.6]))
        array([0.5, 4. ])
        """
        factors = theta[..., : len(self.corpora)]
        if self.rates is None:
            return factors
        known = np.log(self.rates)
        return factors * np.exp(known - known.mean())


def _factor(name: str, lower: float, upper: float, center: float, sd: float) -> Coefficient:
    return Coefficient(name, lower, upper, log=True, prior=(float(np.log(center)), sd))


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (
        TokenExchange(corpora, unit=1e8),
        TokenExchange(corpora, unit=1e8, shared_g=False),
        TokenExchange(corpora, unit=1e8, rates=(1.0, 4.0, 0.3), rates_sd=0.7),
        TokenExchange(corpora, unit=1e8).fix(g=1.0),
    )
