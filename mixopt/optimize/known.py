"""A law whose coefficients are taken as known, e.g. from a paper: what a problem takes where nothing was fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Law


@dataclass(frozen=True, eq=False)
class Known:
    """Stands where a fit would, in a `Target`.

    Parameters
    ----------
    law, theta : the law and its coefficients [p]
    replicates : [s, p], coefficients that are also possible; paired by row with those of other targets
    extrapolation : relative sd of the loss wherever the law is applied, on top of the replicates

    Examples
    --------
    >>> from mixopt.laws.constant import Constant
    >>> Known(Constant(), np.array([1.8])).predict({"tokens": np.array([1e9, 2e9])})
    array([1.8, 1.8])
    """

    law: Law
    theta: Array
    replicates: Array = field(default_factory=lambda: np.empty((0, 0)))
    extrapolation: float = 0.0
    reach: ClassVar[float] = 1.0
    support: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def predict(self, columns: Columns) -> Array:
        """[n], the law's output."""
        return np.broadcast_to(self.law(self.theta, columns), (_rows(columns),))

    def samples(self, columns: Columns) -> Array:
        """[s, n], the law's output by each replicate."""
        return np.broadcast_to(self.law(self.replicates, columns), (len(self.replicates), _rows(columns)))

    def overshoot(self, columns: Columns) -> Array:
        """[n], 1 everywhere: a known law has no runs that it could leave behind."""
        return np.ones(_rows(columns))

    def unexplained(self, columns: Columns) -> Array:
        """[n], `extrapolation` everywhere."""
        return np.full(_rows(columns), self.extrapolation)


def _rows(columns: Columns) -> int:
    return max(len(np.atleast_1d(column)) for column in columns.values())
