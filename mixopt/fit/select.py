"""From a table of runs to what predicts it best, a fit for every target, and what to say about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit import screen
from mixopt.fit.cautions import cautions
from mixopt.fit.fit import Fit
from mixopt.fit.folds import SAME, compute, folds
from mixopt.fit.holdout import Score, choose, compare, extrapolated
from mixopt.fit.influence import influence
from mixopt.fit.many import fit_targets
from mixopt.fit.noise import seed_noise
from mixopt.fit.norms import Huber
from mixopt.fit.selection import Candidate, HeldOut, OneTarget, Selection
from mixopt.fit.stack import Stack, Stacked
from mixopt.laws.law import Law
from mixopt.laws.plausible import plausible, varied
from mixopt.laws.ready import candidates, units
from mixopt.runs import Runs

_LEAST_NOISE = 1e-3
_STARTS, _FEW, _LARGE = 16, 4, 4000  # starts of a fit; rows times targets above which they are few
_FOLDS, _TESTS = 5, 60
_REFITTED = 100  # coefficients of all targets together
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
        watch("learning the mixture with every model, and again without each fold")
        return _stacked(runs, full, weights, seed)
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
    table.watch(f"fitting {score.name} to all runs, {replicates} times over")
    fits = fit_targets(laws[score.name], full, targets=list(table.weights), replicates=replicates, **options)
    if score.reach > 0:
        fits = {name: extrapolated(fitted, score.of(name), _known(noise[name])) for name, fitted in fits.items()}
    said = [f"The law {one.name} could not be fitted: {one.failure}" for one in scores if one.failure]
    table.watch(f"testing the intervals of {score.name} on rows held out")
    tested = [
        _tested(laws[score.name], full.where(~mask), noise, table, min(replicates, _TESTS), options) for mask in masks
    ]
    return Selection(
        law=score.name,
        fits=fits,
        candidates=tuple(_candidate(one) for one in scores if not one.failure),
        held_out=_held_out(_words(how, masks), full, masks, tested),
        noise=noise,
        agreement=screen.agreement(table.runs) if len(table.screens) else {},
        warnings=(*cautions(table.runs.of("transformer"), fits, noise), *_influential(fits, full), *said),
    )


def _influential(fits: Mapping[str, Fit], full: Runs) -> list[str]:
    """Runs that a target's law rests on; not asked where refitting it without each run would take minutes."""
    if sum(len(fitted.theta) for fitted in fits.values()) > _REFITTED:
        return []
    said = {name: influence(fitted, full.target(name)).words() for name, fitted in fits.items()}
    return [f"{name}: {words[0].upper()}{words[1:]}" for name, sentences in said.items() for words in sentences]


def _tested(
    law: Mapping[str, Law],
    seen: Runs,
    noise: Mapping[str, float],
    table: _Table,
    replicates: int,
    options: Mapping[str, Any],
) -> dict[str, Fit]:
    """The fits to rows that were seen, with intervals as their user would have had them: calibrated on these alone."""
    names = list(table.weights)
    fits = fit_targets(law, seen, targets=names, replicates=replicates, **options)
    if np.ptp(np.log(compute(seen.columns))) <= SAME:
        return fits
    (inner,) = compare({"": law}, seen, holdout="larger", targets=table.weights, **options)
    if inner.failure or inner.reach <= 0:
        return fits
    return {name: extrapolated(fitted, inner.of(name), _known(noise[name])) for name, fitted in fits.items()}


def _stacked(runs: Runs, full: Runs, weights: Mapping[str, float], seed: int) -> Selection:
    """All models of the mixture, averaged by how well each predicts mixtures that it did not see."""
    names = list(weights)
    loss = np.stack([full.target(name)["loss"] for name in names], 1)
    learned = Stack().learn({"mixture": full["mixture"], "loss": loss, "run": full["run"]}, seed=seed)
    noise = dict(zip(names, (learned.noise / loss.mean(0)).tolist(), strict=True))
    fits = {name: OneTarget(learned, place) for place, name in enumerate(names)}
    return Selection(
        law="stack",
        fits=fits,
        candidates=_members(learned, loss, np.array(list(weights.values()))),
        held_out=_unseen(learned, full, names, loss),
        noise=noise,
        agreement={},
        warnings=(
            *cautions(runs.of("transformer"), {}, noise),
            *(f"The candidate {name} was left out: {why}" for name, why in learned.dropped.items()),
        ),
    )


def _laws(table: _Table, seen: Runs) -> dict[str, dict[str, Law]]:
    """Each candidate's law by target; units, boxes and priors rest on the runs `seen` and on the screen alone."""
    rates = screen.rates(screen.fit_screen(table.screens, seed=table.seed)) if len(table.screens) else {}
    made = partial(candidates, **units(seen.columns)) if table.for_plan else partial(plausible, seen.columns)
    by_target = {
        target: made(corpora=seen.corpora, least_loss=float(seen.target(target)["loss"].min()), rates=rates.get(target))
        for target in table.weights
    }
    names = next(iter(by_target.values()))
    return {name: {target: laws[name] for target, laws in by_target.items()} for name in names}


def _scatter(noise: Mapping[str, float], laws: Laws, seen: Runs, seed: int) -> dict[str, float]:
    """The noise of each target: between seeds where it is known, else of the residuals of the law that fits closest."""
    names = list(next(iter(laws.values())))
    unknown = [target for target in names if not np.isfinite(noise[target])]
    found: dict[str, list[float]] = {target: [] for target in unknown}
    for by_target in laws.values() if unknown else ():
        try:
            fits = fit_targets(by_target, seen, targets=unknown, starts=_FEW, seed=seed)
        except FitError:
            continue
        for target, fitted in fits.items():
            found[target].append(fitted.noise)
    return {target: min(found.get(target) or [noise[target]]) for target in names}


def _norms(noise: Mapping[str, float]) -> dict[str, Huber]:
    # The norm's scale is the noise floor: smaller residuals are luck, larger ones count ever less.
    return {name: Huber(max(sd, _LEAST_NOISE) if np.isfinite(sd) else _LEAST_NOISE) for name, sd in noise.items()}


def _known(noise: float) -> float | None:
    return noise if np.isfinite(noise) else None


def _candidate(score: Score) -> Candidate:
    return Candidate(
        name=score.name,
        coefficients=score.coefficients,
        rmse=score.rmse,
        bias=score.bias,
        rank=score.rank,
        behind=score.behind,
        behind_se=score.behind_se,
        targets=score.targets,
        regret=score.regret,
        optimism=score.optimism,
    )


def _words(how: str | int, masks: list[Array]) -> str:
    if how == "larger":
        return f"The {masks[0].sum()} rows with the most compute, held out"
    what = "mixture" if how == "mixtures" else "run"
    return f"Every {what}, held out once in {len(masks)} folds"


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


def _unseen(learned: Stacked, full: Runs, names: list[str], loss: Array) -> HeldOut:
    """What the stack said of each run with models and weights from other folds; the interval is that of all folds."""
    columns: Columns = {"mixture": full["mixture"]}
    said = loss - learned.missed
    low, high = learned.interval(columns, observation=True)
    shift = said - learned.predict(columns)
    tables = {"observed": loss, "predicted": said, "lower": low + shift, "upper": high + shift}
    by_name = {
        key: {name: tuple(values[:, place].tolist()) for place, name in enumerate(names)}
        for key, values in tables.items()
    }
    words = "Every mixture, held out once in 5 folds"
    return HeldOut(words, tuple(range(len(full))), tuple(full["run"].astype(str).tolist()), **by_name)


def _members(learned: Stacked, loss: Array, weights: Array) -> tuple[Candidate, ...]:
    """A row a model, best first; the error is relative to the mean loss of each target."""
    share, scale = weights / weights.sum(), loss.mean(0)
    freedom = {name: member.freedom for name, member in learned.members.items()} | {"stack": learned.freedom}
    rows = {name: (one.rmse / scale) for name, one in learned.standings.items()}
    squared = {name: float(share @ row**2) for name, row in rows.items()}
    best = min(squared.values())
    return tuple(
        Candidate(
            name=name,
            coefficients=freedom[name],
            rmse=squared[name] ** 0.5,
            bias=float("nan"),
            rank=float(share @ learned.standings[name].rank),
            behind=squared[name] - best,
            behind_se=float("nan"),
            targets={},
            regret=float(share @ learned.standings[name].regret),
            optimism=float(share @ learned.standings[name].optimism),
        )
        for name in sorted(squared, key=squared.__getitem__)
    )
