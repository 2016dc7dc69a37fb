"""From a table of runs to one fitted law a target: noise floor, choice of the law, extrapolation, and what to say."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixopt.errors import FitError
from mixopt.fit import screen
from mixopt.fit.cautions import cautions
from mixopt.fit.fit import Fit, fit
from mixopt.fit.holdout import Score, choose, compare, extrapolated, lag, largest, log_errors
from mixopt.fit.noise import seed_noise
from mixopt.fit.norms import Huber
from mixopt.laws.law import Law
from mixopt.laws.ready import candidates, units
from mixopt.runs import Runs

_LEAST_NOISE = 1e-3
_STARTS = 16
_HELD_OUT = 0.25


@dataclass(frozen=True)
class Candidate:
    """One law's errors on the held-out larger runs, all targets together, as in a row of the report's table.

    `rmse` is that of the log loss, `rank` Spearman's correlation averaged over targets, `behind` the mean squared
    error above the best candidate's with its paired standard error, `targets` the rmse of each target.
    """

    name: str
    coefficients: int
    rmse: float
    bias: float
    rank: float
    behind: float
    behind_se: float
    targets: Mapping[str, float]


@dataclass(frozen=True)
class HeldOut:
    """Losses [nats per token] of held-out larger runs by target, and what the law said without having seen them."""

    run: tuple[str, ...]
    observed: Mapping[str, tuple[float, ...]]
    predicted: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Selection:
    """The law that predicts held-out larger runs best, fitted to every target, and the evidence for it.

    `noise` is the standard deviation of log loss between seeds; `agreement` how the screen ranked mixtures compared
    with the transformer; `warnings` what a reader has to know before believing the fits.
    """

    law: str
    fits: Mapping[str, Fit]
    candidates: tuple[Candidate, ...]
    held_out: HeldOut
    noise: Mapping[str, float]
    agreement: Mapping[str, screen.Agreement]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        rest = {name: asdict(value) for name, value in self.agreement.items()}
        return {
            "law": self.law,
            "fits": {name: fitted.to_dict() for name, fitted in self.fits.items()},
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "held_out": asdict(self.held_out),
            "noise": dict(self.noise),
            "agreement": rest,
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Selection":
        """Inverse of `to_dict`, also after a round trip through JSON."""
        held, agreement = data["held_out"], data["agreement"]
        tables = {key: {name: tuple(row) for name, row in held[key].items()} for key in ("observed", "predicted")}
        return cls(
            law=data["law"],
            fits={name: Fit.from_dict(entry) for name, entry in data["fits"].items()},
            candidates=tuple(Candidate(**entry) for entry in data["candidates"]),
            held_out=HeldOut(tuple(held["run"]), **tables),
            noise=data["noise"],
            agreement={name: screen.Agreement.from_dict(entry) for name, entry in agreement.items()},
            warnings=tuple(data["warnings"]),
        )


def select(runs: Runs, weights: Mapping[str, float], *, seed: int = 0, replicates: int = 200) -> Selection:
    """Compare the laws on the largest runs, held out; refit the winner to all runs of every target.

    The simplest law within one standard error of the best wins. Its error on the held-out runs, beyond seed noise,
    widens the intervals of predictions beyond the runs in proportion to the distance in log compute.

    Parameters
    ----------
    runs : transformer runs, and n-gram runs where mixtures were screened; a table without `proxy` is of transformers
    weights : of each target in the choice

    Raises
    ------
    FitError
        The runs lack a target or columns, none finished, all took the same compute, or a law cannot be fitted.
    """
    _check(runs, weights)
    full, screens = runs.of("transformer").finished(), runs.of("ngram").finished()
    if len(screens) < len(runs.corpora) + 2:  # one corpus, or all shares fixed: a screen of next to nothing
        screens = screens.where(np.zeros(len(screens), bool))
    noise = seed_noise(full)
    mask = largest(full.columns, _HELD_OUT)
    laws = _laws(full.where(~mask), weights, screens, seed)
    scores = {
        target: compare(laws[target], full.target(target), holdout=mask, **_options(noise[target], seed))
        for target in weights
    }
    table = _table(full.where(mask), scores, weights)
    law = choose(table).name
    fits: dict[str, Fit] = {}
    for target in weights:
        fitted = fit(laws[target][law], full.target(target), replicates=replicates, **_options(noise[target], seed))
        fits[target] = extrapolated(fitted, _named(scores[target], law), _known(noise[target]))
    return Selection(
        law=law,
        fits=fits,
        candidates=table,
        held_out=_held_out(full.where(mask), {target: _named(scores[target], law).fitted for target in weights}),
        noise=noise,
        agreement=screen.agreement(runs) if len(screens) else {},
        warnings=tuple(cautions(runs.of("transformer"), fits, noise)),
    )


def _check(runs: Runs, weights: Mapping[str, float]) -> None:
    """Refuses a table that the laws cannot be fitted to, before any of them is."""
    if not weights or not min(weights.values()) > 0:
        raise FitError(f"target weights are {dict(weights)}; give a positive weight for one target at least, by name.")
    if unmeasured := [target for target in weights if target not in runs.targets]:
        raise FitError(f"no run measured target {unmeasured[0]!r}; measured: {', '.join(runs.targets)}.")
    laws = candidates(runs.corpora, tokens_unit=1.0, size_unit=1.0, batch_unit=1.0).values()
    needed = dict.fromkeys(name for law in laws for name in ("model_size", "batch_tokens", *law.inputs))
    needed |= dict.fromkeys(["epochs"] if len(runs.of("ngram")) else [])
    if missing := [name for name in needed if name not in runs.columns]:
        raise FitError(
            f"{runs.source} lacks the columns {', '.join(missing)}; the laws read them. Add them to the table, "
            "constant where they never changed, or fit a law of your own without them (mixopt.fit)."
        )
    if not len(runs.of("transformer").finished()):
        raise FitError(f"{runs.source} has no finished transformer run; laws are fitted to these. Add runs.")


def _laws(seen: Runs, weights: Mapping[str, float], screens: Runs, seed: int) -> dict[str, dict[str, Law]]:
    """The candidates of each target, whose units, boxes and priors rest on the runs `seen` and on the screen alone."""
    rates = screen.rates(screen.fit_screen(screens, seed=seed)) if len(screens) else {}
    return {
        target: candidates(
            seen.corpora,
            **units(seen.columns),
            least_loss=float(seen.target(target)["loss"].min()),
            rates=rates.get(target),
        )
        for target in weights
    }


def _options(noise: float, seed: int) -> dict[str, Any]:
    # The norm's scale is the noise floor: smaller residuals are luck, larger ones count ever less.
    return {
        "norm": Huber(max(noise, _LEAST_NOISE) if np.isfinite(noise) else _LEAST_NOISE),
        "starts": _STARTS,
        "seed": seed,
    }


def _known(noise: float) -> float | None:
    return noise if np.isfinite(noise) else None


def _named(scores: Sequence[Score], law: str) -> Score:
    return next(score for score in scores if score.name == law)


def _table(unseen: Runs, scores: Mapping[str, Sequence[Score]], weights: Mapping[str, float]) -> tuple[Candidate, ...]:
    """A row a law, best first; squared errors are averaged over targets by weight, then paired by run."""
    share = np.array(list(weights.values())) / sum(weights.values())
    names = [score.name for score in next(iter(scores.values()))]
    errors = {
        name: np.stack([log_errors(_named(scores[target], name).fitted, unseen.target(target)) for target in weights])
        for name in names
    }
    squared = {name: share @ error**2 for name, error in errors.items()}
    order = sorted(names, key=lambda name: float(squared[name].mean()))
    rows: list[Candidate] = []
    for name in order:
        mine = {target: _named(scores[target], name) for target in weights}
        behind, behind_se = lag(squared[name], squared[order[0]], unseen["run"])
        rows.append(
            Candidate(
                name=name,
                coefficients=next(iter(mine.values())).coefficients,
                rmse=float(np.sqrt(squared[name].mean())),
                bias=float(share @ errors[name].mean(-1)),
                rank=float(np.mean([score.rank for score in mine.values()])),
                behind=behind,
                behind_se=behind_se,
                targets={target: score.rmse for target, score in mine.items()},
            )
        )
    return tuple(rows)


def _held_out(unseen: Runs, fits: Mapping[str, Fit]) -> HeldOut:
    return HeldOut(
        run=tuple(unseen["run"].tolist()),
        observed={target: tuple(unseen.target(target)["loss"].tolist()) for target in fits},
        predicted={target: tuple(fitted.predict(unseen.target(target)).tolist()) for target, fitted in fits.items()},
    )
