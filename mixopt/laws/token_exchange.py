r"""What a token of one corpus is worth to a target, in tokens of another."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


class _Worth(NamedTuple):
    """What each corpus is worth to the target with the tokens used and with none, on either side of the power g."""

    g: Array
    log_used: Array
    used: Array
    log_unused: Array | float
    unused: Array


@dataclass(frozen=True)
class TokenExchange(Law):
    r"""The excess loss of a target as a power law of what all corpora together are worth to it.

    .. math:: L = B \left(\epsilon + \sum_i \left[(m_i (x_i + f))^g - (m_i f)^g\right]\right)^{-\beta}
        e^{\sum_i t_i h_i}, \qquad x_i = D_i / u, \quad 0 < g \le 1

    A token of corpus i is worth :math:`m_i` tokens to the target, with diminishing returns: at :math:`g < 1` the first
    tokens of a corpus teach more than the last, so a mixture beats the best corpus alone. With :math:`g = 1`
    (``law.fix(g=1)``) tokens are exchanged at constant rates. :math:`\epsilon` is what the target learns anyway.

    Rates are relative: multiplying all of them by a constant is the same as changing :math:`B` and :math:`\epsilon`.
    Their priors are centered on 1, so :math:`B` is the excess loss after about one unit of tokens. Hence rates
    measured with a cheaper model are needed up to a common factor only, and B takes up the factor between the models.

    With a power for each corpus (``shared_g=False``) rates stand outside of it, :math:`m_i (x_i + f)^{g_i}`: what one
    unit of tokens of corpus i is worth. Tokens with different powers have no rate that holds for all amounts.

    :math:`x^g` has an infinite slope at 0, where optimizers walk. Adding :math:`f`, a millionth of the unit, keeps it
    finite: it is the slope at the first token where the unit is 1e6 tokens. A corpus not used adds exactly nothing.
    Where shares are rounded, `floor` is best as large as the rounding, which cannot be told from nothing.

    Tokens of one corpus can also be in the way of another: a small model that learns medicine has less room for code.
    With `interference` a share of corpus i multiplies the excess loss by :math:`e^{t_i h_i}`; without it t is 0.

    Parameters
    ----------
    corpora : names, in the order of the columns
    unit : tokens; best near the tokens of the runs
    shared_g : one g for all corpora (with few runs the better choice), or one for each
    rates : rates known beforehand, in the order of `corpora`, up to a common factor; None knows nothing
    rates_sd : how far log rates are expected to lie from `rates`, or without them from a common value
    floor : :math:`f`, in units
    interference : whether shares also multiply the excess loss. It takes hundreds of mixtures to show; on the 512 of
        Liu et al. (2024, arXiv:2407.01492) it lowers the error on those held out by 8 %

    Inputs
    ------
    corpus_tokens : [n, m], effective tokens of each corpus, :math:`D_i`; may be 0
    mixture : [n, m], share of each corpus, :math:`h_i`; only with `interference`

    Coefficients
    ------------
    m[corpus] : tokens per token (with a power each, the worth of a unit), in [.001, 1000], searched in log; prior 1,
        within `rates_sd`. With `rates` it is d[corpus] instead, the factor by which the rate differs from that given;
        `exchange_rates` gives their product
    g, or g[corpus] : in [.1, 1]; prior .6 +- .25
    t[corpus] : log of the factor on the excess loss, in [-3, 3]; prior 0 +- .1. Only with `interference`
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
    interference: bool = False

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
        around = self.corpora if self.interference else ()
        t = tuple(Coefficient(f"t[{corpus}]", -3.0, 3.0, prior=(0.0, 0.1)) for corpus in around)
        eps, beta = _factor("eps", 1e-4, 10.0, 0.05, 1.5), _factor("beta", 0.02, 5.0, 0.6, 0.7)
        self._declare(
            inputs=("corpus_tokens", "mixture") if self.interference else ("corpus_tokens",),
            coefficients=(*m, *g, *t, eps, Coefficient("B", 1e-2, 20.0, log=True), beta),
        )

    def __call__(self, theta: Array, columns: Columns) -> Array:
        eps, _, beta = _ends(theta)
        worth = self._worth(theta, columns)
        return self._scale(theta, columns) * np.exp(-beta * np.log(eps + (worth.used - worth.unused).sum(-1)))

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        # By hand: one real exponential serves all coefficients, where the complex step takes a complex one for each.
        (eps, B, beta), (m, g, t) = _ends(theta), self._places()
        worth = self._worth(theta, columns)
        gained = worth.used - worth.unused
        total = eps + gained.sum(-1)
        log_total = np.log(total)
        value = self._scale(theta, columns) * np.exp(-beta * log_total)
        slopes = np.empty((*value.shape, theta.shape[-1]))
        slopes[..., m] = gained * ((worth.g if self.shared_g else 1.0) / theta[..., None, m])
        by_g = worth.used * worth.log_used - worth.unused * worth.log_unused
        slopes[..., g] = by_g.sum(-1, keepdims=True) if self.shared_g else by_g
        by_total = -beta * value / total
        slopes[..., : g.stop] *= by_total[..., None]
        slopes[..., -3] = by_total
        if self.interference:
            slopes[..., t] = value[..., None] * columns["mixture"]
        slopes[..., -2], slopes[..., -1] = value / B, -value * log_total
        return value, slopes

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        if name not in self.inputs:
            return super().partial(theta, columns, name)
        if name == "mixture":
            return self(theta, columns)[..., None] * theta[..., None, self._places()[2]]
        worth, (eps, _, beta) = self._worth(theta, columns), _ends(theta)
        total = eps + (worth.used - worth.unused).sum(-1)
        slope = -beta * self._scale(theta, columns) * np.exp(-(beta + 1) * np.log(total))
        return slope[..., None] * worth.g * worth.used / (columns[name] + self.floor * self.unit)

    def _places(self) -> tuple[slice, slice, slice]:
        """Where m, g and t are in `theta`."""
        count, end = len(self.corpora), len(self.coefficients) - 3
        start = count + (1 if self.shared_g else count)
        return slice(0, count), slice(count, start), slice(start, end)

    def _worth(self, theta: Array, columns: Columns) -> _Worth:
        g = theta[..., None, self._places()[1]]
        log_m = np.log(self.exchange_rates(theta))[..., None, :]
        log_used = np.log(columns["corpus_tokens"] / self.unit + self.floor)
        log_unused = np.log(self.floor)
        if self.shared_g:
            log_used, log_unused, factor = log_used + log_m, log_unused + log_m, 1.0
        else:
            factor = np.exp(log_m)
        return _Worth(g, log_used, factor * np.exp(g * log_used), log_unused, factor * np.exp(g * log_unused))

    def _scale(self, theta: Array, columns: Columns) -> Array:
        B = _ends(theta)[1]
        if not self.interference:
            return B
        return B * np.exp((theta[..., None, self._places()[2]] * columns["mixture"]).sum(-1))

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


def _ends(theta: Array) -> tuple[Array, Array, Array]:
    """eps, B and beta, `[*s, 1]` each."""
    return theta[..., -3:-2], theta[..., -2:-1], theta[..., -1:]


def _factor(name: str, lower: float, upper: float, center: float, sd: float) -> Coefficient:
    return Coefficient(name, lower, upper, log=True, prior=(float(np.log(center)), sd))


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (
        TokenExchange(corpora, unit=1e8),
        TokenExchange(corpora, unit=1e8, shared_g=False),
        TokenExchange(corpora, unit=1e8, rates=(1.0, 4.0, 0.3), rates_sd=0.7),
        TokenExchange(corpora, unit=1e8, shared_g=False, interference=True),
        TokenExchange(corpora, unit=1e8).fix(g=1.0),
    )
