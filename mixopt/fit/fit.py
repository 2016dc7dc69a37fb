"""One fit for every law: `fit(law, columns) -> Fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.bootstrap import widening
from mixopt.fit.gate import check, grouping
from mixopt.fit.norms import Huber, Norm, norm_from_dict, norm_to_dict
from mixopt.fit.optimum import Optimum, Problem, optima
from mixopt.fit.search import space_of
from mixopt.fit.table import table
from mixopt.laws.law import Law, is_wide, law_from_dict

_VERSION = 1
DEFAULT_NORM = Huber(1e-3)


@dataclass(frozen=True, eq=False)
class Fit:
    """A law, the coefficients that fit it to runs, and how sure they are. Fitting twice gives two of these.

    Attributes
    ----------
    law, theta : the law and its coefficients, [p]
    norm : how residuals counted
    objective : sum over rows of norm.rho(residual of log output / norm.scale), plus the priors' penalty
    agreement : share of starts that ended within .1 % of the best objective
    null_directions : in words, what these runs cannot tell apart
    noise : sd of log residuals, robust (from their median size) and corrected for the coefficients fitted
    n : rows fitted
    support : smallest and largest value seen of each input that is one number per run, and of flops
    replicates : [s, p], coefficients of each bootstrap replicate
    widening : factor by which predictions of replicates are spread about the fit's, for the coefficients fitted
    inside : relative sd that predictions carry everywhere on top of the replicates', from runs held out (`calibrated`)
    groups : how many groups of runs `inside` was seen on; 0 where none was held out
    extrapolation : relative sd that predictions carry besides at `reach` beyond the runs, from larger runs held out
    reach : how far beyond the runs (`overshoot`) that hold-out predicted
    weak_directions : in words, what runs and priors leave open by a factor of e or more
    prior_shares : [p], how far each coefficient rests on its prior: 0 where runs decide, 1 where they say nothing
    """

    law: Law
    theta: Array
    norm: Norm
    objective: float
    agreement: float
    null_directions: tuple[str, ...]
    noise: float
    n: int
    support: Mapping[str, tuple[float, float]]
    replicates: Array = field(default_factory=lambda: np.empty((0, 0)))
    widening: float = 1.0
    inside: float = 0.0
    groups: int = 0
    extrapolation: float = 0.0
    reach: float = 1.0
    weak_directions: tuple[str, ...] = ()
    prior_shares: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def log_loss_objective(self) -> float:
        """The objective in squared log loss, summed over rows: the figure that papers print.

        1.018274e-3 for Chinchilla's 240 runs (Besiroglu et al., 2024), where `objective` is 1018.274.
        """
        return self.objective * self.norm.scale**2

    def predict(self, columns: Columns) -> Array:
        """The law's output at the fitted coefficients, `[n]`."""
        return self._evaluate(self.theta, columns)

    def samples(self, columns: Columns) -> Array:
        """The law's output at each replicate's coefficients, `[s, n]`, spread about the fit's by `widening` on the log.

        Raises
        ------
        FitError
            The fit has no replicates.
        """
        if not len(self.replicates):
            raise FitError("This fit has no bootstrap replicates. Fit again with replicates=200.")
        center = self.predict(columns)
        return center * (self._evaluate(self.replicates, columns) / center) ** self.widening

    def coefficient_intervals(self, level: float = 0.9) -> Array:
        """Lower and upper end of each coefficient, `[2, p]`; empty `[2, 0]` without replicates."""
        if not len(self.replicates):
            return np.empty((2, 0))
        space = space_of(self.law.coefficients)
        center = space.to_search(self.theta)
        ends = np.quantile(space.to_search(self.replicates), [(1 - level) / 2, (1 + level) / 2], axis=0)
        return space.to_theta(np.clip(center + self.widening * (ends - center), space.box.lower, space.box.upper))

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        r"""Lower and upper end, `[n]` each, of the interval for the mean of runs like these.

        .. math:: \log y \pm \sqrt{\text{replicates}^2 + t^2\,\text{inside}^2
                  + z^2 \left(\text{extrapolation}\;\text{overshoot} / \text{reach}\right)^2
                  + \left[z^2\,\text{noise}^2\right]}

        with z the normal quantile and t Student's, of one degree of freedom for each group of runs that was held out.
        With `observation=True` the noise of one run is added, for where a single new run may land.

        Raises
        ------
        FitError
            The fit has no replicates and is not `calibrated`, or one of them predicts no positive output for a row.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is the share of intervals that cover, between 0 and 1; got {level}.")
        values = self.predict(columns)[None]
        if len(self.replicates) or not self.groups:
            values = np.concatenate([values, self.samples(columns)])
        if not (values > 0).all():
            row = int(np.argmax(~(values > 0).all(0)))
            raise FitError(
                f"The fit or one of its replicates predicts no positive {self.law.output} for row {row}: the row is "
                "too far from the runs for this law. Ask for rows nearer to them, or add runs there."
            )
        center, drawn = np.log(values[0]), np.log(values[1:] if len(values) > 1 else values)
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        added = self._added(columns, (1 + level) / 2, observation)
        below = np.sqrt(np.maximum(center - lower, 0) ** 2 + added)
        above = np.sqrt(np.maximum(upper - center, 0) ** 2 + added)
        return np.exp(center - below), np.exp(center + above)

    def _added(self, columns: Columns, quantile: float, observation: bool) -> Array:
        """Square of the half width in log output that hold-outs, and the noise of one run, add to the replicates'."""
        z = NormalDist().inv_cdf(quantile)
        added = (z * self.extrapolation * self.overshoot(columns) / self.reach) ** 2
        if self.inside:
            from scipy.special import stdtrit  # takes a while to load, which `import mixopt` need not

            added = added + (stdtrit(self.groups, quantile) * self.inside) ** 2
        return added + (z * self.noise) ** 2 if observation else added

    def unexplained(self, columns: Columns) -> Array:
        """Relative sd of each row's prediction on top of the replicates', `[n]`: inside the runs and beyond."""
        return np.hypot(self.inside, self.extrapolation * self.overshoot(columns) / self.reach)

    def overshoot(self, columns: Columns) -> Array:
        """How far each row lies beyond the runs fitted, in e-folds, `[n]`; 0 inside.

        Of compute, size, tokens, the length of the schedule and passes over the corpora, as far as the law reads them,
        the one that is farthest.
        """
        ends = {name: self.support[name][1] for name in _GROWING if name in self.support}
        grown = _grown(self.law, columns)
        beyond = [np.log(grown[name] / end) for name, end in ends.items() if name in grown]
        return np.maximum.reduce([np.zeros(_rows(self.law, columns)), *beyond])

    def law_at(self) -> Law:
        """The fitted law: all coefficients held at `theta`."""
        return self.law.fix(**{name: float(value) for name, value in zip(self.law.names, self.theta, strict=True)})

    def cautions(self) -> tuple[str, ...]:
        """What a reader should know before trusting the fit, in sentences; empty if nothing."""
        said = [f"{words}. Fix one, or add runs that tell them apart." for words in self.null_directions]
        if self.agreement < 0.2:
            said.append(
                f"{self.agreement:.0%} of the starts agree on the best objective. Fit with more starts, add runs, or "
                "fix a coefficient."
            )
        said += [
            f"{name} ended at the end of its box, {value:.4g}: these runs do not show what it stands for. "
            "Add runs that do."
            for name, value, at in zip(self.law.names, self.theta, self.at_bound(), strict=True)
            if at
        ]
        return tuple(said)

    def at_bound(self) -> Array:
        """Which coefficients ended at an end of their box, `[p]`."""
        space = space_of(self.law.coefficients)
        u, width = space.to_search(self.theta), space.box.upper - space.box.lower
        return (u - space.box.lower <= 1e-6 * width) | (space.box.upper - u <= 1e-6 * width)

    def report(self, level: float = 0.9) -> str:
        """The fit as a text table: each coefficient, its interval and prior, the law in numbers, and cautions."""
        return table(self, level)

    def to_dict(self) -> dict[str, Any]:
        """The fit as plain data, for JSON. `Fit.from_dict` reads it back."""
        return {
            "version": _VERSION,
            "law": self.law.to_dict(),
            "theta": self.theta.tolist(),
            "norm": norm_to_dict(self.norm),
            "objective": self.objective,
            "agreement": self.agreement,
            "null_directions": list(self.null_directions),
            "noise": self.noise,
            "n": self.n,
            "support": {name: list(ends) for name, ends in self.support.items()},
            "replicates": self.replicates.tolist(),
            "widening": self.widening,
            "inside": self.inside,
            "groups": self.groups,
            "extrapolation": self.extrapolation,
            "reach": self.reach,
            "weak_directions": list(self.weak_directions),
            "prior_shares": self.prior_shares.tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fit:
        """The fit that `to_dict` wrote.

        Raises
        ------
        ValueError
            Another version wrote it, or its law is not installed.
        """
        if data.get("version") != _VERSION:
            raise ValueError(f"This fit has version {data.get('version')}; this mixopt reads {_VERSION}. Fit again.")
        law = law_from_dict(data["law"])
        read: dict[str, Any] = {name: value for name, value in data.items() if name != "version"} | {
            "law": law,
            "theta": np.array(data["theta"], float),
            "norm": norm_from_dict(data["norm"]),
            "null_directions": tuple(data["null_directions"]),
            "weak_directions": tuple(data.get("weak_directions", ())),
            "prior_shares": np.array(data.get("prior_shares", ()), float),
            "support": {name: (float(low), float(high)) for name, (low, high) in data["support"].items()},
            "replicates": np.array(data["replicates"], float).reshape(-1, len(law.coefficients)),
        }
        return cls(**read)

    def _evaluate(self, theta: Array, columns: Columns) -> Array:
        value = self.law(theta, columns)
        return np.broadcast_to(value, (*value.shape[:-1], _rows(self.law, columns)))


def fit(
    law: Law,
    columns: Columns,
    *,
    norm: Norm = DEFAULT_NORM,
    starts: int = 64,
    seed: int = 0,
    replicates: int = 0,
    run: Array | None = None,
    weight: Array | None = None,
) -> Fit:
    r"""Coefficients of a law that fit runs best, from many starts.

    .. math:: \min_\theta \sum_i \rho\left(\frac{\log f(\theta, x_i) - \log y_i}{\delta}\right)
              + \frac12 \sum_k \left(\frac{u_k - c_k}{s_k}\right)^2

    with delta the norm's scale and u the coefficients in search coordinates. Residuals are of the log, so they are
    relative errors. A coefficient's prior (c, s) counts as one more observation of its own; where the norm's scale is
    the sd of the noise, the result is the most probable theta given data and priors (exactly so with `Square`).

    Parameters
    ----------
    law : what may be true; the column that it makes is what is fitted
    columns : the law's inputs and its output, [n] or [n, m]
    norm : `Huber(1e-3)` as Hoffmann et al., or `Square(noise)`
    starts : drawn uniformly from the box in search coordinates, besides one at the priors' centers and box's middle
    seed : of the starts and of the bootstrap
    replicates : bootstrap fits, over runs and the centers of priors
    run : [n], which run each row belongs to; the column `run` if there is one, else each row is a run
    weight : [n], how much each row counts, in proportion to 1 / variance of its noise: positive, and divided by their
        mean, so that only ratios matter. Where the mean is 1, a row of weight 2 counts as two rows alike

    Raises
    ------
    FitError
        A column is missing, a weight or a row's output is not positive or an input not finite, or rows are fewer than
        coefficients.

    Examples
    --------
    Runs that lose .3 nats at 1B tokens over a floor of 2, an eighth of it (.0375) at 64B, noiselessly:

    >>> from mixopt.laws.constant import Constant
    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e11, 12)
    >>> runs = {"tokens": tokens, "loss": 2 + 0.3 * (tokens / 1e9) ** -0.5}
    >>> fitted = fit(Constant("E") + PowerLaw("tokens", 1e9, "B", "beta"), runs)
    >>> fitted.theta.round(6)
    array([2. , 0.3, 0.5])
    >>> fitted.predict({"tokens": np.array([64e9])})
    array([2.0375])
    """
    check(law, columns, starts, replicates)
    run, weight = grouping(columns, len(columns[law.output]), run, weight)
    problem = Problem(law.output, law, np.log(np.asarray(columns[law.output], float)), norm)
    (found,) = optima([problem], columns, starts=starts, seed=seed, replicates=replicates, run=run, weight=weight)
    return to_fit(problem, found, columns, run)


def to_fit(problem: Problem, found: Optimum, columns: Columns, run: Array) -> Fit:
    """What is kept of an optimum."""
    law = problem.law
    return Fit(
        law=law,
        theta=space_of(law.coefficients).to_theta(found.u),
        norm=problem.norm,
        objective=found.objective,
        agreement=found.agreement,
        null_directions=found.known.null,
        noise=found.known.noise,
        n=len(problem.log_output),
        support=_support(law, columns),
        replicates=found.replicates,
        widening=widening(len(np.unique(run)), found.known.freedom),
        weak_directions=found.known.weak,
        prior_shares=found.known.prior_shares,
    )


# What extrapolation is in: a prediction is farther from the runs the larger one of these is than any of theirs.
_GROWING = ("flops", "model_size", "tokens", "steps", "passes")


def _support(law: Law, columns: Columns) -> dict[str, tuple[float, float]]:
    seen = {name: columns[name] for name in law.inputs if not is_wide(name)} | _grown(law, columns)
    return {name: (float(np.min(values)), float(np.max(values))) for name, values in seen.items()}


def _grown(law: Law, columns: Columns) -> dict[str, Array]:
    """Those of `_GROWING` that the law reads: flops where it reads size and tokens, passes as a mean over tokens."""
    grown = {name: np.asarray(columns[name], float) for name in ("model_size", "tokens") if name in law.inputs}
    if "corpus_tokens" in law.inputs:
        grown.setdefault("tokens", np.asarray(columns["corpus_tokens"], float).sum(-1))
    if "step_knots" in law.inputs:
        grown["steps"] = np.asarray(columns["step_knots"], float)[..., -1]
    if {"model_size", "tokens"} <= set(grown):
        grown["flops"] = 6.0 * grown["model_size"] * grown["tokens"]
    if {"tokens", "mixture", "unique_tokens"} <= set(law.inputs):
        mixture = np.asarray(columns["mixture"], float)
        passes = np.maximum(grown["tokens"][..., None] * mixture / columns["unique_tokens"], 1)
        grown["passes"] = (mixture * passes).sum(-1)
    return grown


def _rows(law: Law, columns: Columns) -> int:
    """Rows of a table, from the columns that the law reads, or from any."""
    for name in (*law.inputs, *columns):
        values = np.asarray(columns[name])
        if values.ndim > (1 if is_wide(name) else 0):
            return values.shape[0]
    return 1
