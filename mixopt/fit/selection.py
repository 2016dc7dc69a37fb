"""Selection: what was chosen to predict a table of runs, fitted to every target, and the evidence for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit import screen
from mixopt.fit.fit import Fit
from mixopt.fit.ranks import spearman
from mixopt.predictors.predictor import Learned

_VERSION = 1


@dataclass(frozen=True)
class Candidate:
    """One candidate's errors on rows that it had not seen, all targets together: a row of the report's table.

    `rmse` is that of the log loss, `rank` Spearman's correlation averaged over targets, `behind` the mean squared
    error above the best candidate's with its paired standard error, `targets` the rmse of each target, `regret` and
    `optimism` as in `ranks`. `failure` says why it could not be fitted.
    """

    name: str
    coefficients: float
    rmse: float
    bias: float
    rank: float
    behind: float
    behind_se: float
    targets: Mapping[str, float]
    regret: float = float("nan")
    optimism: float = float("nan")
    failure: str = ""


@dataclass(frozen=True)
class HeldOut:
    """Losses of held-out rows by target, and what was said of them unseen: the loss and the ends of its interval.

    `words` say which rows these are; `row` are their places among the rows that were fitted.
    """

    words: str
    row: tuple[int, ...]
    run: tuple[str, ...]
    observed: Mapping[str, tuple[float, ...]]
    predicted: Mapping[str, tuple[float, ...]]
    lower: Mapping[str, tuple[float, ...]]
    upper: Mapping[str, tuple[float, ...]]

    def score(self, target: str) -> tuple[float, float, float]:
        """Of one target: rmse of log loss, rank correlation, and the share of rows inside their interval."""
        seen, said = np.array(self.observed[target]), np.array(self.predicted[target])
        rmse = float(np.sqrt(np.mean(np.log(said / seen) ** 2)))
        inside = (np.array(self.lower[target]) <= seen) & (seen <= np.array(self.upper[target]))
        return rmse, spearman(said, seen), float(inside.mean())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldOut:
        """Inverse of `dataclasses.asdict`, also after a round trip through JSON."""
        tables = ("observed", "predicted", "lower", "upper")
        read = {key: {name: tuple(row) for name, row in data[key].items()} for key in tables}
        return cls(data["words"], tuple(data["row"]), tuple(data["run"]), **read)


@dataclass(frozen=True, eq=False)
class OneTarget:
    """One target of what was learned for all: `predict`, `interval` and `outside` as a `Learned`, rows `[n]`."""

    learned: Learned
    place: int

    def predict(self, columns: Columns) -> Array:
        """The target's loss, `[n]`."""
        return self.learned.predict(columns)[:, self.place]

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        """Lower and upper end, `[n]` each."""
        low, high = self.learned.interval(columns, level, observation=observation)
        return low[:, self.place], high[:, self.place]

    def outside(self, columns: Columns) -> Array:
        """Which rows are beyond the runs learned, `[n]`."""
        return self.learned.outside(columns)


@dataclass(frozen=True)
class Selection:
    """The candidate that predicts unseen runs best, fitted to every target, and the evidence for it.

    Attributes
    ----------
    law : name of the candidate
    fits : by target; a `Fit` of the law, or one target of the models learned for all
    candidates : all that were tried, best first
    held_out : the rows that decided
    noise : standard deviation of log loss between seeds; NaN where none was repeated
    agreement : how the screen ranked mixtures compared with the transformer
    warnings : what a reader has to know before believing the fits
    """

    law: str
    fits: Mapping[str, Fit | OneTarget]
    candidates: tuple[Candidate, ...]
    held_out: HeldOut
    noise: Mapping[str, float]
    agreement: Mapping[str, screen.Agreement]
    warnings: tuple[str, ...]

    @property
    def laws(self) -> dict[str, Fit]:
        """The fitted law of every target.

        Raises
        ------
        FitError
            Models that are not laws were chosen.
        """
        found = {name: fitted for name, fitted in self.fits.items() if isinstance(fitted, Fit)}
        if len(found) < len(self.fits):
            raise FitError(f"{self.law} is not a law, so it has no coefficients. Select with for_plan=True.")
        return found

    def verdict(self) -> str:
        """What won and how well it predicts, in a sentence or two."""
        scores = np.array([self.held_out.score(target) for target in self.fits])
        rmse, covered = float(np.sqrt(np.mean(scores[:, 0] ** 2))), float(scores[:, 2].mean())
        rest = len(self.candidates) - 1
        if self.law == "mean":
            return (
                "No candidate predicts rows held out better than the mean of the other runs does: add runs, or columns."
            )
        beaten = f", chosen among {rest + 1} candidates" if rest else ""
        error = f"{100 * rmse:.2g}" if rmse < 0.1 else f"{100 * rmse:.0f}"
        over = f"{len(self.fits)} target{'s' if len(self.fits) > 1 else ''}"
        return (
            f"{self.law}{beaten}, predicts rows held out ({self.held_out.words}) with an error of {error} % (root "
            f"mean square of log loss over {over}); {100 * covered:.0f} % of them lie inside their 90 % intervals."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        shared = [fitted.learned for fitted in self.fits.values() if isinstance(fitted, OneTarget)]
        return {
            "version": _VERSION,
            "law": self.law,
            "targets": list(self.fits),
            "learned": shared[0].to_dict() if shared else None,
            "fits": {name: fitted.to_dict() for name, fitted in self.fits.items() if isinstance(fitted, Fit)},
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "held_out": asdict(self.held_out),
            "noise": dict(self.noise),
            "agreement": {name: asdict(value) for name, value in self.agreement.items()},
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Selection:
        """Inverse of `to_dict`, also after a round trip through JSON.

        Raises
        ------
        ValueError
            Another version wrote it.
        """
        if data.get("version") != _VERSION:
            raise ValueError(
                f"This fit.json has version {data.get('version')}; this mixopt reads {_VERSION}. Fit again."
            )
        from mixopt.fit.stack import Stacked

        learned = Stacked.from_dict(data["learned"]) if data["learned"] else None
        fits = {
            name: Fit.from_dict(data["fits"][name]) if learned is None else OneTarget(learned, place)
            for place, name in enumerate(data["targets"])
        }
        return cls(
            law=data["law"],
            fits=fits,
            candidates=tuple(Candidate(**{k: _number(v) for k, v in entry.items()}) for entry in data["candidates"]),
            held_out=HeldOut.from_dict(data["held_out"]),
            noise={name: _number(value) for name, value in data["noise"].items()},
            agreement={name: screen.Agreement.from_dict(entry) for name, entry in data["agreement"].items()},
            warnings=tuple(data["warnings"]),
        )


def _number(value: Any) -> Any:
    """NaN for the null that stands for it in JSON."""
    return float("nan") if value is None else value
