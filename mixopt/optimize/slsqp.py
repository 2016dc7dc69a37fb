"""Sequential least squares over mixture, model size, tokens, batch and learning rate, from several starts."""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.baselines import usual_choices
from mixopt.optimize.constraints import Constraints, budget, epoch_caps, sum_slope
from mixopt.optimize.feasible import check_feasible
from mixopt.optimize.kkt import Certificate, certify
from mixopt.optimize.objective import gradient, weighted_losses
from mixopt.optimize.plan import Plan
from mixopt.optimize.polish import polish
from mixopt.optimize.problem import Problem
from mixopt.optimize.starts import project, share_room, start_points
from mixopt.optimize.verdict import make_plan

# Laws of effective tokens bend sharply at a zero share, so the search stays this far away and the polish decides.
SHARE_FLOOR = 1e-6
SNAP = 1e-4
# What rounding leaves of a zero share, or of a difference of losses relative to them.
DUST = 1e-13
# Two starts agree when their weighted losses differ by less than this many nats per token.
SAME = 1e-5
FEASIBLE = 1e-7


def slsqp(
    problem: Problem,
    *,
    starts: int = 12,
    seed: int = 0,
    level: float = 0.9,
    mixtures: Mapping[str, Sequence[float]] | None = None,
) -> Plan:
    """The feasible decision with the least weighted loss that sequential least squares finds from several starts.

    Parameters
    ----------
    problem : what to decide
    starts : searches: from the natural, uniform and UniMax mixtures, from near the best corpus of each target, and
        from random mixtures
    seed : of the random starts
    level : coverage of the intervals
    mixtures : further mixtures to compare the plan with, by name, e.g. the present recipe

    Returns
    -------
    Plan, with the optimality residual measured apart from the solver

    Raises
    ------
    InfeasibleError
        No decision satisfies the constraints.
    ValueError
        The fitted laws give no finite loss anywhere the search starts.

    Examples
    --------
    Chinchilla's own budget, by the refit of Besiroglu et al. (2024); they trained 70B parameters on 1.4T tokens.

    >>> from mixopt.laws.chinchilla import BESIROGLU, chinchilla, from_paper
    >>> from mixopt.optimize.known import Known
    >>> from mixopt.optimize.problem import Target
    >>> published = Known(chinchilla(), np.array(list(from_paper(BESIROGLU).values())))
    >>> problem = Problem(
    ...     corpora=("web",),
    ...     targets=(Target("web", 1.0, published),),
    ...     unique_tokens=np.array([2e12]),
    ...     max_epochs=np.array([1.0]),
    ...     budget_flops=5.88e23,
    ...     choose={"model_size": (1e9, 1e12), "tokens": (1e10, 1e13)},
    ... )
    >>> plan = slsqp(problem)
    >>> f"{plan.chosen.model_size:.3g} parameters, {plan.chosen.tokens:.3g} tokens, {plan.loss:.3f} nats per token"
    '7.3e+10 parameters, 1.34e+12 tokens, 1.974 nats per token'
    """
    check_feasible(problem)
    points = start_points(problem, starts, np.random.default_rng(seed))
    points = points[np.isfinite(weighted_losses(problem, points))]
    if not len(points):
        raise ValueError(
            "No start has a finite loss: the fitted laws cannot be evaluated between these bounds. "
            "Check the coefficients of each target's fit, or narrow the bounds under choose."
        )
    x, certificate, agreement = _best(problem, points)
    compared = usual_choices(problem, x) | {name: np.asarray(h, dtype=float) for name, h in (mixtures or {}).items()}
    return make_plan(problem, x, certificate, agreement=agreement, level=level, compared=compared)


def _best(problem: Problem, points: Array) -> tuple[Array, Certificate, float]:
    """The best end of the searches, its certificate, and the share of searches that reached its loss."""
    # A search led astray ends outside the constraints; its start was inside.
    polished = [polish(problem, x) for x in (_search(problem, point) for point in points)]
    kept = [(x, found) for x, found in polished if found.violation <= FEASIBLE] or [
        (x, certify(problem, x)) for x in points
    ]
    losses = weighted_losses(problem, np.stack([x for x, _ in kept]))
    agreement = float((losses <= losses.min() + SAME).sum()) / len(points)
    return *_without_crumbs(problem, *kept[int(losses.argmin())]), agreement


def _without_crumbs(problem: Problem, x: Array, certificate: Certificate) -> tuple[Array, Certificate]:
    """The decision with small shares set to 0, where this neither raises the loss nor the residual."""
    m = len(problem.corpora)
    lower, upper = share_room(problem, problem.scalar(x, "tokens"))
    for limit in (SNAP, SHARE_FLOOR / 10):  # where a share under 1e-4 is wanted, what rounding left goes all the same
        crumbs = (x[:m] < limit) & (lower == 0)
        if not x[:m][crumbs].any() or upper[~crumbs].sum() < 1 - DUST:
            continue
        snapped = np.concatenate([project(x[:m], lower, np.where(crumbs, 0, upper)), x[m:]])
        trial, _ = polish(problem, snapped)
        trial[:m] = np.where(crumbs & (trial[:m] < DUST), 0, trial[:m])
        found = certify(problem, trial)
        before, after = weighted_losses(problem, np.stack([x, trial]))
        if after <= before + DUST * abs(before) and found.residual <= max(certificate.residual, 1e-8):
            return trial, found
    return x, certificate


def _search(problem: Problem, start: Array) -> Array:
    """Where one search ends: always finite and inside the box, not always feasible."""
    from scipy.optimize import minimize

    m = len(problem.corpora)
    room = np.minimum(problem.cap_tokens / problem.bounds("tokens")[1], problem.upper[:m])
    lower = problem.lower.copy()
    lower[:m] = np.maximum(lower[:m], np.minimum(SHARE_FLOOR, room / 2))
    kinds = {"flops": budget, "max_epochs": epoch_caps}
    with warnings.catch_warnings():
        # scipy says so when it clips a step to the bounds, which is what is wanted.
        warnings.filterwarnings("ignore", "Values in x were outside bounds", RuntimeWarning)
        # The stubs of scipy know neither arrays of bounds nor plain dictionaries of constraints.
        found = cast(Any, minimize)(
            partial(_finite_gradient, problem, 10 / _steepness(problem, start)),
            np.clip(start, lower, problem.upper),
            jac=True,
            method="SLSQP",
            bounds=np.stack([lower, problem.upper], axis=1),
            constraints=[
                _sum_constraint(problem),
                *(_constraint(problem, name, rows) for name, rows in kinds.items() if rows(problem, start).names),
            ],
            options={"maxiter": 100, "ftol": 1e-7},
        )
    end = np.asarray(found.x, dtype=float)
    return end if np.isfinite(end).all() else start


def _steepness(problem: Problem, x: Array) -> float:
    """Norm of the gradient along the plane of mixtures: the solver's first guess is that curvature is 1."""
    _, slope = gradient(problem, x)
    m = len(problem.corpora)
    along = np.concatenate([slope[:m] - slope[:m].mean(), slope[m:]])
    return float(np.clip(np.nan_to_num(np.linalg.norm(along), nan=1.0), 1e-3, 1e3))


def _finite_gradient(problem: Problem, scale: float, x: Array) -> tuple[float, Array]:
    """Scaled loss and gradient; a large flat loss where a law is not finite, from which the line search turns back."""
    value, slope = gradient(problem, x)
    finite = np.isfinite(value) and np.isfinite(slope).all()
    return (scale * value, scale * slope) if finite else (1e6 * scale, np.zeros_like(slope))


def _sum_constraint(problem: Problem) -> dict[str, Any]:
    slope = sum_slope(problem)
    return {"type": "eq", "fun": lambda x: slope @ x - 1, "jac": lambda x: slope}


def _constraint(problem: Problem, name: str, rows: Any) -> dict[str, Any]:
    """A constraint as scipy wants it: inequalities are `>= 0`."""

    def value(x: Array) -> Array:
        found: Constraints = rows(problem, x)
        return -found.values

    def slope(x: Array) -> Array:
        found: Constraints = rows(problem, x)
        return -found.slopes

    return {"type": "eq" if problem.spend and name == "flops" else "ineq", "fun": value, "jac": slope}
