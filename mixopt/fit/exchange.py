"""The token-exchange law as a predictor: fitted to all targets at once, its priors as strong as the noise says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.fit import Fit
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.token_exchange import TokenExchange
from mixopt.predictors.predictor import Learned, Predictor, checked
from mixopt.predictors.support import Support
from mixopt.predictors.warp import Range

_FIRST_NOISE, _NOISES = 0.02, (1e-3, 0.1)
READS = ("mixture", "tokens", "model_size")
# Shares are written to a thousandth: below the sd of that rounding a share cannot be told from none.
_ROUNDING = 3e-4


@dataclass(frozen=True)
class Exchange(Predictor):
    r"""A floor, what a small model leaves over, and what the tokens of all corpora together leave over.

    .. math:: L = E + A N^{-\alpha} + B \left(\epsilon + \sum_i (m_i D_i)^g\right)^{-\beta}

    The law of `TokenExchange`, with the term of the size only where `inputs` names model_size, and with shares in the
    place of tokens where it does not name tokens. It is fitted twice: the size of the first residuals says how much the
    priors count in the second, which is what keeps 30 coefficients in hand when there are 60 runs.

    Where runs are many `full` says more: a power g for each corpus, and a factor on the
    whole excess for each share, by which corpora are in each other's way.

    Parameters
    ----------
    output : what is predicted, positive; one target [n] or several [n, k]
    inputs : mixture, and any of tokens and model_size
    starts : of the first fit
    replicates : of the bootstrap; intervals need some
    full : whether each corpus has a power and a factor of its own

    Examples
    --------
    >>> code = np.linspace(0, 1, 12)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 2 + (0.1 + np.sqrt(code)) ** -0.5}
    >>> Exchange().learn(runs).predict({"mixture": np.array([[0.36, 0.64]])}).round(2)
    array([3.05])
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)
    starts: int = 3
    replicates: int = 0
    full: bool = False

    def learn(self, columns: Columns, *, seed: int = 0) -> Exchanged:
        """Raises FitError as every predictor, and where an output is not positive."""
        if strange := [name for name in self.inputs if name not in READS]:
            raise FitError(f"Exchange reads {', '.join(READS)}, not {strange[0]}. Leave it out of inputs.")
        output, single = checked(self, columns)
        names = [f"{k}" for k in range(output.shape[1])]
        unit = float(np.median(columns["tokens"])) if "tokens" in self.inputs else 1.0
        laws = {name: self._law(columns, unit, output[:, k]) for k, name in enumerate(names)}
        table = {**_tokens(columns, self.inputs), "loss": output}
        first = fit_targets(laws, table, norm=Huber(_FIRST_NOISE), starts=self.starts, seed=seed)
        norms = {name: Huber(float(np.clip(first[name].noise, *_NOISES))) for name in names}
        fits = fit_targets(laws, table, norm=norms, starts=1, seed=seed, replicates=self.replicates)
        return Exchanged(self, tuple(fits.values()), Range.of(output), Support.of(self.inputs, columns), single)

    def _law(self, columns: Columns, unit: float, output: Array) -> Law:
        least = float(output.min())
        if not least > 0:
            raise FitError(f"{self.output} has the value {least:g}; this law is of positive losses. Use Ridge instead.")
        corpora = tuple(f"{i}" for i in range(np.shape(columns["mixture"])[1]))
        exchange = TokenExchange(corpora, unit)
        if self.full:
            exchange = TokenExchange(corpora, unit, shared_g=False, interference=True, floor=_ROUNDING)
        law = Constant("E", 0.02 * least, least, (log(0.5 * least), 0.5)) + exchange
        if "model_size" in self.inputs:
            law = law + PowerLaw("model_size", float(np.median(columns["model_size"])), "A", "alpha", (0.35, 0.15))
        return law


@dataclass(frozen=True, eq=False)
class Exchanged(Learned):
    """The fit of each target."""

    predictor: Exchange
    fits: tuple[Fit, ...]
    range: Range
    support: Support
    single: bool

    @property
    def freedom(self) -> float:
        return float(len(self.fits[0].theta))

    def predict(self, columns: Columns) -> Array:
        given = _tokens(columns, self.predictor.inputs)
        return self._shape(np.stack([fitted.predict(given) for fitted in self.fits], -1))

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        given = _tokens(columns, self.predictor.inputs)
        ends = [fitted.interval(given, level, observation=observation) for fitted in self.fits]
        lower, upper = (np.stack(side, -1) for side in zip(*ends, strict=True))
        return self._shape(lower), self._shape(upper)

    def outside(self, columns: Columns) -> Array:
        return self.support.outside(columns)

    def to_dict(self) -> dict[str, Any]:
        return {
            "learned": "Exchanged",
            "predictor": self.predictor.to_dict(),
            "fits": [fitted.to_dict() for fitted in self.fits],
            "range": self.range.to_dict(),
            "support": self.support.to_dict(),
            "single": self.single,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Exchanged:
        given: dict[str, Any] = {name: value for name, value in data["predictor"].items() if name != "predictor"}
        given["inputs"] = tuple(given["inputs"])
        predictor = Exchange(**given)
        fits = tuple(Fit.from_dict(one) for one in data["fits"])
        return cls(predictor, fits, Range.from_dict(data["range"]), Support.from_dict(data["support"]), data["single"])

    def _shape(self, values: Array) -> Array:
        inside = self.range.inside(values)
        return inside[:, 0] if self.single else inside


def _tokens(columns: Columns, inputs: tuple[str, ...]) -> dict[str, Array]:
    """What the law reads: tokens of each corpus, or its share where tokens are not read."""
    shares = np.asarray(columns["mixture"], float)
    seen = shares * np.asarray(columns["tokens"], float)[:, None] if "tokens" in inputs else shares
    rest = {name: np.asarray(columns[name], float) for name in inputs if name == "model_size"}
    return {"corpus_tokens": seen, "mixture": shares, **rest}
