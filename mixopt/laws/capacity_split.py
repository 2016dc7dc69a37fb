r"""What a corpus gets of a model's capacity when all corpora compete for it."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law, logsumexp

# A corpus that is not trained on gets the capacity and the tokens of one with this share, so that its loss is finite.
_LEAST_SHARE = 1e-4
# Newton on a convex function whose slopes lie within a factor of 3: monotone after the first step, then quadratic.
_STEPS = 12


@dataclass(frozen=True)
class CapacitySplit(Law):
    r"""The loss on one of the corpora trained on, when training splits the model's capacity as is best for all.

    .. math:: L_t = E + A \left(D h_t / u_D\right)^{-a} + c_t \left(x_t / u_N\right)^{-b_t},
        \qquad x = \arg\min_{\sum_i x_i = N} \sum_i h_i c_i (x_i / u_N)^{-b_i}

    A model is a fixed amount of capacity, and training spends it where it lowers the average loss most: more for large
    shares and for corpora that pay for it. So a corpus is crowded out by the others, the more the smaller the model.
    The split satisfies :math:`h_i c_i b_i x_i^{-b_i - 1} = \lambda` for all corpora; :math:`\log \lambda` is found by
    Newton's method, and its derivative by one more, complex step of it (the implicit function theorem).

    Parameters
    ----------
    corpora : names, in the order of the columns
    target : the corpus that the loss is of
    tokens_unit, size_unit : tokens and parameters where :math:`A` and :math:`c` are defined

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`; shares below 1e-4 count as 1e-4
    model_size : [n], parameters, :math:`N`
    tokens : [n], tokens, :math:`D`

    Coefficients
    ------------
    c[corpus] : nats per token at one unit of capacity, in [.01, 20], searched in log; prior .5, within a factor of 2.7
    b[corpus] : in [.02, 2]; prior .35 +- .2
    A : nats per token at one unit of tokens, in [1e-3, 10], searched in log
    a : in [.02, 2]; prior .37 +- .2
    E : nats per token, in [.1, 5], searched in log

    References
    ----------
    Dai and Zheng, *Explaining Data Mixing Scaling Laws*, 2026, arXiv:2606.08167.

    Examples
    --------
    Two corpora alike share the capacity in proportion to h^(1 / (1 + b)): with 4 times the share at b = 1 one has
    twice the capacity, 2/3 of it against 1/3, and half the loss of it:

    >>> law = CapacitySplit(("web", "code"), "web", tokens_unit=1e9, size_unit=1e8)
    >>> theta = np.array([0.5, 0.5, 1.0, 1.0, 0.001, 0.3, 1.0])
    >>> runs = {"mixture": np.array([[0.8, 0.2], [0.2, 0.8]]), "model_size": np.full(2, 1e8), "tokens": np.full(2, 1e9)}
    >>> law(theta, runs).round(2)
    array([1.75, 2.5 ])
    """

    corpora: tuple[str, ...]
    target: str
    tokens_unit: float
    size_unit: float

    inputs = ("mixture", "model_size", "tokens")
    output = "loss"
    decreasing = ("model_size", "tokens")
    reference = "Dai and Zheng 2026, arXiv:2606.08167"

    def __post_init__(self) -> None:
        if self.target not in self.corpora:
            raise ValueError(f"target is {self.target!r}; give one of the corpora: {', '.join(self.corpora)}.")
        prior = (float(np.log(0.5)), 1.0)
        coefficients = (
            *(Coefficient(f"c[{name}]", 1e-2, 20.0, log=True, prior=prior) for name in self.corpora),
            *(Coefficient(f"b[{name}]", 0.02, 2.0, prior=(0.35, 0.2)) for name in self.corpora),
            Coefficient("A", 1e-3, 10.0, log=True),
            Coefficient("a", 0.02, 2.0, prior=(0.37, 0.2)),
            Coefficient("E", 0.1, 5.0, log=True),
        )
        self._declare(coefficients=coefficients)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        m, at = len(self.corpora), self.corpora.index(self.target)
        A, a, E = (theta[..., 2 * m + i : 2 * m + i + 1] for i in range(3))
        share = _at_least(columns["mixture"][..., at], _LEAST_SHARE)
        data = A * np.exp(-a * np.log(columns["tokens"] * share / self.tokens_unit))
        capacity = self._log_capacity(theta, columns)[..., at]
        return E + data + theta[..., at : at + 1] * np.exp(-theta[..., m + at : m + at + 1] * capacity)

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        # By hand: the split is solved for once, where the complex step solves for it once a coefficient.
        m, at = len(self.corpora), self.corpora.index(self.target)
        c, b, (A, a) = theta[..., None, :m], theta[..., None, m : 2 * m], (theta[..., 2 * m + i, None] for i in (0, 1))
        log_x = self._log_capacity(theta, columns)
        log_tokens = np.log(columns["tokens"] * _at_least(columns["mixture"][..., at], _LEAST_SHARE) / self.tokens_unit)
        data, power = np.exp(-a * log_tokens), 1 / (1 + b)
        crowded = np.exp(log_x - logsumexp(log_x)[..., None]) * power
        crowded = crowded / crowded.sum(-1, keepdims=True)
        own = np.arange(m) == at
        # log x_t by log c, and by b, of each corpus: its own demand, less the price that all pay for its demand.
        by_demand = power[..., at, None] * (own - crowded)
        by_b = by_demand * (1 / b - log_x)
        excess = c[..., at] * np.exp(-b[..., at] * log_x[..., at])
        through = -(b[..., at] * excess)[..., None]
        blocks = [
            (through * by_demand + own * excess[..., None]) / c,
            through * by_b - own * (excess * log_x[..., at])[..., None],
            data[..., None],
            (-A * data * log_tokens)[..., None],
            np.ones(1),
        ]
        loss = theta[..., 2 * m + 2, None] + A * data + excess
        return loss, np.concatenate([np.broadcast_to(block, (*loss.shape, block.shape[-1])) for block in blocks], -1)

    def capacity(self, theta: Array, columns: Columns) -> Array:
        """Parameters that each corpus gets, `[*s, n, m]`; they add up to the model's size.

        >>> law = CapacitySplit(("web", "code"), "web", tokens_unit=1e9, size_unit=1e8)
        >>> theta = np.array([0.5, 0.5, 1.0, 1.0, 0.001, 0.3, 1.0])
        >>> law.capacity(theta, {"mixture": np.array([[0.8, 0.2]]), "model_size": np.array([3e8])}).round()
        array([[2.e+08, 1.e+08]])
        """
        return self.size_unit * np.exp(self._log_capacity(theta, columns))

    def _log_capacity(self, theta: Array, columns: Columns) -> Array:
        """log(x / u_N) of each corpus: (log(h c b) - log lambda) / (1 + b)."""
        m = len(self.corpora)
        c, b = theta[..., None, :m], theta[..., None, m : 2 * m]
        value = np.log(_at_least(columns["mixture"], _LEAST_SHARE) * c * b)
        size = np.log(columns["model_size"] / self.size_unit)
        power = 1 / (1 + b)
        price = np.zeros(np.broadcast_shapes(value.shape[:-1], size.shape))
        for _ in range(_STEPS):
            price = price - _excess(price, np.real(value), np.real(power), np.real(size))
        price = price - _excess(price, value, power, size)
        return power * (value - price[..., None])


def _excess(price: Array, value: Array, power: Array, size: Array) -> Array:
    """Newton's step: log of the capacity asked for at a log price over the capacity there is, by its slope."""
    asked = power * (value - price[..., None])
    total = logsumexp(asked)
    slope = -(np.exp(np.real(asked - total[..., None])) * np.real(power)).sum(-1)
    return (total - size) / slope


def _at_least(x: Array, least: float) -> Array:
    return np.where(np.real(x) > least, x, least)


def examples() -> tuple[Law, ...]:
    return (CapacitySplit(("web", "code", "math"), "code", 1e8, 1e7),)
