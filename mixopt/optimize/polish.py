"""Newton steps on the active constraints: from where a quasi-Newton solver stops to the last digits."""

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.constraints import Constraints, inequalities, sum_slope
from mixopt.optimize.kkt import Certificate, certify
from mixopt.optimize.objective import gradient, hessian, weighted_losses
from mixopt.optimize.problem import Problem

HALVINGS = 0.5 ** np.arange(8)
# A loss that falls by more than this is progress, whatever the residual; the constraints must hold this well.
GAIN = 1e-9
VIOLATION = 1e-9


def polish(problem: Problem, x: Array, *, iterations: int = 20, tolerance: float = 1e-10) -> tuple[Array, Certificate]:
    """A decision with a smaller optimality residual than `x`, and its certificate; `x` itself where none is found.

    Each step solves the Newton equations on the constraints whose multiplier exceeds their slack, and those that would
    stop it short; it is halved until the loss falls, or the residual falls and the loss does not rise.
    """
    certificate = certify(problem, x)
    for _ in range(iterations):
        if not tolerance < certificate.residual < np.inf:
            break
        improved = _improve(problem, x, certificate)
        if improved is None:
            break
        x, certificate = improved
    return x, certificate


def _improve(problem: Problem, x: Array, certificate: Certificate) -> tuple[Array, Certificate] | None:
    step = _feasible_step(problem, x, certificate)
    before = float(weighted_losses(problem, x[None])[0])
    # Rounding must not stop it, and a decision outside the constraints must be allowed to pay for coming back in.
    allowed = before + 1e-12 * abs(before) + 10 * certificate.violation
    for halving in HALVINGS:
        trial = np.clip(x + halving * step, problem.lower, problem.upper)
        loss = float(weighted_losses(problem, trial[None])[0])
        if not loss <= allowed:
            continue
        found = certify(problem, trial)
        if found.residual < certificate.residual or (loss < before - GAIN and found.violation <= VIOLATION):
            return trial, found
    return None


def _feasible_step(problem: Problem, x: Array, certificate: Certificate) -> Array:
    """Newton step, cut where it would leave the constraints; one that stops it early joins the active ones."""
    rows = inequalities(problem, x)
    multipliers = np.array([certificate.multipliers[name] for name in rows.names])
    active = multipliers > -rows.values
    if problem.spend and "flops" in rows.names:
        active[0] = True
    slope = gradient(problem, x)[1]
    curvature = hessian(problem, x) + _cap_curvature(problem, x, rows, multipliers)
    while True:
        step = _newton_step(problem, x, rows, active, slope, curvature)
        toward = rows.slopes @ step
        hit = np.full(len(toward), np.inf)
        ahead = ~active & (toward > 0)
        hit[ahead] = np.maximum(-rows.values[ahead], 0) / toward[ahead]
        first = int(hit.argmin())
        if hit[first] > 0.5:
            return min(1.0, float(hit[first])) * step
        active[first] = True


def _newton_step(problem: Problem, x: Array, rows: Constraints, active: Array, slope: Array, curvature: Array) -> Array:
    """Least norm back onto the active constraints, then least loss in what they leave free."""
    normals = np.concatenate([sum_slope(problem)[None], rows.slopes[active]])
    gaps = np.concatenate([[x[: len(problem.corpora)].sum() - 1], rows.values[active]])
    back = -np.linalg.pinv(normals) @ gaps
    _, sizes, vectors = np.linalg.svd(normals)
    free = vectors[int((sizes > 1e-10 * sizes[0]).sum()) :].T
    if free.shape[1] == 0:
        return back
    values, axes = np.linalg.eigh(free.T @ curvature @ free)
    values = np.maximum(np.abs(values), 1e-10 * max(float(np.abs(values).max()), 1e-300))
    return back - free @ (axes @ (axes.T @ (free.T @ (slope + curvature @ back)) / values))


def _cap_curvature(problem: Problem, x: Array, rows: Constraints, multipliers: Array) -> Array:
    """Second derivatives of multipliers * epoch caps: -e_i U_i / D by log tokens twice; every other row is linear."""
    curvature = np.zeros((len(x), len(x)))
    if (place := problem.place("tokens")) is not None:
        caps = np.array([name.startswith("max_epochs") for name in rows.names])
        curvature[place, place] = -float(multipliers[caps] @ rows.slopes[caps, place])
    return curvature
