"""Groups of runs left out one at a time: what a law says of a size or a length that it has not seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.fit import Fit, fit
from mixopt.laws.law import Law


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What each row's group was predicted to be by a fit to all other groups.

    Attributes
    ----------
    fits : the fit without each group, by group
    group : [n], which group each row belongs to
    predicted, errors : [n], the output, and log(predicted / seen)
    """

    fits: Mapping[Any, Fit]
    group: Array
    predicted: Array
    errors: Array

    def margin(self, level: float = 0.9, rows: Array | None = None) -> float:
        r"""Half width in log output that covers this share of the rows of a group not seen.

        .. math:: t_g(\text{level}) \sqrt{\frac1g \sum_{j=1}^g \overline{e^2}_j}

        Rows of one group err alike, so it is the groups that are few: Student's t with one degree of freedom for each,
        and every group counts alike.

        Parameters
        ----------
        rows : [n], mask of those that resemble what is to be predicted; all if None
        """
        from scipy.special import stdtrit

        kept = np.ones(len(self.group), bool) if rows is None else np.asarray(rows, bool)
        _, inverse, counts = np.unique(self.group[kept], return_inverse=True, return_counts=True)
        squares = np.bincount(inverse.ravel(), self.errors[kept] ** 2) / counts
        return float(stdtrit(len(counts), (1 + level) / 2) * np.sqrt(squares.mean()))


def leave_out(law: Law, columns: Columns, group: Array, *, weight: Array | None = None, **options: Any) -> LeftOut:
    """Fits the law once without each group, and predicts that group.

    Parameters
    ----------
    columns : the runs, one number each in every column
    group : [n], the groups; at least two
    weight : [n], as in `fit`
    options : passed on to `fit`

    Raises
    ------
    FitError
        There are fewer than two groups.

    Examples
    --------
    A power law without a floor, on runs that have one, is wrong most where it reaches farthest:

    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e11, 4)
    >>> runs = {"tokens": tokens, "loss": 2 + 0.5 * (tokens / 1e9) ** -0.5}
    >>> leave_out(PowerLaw("tokens", 1e9, "B", "beta"), runs, tokens, starts=4).errors.round(2)
    array([-0.26,  0.17,  0.13, -0.2 ])
    """
    group, names = np.asarray(group), tuple(dict.fromkeys((*law.inputs, law.output)))
    if len(np.unique(group)) < 2:
        raise FitError("All rows are of one group; leaving it out leaves nothing to fit. Give at least two groups.")
    fits, predicted = dict[Any, Fit](), np.empty(len(group))
    for one in np.unique(group):
        out = group == one
        seen = {name: np.asarray(columns[name])[~out] for name in names}
        found = fit(law, seen, weight=None if weight is None else np.asarray(weight)[~out], **options)
        predicted[out] = found.predict({name: np.asarray(columns[name])[out] for name in names})
        fits[one.item()] = found
    return LeftOut(fits, group, predicted, np.log(predicted / np.asarray(columns[law.output], float)))


def near_best(loss: Array, group: Array, scale: float = 0.005) -> Array:
    r"""Weights of runs by how close each comes to the best of its group, `[n]`.

    .. math:: w = 1 / (1 + (e / s)^2), \qquad e = L / L_{best} - 1

    A law of what a setting off its optimum costs is asked where the optimum is. Far from it the law is only about
    right, and its errors grow with the excess loss e: with its square, in variance.

    >>> near_best(np.array([2.0, 2.01, 2.1]), np.zeros(3)).round(2)
    array([1.  , 0.5 , 0.01])
    """
    _, inverse = np.unique(group, return_inverse=True)
    best = np.full(inverse.max() + 1, np.inf)
    np.minimum.at(best, inverse, loss)
    return 1 / (1 + ((loss / best[inverse] - 1) / scale) ** 2)
