"""Up to which learning rate a run may be expected not to diverge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError

# How the rate that diverges may move with each setting: down with size, up with tokens and batch, in powers.
_POWERS = {"model_size": (-1.5, 0.0), "tokens": (0.0, 1.0), "batch_tokens": (0.0, 1.0)}


@dataclass(frozen=True)
class SafeRate:
    """A bound on the peak learning rate, below every run that diverged.

    Attributes
    ----------
    rate : the bound at the units, `margin` already taken off
    powers : of each setting that the bound moves with
    units : where `rate` holds, the medians of the diverged runs
    margin : factor by which a bound drawn without one group had to be lowered, at worst, to clear that group
    diverged : how many runs bound it
    """

    rate: float
    powers: Mapping[str, float]
    units: Mapping[str, float]
    margin: float
    diverged: int

    def __call__(self, columns: Columns) -> Array:
        """The largest peak learning rate taken as safe for each row, `[n]`."""
        log = sum((p * np.log(columns[name] / self.units[name]) for name, p in self.powers.items()), start=np.zeros(1))
        return self.rate * np.exp(log)


def safe_rate(columns: Columns, diverged: Array, *, group: Array | None = None) -> SafeRate:
    r"""The highest bound that lies below the learning rate of every diverged run, and a margin measured on groups.

    .. math:: \max_{a, p} \; \overline{a + p \cdot x} \quad \text{s.t.} \quad a + p \cdot x_i \le \log \eta_i
        \;\; \text{for all diverged } i, \qquad x = \log(N / u_N,\ D / u_D,\ B / u_B)

    A diverged run has no loss to fit but says where training breaks. Each group is then left out in turn: the bound
    that the others draw is compared with its diverged runs, and the worst overshoot is taken off as the margin. Powers
    keep their physical sign, so that no group is cleared by a bound that rises with the size of the model.

    Parameters
    ----------
    columns : peak_lr, and those of model_size, tokens and batch_tokens that the runs vary, of all runs
    diverged : [n], mask of the runs that diverged: to NaN, to infinity, or above where they began
    group : [n], what is left out together; runs of one size and length if None

    Raises
    ------
    FitError
        No run diverged, or all that did are of one group, so that no margin can be measured.

    Examples
    --------
    Models of 1e8 broke at .02, of 2e8 at .014, and of 4e8 at .01; a bound for 8e8:

    >>> size = np.array([1e8, 2e8, 4e8, 4e8])
    >>> runs = {"model_size": size, "tokens": np.full(4, 1e9), "peak_lr": np.array([0.02, 0.0141, 0.01, 0.002])}
    >>> bound = safe_rate(runs, np.array([True, True, True, False]))
    >>> bound({"model_size": np.array([8e8]), "tokens": np.array([1e9])}).round(4)
    array([0.0071])
    """
    mask = np.asarray(diverged, bool)
    if not mask.any():
        raise FitError("No run diverged, so nothing bounds the learning rate from above. Add runs at higher rates.")
    names = tuple(name for name in _POWERS if name in columns)
    settings = {name: np.asarray(columns[name], float)[mask] for name in names}
    units = {name: float(np.median(values)) for name, values in settings.items()}
    x = np.stack([np.ones(mask.sum()), *(np.log(settings[name] / units[name]) for name in names)], 1)
    log_rate = np.log(np.asarray(columns["peak_lr"], float)[mask])
    label = np.unique(_group(settings) if group is None else np.asarray(group)[mask], return_inverse=True)[1].ravel()
    if label.max() == 0:
        raise FitError("All diverged runs are of one group, so no margin can be measured. Give groups, or add runs.")
    over = [
        float((x[out] @ _envelope(x[~out], log_rate[~out], names) - log_rate[out]).max())
        for out in (label == one for one in range(label.max() + 1))
    ]
    bound, margin = _envelope(x, log_rate, names), max(*over, 0.0)
    powers = dict(zip(names, bound[1:].tolist(), strict=True))
    return SafeRate(float(np.exp(bound[0] - margin)), powers, units, float(np.exp(margin)), int(mask.sum()))


def _group(settings: Mapping[str, Array]) -> Array:
    shape = [settings[name] for name in ("model_size", "tokens") if name in settings]
    if not shape:
        raise FitError("Runs have neither model_size nor tokens; give their groups.")
    return np.unique(np.stack(shape, 1), axis=0, return_inverse=True)[1].ravel()


def _envelope(x: Array, log_rate: Array, names: tuple[str, ...]) -> Array:
    """The plane [1 + p] that is highest on average over the runs and above none of them."""
    from scipy.optimize import linprog  # takes a while to load, and few who import this module get here

    bounds = [(None, None), *(_POWERS[name] for name in names)]
    found = linprog(-x.mean(0), A_ub=x, b_ub=log_rate, bounds=bounds)
    return np.asarray(found.x, float)
