"""One fit for every law: `fit(law, columns) -> Fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.bootstrap import bootstrap, redraw, resample, widening
from mixopt.fit.gate import check
from mixopt.fit.identify import null_directions
from mixopt.fit.levenberg_marquardt import Solutions
from mixopt.fit.norms import Huber, Norm, norm_from_dict, norm_to_dict
from mixopt.fit.search import LogResidual, Space, solve, space_of
from mixopt.fit.table import table
from mixopt.laws.law import Law, is_wide, law_from_dict

_VERSION = 1
_DEFAULT_NORM = Huber(1e-3)
# A start agrees when its objective is within this share of the best; the second term is for fits without residuals.
_AGREES, _EXACT = 1e-3, 1e-9


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
    extrapolation : relative sd that predictions carry at `reach` beyond the largest run, from a hold-out of runs
    reach : how far beyond its largest run that hold-out predicted, in e-folds of compute
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
    extrapolation: float = 0.0
    reach: float = 1.0

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
        """Lower and upper end, `[n]` each, of the interval for the mean of runs like these.

        The spread of the replicates and the sd of extrapolation are combined in quadrature on the log. With
        `observation=True` the noise of one run is added, for where a single new run may land.

        Raises
        ------
        FitError
            The fit has no replicates, or one of them predicts no positive output for a row.
        """
        if not 0 < level < 1:
            raise ValueError(f"level is the share of intervals that cover, between 0 and 1; got {level}.")
        values = np.concatenate([self.predict(columns)[None], self.samples(columns)])
        if not (values > 0).all():
            row = int(np.argmax(~(values > 0).all(0)))
            raise FitError(
                f"The fit or one of its replicates predicts no positive {self.law.output} for row {row}: the row is "
                "too far from the runs for this law. Ask for rows nearer to them, or add runs there."
            )
        center, *drawn = np.log(values)
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        width = NormalDist().inv_cdf((1 + level) / 2)
        added = (width * self.extrapolation * self.overshoot(columns) / self.reach) ** 2
        if observation:
            added = added + (width * self.noise) ** 2
        below = np.sqrt(np.maximum(center - lower, 0) ** 2 + added)
        above = np.sqrt(np.maximum(upper - center, 0) ** 2 + added)
        return np.exp(center - below), np.exp(center + above)

    def overshoot(self, columns: Columns) -> Array:
        """How far each row lies beyond the largest run fitted, in e-folds of compute, `[n]`; 0 inside."""
        name, size = _size(self.law, columns)
        if name not in self.support:
            return np.zeros(_rows(self.law, columns))
        return np.maximum(np.log(size / self.support[name][1]), 0.0)

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
            "extrapolation": self.extrapolation,
            "reach": self.reach,
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
    norm: Norm = _DEFAULT_NORM,
    starts: int = 64,
    seed: int = 0,
    replicates: int = 0,
    run: Array | None = None,
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

    Raises
    ------
    FitError
        A column is missing, a row's output is not positive or an input not finite, or rows are fewer than
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
    u, objective, agreement = _search(law, columns, norm, starts, seed)
    n, theta = len(columns[law.output]), space_of(law.coefficients).to_theta(u)
    noise, null = _diagnose(law, columns, u, norm)
    run = np.asarray(columns.get("run", np.arange(n)) if run is None else run)
    draws = np.empty((0, len(theta)))
    if replicates:
        counts, centers = resample(run, replicates, seed), redraw(law.coefficients, replicates, seed)
        draws = bootstrap(law, columns, theta, norm, counts, centers)
    return Fit(
        law=law,
        theta=theta,
        norm=norm,
        objective=objective,
        agreement=agreement,
        null_directions=null,
        noise=noise,
        n=n,
        support=_support(law, columns),
        replicates=draws,
        widening=widening(len(np.unique(run)), len(theta) - len(null)),
    )


def _search(law: Law, columns: Columns, norm: Norm, starts: int, seed: int) -> tuple[Array, float, float]:
    """The best end of all starts in search coordinates [p], its objective, and the share of starts that agree."""
    space, n = space_of(law.coefficients), len(columns[law.output])
    first = space.starts(starts, np.random.default_rng(seed))
    found = solve(law, columns, first, norm)
    best = _best(found, first[0], space)
    objective = float(found.objective[best])
    if not np.isfinite(objective):
        raise FitError(
            f"None of {starts} starts gives a positive, finite {law.output} for every row. "
            "Check the units of the inputs against the law's, or narrow the coefficients' boxes."
        )
    agreement = float((found.objective <= objective * (1 + _AGREES) + _EXACT * n).mean())
    return found.u[best], objective, agreement


def _best(found: Solutions, middle: Array, space: Space) -> int:
    """The start that ended lowest; among equals, as along a null direction, the one nearest to priors and middle."""
    low = found.objective.min()
    if not np.isfinite(low):
        return 0
    away = (((found.u - middle) / (space.box.upper - space.box.lower)) ** 2).sum(-1)
    return int(np.where(found.objective <= low * (1 + _EXACT) + _EXACT, away, np.inf).argmin())


def _diagnose(law: Law, columns: Columns, u: Array, norm: Norm) -> tuple[float, tuple[str, ...]]:
    """Noise, and null directions at the optimum; priors count as observations there."""
    space = space_of(law.coefficients)
    z, slopes = LogResidual(law, columns, norm.scale).slopes(u[None])
    priors = np.diag(np.sqrt(space.box.precision))[space.box.precision > 0]
    weighted = slopes[0] * np.sqrt(norm.weight(z[0]))[:, None]
    null = null_directions(np.concatenate([weighted, priors]), law.names, space.log) if len(u) else ()
    n = len(z[0])
    # 1.4826 times the median size is the sd of Gaussian residuals, whatever a few outliers do.
    robust = 1.4826 * norm.scale * float(np.median(np.abs(z[0])))
    return robust * float(np.sqrt(n / max(n - len(u) + len(null), 1))), null


def _support(law: Law, columns: Columns) -> dict[str, tuple[float, float]]:
    name, size = _size(law, columns)
    seen = {name: columns[name] for name in law.inputs if not is_wide(name)} | ({name: size} if name else {})
    return {name: (float(np.min(values)), float(np.max(values))) for name, values in seen.items()}


def _size(law: Law, columns: Columns) -> tuple[str, Array]:
    """What makes a run large for this law, and how large each row is: flops, or the one of size and tokens it reads."""
    read = [name for name in ("model_size", "tokens") if name in law.inputs]
    if len(read) == 2:
        return "flops", 6.0 * np.asarray(columns["model_size"], float) * columns["tokens"]
    return (read[0], np.asarray(columns[read[0]], float)) if read else ("", np.empty(0))


def _rows(law: Law, columns: Columns) -> int:
    """Rows of a table, from the columns that the law reads, or from any."""
    for name in (*law.inputs, *columns):
        values = np.asarray(columns[name])
        if values.ndim > (1 if is_wide(name) else 0):
            return values.shape[0]
    return 1
