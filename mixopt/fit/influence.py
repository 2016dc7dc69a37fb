"""Which runs a fit rests on: what changes when one is left out, and when those that pull alike are."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.fit import Fit
from mixopt.fit.gate import check, grouping
from mixopt.fit.search import LogResidual, solve, space_of

# A run is an outlier when its residual is this many times the noise: one Gaussian run in 16 000.
_OUTLIER = 4.0
# Runs refitted without; of more, those whose first-order influence is largest.
_REFITTED = 300
_NEWTON = 0.05


@dataclass(frozen=True, eq=False)
class Influence:
    """What each run does to a fit, the most influential first.

    Attributes
    ----------
    run : [r], the runs
    names : the law's coefficients
    without : [r, p], the coefficients when the run is left out
    distance : [r], how far they move: root mean square over coefficients, in standard errors of the fit, correlations
        counted (the root of Cook's distance)
    residual : [r], log(predicted / seen) of the run, the largest of its rows
    outlier : [r], whether that is over four times the noise
    group : the outliers that pull the fit the same way as the most influential of them
    without_group : [p], the coefficients when all of these are left out
    theta : [p], the coefficients with all runs
    """

    run: Array
    names: tuple[str, ...]
    without: Array
    distance: Array
    residual: Array
    outlier: Array
    group: tuple[str, ...]
    without_group: Array
    theta: Array

    def words(self) -> tuple[str, ...]:
        """Sentences for a reader: which runs are influential together, and which are outliers."""
        said: list[str] = []
        if self.group:
            known = np.abs(self.theta) > 1e-6 * np.abs(self.without_group).max()
            moved = np.abs(np.where(known, self.without_group, 1.0) / np.where(known, self.theta, 1.0) - 1)
            k = int(moved.argmax())
            name, more = self.names[k], ""
            if len(self.group) > 1:
                more = (
                    f", and {self.without[0, k]:.4g} without run {self.run[0]} alone, which moves the fit most: look "
                    "at what these runs have in common"
                )
            without = f"Without {_listed(self.group)}, {name} is {self.without_group[k]:.4g}"
            said.append(f"{without} instead of {self.theta[k]:.4g}{more}.")
        order = np.argsort(-np.abs(self.residual[self.outlier]))
        if outliers := self.run[self.outlier][order].astype(str).tolist():
            said.append(
                f"{_listed(tuple(outliers))} lie{'s' * (len(outliers) == 1)} over 4 times the noise from the law."
            )
        return tuple(said)


def influence(fitted: Fit, columns: Columns, *, run: Array | None = None, weight: Array | None = None) -> Influence:
    r"""Refits a law without each run, from the optimum, and without the runs that err alike.

    Of many runs only the 300 with the largest first-order influence :math:`-(H_{-i})^{-1} g_i` are refitted, with
    :math:`H_{-i}` the curvature of the objective without run i and :math:`g_i` its share of the gradient.

    Parameters
    ----------
    fitted, columns, run, weight : the fit and what it was fitted to

    References
    ----------
    Cook, *Detection of Influential Observation in Linear Regression*, 1977 (distance).

    Examples
    --------
    Eleven runs on a power law, and one that was logged wrongly:

    >>> from mixopt.fit.fit import fit
    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e10, 12)
    >>> loss = 2 * (tokens / 1e9) ** -0.5 * (1 + 0.001 * np.cos(np.arange(12.0)))
    >>> runs = {"tokens": tokens, "loss": np.where(np.arange(12) == 3, 1.3 * loss, loss)}
    >>> found = influence(fit(PowerLaw("tokens", 1e9, "B", "beta"), runs, starts=4), runs)
    >>> found.group, found.words()[1]
    (('3',), 'run 3 lies over 4 times the noise from the law.')
    """
    law = fitted.law
    check(law, columns, 1, 0)
    run, weight = grouping(columns, len(columns[law.output]), run, weight)
    once = np.ones(len(run)) if weight is None else weight
    _, first, inverse = np.unique(run, return_index=True, return_inverse=True)
    z, steps, inverse_spread = _first_order(fitted, columns, inverse, once)
    tried = np.argsort(-_distance(steps, inverse_spread))[:_REFITTED]
    without = _refit(fitted, columns, (inverse[None] != tried[:, None]) * once)
    space = space_of(law.coefficients)
    moved = space.to_search(without) - space.to_search(fitted.theta)
    distance = _distance(moved, inverse_spread)
    order = np.argsort(-distance)
    residual = np.array([z[inverse == k][np.abs(z[inverse == k]).argmax()] for k in tried])
    outlier = np.abs(residual) > _OUTLIER * fitted.noise
    same = outlier & _alike(moved, distance, outlier, inverse_spread)
    left = _refit(fitted, columns, (~np.isin(inverse, tried[same]) * once)[None])[0] if same.any() else fitted.theta
    return Influence(
        run=run[first][tried][order],
        names=law.names,
        without=without[order],
        distance=distance[order],
        residual=residual[order],
        outlier=outlier[order],
        group=tuple(run[first][tried][order][same[order]].astype(str).tolist()),
        without_group=left,
        theta=fitted.theta,
    )


def _first_order(fitted: Fit, columns: Columns, group: Array, once: Array) -> tuple[Array, Array, Array]:
    """Log residuals [n], first-order change without each run [r, p], and the inverse of the coefficients' spread."""
    law, norm, space = fitted.law, fitted.norm, space_of(fitted.law.coefficients)
    z, slopes = (part[0] for part in LogResidual(law, columns, norm.scale).slopes(space.to_search(fitted.theta)[None]))
    weight, bend = norm.weight(z), norm.curvature(z)
    bend = once * (bend + _NEWTON * (weight - bend))
    rows = slopes * (once * weight * z)[:, None]
    gradient = np.zeros((group.max() + 1, len(fitted.theta)))
    np.add.at(gradient, group, rows)
    whole = (slopes * bend[:, None]).T @ slopes + np.diag(space.box.precision)
    spread = gradient.T @ gradient + np.diag(space.box.precision)
    inverse = np.linalg.pinv(whole)
    steps = np.empty_like(gradient)
    for k in range(len(gradient)):
        own = slopes[group == k]
        steps[k] = np.linalg.lstsq(whole - (own * bend[group == k, None]).T @ own, gradient[k], rcond=None)[0]
    return norm.scale * z, steps, np.linalg.pinv(inverse @ spread @ inverse)


def _refit(fitted: Fit, columns: Columns, counts: Array) -> Array:
    """Coefficients `[s, p]` refitted from the optimum to rows that count `counts` [s, n]."""
    space = space_of(fitted.law.coefficients)
    starts = np.tile(space.to_search(fitted.theta), (len(counts), 1))
    return space.to_theta(solve(fitted.law, columns, starts, fitted.norm, counts).u)


def _distance(moved: Array, inverse_spread: Array) -> Array:
    return np.sqrt(np.einsum("rp,pq,rq->r", moved, inverse_spread, moved).clip(0) / max(moved.shape[1], 1))


def _alike(moved: Array, distance: Array, outlier: Array, inverse_spread: Array) -> Array:
    """Which runs move the coefficients in the direction of the most influential outlier, within 60 degrees."""
    top = int(np.where(outlier, distance, -1.0).argmax())
    along = moved @ inverse_spread @ moved[top] / max(moved.shape[1], 1)
    return along > 0.5 * distance * distance[top]


def _listed(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"run{'s' * (len(names) > 1)} {', '.join(names[:most])}{more}"
