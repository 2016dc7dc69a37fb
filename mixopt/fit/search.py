"""Search coordinates: the logarithm of coefficients that say so, inside their box; and the solve in them."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.levenberg_marquardt import FIRST_DAMPING, Box, Observed, Solutions, levenberg_marquardt
from mixopt.fit.norms import Norm
from mixopt.laws.law import Coefficient, Law

# Entries of one Jacobian block; more rows than fit in it are solved block by block. About a level-2 cache.
_BLOCK = 240_000
# Entries of all Jacobians together from which rows are shared out among threads.
_WORTH_A_THREAD = 2_000_000


@dataclass(frozen=True)
class Space:
    """The box of a law's coefficients in search coordinates, and which of them are logarithms."""

    log: Array
    box: Box

    def to_theta(self, u: Array) -> Array:
        """Coefficients at search coordinates."""
        return np.where(self.log, np.exp(np.where(self.log, u, 0.0)), u)

    def to_search(self, theta: Array) -> Array:
        """Search coordinates of coefficients."""
        return np.where(self.log, np.log(np.where(self.log, theta, 1.0)), theta)

    def stretch(self, theta: Array) -> Array:
        """d theta / d u at coefficients: theta itself where it is searched in log."""
        return np.where(self.log, theta, 1.0)

    def starts(self, count: int, rng: np.random.Generator) -> Array:
        """`count` rows drawn uniformly from the box, after one at the priors' centers and the box's middle."""
        middle = np.where(self.box.precision > 0, self.box.center, (self.box.lower + self.box.upper) / 2)
        drawn = rng.uniform(self.box.lower, self.box.upper, (count, len(self.log)))
        return np.concatenate([np.clip(middle, self.box.lower, self.box.upper)[None], drawn])


def space_of(coefficients: Sequence[Coefficient]) -> Space:
    """Where these coefficients are searched."""
    log = np.array([c.log for c in coefficients], bool)
    ends = np.array([(c.lower, c.upper) for c in coefficients], float).reshape(-1, 2)
    ends = np.where(log[:, None], np.log(np.where(log[:, None], ends, 1.0)), ends)
    priors = np.array([c.prior or (0.0, np.inf) for c in coefficients], float).reshape(-1, 2)
    return Space(log, Box(ends[:, 0], ends[:, 1], priors[:, 0], priors[:, 1] ** -2.0))


@dataclass(frozen=True)
class LogOutput:
    """The log of a law's output at rows of search coordinates, `[s, n]`, and its slopes in them, `[s, n, p]`."""

    law: Law
    columns: Columns
    n: int

    @cached_property
    def space(self) -> Space:
        return space_of(self.law.coefficients)

    def value(self, u: Array, /) -> Array:
        value = np.log(self.law(self.space.to_theta(u), self.columns))
        return np.broadcast_to(value, (len(u), self.n))

    def slopes(self, u: Array, /) -> tuple[Array, Array]:
        theta = self.space.to_theta(u)
        value, slopes = self.law.jacobian(theta, self.columns)
        slopes = slopes * (self.space.stretch(theta)[..., None, :] / value[..., None])
        rows = (len(u), self.n)
        return np.broadcast_to(np.log(value), rows), np.broadcast_to(slopes, (*rows, u.shape[-1]))


@dataclass(frozen=True)
class LogResidual:
    """Residuals of the log of a law's output, in units of `scale`, and their slopes in search coordinates.

    Dividing by the scale makes the objective of order n. Averaged in log loss instead it would be of order 1e-6,
    under any solver's default tolerance, which stops it early.
    """

    law: Law
    columns: Columns
    scale: float

    @cached_property
    def target(self) -> Array:
        return np.log(self.columns[self.law.output])

    @cached_property
    def output(self) -> LogOutput:
        return LogOutput(self.law, self.columns, len(self.target))

    def value(self, u: Array, /) -> Array:
        return (self.output.value(u) - self.target) / self.scale

    def slopes(self, u: Array, /) -> tuple[Array, Array]:
        value, slopes = self.output.slopes(u)
        return (value - self.target) / self.scale, slopes / self.scale


def solve(
    law: Law,
    columns: Columns,
    u: Array,
    norm: Norm,
    counts: Array | None = None,
    *,
    box: Box | None = None,
    draw: Array | None = None,
    observed: Observed | None = None,
    damping: float = FIRST_DAMPING,
    enough: float = 0.0,
    bends: bool = True,
    iterations: int = 500,
) -> Solutions:
    """Minimizes from every row of `u` `[s, p]`, so many at a time that memory does not grow with their number.

    Parameters
    ----------
    columns : the law's inputs, and its output unless `observed` gives it
    counts : [s, n], how often each run counts in each row; [c, n] where `draw` [s] says which of them a row takes
    box : of each row, `[s, p]`; the law's own if None
    observed : logs of what each row is fitted to, where that differs
    damping, enough, bends, iterations : as in `levenberg_marquardt`
    """
    if observed is None:
        one = np.log(np.asarray(columns[law.output], float))[None]
        observed = Observed(one, np.array([norm.scale]), np.zeros(len(u), int))
    n, (s, p) = observed.values.shape[-1], u.shape
    box = space_of(law.coefficients).box if box is None else box
    known, capacity = observed, max(1, _BLOCK // max(1, n * p))

    def part(at: Array) -> Solutions:
        return levenberg_marquardt(
            LogOutput(law, columns, n),
            u[at],
            box.rows(at, s),
            norm,
            counts=counts,
            draw=at if draw is None else draw[at],
            observed=replace(known, target=known.target[at]),
            capacity=capacity,
            damping=damping,
            enough=enough,
            bends=bends,
            iterations=iterations,
        )

    threads = min(_cores(), s * n * p // _WORTH_A_THREAD)
    if threads < 2:
        return part(np.arange(s))
    with _one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(part, np.array_split(np.arange(s), threads)))
    return Solutions(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _one_blas_thread() -> AbstractContextManager[object]:
    """Products of small matrices are slowed down by threads of their own, many times where cores are busy."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(1)
