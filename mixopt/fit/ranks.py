"""Rank correlation: whether two lists of numbers put the same things first."""

import numpy as np

from mixopt.columns import Array


def spearman(a: Array, b: Array) -> float:
    """Spearman's correlation: 1 where both order alike, -1 where in reverse; NaN where one is all the same.

    Equal values share the mean of their ranks, so an order that does not exist is not made up.

    >>> spearman(np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.1, 2.0, 3.5, 9.0]))
    0.8
    """
    first, second = (_ranks(values) for values in (a, b))
    x, y = first - first.mean(), second - second.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else float("nan")


def _ranks(values: Array) -> Array:
    """Ranks from 1, ties at their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
