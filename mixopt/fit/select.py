"""From a table of runs to one fitted law a target: noise floor, choice of the law, extrapolation, and what to say."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.errors import FitError
from mixopt.fit import screen
from mixopt.fit.fit import Fit, fit
from mixopt.fit.holdout import Score, compare, extrapolated, largest
from mixopt.fit.noise import seed_noise
from mixopt.fit.norms import Huber
from mixopt.laws.ready import candidates, units
from mixopt.runs import Runs

_LEAST_NOISE = 1e-3
_STARTS = 16
_HELD_OUT = 0.25
RELIABLE_SIZE = 15e6
"""Proxies below this rank mixtures for large models less reliably: Spearman .73 at 1M, over .89 above 15M parameters
(Olmix, arXiv:2602.12237)."""


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
    runs : transformer runs, and n-gram runs where mixtures were screened
    weights : of each target in the choice
    """
    if unmeasured := [target for target in weights if target not in runs.targets]:
        raise FitError(f"no run measured target {unmeasured[0]!r}; measured: {', '.join(runs.targets)}.")
    full, screens = runs.of("transformer").finished(), runs.of("ngram").finished()
    noise = seed_noise(full)
    rates = screen.rates(screen.fit_screen(screens, seed=seed)) if len(screens) else {}
    least = dict(zip(full.targets, full["loss"].min(0).tolist(), strict=True))
    laws = {
        target: candidates(runs.corpora, **units(full.columns), least_loss=least[target], rates=rates.get(target))
        for target in weights
    }
    mask = largest(full.columns, _HELD_OUT)
    scores = {
        target: compare(laws[target], full.target(target), holdout=mask, **_options(noise[target], seed))
        for target in weights
    }
    table = _table(full.where(mask), scores, weights)
    law = _simplest(table)
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
        warnings=tuple(_warnings(runs, fits, noise)),
    )


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
        name: np.stack([_errors(_named(scores[target], name).fitted, unseen, target) for target in weights])
        for name in names
    }
    squared = {name: share @ error**2 for name, error in errors.items()}
    order = sorted(names, key=lambda name: float(squared[name].mean()))
    rows: list[Candidate] = []
    for name in order:
        mine = {target: _named(scores[target], name) for target in weights}
        behind = squared[name] - squared[order[0]]
        rows.append(
            Candidate(
                name=name,
                coefficients=next(iter(mine.values())).coefficients,
                rmse=float(np.sqrt(squared[name].mean())),
                bias=float(share @ errors[name].mean(-1)),
                rank=float(np.mean([score.rank for score in mine.values()])),
                behind=float(behind.mean()),
                behind_se=float(behind.std(ddof=1) / np.sqrt(len(behind))) if len(behind) > 1 else 0.0,
                targets={target: score.rmse for target, score in mine.items()},
            )
        )
    return tuple(rows)


def _errors(fitted: Fit, unseen: Runs, target: str) -> Array:
    columns = unseen.target(target)
    return np.log(fitted.predict(columns) / columns["loss"])


def _simplest(table: Sequence[Candidate]) -> str:
    close = [row for row in table if row.behind <= row.behind_se]
    return min(close, key=lambda row: (row.coefficients, row.rmse)).name


def _held_out(unseen: Runs, fits: Mapping[str, Fit]) -> HeldOut:
    return HeldOut(
        run=tuple(unseen["run"].tolist()),
        observed={target: tuple(unseen.target(target)["loss"].tolist()) for target in fits},
        predicted={target: tuple(fitted.predict(unseen.target(target)).tolist()) for target, fitted in fits.items()},
    )


def _warnings(runs: Runs, fits: Mapping[str, Fit], noise: Mapping[str, float]) -> list[str]:
    full = runs.of("transformer")
    largest_size, said = float(np.nanmax(full["model_size"])), list[str]()
    if largest_size < RELIABLE_SIZE:
        said.append(
            f"The largest proxy has {largest_size:,.0f} parameters. Proxies under 15M do not rank mixtures for large "
            "models reliably (rank correlation .73 at 1M against .89 above 15M, arXiv:2602.12237): this shows the "
            "method, not a production mixture."
        )
    if diverged := int((full["status"] == "diverged").sum()):
        said.append(f"{diverged} of {len(full)} transformer runs diverged; they are kept in the table and not fitted.")
    if not np.isfinite(list(noise.values())).all():
        said.append("No run was repeated with another seed, so the noise is not known. Set sweep.replicates to 3.")
    for target, fitted in fits.items():
        said += [f"{target}: {caution}" for caution in fitted.cautions()]
    return said
