"""Shares to whole samples: how many of each corpus, and in which order."""

from heapq import heappop, heappush

import numpy as np

from mixopt.columns import Array

_UNIT = 1 << 44


def counts(shares: Array, n: int) -> Array:
    """Samples of each corpus among n by the largest remainder: floor(n h_i), and one more for the largest fractions.

    Every count is within one of its quota n h_i, and they add up to n. Of equal fractions the earlier corpus is served.

    Inputs
    ------
    shares : [m], share of each corpus; they sum to 1
    n : number of samples

    Raises
    ------
    ValueError
        A share is negative or not a number, or they do not sum to 1.

    Examples
    --------
    >>> counts(np.array([0.7, 0.2, 0.1]), 8)
    array([6, 1, 1])
    """
    quota = _checked(shares) * n
    whole = np.floor(quota).astype(np.int64)
    ahead = np.argsort(whole - quota, kind="stable")
    whole[ahead[: n - whole.sum()]] += 1
    return whole


def quota_order(shares: Array, n: int) -> Array:
    r"""Corpus index of each of n samples such that every prefix is as mixed as the whole.

    .. math:: |x_i(k) - k h_i| < 1 \quad \text{for every corpus } i \text{ and every } k \le n

    The j-th sample of corpus i may come from position floor((j - 1) / h_i) + 1 on and must come by ceil(j / h_i). Among
    the samples that may come, the one due first is taken, which meets every due position whenever that is possible;
    with shares that sum to 1 it is (Tijdeman 1980, *The chairman assignment problem*). So a batch has the shares of the
    mixture without the noise of drawing: two mixtures differ by their shares and not by luck.

    Inputs
    ------
    shares : [m], share of each corpus; they sum to 1
    n : number of samples

    Raises
    ------
    ValueError
        A share is negative or not a number, or they do not sum to 1.

    Examples
    --------
    >>> quota_order(np.array([0.5, 0.25, 0.25]), 8)
    array([0, 1, 0, 2, 0, 1, 0, 2])
    """
    # Whole numbers, because j / h in floating point would move a release or a due position by one now and then.
    units: list[int] = counts(shares, _UNIT).tolist()
    drawn = [0] * len(units)
    waiting: list[list[int]] = [[] for _ in range(n + 1)]
    waiting[0] = [corpus for corpus, unit in enumerate(units) if unit]
    ready: list[tuple[int, int]] = []
    order = np.empty(n, dtype=np.int64)
    for position in range(n):
        for corpus in waiting[position]:
            heappush(ready, (-(-(drawn[corpus] + 1) * _UNIT // units[corpus]), corpus))
        corpus = heappop(ready)[1]
        order[position] = corpus
        drawn[corpus] += 1
        release = max(drawn[corpus] * _UNIT // units[corpus], position + 1)
        if release < n:
            waiting[release].append(corpus)
    return order


def _checked(shares: Array) -> Array:
    values = np.asarray(shares, dtype=np.float64)
    if values.ndim != 1 or not np.all(values >= 0):
        raise ValueError(
            f"shares {values}; one number of at least 0 per corpus is needed. Give a corpus to leave out 0."
        )
    if abs(values.sum() - 1) > 1e-6:
        raise ValueError(f"shares sum to {values.sum():.6g}; they must sum to 1 within 1e-6. Divide them by the sum.")
    return values / values.sum()
