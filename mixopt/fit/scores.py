"""How predictions of held-out rows compare with what was seen there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.folds import compute, settings


@dataclass(frozen=True, eq=False)
class Errors:
    """Predictions of held-out rows by what was fitted to others.

    Attributes
    ----------
    predicted, seen : [q, k], of each target
    spread : [q, k], relative sd of the predictions by the replicates of the fit that made them; 0 where it has none
    run, weight : [q], which run each row belongs to, and how much it counts
    beyond : [q], how far each row lies beyond the rows fitted, in e-folds
    same : places of rows that took the same compute
    freedom : how many numbers were free for a target
    """

    predicted: Array
    seen: Array
    spread: Array
    run: Array
    weight: Array
    beyond: Array
    same: list[Array]
    freedom: float

    @staticmethod
    def of(fitted: Any, output: str, seen: Columns, unseen: Columns, run: Array, weight: Array) -> Errors:
        """Errors of a fit, of fits by target, or of something learned."""
        observed = np.asarray(unseen[output], float)
        rows = len(observed)
        observed = observed.reshape(rows, -1)
        fits = list(cast(Mapping[str, Any], fitted).values()) if isinstance(fitted, Mapping) else [fitted]
        with np.errstate(all="ignore"):
            predicted = np.concatenate([np.asarray(one.predict(unseen), float).reshape(rows, -1) for one in fits], 1)
            spread = [_spread(one, unseen) for one in fits if len(getattr(one, "replicates", ()))]
        freedom = getattr(fits[0], "freedom", None)
        beyond = fits[0].overshoot(unseen) if hasattr(fits[0], "overshoot") else _beyond(seen, unseen)
        return Errors(
            predicted,
            observed,
            np.stack(spread, 1) if spread else np.zeros(observed.shape),
            run,
            weight,
            np.broadcast_to(beyond, rows),
            settings(unseen, rows),
            float(len(fits[0].theta) if freedom is None else freedom),
        )

    @staticmethod
    def none() -> Errors:
        """No row at all."""
        return Errors(*(np.zeros((0, 1)) for _ in range(3)), *(np.zeros(0) for _ in range(3)), same=[], freedom=np.nan)

    @staticmethod
    def pooled(parts: Sequence[Errors]) -> Errors:
        """Errors of all folds; rows are compared with rows of their own fold, which one model predicted."""
        starts = np.cumsum([0, *(len(part.seen) for part in parts)])
        same = [rows + start for part, start in zip(parts, starts, strict=False) for rows in part.same]
        columns = ("predicted", "seen", "spread", "run", "weight", "beyond")
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
        return Errors(**joined, same=same, freedom=float(np.mean([part.freedom for part in parts])))

    def target(self, k: int) -> Errors:
        """Those of one of several targets."""
        return replace(self, **{name: getattr(self, name)[:, [k]] for name in ("predicted", "seen", "spread")})

    @property
    def log(self) -> Array:
        """log(predicted / seen), [q, k]; inf where nothing positive was predicted, which is as wrong as can be."""
        with np.errstate(all="ignore"):
            error = np.log(self.predicted / self.seen)
        return np.where(np.isfinite(error), error, np.inf)

    def each(self, measure: Callable[[Array, Array], float]) -> Array:
        """A measure of predicted and seen rows for each target, `[k]`."""
        pairs = zip(self.predicted.T, self.seen.T, strict=True)
        return np.array([measure(predicted, seen) for predicted, seen in pairs])

    def chosen(self, measure: Callable[[Array, Array], float]) -> Array:
        """A measure of the row predicted best, for each target, averaged over groups of the same compute: `[k]`."""
        if not self.same:
            return np.full(self.seen.shape[1], np.nan)
        return np.mean([[measure(self.predicted[at, k], self.seen[at, k]) for k in range(self.seen.shape[1])]
                        for at in self.same], axis=0)  # fmt: skip


def lag(squared: Array, best: Array, run: Array) -> tuple[float, float]:
    """How far squared errors [n] lie above the best candidate's, in the mean, and its standard error over runs."""
    if not np.isfinite(squared).all():
        return np.inf, 0.0
    behind = _by_run(squared - best, run)
    return float(behind.mean()), float(behind.std(ddof=1) / np.sqrt(len(behind))) if len(behind) > 1 else 0.0


def _by_run(values: Array, run: Array) -> Array:
    """Mean within each run: checkpoints of one run are one draw, not many."""
    _, inverse = np.unique(run, return_inverse=True)
    return np.bincount(inverse, values) / np.bincount(inverse)


def _spread(fitted: Any, columns: Columns) -> Array:
    """Relative sd of predictions by replicates, from where the middle 80 % of them lie, `[q]`: some may be wild."""
    low, high = np.nanquantile(np.log(fitted.samples(columns) / fitted.predict(columns)), [0.1, 0.9], axis=0)
    return (high - low) / (2 * NormalDist().inv_cdf(0.9))


def _beyond(seen: Columns, unseen: Columns) -> Array:
    return np.maximum(np.log(compute(unseen) / compute(seen).max()), 0.0)
