"""Where runs were made: how far a row lies beyond the average of any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns

_STEPS = 400
_BLOCK = 100_000  # weights held at once, runs times rows: about a level-2 cache
_CLOSE = 2e-3  # a share this small to move is none


@dataclass(frozen=True, eq=False)
class Support:
    """The mixtures that were run, and the range of every other column.

    `typical` is the share that the 95th of 100 runs lies beyond the hull of the others: what a new run would too.
    """

    mixtures: Array
    ranges: Mapping[str, tuple[float, float]]
    typical: float

    @classmethod
    def of(cls, inputs: tuple[str, ...], columns: Columns) -> Support:
        """That of the runs in `columns`."""
        ranges = {
            name: (float(np.min(columns[name])), float(np.max(columns[name]))) for name in inputs if name != "mixture"
        }
        if "mixture" not in inputs:
            return cls(np.zeros((0, 0)), ranges, 0.0)
        mixtures = np.unique(np.asarray(columns["mixture"], float), axis=0)
        own = moved(mixtures, mixtures, alone=False) if len(mixtures) > 1 else np.zeros(1)
        return cls(mixtures, ranges, float(np.quantile(own, 0.95)))

    def beyond(self, columns: Columns) -> Array:
        """Share of tokens, at most, that has to move for a mixture to be an average of those that were run, `[n]`."""
        return moved(np.asarray(columns["mixture"], float), self.mixtures)

    def outside(self, columns: Columns) -> Array:
        """Rows beyond the hull by more than a new run would be, or beyond the range of another column, `[n]`."""
        far = [
            ((np.asarray(columns[name]) < low * (1 - 1e-9)) | (np.asarray(columns[name]) > high * (1 + 1e-9)))
            for name, (low, high) in self.ranges.items()
        ]
        far = [mask.any(-1) if mask.ndim > 1 else mask for mask in far]
        if self.mixtures.size:
            far.append(self.beyond(columns) > self.typical + _CLOSE)
        return np.logical_or.reduce(far)

    def to_dict(self) -> dict[str, Any]:
        return {"mixtures": self.mixtures.tolist(), "ranges": dict(self.ranges), "typical": self.typical}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Support:
        ranges = {name: (float(low), float(high)) for name, (low, high) in data["ranges"].items()}
        return cls(np.array(data["mixtures"], float), ranges, float(data["typical"]))


def moved(rows: Array, points: Array, *, alone: bool = True) -> Array:
    """Half the L1 distance of each row to its projection on the hull of `points`, `[n]`: the share to move.

    The projection is that of least squares, by pairwise Frank-Wolfe steps on all rows at once, so the share is an upper
    bound; it is about .01 too large at most. With `alone=False` rows are the points themselves, and each is measured to
    the hull of the others.

    >>> moved(np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]), np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).round(3)
    array([0., 1.])
    """
    block = max(1, _BLOCK // max(len(points), 1))
    parts = [
        _moved(rows[i : i + block], points, None if alone else np.arange(i, min(i + block, len(rows))))
        for i in range(0, len(rows), block)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _moved(rows: Array, points: Array, own: Array | None) -> Array:
    """One block. In every step each row swaps weight from its worst point in use to the best one."""
    gram = points @ points.T
    slopes = np.diag(gram) / 2 - rows @ points.T
    if own is not None:
        slopes[np.arange(len(rows)), own] = np.inf
    first, left = slopes.argmin(-1), np.arange(len(rows))
    weights, at = np.zeros(slopes.shape), points[first].copy()
    weights[left, first] = 1
    slopes += gram[first] - np.diag(gram) / 2  # of half the squared distance by the weights, for rows `left`
    for _ in range(_STEPS):
        used = np.where(weights[left] > 0, slopes, -np.inf)
        toward, away, here = slopes.argmin(-1), used.argmax(-1), np.arange(len(left))
        gain = used[here, away] - slopes[here, toward]
        going = (np.abs(at[left] - rows[left]).sum(-1) > _CLOSE / 2) & (gain > _CLOSE**2)
        if not going.any():
            break
        if not going.all():
            left, toward, away, gain, slopes = left[going], toward[going], away[going], gain[going], slopes[going]
        step = points[toward] - points[away]
        length = np.minimum(weights[left, away], gain / np.maximum((step**2).sum(-1), 1e-12))
        weights[left, away] -= length
        weights[left, toward] += length
        at[left] += length[:, None] * step
        slopes += length[:, None] * (gram[toward] - gram[away])
    share = np.abs(at - rows).sum(-1) / 2
    return np.where(share < _CLOSE, 0.0, share)
