"""Evidence: a table of runs and the laws fitted to it, and the views of both that the figures share."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.fit.selection import Selection
from mixopt.report.numbers import count
from mixopt.runs import Runs

# More panels than these are looked at by nobody; the tables hold all targets.
_PANELS = 9


@dataclass(frozen=True, eq=False)
class Evidence:
    """Runs, what was fitted to them, and the coverage of the intervals shown."""

    runs: Runs
    selection: Selection
    level: float = 0.9

    @cached_property
    def fitted(self) -> Runs:
        """The runs that the laws are fitted to."""
        return self.runs.of("transformer").finished()

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The targets that figures show: all, or spread evenly from the best predicted to the worst."""
        names = tuple(self.selection.fits)
        if len(names) <= _PANELS:
            return names
        held = self.selection.held_out
        error = [np.mean(np.log(np.array(held.predicted[t]) / np.array(held.observed[t])) ** 2) for t in names]
        order = np.argsort(error)[np.linspace(0, len(names) - 1, _PANELS).round().astype(int)]
        return tuple(names[i] for i in order)

    @property
    def shown(self) -> str:
        """A sentence on targets left out of the figures; empty where none is."""
        every = len(self.selection.fits)
        if len(self.targets) == every:
            return ""
        return f" {len(self.targets)} of {every} targets are shown, from the best predicted to the worst."

    @property
    def unit(self) -> str:
        """Unit of the losses."""
        return self.runs.loss_unit

    @cached_property
    def ladder(self) -> tuple[str, Array]:
        """What makes these runs small or large and its value in each fitted run: sizes if they differ, else tokens."""
        for name in ("model_size", "tokens"):
            if name in self.fitted.columns and np.ptp(np.log(self.fitted[name])) > 0:
                return name, self.fitted[name]
        return "", np.zeros(len(self.fitted))

    def law_fits(self) -> dict[str, Fit]:
        """The targets shown whose law has coefficients."""
        found = {target: self.selection.fits[target] for target in self.targets}
        return {target: fitted for target, fitted in found.items() if isinstance(fitted, Fit)}


def spell_range(values: Array) -> str:
    """The smallest and the largest of some sizes.

    >>> spell_range(np.array([1e6, 4e6])), spell_range(np.array([1e6]))
    ('1M to 4M', '1M')
    """
    low, high = count(float(values.min())), count(float(values.max()))
    return low if low == high else f"{low} to {high}"


def steps_of(values: Array, most: int = 6) -> Array:
    """A level [n] from 0 to at most `most - 1` for each value, so that a legend stays short: equal parts of the log.

    >>> steps_of(np.array([1e6, 1e6, 4e6])).tolist(), steps_of(np.geomspace(1, 1e4, 9), 3).tolist()
    ([0, 0, 1], [0, 0, 0, 1, 1, 1, 2, 2, 2])
    """
    found, place = np.unique(values, return_inverse=True)
    if len(found) <= most:
        return place
    edges = np.linspace(np.log(found[0]), np.log(found[-1]), most + 1)[1:-1]
    return np.searchsorted(edges, np.log(values))
