"""How alike two runs are: the kernels from which ridge and Gaussian processes choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import is_wide

# Other columns beside shares are logs scaled to this sd, about that of the root of a share.
_SD = 0.3


@dataclass(frozen=True)
class Kernel:
    """Linear or Matern 3/2 on features of the shares, and of the logs of other columns.

    Attributes
    ----------
    features : of a share h, any of "share" (h), "root" (sqrt h), "log" (log(1 + h / least) / log(1 + 1 / least))
    least : share below which the log no longer tells mixtures apart
    length : of the Matern kernel, in medians of the distance between runs; 0 for the linear kernel
    """

    features: tuple[str, ...]
    least: float = 1e-2
    length: float = 0.0

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Kernel:
        return cls(tuple(data["features"]), float(data["least"]), float(data["length"]))


@dataclass(frozen=True, eq=False)
class Scale:
    """How other columns than the mixture are put on the scale of shares: mean and sd of their logs."""

    inputs: tuple[str, ...]
    mean: Mapping[str, list[float]]
    sd: Mapping[str, list[float]]

    @classmethod
    def of(cls, inputs: tuple[str, ...], columns: Columns) -> Scale:
        logs = {name: _log(name, columns) for name in inputs if name != "mixture"}
        mean = {name: values.mean(0).tolist() for name, values in logs.items()}
        # A column that never changed says nothing: its feature is held at 0, whatever is asked later.
        sd = {name: np.where(values.std(0) > 1e-9, values.std(0), 1e30).tolist() for name, values in logs.items()}
        return cls(inputs, mean, sd)

    def features(self, kernel: Kernel, columns: Columns) -> Array:
        """[n, f] of the rows of `columns`."""
        blocks: list[Array] = []
        if "mixture" in self.inputs:
            shares = np.maximum(np.asarray(columns["mixture"], float), 0)
            made = {"share": shares, "root": np.sqrt(shares)}
            made["log"] = np.log1p(shares / kernel.least) / np.log1p(1 / kernel.least)
            blocks += [made[name] for name in kernel.features]
        for name in self.mean:
            blocks.append(_SD * (_log(name, columns) - self.mean[name]) / self.sd[name])
        return np.hstack(blocks)

    def to_dict(self) -> dict[str, Any]:
        return {"inputs": list(self.inputs), "mean": dict(self.mean), "sd": dict(self.sd)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Scale:
        return cls(tuple(data["inputs"]), data["mean"], data["sd"])


@dataclass(frozen=True, eq=False)
class Gram:
    """A kernel fixed by runs: their features, the center and mean square of these, and its length in their units."""

    at: Array
    center: Array
    length: float
    size: float

    @classmethod
    def of(cls, kernel: Kernel, features: Array) -> Gram:
        center = features.mean(0)
        size = max(float(((features - center) ** 2).sum(-1).mean()), 1e-12)
        if not kernel.length:
            return cls(features, center, 0.0, size)
        apart = _square(features, features)[np.triu_indices(len(features), 1)]
        length = kernel.length * max(float(np.sqrt(np.median(apart))), 1e-6)
        return cls(features, center, length, size)

    def between(self, features: Array) -> Array:
        """[n, runs] of rows and runs; 1 is added, so that a constant is learned too."""
        if not self.length:
            return (features - self.center) @ (self.at - self.center).T / self.size + 1
        apart = np.sqrt(3 * _square(features, self.at)) / self.length
        return (1 + apart) * np.exp(-apart) + 1

    def own(self, features: Array) -> Array:
        """[n] of each row with itself."""
        if not self.length:
            return ((features - self.center) ** 2).sum(-1) / self.size + 1
        return np.full(len(features), 2.0)


def _log(name: str, columns: Columns) -> Array:
    """Logs as [n, 1], or [n, m] of 1 + a column with an entry a corpus, which may be 0."""
    values = np.asarray(columns[name], float)
    return np.log1p(values) if is_wide(name) else np.log(values)[:, None]


def _square(a: Array, b: Array) -> Array:
    return np.maximum((a**2).sum(-1)[:, None] + (b**2).sum(-1) - 2 * a @ b.T, 0)
