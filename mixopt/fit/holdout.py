"""Which law? The one that predicts runs it has not seen, larger ones first; and how wrong it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.fit import Fit, fit
from mixopt.fit.ranks import spearman
from mixopt.laws.law import Law, is_wide


@dataclass(frozen=True, eq=False)
class Score:
    """How one candidate, fitted without the held-out rows, predicts them.

    Attributes
    ----------
    name, fitted : the candidate and its fit to the other rows
    rmse : root mean square of log(predicted / seen) on the held-out rows; .01 is 1 % of the loss
    bias : mean of the same; positive where the loss was predicted too high
    rank : Spearman correlation of predicted and seen, 1 where the order is right; NaN for a constant prediction
    n : held-out runs
    behind, behind_se : mean squared error above the best candidate's, and its standard error over paired runs
    reach : how far the held-out rows lie beyond the largest fitted, in e-folds of compute, root mean square
    """

    name: str
    fitted: Fit
    rmse: float
    bias: float
    rank: float
    n: int
    behind: float
    behind_se: float
    reach: float

    @property
    def coefficients(self) -> int:
        """How many numbers the candidate was free to choose."""
        return len(self.fitted.theta)

    @property
    def objective(self) -> float:
        """The fit's objective on the rows that it saw."""
        return self.fitted.objective


def compare(candidates: Mapping[str, Law], columns: Columns, *, holdout: Array, **options: Any) -> tuple[Score, ...]:
    """Fits each candidate to the rows outside `holdout` and scores it on those inside, best first.

    Parameters
    ----------
    candidates : laws by name, all making the same column
    columns : the runs
    holdout : [n], True for the rows to predict; `largest(columns)` is the question that matters before a large run
    options : passed on to `fit`

    Raises
    ------
    FitError
        No row, or every row, is held out; or a candidate cannot be fitted to the others.
    """
    mask = np.asarray(holdout, bool)
    if not candidates:
        raise ValueError("There is no candidate to compare; give at least one law by name.")
    if not mask.any() or mask.all():
        raise FitError(f"{mask.sum()} of {len(mask)} rows are held out; hold out some and leave some to fit.")
    seen, unseen = _rows(columns, ~mask), _rows(columns, mask)
    run = np.asarray(columns.get("run", np.arange(len(mask))) if options.get("run") is None else options["run"])
    options = {**options, "run": run[~mask]}
    fits = {name: fit(law, seen, **options) for name, law in candidates.items()}
    errors = {name: log_errors(fitted, unseen) for name, fitted in fits.items()}
    order = sorted(errors, key=lambda name: float(np.mean(errors[name] ** 2)))
    return tuple(_score(name, fits[name], unseen, errors[name], errors[order[0]], run[mask]) for name in order)


class Standing(Protocol):
    """What the choice between candidates rests on, as in `Score`."""

    @property
    def coefficients(self) -> int: ...
    @property
    def rmse(self) -> float: ...
    @property
    def behind(self) -> float: ...
    @property
    def behind_se(self) -> float: ...


S = TypeVar("S", bound=Standing)


def choose(scores: Sequence[S]) -> S:
    """The simplest candidate within one standard error of the best, as paired runs tell: fewest coefficients."""
    close = [score for score in scores if score.behind <= score.behind_se]
    if not close:
        raise FitError(
            "No candidate predicts a positive number for every held-out row. Add candidates, or hold out less."
        )
    return min(close, key=lambda score: (score.coefficients, score.rmse))


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
    parts = [np.asarray(columns[name], float) for name in ("model_size", "tokens") if name in columns]
    compute = np.prod([part for part in parts if np.isfinite(part).all()], axis=0)
    # A relative step below 1e-6 is rounding, not another size of run.
    order = np.argsort(compute)
    steps = np.flatnonzero(np.diff(np.log(compute[order])) > 1e-6) + 1
    if not len(steps):
        raise FitError("All runs took the same compute, so none is larger. Hold out other rows, such as mixtures.")
    kept = steps[np.abs(len(compute) - steps - share * len(compute)).argmin()]
    mask = np.zeros(len(compute), bool)
    mask[order[kept:]] = True
    return mask


def extrapolation(score: Score, noise: float | None = None) -> float:
    r"""Relative sd of a prediction at the reach of the hold-out, beyond the noise of single runs.

    .. math:: s^2 = \max\left(\mathrm{rmse}^2 - \mathrm{noise}^2,\; \mathrm{rmse}^2 \sqrt{2 / n}\right)

    The mean square contains the bias, which is kept: a law that bends the wrong way errs alike on every large run.
    A mean of n squares has the relative sd sqrt(2 / n), so an excess below that was not seen to be absent: it is the
    least that is assumed. Where 16 runs were held out and the law errs by no more than the noise, s is .6 of it.
    `noise` is the sd of log loss between seeds where that is known; the fit's own residuals stand for it otherwise.
    """
    noise = score.fitted.noise if noise is None else noise
    return float(np.sqrt(max(score.rmse**2 - noise**2, score.rmse**2 * np.sqrt(2 / score.n))))


def extrapolated(fitted: Fit, score: Score, noise: float | None = None) -> Fit:
    """The fit with the error of the hold-out added to what it predicts beyond its largest run.

    The sd grows in proportion to the distance in log compute: nothing at the largest run fitted, `extrapolation` at
    the reach that was tested, twice that at twice the reach. It is one number from one hold-out, and a straight line
    through it: honest about what was measured, silent about what bends later.
    """
    if score.reach <= 0:
        raise FitError("These held-out rows are not larger than those fitted. Hold out largest(columns) for this.")
    return replace(fitted, extrapolation=extrapolation(score, noise), reach=score.reach)


def _score(name: str, fitted: Fit, unseen: Columns, error: Array, best: Array, run: Array) -> Score:
    behind, behind_se = lag(error**2, best**2, run)
    return Score(
        name=name,
        fitted=fitted,
        rmse=float(np.sqrt(np.mean(error**2))),
        bias=float(np.mean(error)),
        rank=spearman(fitted.predict(unseen), unseen[fitted.law.output]),
        n=len(np.unique(run)),
        behind=behind,
        behind_se=behind_se,
        reach=float(np.sqrt(np.mean(fitted.overshoot(unseen) ** 2))),
    )


def lag(squared: Array, best: Array, run: Array) -> tuple[float, float]:
    """How far squared errors [n] lie above the best candidate's, in the mean, and its standard error over runs."""
    if not np.isfinite(squared).all():
        return np.inf, 0.0
    behind = _by_run(squared - best, run)
    return float(behind.mean()), float(behind.std(ddof=1) / np.sqrt(len(behind))) if len(behind) > 1 else 0.0


def log_errors(fitted: Fit, unseen: Columns) -> Array:
    """log(predicted / seen) of each row; inf where the law predicts no positive number, which is as wrong as can be."""
    with np.errstate(all="ignore"):
        error = np.log(fitted.predict(unseen) / unseen[fitted.law.output])
    return np.where(np.isfinite(error), error, np.inf)


def _by_run(values: Array, run: Array) -> Array:
    """Mean within each run: checkpoints of one run are one draw, not many."""
    _, inverse = np.unique(run, return_inverse=True)
    return np.bincount(inverse, values) / np.bincount(inverse)


def _rows(columns: Columns, mask: Array) -> dict[str, Array]:
    """The masked rows; values shared by all runs, such as unique_tokens [m], stay as they are."""
    shared = {name for name, values in columns.items() if np.ndim(values) == (1 if is_wide(name) else 0)}
    return {name: values if name in shared else np.asarray(values)[mask] for name, values in columns.items()}
