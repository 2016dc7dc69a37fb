r"""Levenberg-Marquardt on many problems at once: every start or replicate is one row of one array.

Each step solves :math:`(J^T C J + P + \mu I)\,\delta = -(J^T W z + P(u - c))`, with W the weights that make the norm a
square near z, P the precision of the priors and mu the row's own damping. C lies between W (iteratively reweighted
least squares: safe far away, slow close by) and the norm's own curvature (Newton: the reverse). A row leans to
Newton while its steps succeed and back when one fails: a third of the steps of W alone on Chinchilla's table.

Damping is by the identity (Levenberg), not by the diagonal (Marquardt): on a plateau the diagonal is near zero and
scaling by it leaps away. Coordinates must therefore be of order one, which boxes and logarithms give.

A step bends with the problem (geodesic acceleration): the second derivative of the residuals along it, from one more
value, corrects it, so that curved valleys are followed instead of crossed in many short steps. Where starts are near
their end and answers need not be exact, the value is saved.

References
----------
Transtrum and Sethna, *Improvements to the Levenberg-Marquardt algorithm*, 2012, arXiv:1201.5885 (acceleration).
Levenberg, 1944; Madsen, Nielsen and Tingleff, *Methods for Non-Linear Least Squares Problems*, 2004 (damping).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from mixopt.columns import Array
from mixopt.fit.norms import Norm

_PATIENCE = 3
FIRST_DAMPING = 1e-3
_LARGEST_DROP = 0.2
_STILL = 1e-13
_CAUTION_FLOOR = 0.02
# The second derivative is taken from a value this part of the way; a correction longer than this share of the step is
# not used.
_PART, _MOST_BENT = 0.1, 0.75


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
    """Bounds and Gaussian priors (precision 0 where there is none) of the coordinates: `[p]`, or `[s, p]` by row."""

    lower: Array
    upper: Array
    center: Array
    precision: Array

    @staticmethod
    def of(lower: Array, upper: Array) -> "Box":
        """Bounds without priors."""
        return Box(lower, upper, np.zeros_like(lower), np.zeros_like(lower))

    def penalty(self, u: Array) -> Array:
        """Minus log of the priors at each row, up to a constant: `[s]`."""
        return 0.5 * ((u - self.center) ** 2 * self.precision).sum(-1)

    def rows(self, at: Array, s: int) -> "Box":
        """The box of each of the rows `at` of `s` rows in all."""
        parts = (self.lower, self.upper, self.center, self.precision)
        return Box(*(np.broadcast_to(part, (s, part.shape[-1]))[at] for part in parts))


@dataclass(frozen=True)
class Observed:
    """What rows are fitted to, where that differs: row i to `values[target[i]]`, in units of `scale[target[i]]`.

    `values` is [k, n], `scale` [k], `target` [s]. The residual then gives values of the same kind, unscaled.
    """

    values: Array
    scale: Array
    target: Array


def levenberg_marquardt(
    residual: Residual,
    u: Array,
    box: Box,
    norm: Norm,
    *,
    counts: Array | None = None,
    draw: Array | None = None,
    observed: Observed | None = None,
    capacity: int | None = None,
    damping: float = FIRST_DAMPING,
    enough: float = 0.0,
    bends: bool = True,
    iterations: int = 500,
    tolerance: float = 1e-9,
) -> Solutions:
    """Minimizes the sum of `counts * norm.rho(z)` plus the priors' penalty from every row of `u`, inside the box.

    Parameters
    ----------
    residual : scaled residuals and their Jacobian, at the rows it is given; with `observed`, what is compared with it
    u : [s, p], starts
    counts : [s, n], how often each residual counts in each row (bootstrap, weights); once each if None
    draw : [s], which row of `counts` each row takes; its own if None
    observed : where rows are fitted to different values: what each is fitted to
    capacity : rows that are worked on at a time, for the sake of memory; new ones enter as others are done
    damping : of the first step, as a share of the largest curvature; less where the start is known to be near
    enough : a row is done, too, when a step is to lower its objective by less than this, as half a squared distance in
        sds of the answer; for answers that need not be exact
    bends : whether steps bend with the problem; near the end they need not
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
    s = len(u)
    capacity = max(1, s if capacity is None else min(s, capacity))
    final, best, steps = u.copy(), np.full(s, np.inf), np.zeros(s, int)

    def begin(at: Array) -> _State:
        counted = None if counts is None else counts[at if draw is None else draw[at]]
        return _begin(residual, at, u[at], box.rows(at, s), norm, counted, _Compared.rows(observed, at), damping)

    with np.errstate(all="ignore"):
        state, entered = begin(np.arange(capacity)), capacity
        while len(state.row):
            state = _step(residual, state, norm, tolerance, enough, bends)
            final[state.row], best[state.row] = state.u, state.objective
            steps[state.row] += 1
            state = state.keep((state.stalled < _PATIENCE) & (steps[state.row] < iterations))
            # A few stragglers cost as much as many rows do, so they wait for company.
            if entered < s and len(state.row) <= capacity // 2:
                more = np.arange(entered, min(s, entered + capacity - len(state.row)))
                state, entered = state.join(begin(more)), entered + len(more)
    return Solutions(final, np.where(np.isfinite(best), best, np.inf), steps)


@dataclass(frozen=True)
class _Compared:
    """Turns values into scaled residuals: `[s, n]` observed and `[s, 1]` scale of the rows still moving."""

    values: Array
    scale: Array

    @staticmethod
    def rows(observed: Observed | None, at: Array) -> "_Compared | None":
        if observed is None:
            return None
        target = observed.target[at]
        return _Compared(observed.values[target], observed.scale[target][:, None])

    def residuals(self, values: Array, mask: Array | slice = slice(None)) -> Array:
        return (values - self.values[mask]) / self.scale[mask]


@dataclass(frozen=True)
class _State:
    """What is known of the rows still moving; `row` says which of the original rows each is.

    Where `moved` is true, `z` and `slopes` are those of the place before.
    """

    row: Array
    u: Array
    objective: Array
    moved: Array
    z: Array
    slopes: Array
    counts: Array | None
    compared: _Compared | None
    box: Box
    damping: Array
    caution: Array
    stalled: Array

    def keep(self, mask: Array) -> "_State":
        return self if mask.all() else _map(lambda part: part[mask], self)

    def join(self, other: "_State") -> "_State":
        return _map(lambda *parts: np.concatenate(parts), self, other)


def _map(change: Callable[..., Array], *parts: Any) -> Any:
    """The same kind of dataclass with every array changed, inside others too; None stays."""
    if parts[0] is None:
        return None
    if isinstance(parts[0], np.ndarray):
        return change(*parts)
    return type(parts[0])(**{name: _map(change, *(getattr(part, name) for part in parts)) for name in vars(parts[0])})


def _begin(
    residual: Residual,
    row: Array,
    u: Array,
    box: Box,
    norm: Norm,
    counts: Array | None,
    compared: _Compared | None,
    damping: float,
) -> _State:
    u = np.clip(u, box.lower, box.upper)
    z, slopes = _slopes(residual, u, compared)
    curvature = np.nan_to_num((slopes**2).sum(-2)).max(-1, initial=0.0)
    return _State(
        row=row,
        u=u,
        objective=_objective(z, norm, counts) + box.penalty(u),
        moved=np.zeros(len(u), bool),
        z=z,
        slopes=slopes,
        counts=counts,
        compared=compared,
        box=box,
        damping=damping * np.maximum(curvature, 1.0),
        caution=np.ones(len(u)),
        stalled=np.zeros(len(u), int),
    )


def _slopes(
    residual: Residual, u: Array, compared: _Compared | None, mask: Array | slice = slice(None)
) -> tuple[Array, Array]:
    value, slopes = residual.slopes(u)
    if compared is None:
        return value, slopes
    return compared.residuals(value, mask), slopes / compared.scale[mask][..., None]


def _step(residual: Residual, now: _State, norm: Norm, tolerance: float, enough: float, bends: bool) -> _State:
    now = _refresh(residual, now)
    move, predicted = _move(residual, now, norm, bends)
    u = np.clip(now.u + move, now.box.lower, now.box.upper)
    objective = _objective(_value(residual, u, now.compared), norm, now.counts) + now.box.penalty(u)
    better = np.isfinite(objective) & ~(objective > now.objective)
    gain = (now.objective - objective) / predicted
    idle = (predicted <= tolerance * now.objective) & np.isfinite(now.objective)
    still = (np.abs(u - now.u) <= _STILL * (1 + np.abs(now.u))).all(-1) | (better & (predicted < enough))
    return replace(
        now,
        u=np.where(better[:, None], u, now.u),
        objective=np.where(better, objective, now.objective),
        moved=better,
        damping=_next_damping(now.damping, better, gain),
        caution=np.where(better, np.maximum(now.caution / 2, _CAUTION_FLOOR), np.minimum(now.caution * 10, 1.0)),
        stalled=np.where(still, _PATIENCE, np.where(idle, now.stalled + 1, 0)),
    )


def _refresh(residual: Residual, now: _State) -> _State:
    """Residuals and slopes of the rows that moved. They cost many times what values do: only now, when needed."""
    if not now.moved.any():
        return now
    z, slopes = _slopes(residual, now.u[now.moved], now.compared, now.moved)
    return replace(now, z=_put(now.z, now.moved, z), slopes=_put(now.slopes, now.moved, slopes))


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


def _move(residual: Residual, now: _State, norm: Norm, bends: bool) -> tuple[Array, Array]:
    """The step of each row, `[s, p]`, and how much its first-order part should lower the objective, `[s]`.

    A coordinate that sits on its bound and is pushed outwards is held, so that the others move as if it were fixed.
    """
    box, once = now.box, 1.0 if now.counts is None else now.counts
    weight, bend = norm.weight(now.z), norm.curvature(now.z)
    bend = once * (bend + now.caution[:, None] * (weight - bend))
    # A matrix times its own transpose takes half the time of another product.
    rooted = now.slopes * np.sqrt(np.maximum(bend, 0.0))[..., None]
    curvature = np.nan_to_num(np.swapaxes(rooted, -1, -2) @ rooted)
    slope = _pull(once * weight * now.z, now.slopes) + box.precision * (now.u - box.center)
    held = ((now.u <= box.lower) & (slope > 0)) | ((now.u >= box.upper) & (slope < 0))
    free = ~held
    slope = slope * free
    curvature *= free[:, :, None] & free[:, None, :]
    diagonal = np.arange(now.u.shape[-1])
    curvature[:, diagonal, diagonal] += box.precision + now.damping[:, None] + held
    inverse = np.linalg.inv(curvature)
    move = -(inverse @ slope[..., None])[..., 0]
    predicted = 0.5 * (move * (now.damping[:, None] * move - slope)).sum(-1)
    if not bends:
        return move, predicted
    turn = _turn(residual, now, move)
    bent = -0.5 * (inverse @ (_pull(bend * turn, now.slopes) * free)[..., None])[..., 0]
    size = (bent**2).sum(-1)
    trusted = np.isfinite(size) & (4 * size <= _MOST_BENT**2 * (move**2).sum(-1))
    return move + np.where(trusted[:, None], bent, 0.0), predicted


def _turn(residual: Residual, now: _State, move: Array) -> Array:
    """Second derivative of the residuals along the step, `[s, n]`, from a value a part of the way."""
    ahead = _value(residual, now.u + _PART * move, now.compared)
    straight = (now.slopes @ move[..., None])[..., 0]
    return 2 / _PART * ((ahead - now.z) / _PART - straight)


def _pull(z: Array, slopes: Array) -> Array:
    return np.nan_to_num((z[:, None, :] @ slopes)[:, 0])


def _value(residual: Residual, u: Array, compared: _Compared | None) -> Array:
    value = residual.value(u)
    return value if compared is None else compared.residuals(value)


def _objective(z: Array, norm: Norm, counts: Array | None) -> Array:
    return (norm.rho(z) if counts is None else counts * norm.rho(z)).sum(-1)
