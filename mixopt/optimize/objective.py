"""The weighted target loss of a decision, with its gradient by the complex step and its Hessian by differences."""

import numpy as np

from mixopt.columns import Array
from mixopt.laws.law import NUDGE
from mixopt.optimize.problem import Problem


def target_losses(problem: Problem, x: Array) -> Array:
    """Loss of each target at each decision: [k, n] for `x` [n, d]; complex where `x` is."""
    columns = problem.columns(x)
    n = len(columns["mixture"])
    losses = np.empty((len(problem.targets), n), dtype=x.dtype)
    # A law may take a logarithm of a zero share; what is not finite is refused by whoever asked.
    with np.errstate(all="ignore"):
        for law, theta, places in problem.laws:
            losses[places] = np.broadcast_to(law(theta, columns), (len(places), n))
    return losses


def weighted_losses(problem: Problem, x: Array) -> Array:
    """Weighted target loss of each decision, [n]."""
    return problem.target_weights @ target_losses(problem, x)


def gradients(problem: Problem, x: Array) -> tuple[Array, Array]:
    """Weighted loss [n] and its gradient [n, d] at the decisions `x` [n, d].

    One complex call: each decision becomes d rows, row j with variable j nudged.
    """
    n, d = x.shape
    nudged = x[:, None, :] + 1j * NUDGE * np.eye(d)
    values = weighted_losses(problem, nudged.reshape(n * d, d)).reshape(n, d)
    return np.real(values[:, 0]), np.imag(values) / NUDGE


def gradient(problem: Problem, x: Array) -> tuple[float, Array]:
    """Weighted loss and its gradient [d] at one decision."""
    values, slopes = gradients(problem, x[None])
    return float(values[0]), slopes[0]


def hessian(problem: Problem, x: Array) -> Array:
    """Second derivatives [d, d] of the weighted loss: central differences of the exact gradient, in one call.

    A share is moved by a ten-thousandth of itself, since laws of effective tokens bend sharply near zero.
    """
    m, d = len(problem.corpora), len(x)
    step = np.full(d, 1e-4)
    step[:m] *= np.maximum(x[:m], 1e-8)
    _, slopes = gradients(problem, np.concatenate([x + np.diag(step), x - np.diag(step)]))
    second = (slopes[:d] - slopes[d:]) / (2 * step[:, None])
    return (second + second.T) / 2
