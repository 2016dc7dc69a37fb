"""The optimum of each of several targets in one batch: every start and every replicate of a target is one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.bootstrap import redraw, resample, step_from
from mixopt.fit.identify import null_directions, prior_shares, weak_directions
from mixopt.fit.levenberg_marquardt import FIRST_DAMPING, Box, Observed
from mixopt.fit.norms import Norm
from mixopt.fit.search import LogResidual, Space, solve, space_of
from mixopt.laws.law import Law

# A start agrees when its objective is within this share of the best; the second term is for fits without residuals.
_AGREES, _EXACT = 1e-3, 1e-9
# Entries of one Jacobian from which replicates are refitted in a few steps.
_WIDE = 10_000


@dataclass(frozen=True, eq=False)
class Problem:
    """What one target is fitted to: a law, the log of its output seen `[n]`, and the norm of residuals."""

    name: str
    law: Law
    log_output: Array
    norm: Norm


class _Effort(NamedTuple):
    """How far rows are followed, as `levenberg_marquardt` takes it."""

    damping: float = FIRST_DAMPING
    enough: float = 0.0
    bends: bool = True
    iterations: int = 500


# A gain of 5e-5 is a hundredth of an sd, and .05 a third: where a step promises less, the end is far nearer still.
_SEARCH, _REFIT = _Effort(), _Effort(enough=5e-5)
_REFIT_WIDE = _Effort(damping=1e-5, enough=0.05, iterations=6)


class Known(NamedTuple):
    """Sd of log residuals, how many numbers the runs determine, null and weak directions, shares of priors `[p]`."""

    noise: float
    freedom: float
    null: tuple[str, ...]
    weak: tuple[str, ...]
    prior_shares: Array


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where one target's starts led: the best end `[p]` in search coordinates, and what is known of it.

    `agreement` is the share of starts that ended there, `known` what runs and priors determine, `replicates` the
    coefficients [s, p] of the bootstrap.
    """

    u: Array
    objective: float
    agreement: float
    known: Known
    replicates: Array


def optima(
    problems: Sequence[Problem],
    columns: Columns,
    *,
    starts: int,
    seed: int,
    replicates: int,
    run: Array,
    weight: Array | None,
) -> list[Optimum]:
    """The optimum of each problem; their laws compute the same function and may differ in boxes and priors.

    Raises
    ------
    FitError
        No start of a problem leads to a positive, finite output.
    """
    spaces = [space_of(problem.law.coefficients) for problem in problems]
    first = [space.starts(starts, np.random.default_rng(seed)) for space in spaces]
    once = None if weight is None else weight[None]
    u, objective = _solve(problems, spaces, columns, np.stack(first), once, shared=True)
    best = [_best(problems[k], u[k], objective[k], first[k][0], spaces[k]) for k in range(len(problems))]
    ends = np.stack([u[k, i] for k, i in enumerate(best)])
    draws = _replicates(problems, spaces, columns, ends, replicates, seed, run, weight)
    found: list[Optimum] = []
    for k, problem in enumerate(problems):
        low = float(objective[k, best[k]])
        agreement = float((objective[k] <= low * (1 + _AGREES) + _EXACT * len(run)).mean())
        known = _diagnose(problem, columns, ends[k], weight)
        found.append(Optimum(ends[k], low, agreement, known, draws[k]))
    return found


def _solve(
    problems: Sequence[Problem],
    spaces: Sequence[Space],
    columns: Columns,
    starts: Array,
    counts: Array | None,
    *,
    shared: bool = False,
    centers: Sequence[Array] | None = None,
    effort: _Effort = _SEARCH,
) -> tuple[Array, Array]:
    """Ends `[k, s, p]` and objectives `[k, s]` of starts `[k, s, p]`.

    `counts` [1, n] are those of all starts where they are `shared`, else [s, n] those of each start of each problem.
    """
    k, s, p = starts.shape
    boxes = [space.box for space in spaces]
    parts = [np.repeat(np.stack([getattr(box, name) for box in boxes]), s, axis=0) for name in vars(boxes[0])]
    box = Box(*parts)
    if centers is not None:
        box = Box(box.lower, box.upper, np.concatenate(centers), box.precision)
    found = solve(
        problems[0].law,
        columns,
        starts.reshape(k * s, p),
        problems[0].norm,
        counts,
        box=box,
        draw=np.zeros(k * s, int) if shared else np.tile(np.arange(s), k),
        observed=Observed(
            np.stack([problem.log_output for problem in problems]),
            np.array([problem.norm.scale for problem in problems]),
            np.repeat(np.arange(k), s),
        ),
        **effort._asdict(),
    )
    return found.u.reshape(starts.shape), found.objective.reshape(k, s)


def _best(problem: Problem, u: Array, objective: Array, middle: Array, space: Space) -> int:
    """The start that ended lowest; among equals, as along a null direction, the one nearest to priors and middle."""
    low = objective.min()
    if not np.isfinite(low):
        raise FitError(
            f"None of {len(u)} starts gives a positive, finite {problem.name} for every row. "
            "Check the units of the inputs against the law's, or narrow the coefficients' boxes."
        )
    away = (((u - middle) / (space.box.upper - space.box.lower)) ** 2).sum(-1)
    return int(np.where(objective <= low * (1 + _EXACT) + _EXACT, away, np.inf).argmin())


def _replicates(
    problems: Sequence[Problem],
    spaces: Sequence[Space],
    columns: Columns,
    ends: Array,
    replicates: int,
    seed: int,
    run: Array,
    weight: Array | None,
) -> list[Array]:
    """Coefficients `[s, p]` of each problem refitted, from its optimum, to each draw of runs and of priors' centers.

    The first step of all replicates shares the slopes at the optimum (`step_from`). Small problems then go on to
    the end. Wide ones take six steps more: on problems of 240 to 600 runs and 17 to 45 coefficients that is a fifth to
    a half of the time, and the sd of single predictions .91 to 1.04 times that of full refits.
    """
    if not replicates:
        return [np.empty((0, ends.shape[1])) for _ in problems]
    counts = resample(run, replicates, seed) * (1.0 if weight is None else weight)
    centers = [redraw(problem.law.coefficients, replicates, seed) for problem in problems]
    starts = [
        step_from(ends[k], *_slopes(problem, columns, ends[k]), spaces[k].box, problem.norm, counts, centers[k])
        for k, problem in enumerate(problems)
    ]
    effort = _REFIT_WIDE if len(run) * ends.shape[1] > _WIDE else _REFIT
    u, _ = _solve(problems, spaces, columns, np.stack(starts), counts, centers=centers, effort=effort)
    return [space.to_theta(part) for space, part in zip(spaces, u, strict=True)]


def _slopes(problem: Problem, columns: Columns, u: Array) -> tuple[Array, Array]:
    """Scaled residuals `[n]` and their slopes `[n, p]`."""
    known = {**columns, problem.law.output: np.exp(problem.log_output)}
    z, slopes = LogResidual(problem.law, known, problem.norm.scale).slopes(u[None])
    return z[0], slopes[0]


def _diagnose(problem: Problem, columns: Columns, u: Array, weight: Array | None) -> Known:
    """Noise, and what runs and priors determine at the optimum."""
    law, norm, space = problem.law, problem.norm, space_of(problem.law.coefficients)
    z, slopes = _slopes(problem, columns, u)
    weight, precision = np.ones(len(z)) if weight is None else weight, space.box.precision
    weighted = slopes * np.sqrt(weight * norm.weight(z))[:, None]
    null, weak, shares = (), (), np.zeros(0)
    if len(u):
        null = null_directions(
            np.concatenate([weighted, np.diag(np.sqrt(precision))[precision > 0]]), law.names, space.log
        )
        # As a whole, runs count by the norm's mean curvature; where the scale is their noise, that is near one.
        informed = slopes * np.sqrt(weight * norm.curvature(z).mean())[:, None]
        weak, shares = weak_directions(informed, precision, law.names, space.log), prior_shares(informed, precision)
    # 1.4826 times the median size is the sd of Gaussian residuals, whatever a few outliers do.
    robust = 1.4826 * norm.scale * float(np.median(np.abs(z) * np.sqrt(weight)))
    freedom = len(u) - len(null) - float(shares.sum())
    return Known(robust * float(np.sqrt(len(z) / max(len(z) - freedom, 1))), freedom, null, weak, shares)
