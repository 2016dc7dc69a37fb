r"""A floor, and an excess loss whose logarithm is linear in shares, shrunk as far as held-out runs ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.predictors.exponential import Exponentials, exponential, exponentials, leverage
from mixopt.predictors.kernels import Kernel, Scale
from mixopt.predictors.predictor import Learned, Predictor, checked
from mixopt.predictors.support import Support
from mixopt.predictors.warp import Range

STRENGTHS = 10.0 ** np.arange(-6.0, 0.1, 0.75)
# Eight folds leave few runs out, which counts where runs are few; of many, four are enough.
_FOLDS, _FEW = (8, 4), 200
_VOTERS = 16


@dataclass(frozen=True)
class LogLinear(Predictor):
    r"""The log-linear law of mixtures, by least squares with a penalty, in shares or in their roots.

    .. math:: L = c + \exp\left(k + \sum_i a_i x_i\right), \quad x_i = h_i \text{ or } \sqrt{h_i}, \qquad
        \min \sum (L - y)^2 + \lambda \|a\|^2

    Every share moved multiplies the excess loss by a fixed factor. Without the penalty a few runs of many corpora can
    ask for factors without end, and predictions of 1e69; lambda and the choice of roots are those that predict left-out
    folds of the runs best, for each target, or, of more than sixteen targets, for sixteen of them together.

    Parameters
    ----------
    output : what is predicted; one target [n] or several [n, k]
    inputs : columns read; other than the mixture they enter the exponent by their logs
    shapes : what x may be: "share", "root", or both to choose from

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`

    References
    ----------
    Ye et al., *Data Mixing Laws*, 2024, arXiv:2403.16952; for many targets, *Olmix*, 2026, arXiv:2602.12237.

    Examples
    --------
    Code alone leaves a quarter of the excess loss that web alone leaves; half of each a half:

    >>> code = np.linspace(0, 1, 17)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 2 + 0.25**code}
    >>> learned = LogLinear().learn(runs)
    >>> learned.predict({"mixture": np.array([[0.45, 0.55]])}).round(1)
    array([2.5])
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)
    shapes: tuple[str, ...] = ("share", "root")

    def learn(self, columns: Columns, *, seed: int = 0) -> Exponent:
        output, single = checked(self, columns)
        scale, seen = Scale.of(self.inputs, columns), Range.of(output)
        y = ((output - seen.lower) / seen.spread).T
        folds = min(_FOLDS[0] if len(output) < _FEW else _FOLDS[1], len(output))
        fold = np.random.default_rng(seed).permutation(len(output)) % folds
        given = {shape: scale.features(Kernel((shape,)), columns) for shape in self.shapes}
        centers = {shape: features.mean(0) for shape, features in given.items()}
        given = {shape: features - centers[shape] for shape, features in given.items()}
        chosen, strength = _chosen(given, y, fold)
        p = 2 + len(next(iter(centers.values())))
        theta, inverse, strange = np.zeros((len(y), p)), np.zeros((len(y), p, p)), np.zeros(y.shape)
        for shape, of in _groups(chosen):
            theta[of], inverse[of] = exponentials(given[shape], y[of], strength[of])
            missed, spread = _unseen(given[shape], y[of], fold, strength[of])
            strange[of] = missed / np.sqrt(1 + spread)
        center = np.stack([centers[shape] for shape in chosen])
        near = Support.of(self.inputs, columns)
        return Exponent(scale, seen, chosen, center, theta, inverse, strange, near, single)


@dataclass(frozen=True, eq=False)
class Exponent(Learned):
    """Coefficients of each target, and how wrong they were on folds that they had not seen, in their own sds."""

    scale: Scale
    range: Range
    shape: Array
    center: Array
    theta: Array
    inverse: Array
    strange: Array
    support: Support
    single: bool

    @property
    def freedom(self) -> float:
        return float(self.theta.shape[1])

    def predict(self, columns: Columns) -> Array:
        return self._back(self._values(columns)[0])

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        center, spread = self._values(columns)
        strange = np.sort(np.abs(self.strange), axis=1)
        rank = min(int(np.ceil((strange.shape[1] + 1) * level)), strange.shape[1]) - 1
        half = strange[:, rank, None] * np.sqrt(spread + (1 if observation else 0))
        return self._back(center - half), self._back(center + half)

    def outside(self, columns: Columns) -> Array:
        return self.support.outside(columns)

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        parts = {"scale": self.scale.to_dict(), "range": self.range.to_dict(), "support": self.support.to_dict()}
        return {"learned": "Exponent", **parts, **arrays, "single": self.single}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exponent:
        arrays = {name: np.array(data[name]) for name in _ARRAYS}
        scale, support = Scale.from_dict(data["scale"]), Support.from_dict(data["support"])
        return cls(scale=scale, range=Range.from_dict(data["range"]), support=support, single=data["single"], **arrays)

    def _values(self, columns: Columns) -> tuple[Array, Array]:
        """Predictions and leverage of each target and row, `[k, n]`, in units of the spread."""
        rows = len(self.scale.features(Kernel(("share",)), columns))
        value, spread = np.zeros((len(self.shape), rows)), np.zeros((len(self.shape), rows))
        for shape, of in _groups(self.shape):
            features = self.scale.features(Kernel((shape,)), columns) - self.center[of[0]]
            fitted = Exponentials(self.theta[of], self.inverse[of])
            value[of], spread[of] = exponential(fitted.theta, features), leverage(fitted, features)
        return value, spread

    def _back(self, values: Array) -> Array:
        out = self.range.inside(self.range.lower + self.range.spread * values.T)
        return out[:, 0] if self.single else out


_ARRAYS = ("shape", "center", "theta", "inverse", "strange")


def _groups(shape: Array) -> list[tuple[str, Array]]:
    """Each shape, and the targets that have it."""
    return [(str(one), np.flatnonzero(shape == one)) for one in np.unique(shape)]


def _chosen(given: Mapping[str, Array], y: Array, fold: Array) -> tuple[Array, Array]:
    """Shape and strength for each target: those whose fits to the other folds predict each fold best."""
    voters = np.arange(len(y)) if len(y) <= _VOTERS else np.linspace(0, len(y) - 1, _VOTERS).round().astype(int)
    count = len(STRENGTHS)
    tried, strengths = np.repeat(y[voters], count, axis=0), np.tile(STRENGTHS, len(voters))
    missed = [_unseen(features, tried, fold, strengths)[0] for features in given.values()]
    # [shapes and strengths, voters]
    error = np.concatenate([(one**2).mean(1).reshape(len(voters), count).T for one in missed])
    if len(voters) < len(y):
        error = np.tile((error / error.min(0)).mean(1)[:, None], len(y))
    best = error.argmin(0)
    return np.array(list(given))[best // count], STRENGTHS[best % count]


def _unseen(features: Array, y: Array, fold: Array, strength: Array) -> tuple[Array, Array]:
    """Errors and leverage of each run when its fold was not seen, `[k, n]`."""
    missed, spread = np.zeros(y.shape), np.zeros(y.shape)
    for f in range(fold.max() + 1):
        out = fold == f
        fitted = exponentials(features[~out], y[:, ~out], strength)
        reached = np.clip(exponential(fitted.theta, features[out]), -1.0, 2.0)
        missed[:, out], spread[:, out] = reached - y[:, out], leverage(fitted, features[out])
    return missed, spread


def examples() -> tuple[Predictor, ...]:
    return (LogLinear(), LogLinear(inputs=("mixture", "tokens")))
