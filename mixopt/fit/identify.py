"""What the data cannot tell apart: directions of the coefficients along which the fit does not change."""

import numpy as np

from mixopt.columns import Array

# A direction is null when it moves the residuals a millionth of what the best determined direction moves them.
_NULL = 1e-6
# A coefficient has no effect when it moves them a trillionth of what the most effective one does.
_NO_EFFECT = 1e-12
# Entries of a direction below this share of its largest are left out of its description.
_MINOR = 0.02
# Of a weak direction only coefficients with this share of its largest entry are named.
_MENTIONED = 0.3


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
    # The triangle of a QR decomposition has the same singular values and directions, and no side as long as the runs.
    _, size, directions = np.linalg.svd(np.linalg.qr(slopes / unit, mode="r"), full_matrices=True)
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


def prior_shares(slopes: Array, precision: Array) -> Array:
    r"""How far each coefficient rests on its prior: 0 where runs decide, 1 where they say nothing, `[p]`.

    .. math:: \pi_k = P_{kk} \left[(J^T J + P)^{-1}\right]_{kk}

    the variance that is left of the prior's own. The numbers that runs determine are :math:`p - \sum_k \pi_k`: the
    effective number of parameters of Moody, 1992, and of Spiegelhalter et al., 2002.

    Parameters
    ----------
    slopes : [n, p], of the residuals, weighted; those of the priors are not among them
    precision : [p], of the priors in search coordinates

    Examples
    --------
    A hundred runs of noise 1 against a prior of sd 1, and a coefficient that no run shows:

    >>> prior_shares(np.stack([np.ones(100), np.zeros(100)], 1), np.ones(2)).round(2)
    array([0.01, 1.  ])
    """
    whole = slopes.T @ slopes + np.diag(precision)
    return np.clip(precision * np.diag(np.linalg.pinv(whole, hermitian=True)), 0.0, 1.0)


def weak_directions(slopes: Array, precision: Array, names: tuple[str, ...], log: Array) -> tuple[str, ...]:
    """In words, the directions that runs and priors leave open by more than one in search coordinates.

    An sd of one is a factor of e where the coefficient is searched in log. Null directions are not repeated.

    >>> slopes = np.array([[1.0, 1.0], [1.0, 1.1]])
    >>> weak_directions(slopes, np.zeros(2), ("A", "B"), np.array([True, True]))
    ('A, B are hardly determined, only their trade: A up, B down by 0.95 times as much (in log) changes little',)
    """
    size, directions = np.linalg.eigh(slopes.T @ slopes + np.diag(precision))
    weak = (size < 1.0) & (size > _NULL**2 * size.max(initial=0.0))
    return tuple(_weak_words(direction, names, log) for direction in directions.T[weak])


def _weak_words(direction: Array, names: tuple[str, ...], log: Array) -> str:
    order = np.argsort(-np.abs(direction))
    part = np.sort(order[np.abs(direction[order]) > _MENTIONED * np.abs(direction).max()])
    words = _words(np.where(np.isin(np.arange(len(direction)), part), direction, 0.0), names, log)
    if len(part) == 1:
        change = "a factor of e" if log[part[0]] else "1"
        return f"{names[part[0]]} is hardly determined: a change by {change} shows little"
    return words.replace("determined only up to a trade", "hardly determined, only their trade") + " changes little"


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
