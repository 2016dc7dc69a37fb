"""What the data cannot tell apart: directions of the coefficients along which the fit does not change."""

import numpy as np

from mixopt.columns import Array

# A direction is null when it moves the residuals a millionth of what the best determined direction moves them.
_NULL = 1e-6
# A coefficient has no effect when it moves them a trillionth of what the most effective one does.
_NO_EFFECT = 1e-12
# Entries of a direction below this share of its largest are left out of its description.
_MINOR = 0.02


def null_space(slopes: Array) -> Array:
    """Directions in search coordinates that leave every residual where it is, one per row, as sparse as can be.

    Parameters
    ----------
    slopes : [n, p], derivatives of the (weighted) residuals; rows for priors are among them

    Returns
    -------
    [d, p], each with a largest entry of 1. Judged from the singular values of the slopes, each column divided by its
    length, so that units do not matter.

    Examples
    --------
    Two columns that are always the same are known only in sum:

    >>> null_space(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0]])).round(6) + 0.0
    array([[ 1., -1.,  0.]])
    """
    length = np.sqrt((slopes**2).sum(0))
    typical = float(length.max(initial=0.0))
    if typical == 0.0:
        return np.eye(slopes.shape[-1])
    unit = np.where(length > _NO_EFFECT * typical, length, np.inf)
    _, size, directions = np.linalg.svd(slopes / unit, full_matrices=True)
    size = np.concatenate([size, np.zeros(len(directions) - len(size))])
    null = directions[size <= _NULL * size.max()]
    # Columns without any effect are null by themselves; the others are scaled back to search coordinates.
    return _sparse(null / np.where(np.isfinite(unit), unit / typical, 1.0))


def null_directions(slopes: Array, names: tuple[str, ...], log: Array) -> tuple[str, ...]:
    """`null_space` in words.

    >>> slopes = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 1.0]])
    >>> null_directions(slopes, ("A", "B", "E"), np.array([True, True, False]))
    ('A, B are determined only up to a trade: A up, B down by 1.00 times as much (in log)',)
    """
    return tuple(_words(direction, names, log) for direction in null_space(slopes))


def _words(direction: Array, names: tuple[str, ...], log: Array) -> str:
    part = np.flatnonzero(np.abs(direction) > _MINOR)
    share = direction[part] / direction[part[0]]
    listed = ", ".join(names[i] for i in part)
    if len(part) == 1:
        return f"{listed} is not determined: it has no effect on these runs"
    if np.allclose(share, 1.0, atol=_MINOR) and len(set(log[part])) == 1:
        return f"{listed} are determined only up to a common {'factor' if log[part[0]] else 'shift'}"
    trade = [
        f"{names[i]} {'up' if s > 0 else 'down'} by {abs(s):.2f} times as much"
        for i, s in zip(part[1:], share[1:], strict=True)
    ]
    in_log = " (in log)" if log[part].all() else ""
    return f"{listed} are determined only up to a trade: {names[part[0]]} up, {', '.join(trade)}{in_log}"


def _sparse(rows: Array) -> Array:
    """The same space with as many zeros as elimination gives, so that each direction names few coefficients."""
    rows = rows.copy()
    for k in range(len(rows)):
        i, j = (int(place) for place in np.unravel_index(np.abs(rows[k:]).argmax(), rows[k:].shape))
        rows[[k, k + i]] = rows[[k + i, k]]
        rows[k] /= rows[k, j]
        others = np.arange(len(rows)) != k
        rows[others] -= np.outer(rows[others, j], rows[k])
    return rows / np.abs(rows).max(axis=1, keepdims=True, initial=0.0) if len(rows) else rows
