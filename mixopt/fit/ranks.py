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


def regret_at_1(predicted: Array, seen: Array) -> float:
    """What is lost by taking the run predicted best: its loss above that of the best of all, in the units of `seen`.

    Equal predictions are all taken, at the mean of what they lead to.

    >>> round(regret_at_1(np.array([2.9, 3.0, 3.1]), np.array([3.02, 3.0, 3.4])), 3)
    0.02
    """
    return float(seen[predicted == predicted.min()].mean() - seen.min())


def optimism(predicted: Array, seen: Array) -> float:
    """By how much the run predicted best was worse than predicted, in the units of `seen`; negative where better.

    The best of many predictions is more often too low than too high, so a choice disappoints even where predictions
    are right in the mean.

    >>> round(optimism(np.array([2.9, 3.0, 3.1]), np.array([3.02, 3.0, 3.4])), 3)
    0.12
    """
    chosen = predicted == predicted.min()
    return float((seen[chosen] - predicted[chosen]).mean())
