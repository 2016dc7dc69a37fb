"""Kernel ridge regression with its strength, kernel and floor chosen by leaving one run out, in closed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.predictors.kernels import Gram, Kernel, Scale
from mixopt.predictors.predictor import Learned, Predictor, checked
from mixopt.predictors.support import Support
from mixopt.predictors.warp import Range, Warp

STRENGTHS = 10.0 ** np.arange(-6.0, 2.01, 0.5)
DEPTHS = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 10.0])
_FIRST_DEPTH = 0.4


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen for each target, `[k]`, and the dual coefficients `[n, k]` that follow.

    `strange` is the error of each run when left out, in sds of what was expected of it, `[n, k]`.
    """

    error: Array
    kernel: Array
    strength: Array
    depth: Array
    mean: Array
    dual: Array
    strange: Array
    freedom: Array


@dataclass(frozen=True, eq=False)
class Smooth(Learned):
    """A sum over runs of how alike they are to the row asked for, times a weight each; one such sum a target."""

    scale: Scale
    runs: Columns
    kernels: tuple[Kernel, ...]
    range: Range
    choice: Choice
    support: Support
    single: bool

    @cached_property
    def _grams(self) -> dict[int, Gram]:
        used = np.unique(self.choice.kernel).tolist()
        return {i: Gram.of(self.kernels[i], self.scale.features(self.kernels[i], self.runs)) for i in used}

    @cached_property
    def _spectra(self) -> dict[int, tuple[Array, Array]]:
        return {i: _spectrum(gram.between(gram.at)) for i, gram in self._grams.items()}

    @property
    def _warp(self) -> Warp:
        return Warp(self.range, self.choice.depth)

    @property
    def freedom(self) -> float:
        return float(self.choice.freedom.mean())

    def predict(self, columns: Columns) -> Array:
        return self._shape(self._warp.back(self._warped(columns)))

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        center, strange = self._warped(columns), np.sort(np.abs(self.choice.strange), axis=0)
        rank = min(int(np.ceil((len(strange) + 1) * level)), len(strange)) - 1
        half = strange[rank] * self._sd(columns, observation)
        return self._shape(self._warp.back(center - half)), self._shape(self._warp.back(center + half))

    def outside(self, columns: Columns) -> Array:
        return self.support.outside(columns)

    def to_dict(self) -> dict[str, Any]:
        return {
            "learned": "Smooth",
            "scale": self.scale.to_dict(),
            "runs": {name: np.asarray(values).tolist() for name, values in self.runs.items()},
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "range": self.range.to_dict(),
            "choice": {name: np.asarray(values).tolist() for name, values in vars(self.choice).items()},
            "support": self.support.to_dict(),
            "single": self.single,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Smooth:
        kernels = tuple(Kernel.from_dict(kernel) for kernel in data["kernels"])
        return cls(
            scale=Scale.from_dict(data["scale"]),
            runs={name: np.array(values, float) for name, values in data["runs"].items()},
            kernels=kernels,
            range=Range.from_dict(data["range"]),
            choice=Choice(**{name: np.array(values) for name, values in data["choice"].items()}),
            support=Support.from_dict(data["support"]),
            single=bool(data["single"]),
        )

    def _warped(self, columns: Columns) -> Array:
        rows = len(self.scale.features(self.kernels[0], columns))
        out = np.zeros((rows, len(self.choice.kernel)))
        for i, gram in self._grams.items():
            of = self.choice.kernel == i
            out[:, of] = gram.between(self.scale.features(self.kernels[i], columns)) @ self.choice.dual[:, of]
        return out + self.choice.mean

    def _sd(self, columns: Columns, observation: bool) -> Array:
        """Of the mean of runs, or of one run, in units in which the kernel is the covariance: `[n, k]`."""
        rows = len(self.scale.features(self.kernels[0], columns))
        out = np.zeros((rows, len(self.choice.kernel)))
        for i, gram in self._grams.items():
            features, (spread, axes) = self.scale.features(self.kernels[i], columns), self._spectra[i]
            along, own = (gram.between(features) @ axes) ** 2, gram.own(features)
            for strength in np.unique(self.choice.strength[self.choice.kernel == i]):
                of = (self.choice.kernel == i) & (self.choice.strength == strength)
                left = np.maximum(own - along @ (1 / (spread + strength)), 0)
                out[:, of] = np.sqrt(left + (strength if observation else 0))[:, None]
        return out

    def _shape(self, values: Array) -> Array:
        return values[:, 0] if self.single else values


def smooth(predictor: Predictor, kernels: Sequence[Kernel], columns: Columns) -> Smooth:
    """The kernel, strength and floor that predict each left-out run best, target by target, and the fit with them."""
    output, single = checked(predictor, columns)
    scale, seen = Scale.of(predictor.inputs, columns), Range.of(output)
    best: Choice | None = None
    for i, kernel in enumerate(kernels):
        gram = Gram.of(kernel, scale.features(kernel, columns))
        found = _choose(i, gram.between(gram.at), output, seen)
        best = found if best is None else _better(best, found)
    assert best is not None
    runs = {name: np.asarray(columns[name], float) for name in predictor.inputs}
    return Smooth(scale, runs, tuple(kernels), seen, best, Support.of(predictor.inputs, columns), single)


def _spectrum(gram: Array) -> tuple[Array, Array]:
    spread, axes = np.linalg.eigh(gram)
    return np.maximum(spread, 0.0), axes


def _choose(place: int, gram: Array, output: Array, seen: Range) -> Choice:
    """The best strength at one depth first, then all depths at strengths beside it: a third of the whole grid."""
    spectrum, k = _spectrum(gram), output.shape[1]
    first = [_left_out(place, spectrum, output, seen, np.full(k, s), np.full(k, _FIRST_DEPTH)) for s in STRENGTHS]
    at = np.argmin([one.error for one in first], axis=0)
    best = first[0]
    for one in first[1:]:
        best = _better(best, one)
    for depth in DEPTHS[DEPTHS != _FIRST_DEPTH]:
        for step in (-1, 0, 1):
            strengths = STRENGTHS[np.clip(at + step, 0, len(STRENGTHS) - 1)]
            best = _better(best, _left_out(place, spectrum, output, seen, strengths, np.full(k, depth)))
    return best


def _left_out(
    place: int, spectrum: tuple[Array, Array], output: Array, seen: Range, strength: Array, depth: Array
) -> Choice:
    """The fit at these settings, and the mean square by which it misses each run that it did not see."""
    (spread, axes), warp = spectrum, Warp(seen, depth)
    warped = warp.forth(output)
    mean = warped.mean(0)
    inverse = 1 / (spread[:, None] + strength)
    dual = axes @ (inverse * (axes.T @ (warped - mean)))
    diagonal = axes**2 @ inverse
    missed = (warp.back(warped - dual / diagonal) - output) / seen.spread
    freedom = (spread[:, None] * inverse).sum(0)
    strange = dual / np.sqrt(diagonal)
    kernel = np.full(len(strength), place)
    return Choice((missed**2).mean(0), kernel, strength, depth, mean, dual, strange, freedom)


def _better(one: Choice, other: Choice) -> Choice:
    """Target by target the one with the smaller error."""
    wins = other.error < one.error
    mixed = {name: np.where(wins, values, getattr(one, name)) for name, values in vars(other).items()}
    return Choice(**mixed)
