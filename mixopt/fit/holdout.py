"""Which law? The one that predicts runs it has not seen, larger ones first; and how wrong it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.fit import Fit, fit
from mixopt.fit.folds import SAME, compute, folds
from mixopt.fit.folds import largest as largest
from mixopt.fit.many import fit_targets
from mixopt.fit.ranks import optimism, regret_at_1, spearman
from mixopt.fit.scores import Errors, lag
from mixopt.laws.law import Law, is_wide
from mixopt.predictors.predictor import Learned, Predictor
from mixopt.runs import Runs

Candidate = Law | Mapping[str, Law] | Predictor
"""A law for all targets, laws by target, or a model that is not a law."""


@dataclass(frozen=True, eq=False)
class Score:
    """How one candidate, fitted without the held-out rows, predicts them.

    Where several targets are predicted, squared errors are averaged over them by weight, and so are bias, rank, regret
    and optimism.

    Attributes
    ----------
    name : the candidate
    fits : what it became on the other rows, once a fold: a `Fit`, fits by target, or a `Learned`; none where it failed
    coefficients : how many numbers it was free to choose for a target
    rmse : root mean square of log(predicted / seen) on the held-out rows; .01 is 1 % of the loss
    bias : mean of the same; positive where the loss was predicted too high
    rank : Spearman correlation of predicted and seen, 1 where the order is right; NaN for a constant prediction
    n : held-out runs
    behind, behind_se : mean squared error above the best candidate's, and its standard error over paired runs
    reach : how far the held-out rows lie beyond the largest fitted, in e-folds of compute, root mean square
    regret, optimism : of the row predicted best among rows of the same compute (`ranks.regret_at_1`,
        `ranks.optimism`), in units of the output; NaN where no two held-out rows took the same
    targets : rmse by target, or by the output's name where there is one target
    failure : why it could not be fitted; empty where it could
    """

    name: str
    fits: tuple[Fit | Mapping[str, Fit] | Learned, ...]
    coefficients: float
    rmse: float
    bias: float
    rank: float
    n: int
    behind: float
    behind_se: float
    reach: float
    regret: float = float("nan")
    optimism: float = float("nan")
    targets: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""

    @property
    def fitted(self) -> Any:
        """What the candidate became on the rows outside the (first) fold."""
        if not self.fits:
            raise FitError(f"{self.name} could not be fitted: {self.failure}")
        return self.fits[0]

    @property
    def objective(self) -> float:
        """The law's objective on the rows that it saw."""
        return float(self.fitted.objective)

    def of(self, target: str) -> Score:
        """The score of one of several targets."""
        fits = tuple(fitted[target] for fitted in cast(tuple[Any, ...], self.fits) if isinstance(fitted, Mapping))
        return replace(self, fits=fits or self.fits, rmse=self.targets[target], targets={})


def compare(
    candidates: Mapping[str, Candidate],
    table: Columns | Runs,
    *,
    holdout: Array | str | int,
    targets: Mapping[str, float] | Sequence[str] | None = None,
    **options: Any,
) -> tuple[Score, ...]:
    """Fits each candidate to the rows outside the hold-out and scores it on those inside, best first.

    A candidate that cannot be fitted comes last, with the reason as its `failure`.

    Parameters
    ----------
    candidates : laws, laws by target, and predictors by name, all making the same column
    table : runs; or columns in which the output is [n], or [n, k] with the names of `targets`
    holdout : a mask [n], True for the rows to predict; "larger", the question that matters before a large run;
        "mixtures", each held out once in five folds; or a number of folds over runs
    targets : names, or weights by name; all targets of the runs, alike, if None
    options : passed on to `fit`

    Raises
    ------
    FitError
        No row, or every row, is held out; or no candidate can be fitted to the others.

    Examples
    --------
    Losses that level off at 2 nats: on larger runs the law without a floor is wrong by 17 %.

    >>> from mixopt.laws.constant import Constant
    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e11, 16)
    >>> power = PowerLaw("tokens", 1e9, "B", "beta")
    >>> runs = {"tokens": tokens, "loss": 2 + 0.5 * (tokens / 1e9) ** -0.5}
    >>> for score in compare({"power": power, "floor": Constant("E") + power}, runs, holdout="larger", starts=4):
    ...     print(score.name, round(score.rmse, 3))
    floor 0.0
    power 0.167
    """
    if not candidates:
        raise ValueError("There is no candidate to compare; give at least one law by name.")
    columns, names, weights = _read(candidates, table, targets)
    n = len(np.asarray(columns[_output(candidates)]))
    run = np.asarray(columns.get("run", np.arange(n)) if options.get("run") is None else options["run"])
    masks = folds(columns, holdout, run, int(options.get("seed", 0)))
    tried = {
        name: _try(candidate, columns, names, masks, {**options, "run": run}) for name, candidate in candidates.items()
    }
    if all(isinstance(found, str) for found in tried.values()):
        raise FitError("No candidate can be fitted. " + " ".join(f"{name}: {why}" for name, why in tried.items()))
    return _ordered(tried, weights, run, masks)


class Standing(Protocol):
    """What the choice between candidates rests on, as in `Score`."""

    @property
    def coefficients(self) -> float: ...
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


def extrapolation(score: Score, noise: float | None = None) -> float:
    r"""Relative sd of a prediction at the reach of the hold-out, beyond the noise of single runs.

    .. math:: s^2 = \max\left(\mathrm{rmse}^2 - \mathrm{noise}^2,\; \mathrm{rmse}^2 \sqrt{2 / n}\right)

    The mean square contains the bias, which is kept: a law that bends the wrong way errs alike on every large run.
    A mean of n squares has the relative sd sqrt(2 / n), so an excess below that was not seen to be absent: it is the
    least that is assumed. Where 16 runs were held out and the law errs by no more than the noise, s is .6 of it.
    `noise` is the sd of log loss between seeds where that is known; the fit's own residuals stand for it otherwise.
    """
    noise = float(score.fitted.noise) if noise is None else noise
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


def calibrated(law: Law, columns: Columns, *, share: float = 0.25, noise: float | None = None, **options: Any) -> Fit:
    """The fit to all runs, whose intervals beyond the largest are widened by how wrong it was on larger runs before.

    The largest runs are held out, about `share` of them; the law is fitted to the others and its error on those held
    out, beyond the noise, is what `extrapolated` adds. The split is by compute alone, so nothing of runs outside
    `columns` is ever looked at. Where all runs took the same compute there is nothing to extrapolate from, and the fit
    is returned as it is.

    Parameters
    ----------
    noise : sd of log loss between seeds, where it is known
    options : passed on to `fit`

    Examples
    --------
    Runs that end on a floor, fitted by a law without one: at 8 times the largest run it is known to err.

    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e10, 12)
    >>> law, runs = PowerLaw("tokens", 1e9, "B", "beta"), {"tokens": tokens, "loss": 2 + (tokens / 1e9) ** -0.5}
    >>> fitted = calibrated(law, runs, starts=4, replicates=20)
    >>> low, high = fitted.interval({"tokens": np.array([8e10])})
    >>> bool(low < 2 + 80**-0.5 < high), round(fitted.extrapolation, 3)
    (True, 0.151)
    """
    whole = fit(law, columns, **options)
    if np.ptp(np.log(compute(columns))) <= SAME:
        return whole
    tried: dict[str, Any] = {**options, "replicates": 0}
    (score,) = compare({law.output: law}, columns, holdout=largest(columns, share), **tried)
    return extrapolated(whole, score, noise) if score.reach > 0 else whole


_Tried = tuple[tuple[Any, ...], Errors]


def _read(
    candidates: Mapping[str, Candidate], table: Columns | Runs, targets: Mapping[str, float] | Sequence[str] | None
) -> tuple[Columns, tuple[str, ...], dict[str, float]]:
    """Columns, names of the targets (none where the output is [n]), and the weight of each."""
    output = _output(candidates)
    names = tuple(targets if targets is not None else table.targets if isinstance(table, Runs) else ())
    columns = table.columns if isinstance(table, Runs) else table
    if isinstance(table, Runs):
        columns = {**columns, output: np.stack([table.target(name)[output] for name in names], 1)}
    given = np.shape(columns[output])[1:]
    if given != ((len(names),) if names else ()):
        raise FitError(f"{output} has shape {list(np.shape(columns[output]))} and {len(names)} targets are named.")
    weights = targets if isinstance(targets, Mapping) else dict.fromkeys(names or (output,), 1.0)
    return columns, names, {name: float(weight) for name, weight in weights.items()}


def _output(candidates: Mapping[str, Candidate]) -> str:
    first = next(iter(candidates.values()))
    return (next(iter(first.values())) if isinstance(first, Mapping) else first).output


def _try(
    candidate: Candidate, columns: Columns, names: tuple[str, ...], masks: Sequence[Array], options: Mapping[str, Any]
) -> _Tried | str:
    """What the candidate became in each fold and its errors; or, in words, why it could not be fitted."""
    output = _output({"": candidate})
    fits: list[Any] = []
    parts: list[Errors] = []
    for mask in masks:
        seen, unseen = _rows(columns, ~mask), _rows(columns, mask)
        inside = {
            k: np.asarray(v)[~mask] if k in ("run", "weight") and v is not None else v for k, v in options.items()
        }
        try:
            fits.append(_learn(candidate, seen, names, inside))
            parts.append(Errors.of(fits[-1], output, seen, unseen))
        except (FitError, ValueError, np.linalg.LinAlgError) as error:
            return str(error)
    return tuple(fits), Errors.pooled(parts)


def _learn(candidate: Candidate, seen: Columns, names: tuple[str, ...], options: Mapping[str, Any]) -> Any:
    if isinstance(candidate, Predictor):
        return candidate.learn(seen, seed=int(options.get("seed", 0)))
    if names:
        return fit_targets(candidate, seen, targets=names, **options)
    return fit(cast(Law, candidate), seen, **options)


def _ordered(
    tried: Mapping[str, _Tried | str],
    weights: Mapping[str, float],
    run: Array,
    masks: Sequence[Array],
) -> tuple[Score, ...]:
    """A score for each candidate, the least squared error first and those that failed last."""
    found = {name: part for name, part in tried.items() if not isinstance(part, str)}
    share = np.array(list(weights.values())) / sum(weights.values())
    squared = {name: errors.log**2 @ share for name, (_, errors) in found.items()}
    order = sorted(found, key=lambda name: float(squared[name].mean()))
    held = np.concatenate([run[mask] for mask in masks])
    scores = [_score(name, *found[name], share, list(weights), held, squared[order[0]]) for name in order]
    failed = {name: why for name, why in tried.items() if isinstance(why, str)}
    return (*scores, *(_failed(name, why) for name, why in failed.items()))


def _score(
    name: str, fits: tuple[Any, ...], errors: Errors, share: Array, targets: Sequence[str], run: Array, best: Array
) -> Score:
    log = errors.log
    behind, behind_se = lag(log**2 @ share, best, run)
    rmse = np.sqrt((log**2).mean(0))
    return Score(
        name=name,
        fits=fits,
        coefficients=errors.freedom,
        rmse=float(np.sqrt(share @ rmse**2)),
        bias=float(share @ log.mean(0)),
        rank=float(share @ errors.each(spearman)),
        n=len(np.unique(run)),
        behind=behind,
        behind_se=behind_se,
        reach=float(np.sqrt(np.mean(errors.beyond**2))),
        regret=float(share @ errors.chosen(regret_at_1)),
        optimism=float(share @ errors.chosen(optimism)),
        targets=dict(zip(targets, rmse.tolist(), strict=True)),
    )


def _failed(name: str, why: str) -> Score:
    nan, inf = float("nan"), float("inf")
    return Score(name, (), nan, inf, nan, nan, 0, inf, 0.0, nan, failure=why)


def _rows(columns: Columns, mask: Array) -> dict[str, Array]:
    """The masked rows; values shared by all runs, such as unique_tokens [m], stay as they are."""
    shared = {name for name, values in columns.items() if np.ndim(values) == (1 if is_wide(name) else 0)}
    return {name: values if name in shared else np.asarray(values)[mask] for name, values in columns.items()}
