"""Search coordinates: the logarithm of coefficients that say so, inside their box; and the solve in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.levenberg_marquardt import Box, Solutions, levenberg_marquardt
from mixopt.fit.norms import Norm
from mixopt.laws.law import Coefficient, Law

# Entries of one Jacobian block; more rows than fit in it are solved block by block. About a level-2 cache.
_BLOCK = 120_000


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
class LogResidual:
    """Residuals of the log of a law's output, in units of `scale`, and their slopes in search coordinates.

    Dividing by the scale makes the objective of order n. Averaged in log loss instead it would be of order 1e-6,
    under any solver's default tolerance, which stops it early.
    """

    law: Law
    columns: Columns
    scale: float

    @cached_property
    def space(self) -> Space:
        return space_of(self.law.coefficients)

    @cached_property
    def target(self) -> Array:
        return np.log(self.columns[self.law.output])

    def value(self, u: Array, /) -> Array:
        value = self.law(self.space.to_theta(u), self.columns)
        return np.broadcast_to((np.log(value) - self.target) / self.scale, (len(u), len(self.target)))

    def slopes(self, u: Array, /) -> tuple[Array, Array]:
        theta = self.space.to_theta(u)
        value, slopes = self.law.jacobian(theta, self.columns)
        z = (np.log(value) - self.target) / self.scale
        slopes = slopes * (self.space.stretch(theta)[..., None, :] / (value * self.scale)[..., None])
        rows = (len(u), len(self.target))
        return np.broadcast_to(z, rows), np.broadcast_to(slopes, (*rows, u.shape[-1]))


def solve(
    law: Law, columns: Columns, u: Array, norm: Norm, counts: Array | None = None, centers: Array | None = None
) -> Solutions:
    """Minimizes from every row of `u`, block by block so that memory does not grow with their number."""
    residual = LogResidual(law, columns, norm.scale)
    box = residual.space.box
    rows = max(1, _BLOCK // max(1, len(columns[law.output]) * u.shape[-1]))
    parts = [
        levenberg_marquardt(
            residual,
            u[at],
            box,
            norm,
            counts=None if counts is None else counts[at],
            centers=None if centers is None else centers[at],
        )
        for at in (slice(i, i + rows) for i in range(0, len(u), rows))
    ]
    return Solutions(*(np.concatenate(column) for column in zip(*parts, strict=True)))
