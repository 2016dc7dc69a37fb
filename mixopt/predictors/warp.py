"""The logarithm of what a target has above a floor of its own, in which losses are close to linear in shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array

MARGIN = 0.5


@dataclass(frozen=True, eq=False)
class Range:
    """Lowest and highest value seen of each target, `[k]`: predictions end half the spread beyond them."""

    lower: Array
    upper: Array

    @classmethod
    def of(cls, values: Array) -> Range:
        """That of `values` [n, k]."""
        return cls(values.min(0), values.max(0))

    @property
    def spread(self) -> Array:
        return np.maximum(self.upper - self.lower, 1e-12 * np.maximum(np.abs(self.upper), 1))

    def inside(self, values: Array) -> Array:
        """Values as they are inside the range; beyond it they rise ever slower, by `MARGIN` of the spread at most.

        The order of predictions is kept, and so is the slope where they leave the range.

        >>> Range(np.array([1.0]), np.array([3.0])).inside(np.array([[2.0], [3.5], [1e69]])).round(2).T
        array([[2.  , 3.39, 4.  ]])
        """
        room = MARGIN * self.spread
        above, below = np.maximum(values - self.upper, 0), np.maximum(self.lower - values, 0)
        return np.clip(values, self.lower, self.upper) - room * np.expm1(-above / room) + room * np.expm1(-below / room)

    def to_dict(self) -> dict[str, Any]:
        return {"lower": self.lower.tolist(), "upper": self.upper.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Range:
        return cls(np.array(data["lower"], float), np.array(data["upper"], float))


@dataclass(frozen=True, eq=False)
class Warp:
    """log((y - floor) / spread), the floor lying `depth` spreads below the lowest value seen; `depth` is [k]."""

    range: Range
    depth: Array

    @property
    def floor(self) -> Array:
        return self.range.lower - self.depth * self.range.spread

    def forth(self, values: Array) -> Array:
        return np.log((values - self.floor) / self.range.spread)

    def back(self, warped: Array) -> Array:
        """Values [..., k] of their warped form, inside the range."""
        return self.range.inside(self.floor + self.range.spread * np.exp(np.minimum(warped, 30.0)))
