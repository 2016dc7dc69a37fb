r"""The loss of a model of a given size after a given number of steps of a given batch."""

from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.power_law import PowerLaw


def three_term(*, size_unit: float = 1e9, steps_unit: float = 1e4, batch_unit: float = 5e5) -> Law:
    r"""The loss as a sum of what the text, the model, the number of updates and their noise leave over.

    .. math:: L = E + A \, (N / u_N)^{-\alpha} + B \, (S / u_S)^{-\beta} + C \, (B_t / u_B)^{-\gamma}

    Tokens are steps times batch, :math:`D = S B_t`, and the two are not worth the same: more steps take the model
    further, a larger batch makes each step less noisy. For a given number of tokens one batch is best, and it grows
    as :math:`D^{\beta / (\beta + \gamma)}`.

    Parameters
    ----------
    size_unit, steps_unit, batch_unit : where :math:`A`, :math:`B` and :math:`C` are defined: parameters, optimizer
        steps, and tokens in one step

    Inputs
    ------
    model_size : [n], parameters, :math:`N`
    steps : [n], optimizer steps, :math:`S`
    batch_tokens : [n], tokens in one optimizer step, :math:`B_t`

    Coefficients
    ------------
    E, A, alpha, B, beta, C, gamma : boxes as in `Constant` and `PowerLaw`

    References
    ----------
    Schaipp, *How to Allocate Your Tokens? Scaling Laws with Training Steps and Batch Size*, 2026, arXiv:2607.01487.

    Examples
    --------
    Twice the batch at half the steps, when both exponents are 1/2: what noise loses, fewer steps more than give back.

    >>> import numpy as np
    >>> law = three_term()
    >>> run = {"model_size": np.full(2, 1e9), "steps": np.array([1e4, 5e3]), "batch_tokens": np.array([5e5, 1e6])}
    >>> law(np.array([1.7, 0.4, 0.35, 0.2, 0.5, 0.05, 0.5]), run).round(3)
    array([2.35 , 2.418])
    """
    size = PowerLaw("model_size", size_unit, "A", "alpha")
    updates = PowerLaw("steps", steps_unit, "B", "beta")
    return Constant("E") + size + updates + PowerLaw("batch_tokens", batch_unit, "C", "gamma")


def examples() -> tuple[Law, ...]:
    return (three_term(size_unit=1e7, steps_unit=1e3, batch_unit=1e5),)
