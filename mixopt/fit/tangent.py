r"""A bootstrap in one step, for laws of many coefficients: hundreds of replicates in the time of a few refits.

.. math:: u_b = u - H_b^{-1} g_b, \qquad \log f_b(x) = \log f(x) + \nabla_u \log f(x) \cdot (u_b - u)

with :math:`g_b` and :math:`H_b` the gradient and the curvature of replicate b's objective at the full fit. Each
replicate takes the step that its refit would take first, and predictions follow the tangent instead of the law, which
keeps them near where the step is a good one. On 512 mixtures of 17 corpora (arXiv:2407.01492) and 55 coefficients,
intervals of the mean are 1.04 to 1.18 times as wide as by refitting every replicate, at a hundredth of the time.

References
----------
Shao and Tu, *The Jackknife and Bootstrap*, 1995, section 3.3 (one-step bootstrap of M-estimators).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.bootstrap import redraw, resample
from mixopt.fit.fit import Fit
from mixopt.fit.norms import Norm
from mixopt.fit.search import LogResidual, space_of


@dataclass(frozen=True, eq=False)
class TangentFit(Fit):
    """A fit whose replicates are one step away from it each, and predict along the tangent. Made by `tangent`."""

    def samples(self, columns: Columns) -> Array:
        """The output of each replicate along the tangent, `[s, n]`, spread about the fit's by `widening` on the log."""
        space = space_of(self.law.coefficients)
        value, slopes = self.law.jacobian(self.theta, columns)
        log_slopes = slopes * space.stretch(self.theta) / value[:, None]
        moved = space.to_search(self.replicates) - space.to_search(self.theta)
        return self.predict(columns) * np.exp(self.widening * moved @ log_slopes.T)

    def to_dict(self) -> dict[str, Any]:
        # A plain `Fit` would evaluate these replicates through the law, so it must not take them for its own.
        return {**super().to_dict(), "tangent": True}

    @classmethod
    def from_dict(cls, data: Any) -> TangentFit:
        read = Fit.from_dict({name: value for name, value in data.items() if name != "tangent"})
        return _as_tangent(read, read.replicates)


def tangent(fitted: Fit, columns: Columns, *, replicates: int = 200, seed: int = 0) -> TangentFit:
    """The fit with bootstrap replicates of one step each, over runs and the centers of priors.

    Parameters
    ----------
    fitted : a fit, with or without replicates
    columns : the runs that it was fitted to
    replicates, seed : as in `fit`; the same runs are drawn

    Examples
    --------
    Runs whose loss halves with every 4 times the tokens, with noise of 1 %:

    >>> from mixopt.fit.fit import fit
    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e10, 40)
    >>> noise = np.exp(0.01 * np.random.default_rng(0).standard_normal(40))
    >>> runs = {"tokens": tokens, "loss": 2 * (tokens / 1e9) ** -0.5 * noise}
    >>> fitted = tangent(fit(PowerLaw("tokens", 1e9, "B", "beta"), runs, starts=4), runs)
    >>> low, high = fitted.interval({"tokens": np.array([1e9])})
    >>> bool(low < 2 < high), (high / low - 1).round(3)
    (True, array([0.006]))
    """
    if replicates < 1:
        raise FitError(f"replicates is a number of bootstrap draws, at least 1; got {replicates}.")
    law, norm, space = fitted.law, fitted.norm, space_of(fitted.law.coefficients)
    box, u, n = space.box, space.to_search(fitted.theta), len(columns[law.output])
    counts = resample(np.asarray(columns.get("run", np.arange(n))), replicates, seed).astype(float)
    centers = redraw(law.coefficients, replicates, seed)
    z, slopes = (part[0] for part in LogResidual(law, columns, norm.scale).slopes(u[None]))
    pull = (counts * norm.weight(z) * z) @ slopes + box.precision * (u - centers)
    squares = (slopes[:, :, None] * slopes[:, None, :]).reshape(n, -1)
    bend = ((counts * _smooth_curvature(norm, z)) @ squares).reshape(replicates, len(u), len(u))
    diagonal = np.arange(len(u))
    # What neither runs nor priors determine, or where the box stopped the fit, stays where it is.
    bend[:, diagonal, diagonal] += box.precision + 1e-9 * np.trace(bend, axis1=1, axis2=2)[:, None]
    free = ~fitted.at_bound()
    step = np.zeros_like(pull)
    step[:, free] = np.linalg.solve(bend[:, free][:, :, free], pull[:, free, None])[..., 0]
    return _as_tangent(fitted, space.to_theta(u - step))


def _as_tangent(fitted: Fit, replicates: Array) -> TangentFit:
    kept: dict[str, Any] = {f.name: getattr(fitted, f.name) for f in fields(Fit)} | {"replicates": replicates}
    return TangentFit(**kept)


def _smooth_curvature(norm: Norm, z: Array) -> Array:
    """The norm's curvature at each residual, averaged over residuals near it, half as far as is typical.

    Not smoothed it is 0 nearly everywhere under a Huber norm far finer than the noise.
    """
    quantiles = np.array([NormalDist().inv_cdf((k + 0.5) / 101) for k in range(101)])
    return norm.curvature(z[:, None] + 0.5 * 1.4826 * np.median(np.abs(z)) * quantiles).mean(-1)
