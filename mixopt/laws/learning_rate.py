r"""What a learning rate off its optimum costs, and where the optimum is."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

# Step Law: lr* = 1.79 N^-.713 D^.307 at its own batch B* = .58 D^.571. A square-root rule for the batch carries
# .571 / 2 of the power of D with it, which leaves .307 - .285 = .02 for D at a given batch.
_BATCH = Coefficient("p_batch", -0.5, 1.5, prior=(0.5, 0.2))
_TOKENS = Coefficient("p_tokens", -1.0, 1.0, prior=(0.02, 0.06))
_SIZE = Coefficient("p_size", -1.5, 0.5, prior=(-0.713, 0.15))


@dataclass(frozen=True)
class OptimalLearningRate(Law):
    r"""The peak learning rate that is best for a run.

    .. math:: \eta^* = \eta_0 \, (B / u_B)^{p_B} (D / u_D)^{p_D} (N / u_N)^{p_N}

    Larger batches carry less noise and bear larger steps. The power of the size is left out by default: the learning
    rates of proxies are transferred between widths by muP, which makes the optimum the same for all sizes. Give
    `size_unit` where models are parametrized in the standard way.

    As a substitution it takes the learning rate out of a problem: ``OptimalLearningRate(...).fix(...) >> loss``.

    Parameters
    ----------
    batch_unit, tokens_unit : tokens; where lr0 is defined, best inside the range of the runs
    size_unit : parameters; None leaves out the size

    Inputs
    ------
    batch_tokens : [n], tokens in one optimizer step, :math:`B`
    tokens : [n], tokens of the run, :math:`D`
    model_size : [n], parameters, :math:`N`; only with `size_unit`

    Output
    ------
    peak_lr : [n]

    Coefficients
    ------------
    lr0 : in [1e-5, 1], searched in log; prior .003, within a factor of 7
    p_batch : in [-.5, 1.5]; prior .5 +- .2, between no scaling and the linear rule
    p_tokens : in [-1, 1]; prior .02 +- .06. Published: .307 along the best batch, which itself grows as D^.571; what
        is left at a given batch under the square-root rule is .02
    p_size : in [-1.5, .5]; prior -.713 +- .15. Published: -.713

    References
    ----------
    Li et al., *Predictable Scale: Part I, Step Law*, 2025, arXiv:2503.04715, equation 1.
    Malladi et al., *On the SDEs and Scaling Rules for Adaptive Gradient Algorithms*, 2022, arXiv:2205.10287, for the
    square root of the batch.
    Yang et al., *Tensor Programs V*, 2022, arXiv:2203.03466, for muP.

    Examples
    --------
    Step Law for 1B parameters and 20B tokens, at its own batch of about 450k tokens:

    >>> law = OptimalLearningRate(batch_unit=0.58, tokens_unit=1.0, size_unit=1.0)
    >>> theta = np.array([1.79, 0.0, 0.307, -0.713])
    >>> run = {"batch_tokens": np.array([4.5e5]), "tokens": np.array([20e9]), "model_size": np.array([1e9])}
    >>> law(theta, run).round(4)
    array([0.001])
    """

    batch_unit: float = 5e5
    tokens_unit: float = 1e9
    size_unit: float | None = None

    output = "peak_lr"
    published = {"p_size": -0.713}  # noqa: RUF012
    reference = "Li et al. 2025, arXiv:2503.04715"

    def __post_init__(self) -> None:
        lr0 = Coefficient("lr0", 1e-5, 1.0, log=True, prior=(float(np.log(3e-3)), 2.0))
        if self.size_unit is None:
            self._declare(inputs=("batch_tokens", "tokens"), coefficients=(lr0, _BATCH, _TOKENS))
        else:
            inputs = ("batch_tokens", "tokens", "model_size")
            self._declare(inputs=inputs, coefficients=(lr0, _BATCH, _TOKENS, _SIZE))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return np.exp(self.log_optimum(theta, columns))

    def log_optimum(self, theta: Array, columns: Columns) -> Array:
        """log of the best peak learning rate, `[*s, n]`."""
        log = np.log(theta[..., :1]) + theta[..., 1:2] * np.log(columns["batch_tokens"] / self.batch_unit)
        log = log + theta[..., 2:3] * np.log(columns["tokens"] / self.tokens_unit)
        if self.size_unit is None:
            return log
        return log + theta[..., 3:4] * np.log(columns["model_size"] / self.size_unit)


@dataclass(frozen=True)
class LearningRatePenalty(Law):
    r"""The loss that a learning rate off its optimum adds.

    .. math:: L = c \, (\log \eta - \log \eta^*)^2, \qquad
        \eta^* = \eta_0 \, (B / u_B)^{p_B} (D / u_D)^{p_D} (N / u_N)^{p_N}

    A parabola in log learning rate: a factor of 2 too high costs as much as a factor of 2 too low, and ten times
    closer costs a hundred times less. Parameters, the optimum and its references are those of `OptimalLearningRate`.

    Inputs
    ------
    peak_lr : [n], :math:`\eta`
    batch_tokens : [n], tokens in one optimizer step, :math:`B`
    tokens : [n], tokens of the run, :math:`D`
    model_size : [n], parameters, :math:`N`; only with `size_unit`

    Coefficients
    ------------
    c : nats per squared factor of e, in [.0003, 3], searched in log; prior .05, within a factor of 2.7
    lr0, p_batch, p_tokens, p_size : as in `OptimalLearningRate`

    Examples
    --------
    Twice the best learning rate costs .014 nats when c is .03:

    >>> law = LearningRatePenalty(batch_unit=5e5, tokens_unit=1e9)
    >>> run = {"peak_lr": np.array([6e-3]), "batch_tokens": np.array([5e5]), "tokens": np.array([1e9])}
    >>> law(np.array([0.03, 3e-3, 0.5, 0.0]), run).round(3)
    array([0.014])
    """

    batch_unit: float = 5e5
    tokens_unit: float = 1e9
    size_unit: float | None = None

    output = "loss"
    published = {"p_size": -0.713}  # noqa: RUF012
    reference = "Li et al. 2025, arXiv:2503.04715"

    def __post_init__(self) -> None:
        c = Coefficient("c", 3e-4, 3.0, log=True, prior=(float(np.log(0.05)), 1.0))
        optimum = self.optimum
        self._declare(inputs=("peak_lr", *optimum.inputs), coefficients=(c, *optimum.coefficients))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        off = np.log(columns["peak_lr"]) - self.optimum.log_optimum(theta[..., 1:], columns)
        return theta[..., :1] * off * off

    @property
    def optimum(self) -> OptimalLearningRate:
        """The law of the bottom of the parabola; its coefficients are this law's without `c`."""
        return OptimalLearningRate(self.batch_unit, self.tokens_unit, self.size_unit)


def examples() -> tuple[Law, ...]:
    units = {"batch_unit": 1e5, "tokens_unit": 1e8}
    return (
        OptimalLearningRate(**units),
        LearningRatePenalty(**units),
        LearningRatePenalty(**units, size_unit=1e7),
    )
