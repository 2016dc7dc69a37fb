"""The constraints of a problem as functions of a decision, each scaled so that a violation of 0.01 is about 1 %."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.problem import Problem


@dataclass(frozen=True)
class Constraints:
    """Inequalities at one decision: each is `values <= 0`, with `slopes` [q, d]."""

    names: tuple[str, ...]
    values: Array
    slopes: Array

    def __add__(self, other: "Constraints") -> "Constraints":
        return Constraints(
            self.names + other.names,
            np.concatenate([self.values, other.values]),
            np.concatenate([self.slopes, other.slopes]),
        )


def budget(problem: Problem, x: Array) -> Constraints:
    """log(6 N D / C) <= 0, linear in the decision; empty where neither factor is decided."""
    slope = np.zeros((1, len(x)))
    places = [place for name in ("model_size", "tokens") if (place := problem.place(name)) is not None]
    if not places:
        return Constraints((), np.zeros(0), np.zeros((0, len(x))))
    slope[0, places] = 1
    used = 6 * problem.scalar(x, "model_size") * problem.scalar(x, "tokens")
    return Constraints(("flops",), np.array([np.log(used / problem.budget_flops)]), slope)


def epoch_caps(problem: Problem, x: Array) -> Constraints:
    """h_i - e_i U_i / D <= 0 for each corpus whose cap could bind at the largest number of tokens."""
    (capped,) = np.nonzero(problem.cap_tokens < problem.bounds("tokens")[1] * problem.share_bounds[:, 1])
    room = problem.cap_tokens[capped] / problem.scalar(x, "tokens")
    slopes = np.zeros((len(capped), len(x)))
    slopes[np.arange(len(capped)), capped] = 1
    if (place := problem.place("tokens")) is not None:
        slopes[:, place] = room
    names = tuple(f"max_epochs[{problem.corpora[i]}]" for i in capped)
    return Constraints(names, x[capped] - room, slopes)


def box(problem: Problem, x: Array) -> Constraints:
    """Bounds of shares and of the logarithms of scalars; an upper bound of 1 on a share is left out as empty."""
    m, eye = len(problem.corpora), np.eye(len(x))
    names = [f"share_{{}}[{corpus}]" for corpus in problem.corpora] + [f"{name}_{{}}" for name in problem.scalars]
    (lows,) = np.nonzero(np.isfinite(problem.lower))
    (highs,) = np.nonzero((problem.upper < 1) | (np.arange(len(x)) >= m))
    return Constraints(
        tuple(names[i].format("lower") for i in lows), problem.lower[lows] - x[lows], -eye[lows]
    ) + Constraints(tuple(names[i].format("upper") for i in highs), x[highs] - problem.upper[highs], eye[highs])


def inequalities(problem: Problem, x: Array) -> Constraints:
    """Every inequality of the problem at `x`."""
    return budget(problem, x) + epoch_caps(problem, x) + box(problem, x)


def sum_slope(problem: Problem) -> Array:
    """[d], slope of the equality sum(shares) = 1."""
    return np.concatenate([np.ones(len(problem.corpora)), np.zeros(len(problem.scalars))])


def largest_violation(problem: Problem, x: Array) -> float:
    """How far `x` is from satisfying every constraint, in their scaled units; 0 where it does."""
    rows = inequalities(problem, x)
    worst = max(0.0, float(rows.values.max()), abs(float(sum_slope(problem) @ x) - 1))
    if problem.spend and "flops" in rows.names:
        worst = max(worst, abs(float(rows.values[0])))
    return worst
