r"""What it costs to train at another learning rate and batch size than the best."""

from dataclasses import dataclass
from math import log

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

_WEIGHT = (log(0.03), 1.0)


@dataclass(frozen=True)
class TuningPenalty(Law):
    r"""The loss that a learning rate and a batch size off their optimum add: too large costs more than too small.

    .. math::
        L = (D / u_D)^{-s} \left[ n\, g(n_\eta x - n_B z) + f\, g(f_B z) + r\, g(r_\eta x + r_B z) \right],
        \qquad g(u) = e^u - 1 - u

    .. math::
        x = \log \eta / \eta^*, \quad \eta^* = \eta_0 (N / u_N)^{p_N} (D / u_D)^{p_D}, \qquad
        z = \log B / B^*, \quad B^* = B_0 (N / u_N)^{q_N} (D / u_D)^{q_D}

    Three things go wrong away from the best setting: updates are noisy (:math:`n`: a high rate at a small batch),
    few (:math:`f`: a large batch), or unstable (:math:`r`: a high rate). Each costs exponentially in the log of
    what is too large and only linearly in the log of what is too small, so the surface is convex, skewed, and zero at
    its one optimum. The longer the run, the less there is to lose.

    Parameters
    ----------
    size_unit, tokens_unit : parameters and tokens at which lr0 and batch0 are defined, best inside the runs' range
    batch_unit : tokens; about where the best batch is looked for, within a factor of 4.5 (1 sd)

    Inputs
    ------
    peak_lr : [n], :math:`\eta`
    batch_tokens : [n], tokens in one optimizer step, :math:`B`
    tokens, model_size : [n], tokens and parameters of the run, :math:`D, N`

    Coefficients
    ------------
    lr0 : best learning rate at the units, in [1e-5, 1], searched in log; prior .003, within a factor of 7
    p_size, p_tokens : in [-1.5, .5] and [-.5, 1]; priors -.5 +- .3, .1 +- .3. Published: -.713, .307
    batch0 : tokens, best batch at the units, in [1e-3, 1e3] batch_unit, searched in log
    q_size, q_tokens : in [-1, 1] and [-.2, 1.2]; priors 0 +- .2, .5 +- .2. Published: 0, .571
    ease : :math:`s`, in [-1, 1]; prior 0 +- .3
    noisy, few, unstable : nats, :math:`n, f, r`, in [1e-4, 1], searched in log; priors .03, within a factor of 2.7
    noisy_lr, noisy_batch, few_batch, unstable_lr, unstable_batch : in [0, 4]; priors .5 and 1 for rates, 0 for
        unstable_batch, .5 for the others, each +- .5

    References
    ----------
    Li et al., *Predictable Scale: Part I, Step Law*, 2025, arXiv:2503.04715, for the two optima and their convexity.

    Examples
    --------
    Four times the best learning rate costs twice as much as a quarter of it:

    >>> law = TuningPenalty(size_unit=3e8, tokens_unit=2e10)
    >>> run = {"peak_lr": 2e-3 * np.array([0.25, 1.0, 4.0]), "batch_tokens": np.full(3, 4e5)}
    >>> theta = np.array([2e-3, -0.6, 0.24, 4e5, -0.1, 0.56, 0.17, 0.1, 0.34, 0.53, 0.007, 0.9, 0.033, 0.91, 0.12])
    >>> law(theta, {**run, "tokens": np.full(3, 2e10), "model_size": np.full(3, 3e8)}).round(3)
    array([0.028, 0.   , 0.055])
    """

    size_unit: float = 1e8
    tokens_unit: float = 1e9
    batch_unit: float = 5e5

    inputs = ("peak_lr", "batch_tokens", "tokens", "model_size")
    output = "loss"
    published = {  # noqa: RUF012
        "lr0": 2.05e-3,
        "p_size": -0.713,
        "p_tokens": 0.307,
        "batch0": 79_900.0,
        "q_size": 0.0,
        "q_tokens": 0.571,
    }
    reference = "Li et al. 2025, arXiv:2503.04715"

    def __post_init__(self) -> None:
        b = self.batch_unit
        optimum = (
            Coefficient("lr0", 1e-5, 1.0, log=True, prior=(log(3e-3), 2.0)),
            Coefficient("p_size", -1.5, 0.5, prior=(-0.5, 0.3)),
            Coefficient("p_tokens", -0.5, 1.0, prior=(0.1, 0.3)),
            Coefficient("batch0", 1e-3 * b, 1e3 * b, log=True, prior=(log(b), 1.5)),
            Coefficient("q_size", -1.0, 1.0, prior=(0.0, 0.2)),
            Coefficient("q_tokens", -0.2, 1.2, prior=(0.5, 0.2)),
        )
        shape = (
            Coefficient("ease", -1.0, 1.0, prior=(0.0, 0.3)),
            Coefficient("noisy", 1e-4, 1.0, log=True, prior=_WEIGHT),
            _power("noisy_lr", 0.5),
            _power("noisy_batch", 0.5),
            Coefficient("few", 1e-4, 1.0, log=True, prior=_WEIGHT),
            _power("few_batch", 0.5),
            Coefficient("unstable", 1e-4, 1.0, log=True, prior=_WEIGHT),
            _power("unstable_lr", 1.0),
            _power("unstable_batch", 0.0),
        )
        self._declare(coefficients=optimum + shape)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        lr, batch = self.log_optimum(theta, columns)
        x, z = np.log(columns["peak_lr"]) - lr, np.log(columns["batch_tokens"]) - batch
        s, n, n_lr, n_b, f, f_b, r, r_lr, r_b = (theta[..., i : i + 1] for i in range(6, 15))
        cost = n * _skewed(n_lr * x - n_b * z) + f * _skewed(f_b * z) + r * _skewed(r_lr * x + r_b * z)
        return cost * np.exp(-s * np.log(columns["tokens"] / self.tokens_unit))

    def log_optimum(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        """Logs of the best peak learning rate and of the best batch in tokens, `[*s, n]` each."""
        size = np.log(columns["model_size"] / self.size_unit)
        tokens = np.log(columns["tokens"] / self.tokens_unit)
        lr = np.log(theta[..., :1]) + theta[..., 1:2] * size + theta[..., 2:3] * tokens
        return lr, np.log(theta[..., 3:4]) + theta[..., 4:5] * size + theta[..., 5:6] * tokens


def _power(name: str, center: float) -> Coefficient:
    return Coefficient(name, 0.0, 4.0, prior=(center, 0.5))


def _skewed(u: Array) -> Array:
    """e^u - 1 - u: a parabola u^2 / 2 near 0, exponential above, linear below."""
    return np.exp(u) - 1 - u


def examples() -> tuple[Law, ...]:
    return (TuningPenalty(1e7, 1e8, 1e5),)
