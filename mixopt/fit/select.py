"""From a table of runs to what predicts it best, a fit for every target, and what to say about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.errors import FitError
from mixopt.fit import screen
from mixopt.fit.cautions import cautions
from mixopt.fit.fit import Fit
from mixopt.fit.folds import SAME, compute, folds
from mixopt.fit.holdout import Score, calibrated, choose, compare
from mixopt.fit.many import fit_targets
from mixopt.fit.noise import seed_noise
from mixopt.fit.norms import Huber
from mixopt.fit.selection import Candidate, HeldOut, Selection
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.ready import candidates, units, varied
from mixopt.runs import Runs

_LEAST_NOISE = 1e-3
_STARTS, _FEW, _LARGE = 16, 4, 4000  # starts of a fit; rows times targets above which they are few
_FOLDS, _TESTS, _LEAST = 5, 60, 4
_REFITTED = 100  # coefficients of all targets together
_CORPORA = 1000
Laws = Mapping[str, Mapping[str, Law]]
Watch = Callable[[str], None]


def _silent(words: str) -> None:
    """Nobody watches."""


def select(
    runs: Runs,
    weights: Mapping[str, float] | None = None,
    *,
    holdout: str | int = "auto",
    seed: int = 0,
    replicates: int = 200,
    for_plan: bool = False,
    watch: Watch = _silent,
) -> Selection:
    """What predicts unseen runs best, of all laws that these runs could follow, fitted to every target.

    Candidates follow from what varies in the table: laws of size and tokens, of the mixture, or of all together, with
    terms for repetition, batch size and learning rate where these vary. Each is fitted without the rows held out and
    scored on them; the simplest within one standard error of the best wins. Its error there, beyond the noise, widens
    the intervals of predictions beyond the runs in proportion to the distance in log compute. Where nothing but the
    mixture varies, laws and models that are not laws are averaged instead, weighted by their error on unseen runs.

    Parameters
    ----------
    runs : of transformers, and of n-grams where mixtures were screened; a table without `proxy` is of transformers
    weights : of each target in the choice; all targets alike if None
    holdout : "larger", the runs with the most compute; "mixtures", each held out once; a number of folds over runs;
        or "auto": "larger" where runs differ in compute, else "mixtures" where these differ, else five folds
    watch : called with a few words on what is being done
    for_plan : laws only, with a term for everything that a plan chooses, on a prior where the runs do not vary it

    Raises
    ------
    FitError
        A target was not measured, no run finished, nothing varies, or no candidate can be fitted.
    """
    weights = dict.fromkeys(runs.targets, 1.0) if weights is None else weights
    _check(runs, weights)
    if for_plan:
        _check_columns(runs)
    full, screens = runs.of("transformer").finished(), runs.of("ngram").finished()
    if "epochs" not in runs.columns:
        screens = screens.where(np.zeros(len(screens), bool))
    if not for_plan and varied(full.columns) == {"mixture"} and holdout in ("auto", "mixtures"):
        from mixopt.fit.average import averaged  # many models, of which most callers need none

        watch("learning the mixture with every model, and again without each fold")
        return averaged(runs, full, weights, seed)
    if len(screens) < len(runs.corpora) + 2:  # one corpus, or all shares fixed: a screen of next to nothing
        screens = screens.where(np.zeros(len(screens), bool))
    return _selected(_Table(runs, full, screens, dict(weights), seed, for_plan, watch), _how(full, holdout), replicates)


@dataclass(frozen=True)
class _Table:
    """What a choice between laws rests on."""

    runs: Runs
    full: Runs
    screens: Runs
    weights: dict[str, float]
    seed: int
    for_plan: bool
    watch: Watch

    @property
    def starts(self) -> int:
        """Fewer where there is more to fit: with priors to start from, most starts of a large table agree."""
        return _STARTS if len(self.full) * len(self.weights) <= _LARGE else _FEW


def _check(runs: Runs, weights: Mapping[str, float]) -> None:
    """Refuses a table that nothing can be fitted to, before anything is."""
    if not weights or not min(weights.values()) > 0:
        raise FitError(f"target weights are {dict(weights)}; give a positive weight for one target at least, by name.")
    if unmeasured := [target for target in weights if target not in runs.targets]:
        raise FitError(f"no run measured target {unmeasured[0]!r}; measured: {', '.join(runs.targets)}.")
    if len(runs.corpora) > _CORPORA:
        raise FitError(
            f"{runs.source} has {len(runs.corpora)} corpora; {_CORPORA} at most can be told apart. Merge them "
            "(mixopt.runs_pool.pool)."
        )
    if not len(runs.of("transformer").finished()):
        raise FitError(f"{runs.source} has no finished transformer run; laws are fitted to these. Add runs.")


def _check_columns(runs: Runs) -> None:
    laws = candidates(runs.corpora, tokens_unit=1.0, size_unit=1.0, batch_unit=1.0).values()
    needed = dict.fromkeys(name for law in laws for name in ("model_size", "batch_tokens", *law.inputs))
    needed |= dict.fromkeys(["epochs"] if len(runs.of("ngram")) else [])
    if missing := [name for name in needed if name not in runs.columns]:
        raise FitError(
            f"{runs.source} lacks the columns {', '.join(missing)}, which a plan needs. Add them to the table, "
            "constant where they never changed; or fit what there is: mixopt fit."
        )


def _how(full: Runs, holdout: str | int) -> str | int:
    if holdout != "auto":
        return holdout
    if np.ptp(np.log(compute(full.columns))) > SAME:
        return "larger"
    return "mixtures" if "mixture" in varied(full.columns) else _FOLDS


def _selected(table: _Table, how: str | int, replicates: int) -> Selection:
    """The law that wins, its fits to all runs, and how it did on the rows held out."""
    full, seed, noise = table.full, table.seed, seed_noise(table.full)
    if len(full) < _LEAST:
        raise FitError(f"{full.source} has {len(full)} finished runs; {_LEAST} are needed to hold some out. Add runs.")
    masks = folds(full.columns, how, full["run"], seed)
    # Units and the ends of boxes rest on rows that are fitted; where every row is held out once, on all of them.
    laws = _laws(table, full.where(~masks[0]) if len(masks) == 1 else full)
    seen = full.where(~masks[0])
    table.watch("measuring the noise")
    norms = _norms(_scatter(noise, laws, seen, seed))
    options: dict[str, Any] = {"norm": norms, "starts": table.starts, "seed": seed}
    table.watch(f"comparing {len(laws)} laws on rows held out")
    scores = compare(laws, full, holdout=how, targets=table.weights, **options)
    score = choose(scores)
    table.watch(f"fitting {score.name} to all runs and, to see how wrong it is, to parts of them")
    fits = _calibrated(laws[score.name], full, noise, table, replicates, options)
    said = [f"The law {one.name} could not be fitted: {one.failure}" for one in scores if one.failure]
    table.watch(f"testing the intervals of {score.name} on rows held out")
    tests = min(replicates, _TESTS)
    tested = [_calibrated(laws[score.name], full.where(~mask), noise, table, tests, options) for mask in masks]
    return Selection(
        law=score.name,
        fits=fits,
        candidates=tuple(_candidate(one, "mixture" in varied(full.columns)) for one in scores if not one.failure),
        held_out=_held_out(_words(how, masks), full, masks, tested),
        noise=noise,
        agreement=screen.agreement(table.runs) if len(table.screens) else {},
        warnings=(*cautions(table.runs.of("transformer"), fits, noise), *_influential(fits, full), *said),
    )


def _influential(fits: Mapping[str, Fit], full: Runs) -> list[str]:
    """Runs that a target's law rests on; not asked where refitting it without each run would take minutes."""
    if sum(len(fitted.theta) for fitted in fits.values()) > _REFITTED:
        return []
    from mixopt.fit.influence import influence

    said = {name: influence(fitted, full.target(name)).words() for name, fitted in fits.items()}
    return [f"{name}: {words[0].upper()}{words[1:]}" for name, sentences in said.items() for words in sentences]


def _calibrated(
    law: Mapping[str, Law],
    runs: Runs,
    noise: Mapping[str, float],
    table: _Table,
    replicates: int,
    options: Mapping[str, Any],
) -> dict[str, Fit]:
    """Fits whose intervals rest on how wrong the same law was on other parts of these runs, and on nothing else."""
    known = {name: sd for name, sd in noise.items() if np.isfinite(sd)}
    law = {name: law[name] for name in table.weights}
    # A large table is not fitted ten times over: how it errs on larger runs is what matters most.
    larger = np.ptp(np.log(compute(runs.columns))) > SAME
    how: Any = None if table.starts > _FEW else ["larger"] if larger else [_FOLDS]
    return calibrated(law, runs, holdout=how, noise=known, replicates=replicates, **{**options, "starts": _FEW})


def _laws(table: _Table, seen: Runs) -> dict[str, dict[str, Law]]:
    """Each candidate's law by target; units, boxes and priors rest on the runs `seen` and on the screen alone."""
    rates = screen.rates(screen.fit_screen(table.screens, seed=table.seed)) if len(table.screens) else {}
    from mixopt.laws.plausible import plausible

    made = partial(candidates, **units(seen.columns)) if table.for_plan else partial(plausible, seen.columns)
    by_target = {
        target: made(corpora=seen.corpora, least_loss=float(seen.target(target)["loss"].min()), rates=rates.get(target))
        for target in table.weights
    }
    if not table.for_plan:
        # What to beat: a law that cannot is not worth its coefficients.
        by_target = {target: {"mean": _mean(seen.target(target)["loss"]), **laws} for target, laws in by_target.items()}
    names = next(iter(by_target.values()))
    return {name: {target: laws[name] for target, laws in by_target.items()} for name in names}


def _mean(loss: Array) -> Law:
    return Constant("E", 0.5 * float(loss.min()), 2 * float(loss.max()))


def _scatter(noise: Mapping[str, float], laws: Laws, seen: Runs, seed: int) -> dict[str, float]:
    """The noise of each target: between seeds where it is known, else of the residuals of the law that fits closest."""
    names = list(next(iter(laws.values())))
    unknown = [target for target in names if not np.isfinite(noise[target])]
    found: dict[str, list[float]] = {target: [] for target in unknown}
    for by_target in laws.values() if unknown else ():
        try:
            fits = fit_targets(by_target, seen, targets=unknown, starts=1, seed=seed)
        except FitError:
            continue
        for target, fitted in fits.items():
            found[target].append(fitted.noise)
    return {target: min(found.get(target) or [noise[target]]) for target in names}


def _norms(noise: Mapping[str, float]) -> dict[str, Huber]:
    # The norm's scale is the noise floor: smaller residuals are luck, larger ones count ever less.
    return {name: Huber(max(sd, _LEAST_NOISE) if np.isfinite(sd) else _LEAST_NOISE) for name, sd in noise.items()}


def _candidate(score: Score, mixed: bool) -> Candidate:
    unknown = float("nan")  # where the mixture is the same in all runs there is nothing to choose between
    return Candidate(
        name=score.name,
        coefficients=score.coefficients,
        rmse=score.rmse,
        bias=score.bias,
        rank=score.rank,
        behind=score.behind,
        behind_se=score.behind_se,
        targets=score.targets,
        regret=score.regret if mixed else unknown,
        optimism=score.optimism if mixed else unknown,
    )


def _words(how: str | int, masks: list[Array]) -> str:
    if how == "larger":
        return f"the {masks[0].sum()} with the most compute"
    what = "mixture" if how == "mixtures" else "run"
    return f"every {what} once, in {len(masks)} folds"


def _held_out(words: str, full: Runs, masks: list[Array], tested: list[dict[str, Fit]]) -> HeldOut:
    places = np.concatenate([np.flatnonzero(mask) for mask in masks])
    said: dict[str, dict[str, list[float]]] = {key: {} for key in ("observed", "predicted", "lower", "upper")}
    for mask, fits in zip(masks, tested, strict=True):
        for name, fitted in fits.items():
            columns = full.where(mask).target(name)
            low, high = fitted.interval(columns, observation=True) if len(fitted.replicates) else (columns["loss"],) * 2
            rows = {"observed": columns["loss"], "predicted": fitted.predict(columns), "lower": low, "upper": high}
            for key, values in rows.items():
                said[key].setdefault(name, []).extend(values.tolist())
    tables = {key: {name: tuple(values) for name, values in by.items()} for key, by in said.items()}
    return HeldOut(words, tuple(places.tolist()), tuple(full["run"][places].astype(str).tolist()), **tables)
