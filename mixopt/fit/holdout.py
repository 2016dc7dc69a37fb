"""Which law? The one that predicts runs it has not seen, larger ones first; and how wrong it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast, overload

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.calibration import calibrate
from mixopt.fit.fit import Fit, fit
from mixopt.fit.folds import SAME, compute, folds
from mixopt.fit.folds import largest as largest
from mixopt.fit.gate import grouping
from mixopt.fit.many import fit_targets
from mixopt.fit.ranks import optimism, regret_at_1, spearman
from mixopt.fit.scores import Errors, lag
from mixopt.laws.law import Law, is_wide
from mixopt.predictors.predictor import Learned, Predictor
from mixopt.runs import Runs

_SPREAD = 40

Candidate = Law | Mapping[str, Law] | Predictor
"""A law for all targets, laws by target, or a model that is not a law."""
Holdout = Array | str | int
"""A mask of rows, "larger", "mixtures", or a number of folds over runs."""
_FOLDS = 5


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
    errors : of each held-out row
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
    errors: Errors = field(default_factory=Errors.none)
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
        errors = self.errors.target(list(self.targets).index(target))
        return replace(self, fits=fits or self.fits, rmse=self.targets[target], targets={}, errors=errors)


def compare(
    candidates: Mapping[str, Candidate],
    table: Columns | Runs,
    *,
    holdout: Holdout,
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


@overload
def calibrated(
    law: Law,
    table: Columns,
    *,
    holdout: Holdout | list[Holdout] | None = None,
    noise: float | None = None,
    **options: Any,
) -> Fit: ...
@overload
def calibrated(
    law: Mapping[str, Law],
    table: Columns | Runs,
    *,
    holdout: Holdout | list[Holdout] | None = None,
    noise: Mapping[str, float] | None = None,
    **options: Any,
) -> dict[str, Fit]: ...
def calibrated(
    law: Law | Mapping[str, Law],
    table: Columns | Runs,
    *,
    holdout: Holdout | list[Holdout] | None = None,
    noise: Any = None,
    **options: Any,
) -> Any:
    """The fit to all runs, its intervals widened by how wrong the law was on runs that it had not seen.

    Runs are held out in every way asked for, the law is fitted to the others, and what it errs beyond the noise and
    its own replicates is added to every prediction (inside the runs), or grows with the distance (beyond them), see
    `calibrate`. Nothing of runs outside `table` is ever looked at.

    Parameters
    ----------
    law : a law; or laws by target, for fits by target
    table : as in `compare`
    holdout : one or several hold-outs as in `compare`. If None, every mixture once in five folds where these differ,
        else every run once in five; and the largest runs, where runs differ in compute. Of these, one that leaves too
        few runs for the law is passed over
    noise : sd of log loss between seeds, where it is known; by target where there are several
    options : passed on to `fit`; without `replicates`, what runs leave open of the coefficients is part of the errors

    Examples
    --------
    Runs that end on a floor, fitted by a law without one: at 8 times the largest run it is known to err.

    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e10, 12)
    >>> law, runs = PowerLaw("tokens", 1e9, "B", "beta"), {"tokens": tokens, "loss": 2 + (tokens / 1e9) ** -0.5}
    >>> fitted = calibrated(law, runs, starts=4, replicates=20)
    >>> low, high = fitted.interval({"tokens": np.array([8e10])})
    >>> bool(low < 2 + 80**-0.5 < high), round(fitted.inside, 3), round(fitted.extrapolation, 3)
    (True, 0.0, 0.13)
    """
    columns = table.columns if isinstance(table, Runs) else table
    hows = _holdouts(columns) if holdout is None else holdout if isinstance(holdout, list) else [holdout]
    targets = list(law) if isinstance(law, Mapping) else options.pop("targets", None)
    many = targets is not None or isinstance(table, Runs)
    # An sd of so many replicates is within a ninth of itself, which is enough to be taken off an error.
    tried: dict[str, Any] = {**options, "replicates": min(int(options.get("replicates", 0)), _SPREAD)}
    scores = list[Score]()
    for how in hows:
        try:
            scores += compare({"": law}, table, holdout=how, targets=targets, **tried)
        except FitError:
            if holdout is not None:
                raise
    if not many:
        return calibrate(fit(cast(Law, law), columns, **options), [score.errors for score in scores], noise)
    known = noise or {}
    return {
        name: calibrate(fitted, [score.of(name).errors for score in scores], known.get(name))
        for name, fitted in fit_targets(law, table, targets=targets, **options).items()
    }


def _holdouts(columns: Columns) -> list[str | int]:
    """Mixtures or, where there are too few of them, runs; and the largest."""
    hows: list[str | int] = [_FOLDS]
    if "mixture" in columns:
        _, count = np.unique(np.round(np.asarray(columns["mixture"], float), 9), axis=0, return_counts=True)
        hows = ["mixtures"] if count.max() * _FOLDS <= count.sum() else hows
    return hows + ["larger"] * bool(np.ptp(np.log(compute(columns))) > SAME)


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
        run, weight = grouping(columns, len(mask), options.get("run"), options.get("weight"))
        held = run[mask], np.ones(mask.sum()) if weight is None else weight[mask]
        inside = {
            k: np.asarray(v)[~mask] if k in ("run", "weight") and v is not None else v for k, v in options.items()
        }
        try:
            fits.append(_learn(candidate, seen, names, inside))
            parts.append(Errors.of(fits[-1], output, seen, unseen, *held))
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
        errors=errors,
    )


def _failed(name: str, why: str) -> Score:
    nan, inf = float("nan"), float("inf")
    return Score(name, (), nan, inf, nan, nan, 0, inf, 0.0, nan, failure=why)


def _rows(columns: Columns, mask: Array) -> dict[str, Array]:
    """The masked rows; values shared by all runs, such as unique_tokens [m], stay as they are."""
    shared = {name for name, values in columns.items() if np.ndim(values) == (1 if is_wide(name) else 0)}
    return {name: values if name in shared else np.asarray(values)[mask] for name, values in columns.items()}
