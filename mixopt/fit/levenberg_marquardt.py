r"""Levenberg-Marquardt on many problems at once: every start or replicate is one row of one array.

Each step solves :math:`(J^T C J + P + \mu I)\,\delta = -(J^T W z + P(u - c))`, with W the weights that make the norm a
square near z, P the precision of the priors and mu the row's own damping. C lies between W (iteratively reweighted
least squares: safe far away, slow close by) and the norm's own curvature (Newton: the reverse). A row leans to
Newton while its steps succeed and back when one fails: a third of the steps of W alone on Chinchilla's table.

Damping is by the identity (Levenberg), not by the diagonal (Marquardt): on a plateau the diagonal is near zero and
scaling by it leaps away. Coordinates must therefore be of order one, which boxes and logarithms give.

References
----------
Levenberg, 1944; Madsen, Nielsen and Tingleff, *Methods for Non-Linear Least Squares Problems*, 2004 (damping).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from mixopt.columns import Array
from mixopt.fit.norms import Norm

_PATIENCE = 3
_FIRST_DAMPING = 1e-3
_LARGEST_DROP = 0.03
_STILL = 1e-13
_CAUTION_FLOOR = 0.02


class Residual(Protocol):
    """Scaled residuals at rows of coordinates `[s, p]`; not finite where a row's coordinates make no sense."""

    def value(self, u: Array, /) -> Array:
        """`[s, n]`."""
        ...

    def slopes(self, u: Array, /) -> tuple[Array, Array]:
        """The residuals, `[s, n]`, and their derivatives by each coordinate, `[s, n, p]`."""
        ...


class Solutions(NamedTuple):
    """Where each row ended, `[s, p]`; its objective, `[s]`, inf where no finite value was found; steps tried, `[s]`."""

    u: Array
    objective: Array
    steps: Array


@dataclass(frozen=True)
class Box:
    """Bounds `[p]` and Gaussian priors `[p]` (precision 0 where there is none) of the coordinates."""

    lower: Array
    upper: Array
    center: Array
    precision: Array

    @staticmethod
    def of(lower: Array, upper: Array) -> "Box":
        """Bounds without priors."""
        return Box(lower, upper, np.zeros_like(lower), np.zeros_like(lower))

    def penalty(self, u: Array, center: Array | None = None) -> Array:
        """Minus log of the priors at each row, up to a constant: `[s]`; about `center` [s, p] where it is given."""
        return 0.5 * ((u - (self.center if center is None else center)) ** 2 * self.precision).sum(-1)


def levenberg_marquardt(
    residual: Residual,
    u: Array,
    box: Box,
    norm: Norm,
    *,
    counts: Array | None = None,
    centers: Array | None = None,
    iterations: int = 500,
    tolerance: float = 1e-9,
) -> Solutions:
    """Minimizes the sum of `counts * norm.rho(z)` plus the priors' penalty from every row of `u`, inside the box.

    Parameters
    ----------
    residual : scaled residuals and their Jacobian, at the rows it is given
    u : [s, p], starts
    counts : [s, n], how often each residual counts in each row (bootstrap); once each if None
    centers : [s, p], where the priors' centers are in each row; those of the box if None
    iterations : steps tried at most
    tolerance : a row is done when three steps in a row each lower its objective by less than this share

    Examples
    --------
    Rosenbrock's valley, from two starts:

    >>> class Valley:
    ...     def value(self, u):
    ...         return np.stack([10 * (u[:, 1] - u[:, 0] ** 2), 1 - u[:, 0]], -1)
    ...     def slopes(self, u):
    ...         x, one = u[:, 0], np.ones(len(u))
    ...         rows = [np.stack([-20 * x, 10 * one], -1), np.stack([-one, 0 * one], -1)]
    ...         return self.value(u), np.stack(rows, 1)
    >>> from mixopt.fit.norms import Square
    >>> box = Box.of(np.full(2, -5.0), np.full(2, 5.0))
    >>> levenberg_marquardt(Valley(), np.array([[-1.2, 1.0], [4.0, -3.0]]), box, Square()).u.round(6)
    array([[1., 1.],
           [1., 1.]])
    """
    final, best = u.copy(), np.full(len(u), np.inf)
    steps = np.zeros(len(u), int)
    with np.errstate(all="ignore"):
        centers = np.broadcast_to(box.center, u.shape) if centers is None else centers
        state = _begin(residual, np.clip(u, box.lower, box.upper), box, norm, counts, centers)
        for _ in range(iterations):
            state = _step(residual, state, box, norm, tolerance)
            final[state.row], best[state.row] = state.u, state.objective
            steps[state.row] += 1
            state = state.keep(state.stalled < _PATIENCE)
            if not len(state.row):
                break
    return Solutions(final, np.where(np.isfinite(best), best, np.inf), steps)


@dataclass(frozen=True)
class _State:
    """What is known of the rows still moving; `row` says which of the original rows each is."""

    row: Array
    u: Array
    objective: Array
    z: Array
    slopes: Array
    counts: Array | None
    center: Array
    damping: Array
    caution: Array
    stalled: Array

    def keep(self, mask: Array) -> "_State":
        if mask.all():
            return self
        rows: dict[str, Any] = {name: None if value is None else value[mask] for name, value in vars(self).items()}
        return _State(**rows)


def _begin(residual: Residual, u: Array, box: Box, norm: Norm, counts: Array | None, center: Array) -> _State:
    z, slopes = residual.slopes(u)
    curvature = np.nan_to_num((slopes**2).sum(-2)).max(-1, initial=0.0)
    return _State(
        row=np.arange(len(u)),
        u=u,
        objective=_objective(z, norm, counts) + box.penalty(u, center),
        z=z,
        slopes=slopes,
        counts=counts,
        center=center,
        damping=_FIRST_DAMPING * np.maximum(curvature, 1.0),
        caution=np.ones(len(u)),
        stalled=np.zeros(len(u), int),
    )


def _step(residual: Residual, now: _State, box: Box, norm: Norm, tolerance: float) -> _State:
    move, predicted = _move(now, box, norm)
    u = np.clip(now.u + move, box.lower, box.upper)
    objective = _objective(residual.value(u), norm, now.counts) + box.penalty(u, now.center)
    better = np.isfinite(objective) & ~(objective > now.objective)
    z, slopes = now.z, now.slopes
    if better.any():
        # Slopes cost many times what values do, so only the steps that succeed pay for them.
        new_z, new_slopes = residual.slopes(u[better])
        z, slopes = _put(z, better, new_z), _put(slopes, better, new_slopes)
    gain = (now.objective - objective) / predicted
    idle = (predicted <= tolerance * now.objective) & np.isfinite(now.objective)
    still = (np.abs(u - now.u) <= _STILL * (1 + np.abs(now.u))).all(-1)
    return _State(
        row=now.row,
        u=np.where(better[:, None], u, now.u),
        objective=np.where(better, objective, now.objective),
        z=z,
        slopes=slopes,
        counts=now.counts,
        center=now.center,
        damping=_next_damping(now.damping, better, gain),
        caution=np.where(better, np.maximum(now.caution / 2, _CAUTION_FLOOR), np.minimum(now.caution * 10, 1.0)),
        stalled=np.where(still, _PATIENCE, np.where(idle, now.stalled + 1, 0)),
    )


def _next_damping(damping: Array, better: Array, gain: Array) -> Array:
    """Less damping as far as the quadratic model foretold the gain (Nielsen's cubic), twice as much after a failure.

    Raising slowly wastes a few cheap evaluations of failing steps; raising fast makes valleys take many short ones.
    """
    trust = np.where(np.isfinite(gain), 1 - (2 * gain - 1) ** 3, 1.0)
    return np.maximum(damping * np.where(better, np.maximum(trust, _LARGEST_DROP), 2.0), 1e-12)


def _put(values: Array, mask: Array, new: Array) -> Array:
    if mask.all():
        return new
    values = values.copy()
    values[mask] = new
    return values


def _move(now: _State, box: Box, norm: Norm) -> tuple[Array, Array]:
    """The damped Gauss-Newton step of each row, `[s, p]`, and how much it should lower the objective, `[s]`.

    A coordinate that sits on its bound and is pushed outwards is held, so that the others move as if it were fixed.
    """
    once = 1.0 if now.counts is None else now.counts
    weight, bend = norm.weight(now.z), norm.curvature(now.z)
    bend = bend + now.caution[:, None] * (weight - bend)
    curvature = np.nan_to_num(np.swapaxes(now.slopes * (once * bend)[..., None], -1, -2) @ now.slopes)
    pull = (once * weight * now.z)[:, None, :] @ now.slopes
    slope = np.nan_to_num(pull[:, 0]) + box.precision * (now.u - now.center)
    held = ((now.u <= box.lower) & (slope > 0)) | ((now.u >= box.upper) & (slope < 0))
    free = ~held
    slope = slope * free
    curvature *= free[:, :, None] & free[:, None, :]
    diagonal = np.arange(now.u.shape[-1])
    curvature[:, diagonal, diagonal] += box.precision + now.damping[:, None] + held
    move = -np.linalg.solve(curvature, slope[..., None])[..., 0]
    return move, 0.5 * (move * (now.damping[:, None] * move - slope)).sum(-1)


def _objective(z: Array, norm: Norm, counts: Array | None) -> Array:
    return (norm.rho(z) if counts is None else counts * norm.rho(z)).sum(-1)
