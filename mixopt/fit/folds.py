"""Which rows are held out: the largest runs, whole mixtures, or runs at random."""

from collections.abc import Sequence

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError

# A relative step of compute below this is rounding, not another size of run.
SAME = 1e-6
_FOLDS = 5


def folds(columns: Columns, holdout: Array | str | int, run: Array, seed: int = 0) -> list[Array]:
    """Masks `[n]` of the rows held out, one after the other.

    Parameters
    ----------
    holdout : a mask; "larger" for the runs with the most compute; "mixtures" for every mixture once, in five folds; or
        a number of folds over runs
    run : [n], rows of one run are held out together

    Raises
    ------
    FitError
        No row, or every row, would be held out.

    Examples
    --------
    >>> columns = {"mixture": np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])}
    >>> [mask.tolist() for mask in folds(columns, "mixtures", np.arange(3))]
    [[False, True, False], [True, False, True]]
    """
    if isinstance(holdout, str):
        if holdout == "larger":
            return [largest(columns)]
        if holdout != "mixtures":
            raise ValueError(f"holdout is {holdout!r}; give 'larger', 'mixtures', a number of folds or a mask of rows.")
        mixture = np.round(np.asarray(columns["mixture"], float), 9)
        return _split(np.unique(mixture, axis=0, return_inverse=True)[1].reshape(-1), _FOLDS, seed)
    if isinstance(holdout, int | np.integer):
        return _split(np.unique(run, return_inverse=True)[1], int(holdout), seed)
    mask = np.asarray(holdout, bool)
    if mask.shape != run.shape or not mask.any() or mask.all():
        raise FitError(f"{mask.sum()} of {len(run)} rows are held out; hold out some and leave some to fit.")
    return [mask]


def largest(columns: Columns, share: float = 0.25) -> Array:
    """Mask of the runs with the most compute (size times tokens), about `share` of them; equal ones stay together.

    Where runs have no size (an n-gram model) their tokens alone decide.

    Examples
    --------
    >>> largest({"model_size": np.array([1e6, 1e6, 4e6, 4e6]), "tokens": np.array([1e8, 2e8, 2e8, 2e8])}).tolist()
    [False, False, True, True]

    Raises
    ------
    FitError
        All runs took the same compute.
    """
    if not 0 < share < 1:
        raise ValueError(f"share is the part of the runs to hold out, between 0 and 1; got {share}.")
    size = compute(columns)
    order = np.argsort(size)
    steps = np.flatnonzero(np.diff(np.log(size[order])) > SAME) + 1
    if not len(steps):
        raise FitError("All runs took the same compute, so none is larger. Hold out other rows, such as mixtures.")
    kept = steps[np.abs(len(size) - steps - share * len(size)).argmin()]
    mask = np.zeros(len(size), bool)
    mask[order[kept:]] = True
    return mask


def compute(columns: Columns) -> Array:
    """Size times tokens of each run, or the one of them that is known of all; ones where neither is, `[n]` or `[1]`."""
    parts = [np.asarray(columns[name], float) for name in ("model_size", "tokens") if name in columns]
    parts = [part for part in parts if np.isfinite(part).all()]
    return np.prod(np.broadcast_arrays(*parts), axis=0) if parts else np.ones(1)


def settings(columns: Columns, rows: int) -> list[Array]:
    """Places of the rows that took the same compute, for each such group of two or more: mixtures to choose between."""
    size = np.round(np.log(np.broadcast_to(compute(columns), rows)) / (10 * SAME))
    groups = (np.flatnonzero(size == value) for value in np.unique(size))
    return [group for group in groups if len(group) > 1]


def _split(group: Array, count: int, seed: int) -> list[Array]:
    """Every group held out once, `count` times about as many."""
    groups: Sequence[int] = np.unique(group).tolist()
    if not 2 <= count:
        raise ValueError(f"{count} folds hold out all or nothing; give at least 2.")
    if len(groups) < 2:
        raise FitError("All rows are of one run or one mixture, so none can be held out. Add runs.")
    place = np.random.default_rng(seed).permutation(len(groups)) % min(count, len(groups))
    fold = place[np.searchsorted(groups, group)]
    return [fold == k for k in range(min(count, len(groups)))]
