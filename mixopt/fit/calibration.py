"""How wrong a law is on runs that it has not seen, beyond what noise and replicates explain: inside and farther out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.fit.scores import Errors

# A row that lies beyond the others by less than this, in e-folds, is as good as inside: no distance to divide by.
_NEAR = 0.1


def calibrate(fitted: Fit, errors: Sequence[Errors], noise: float | None = None) -> Fit:
    r"""The fit with intervals widened by how the same law, fitted to others, erred on runs held out.

    .. math:: \overline{e^2 - \text{noise}^2 - \text{spread}^2}
              = \text{inside}^2 + \text{extrapolation}^2 \, \overline{d^2} / \text{reach}^2

    with e the error of log output, spread that of the replicates of the fit that made it, and d the distance beyond
    the rows of that fit. Rows with d = 0 give `inside`, which every prediction carries; what the others err besides
    grows in proportion to d: nothing at the end of the runs, `extrapolation` at the reach that was tested, twice that
    at twice the reach. A straight line through one number: honest about what was measured, silent about what bends
    later. The mean square contains the bias, which is kept: a law that bends the wrong way errs alike on every run.

    Rows of one run err alike, so means are taken over runs. A mean of n squares has the relative sd sqrt(2 / n): an
    excess beyond the runs below that was not seen to be absent, and is the least that is assumed there.

    Parameters
    ----------
    errors : of one target, one for each hold-out
    noise : sd of log loss between seeds where that is known, so that what the law misses of the runs fitted is told
        from luck; the fit's own residuals stand for it otherwise
    """
    if not errors:
        return fitted
    noise = fitted.noise if noise is None else noise
    square = np.concatenate([part.log[:, 0] ** 2 for part in errors])
    spread = np.concatenate([part.spread[:, 0] for part in errors])
    weight = np.concatenate([part.weight for part in errors])
    beyond = np.concatenate([part.beyond for part in errors])
    place = np.unique([f"{k} {run}" for k, part in enumerate(errors) for run in part.run], return_inverse=True)[1]
    excess, near = square - noise**2 / weight - spread**2, beyond < _NEAR
    inside, groups = 0.0, 0
    if near.any():
        means = _by_group(excess[near], weight[near], place[near])
        inside, groups = max(float(means.mean()), 0.0), len(means)
    fitted = replace(fitted, inside=float(np.sqrt(inside)), groups=groups)
    if near.all():
        return fitted
    more, whole, reach = (
        _by_group(values[~near], weight[~near], place[~near]) for values in (excess - inside, square, beyond**2)
    )
    least = whole.mean() * np.sqrt(2 / len(whole))
    return replace(fitted, extrapolation=float(np.sqrt(max(more.mean(), least))), reach=float(np.sqrt(reach.mean())))


def _by_group(values: Array, weight: Array, group: Array) -> Array:
    """Weighted mean within each group, `[g]`."""
    _, inverse = np.unique(group, return_inverse=True)
    return np.bincount(inverse, weight * values) / np.bincount(inverse, weight)
