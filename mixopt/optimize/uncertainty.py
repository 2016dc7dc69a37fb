"""How sure a weighted loss, or a difference of two, is: paired bootstrap replicates and what they leave unexplained."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.objective import target_losses
from mixopt.optimize.problem import Problem

Interval = tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """Losses of n decisions: `losses` [k, n] as fitted, `samples` [k, s, n] by replicate, `unexplained` [k, n].

    Replicate r of every target was fitted to the same resampled runs, so sums over targets and differences between
    decisions are taken within a replicate. What replicates leave unexplained is a relative sd, larger the further a
    decision lies beyond the runs; the laws leave their runs behind together, so it is added over targets (fully
    correlated, the cautious choice) and then combined in quadrature with the replicates. A law that is wrong about one
    mixture may be right about another: in a difference of two the unexplained errors cancel only as far as the
    mixtures agree, with the correlation 1 - t, where t is the share of the tokens (`mixtures` [n, m]) that would have
    to change places.
    Intervals of losses are formed on the log, as those of a fit are; differences have no sign, and stay as they are.
    """

    losses: Array
    samples: Array
    unexplained: Array
    mixtures: Array
    target_weights: Array
    level: float

    @property
    def known(self) -> bool:
        """Whether anything is known about the uncertainty."""
        return self.samples.shape[1] > 0 or bool((self.unexplained > 0).any())

    def target(self, k: int, row: int) -> Interval | None:
        """Interval of one target's loss."""
        return self._log_interval(float(self.losses[k, row]), self.samples[k, :, row], self.unexplained[k, row])

    def weighted(self, row: int) -> Interval | None:
        """Interval of the weighted loss."""
        w = self.target_weights
        value = float(w @ self.losses[:, row])
        return self._log_interval(value, w @ self.samples[:, :, row], self._drift(row) / value)

    def difference(self, row: int, other: int) -> Interval | None:
        """Interval of the weighted loss of `row` minus that of `other`."""
        gap = float(self.target_weights @ (self.losses[:, row] - self.losses[:, other]))
        return self._interval(gap, self._gaps(row, other), self._apart(row, other))

    def chance_above(self, row: int, other: int) -> float | None:
        """Chance that the weighted loss of `row` exceeds that of `other`, replicates and the unexplained together."""
        gaps, sd = self._gaps(row, other), self._apart(row, other)
        if not len(gaps):
            return None
        if sd == 0:
            return float(np.mean((gaps > 0) + (gaps == 0) / 2))
        return float(np.mean([NormalDist().cdf(gap / sd) for gap in gaps]))

    def _gaps(self, row: int, other: int) -> Array:
        return self.target_weights @ (self.samples[:, :, row] - self.samples[:, :, other])

    def _drift(self, row: int) -> float:
        """Standard deviation of the weighted loss that replicates leave unexplained."""
        return float(self.target_weights @ (self.unexplained[:, row] * self.losses[:, row]))

    def _apart(self, row: int, other: int) -> float:
        """Standard deviation of a difference that replicates leave unexplained."""
        moved = float(np.abs(self.mixtures[row] - self.mixtures[other]).sum()) / 2
        a, b = self._drift(row), self._drift(other)
        return float(np.sqrt((a - b) ** 2 + 2 * moved * a * b))

    def _log_interval(self, value: float, samples: Array, relative_sd: float) -> Interval | None:
        ends = self._interval(float(np.log(value)), np.log(samples), relative_sd)
        return ends and (float(np.exp(ends[0])), float(np.exp(ends[1])))

    def _interval(self, value: float, samples: Array, sd: float) -> Interval | None:
        if not self.known:
            return None
        tail = (1 - self.level) / 2
        far = NormalDist().inv_cdf(1 - tail) * sd
        low, high = np.quantile(samples, [tail, 1 - tail]) if len(samples) else (value, value)
        # Quantiles need not enclose the fitted value; the interval does.
        below, above = max(value - low, 0.0), max(high - value, 0.0)
        return float(value - np.hypot(below, far)), float(value + np.hypot(above, far))


def spread(problem: Problem, x: Array, level: float) -> Spread:
    """Losses of the decisions `x` [n, d] with all that is known of their uncertainty.

    Raises
    ------
    ValueError
        Targets were fitted with different numbers of replicates, so replicates cannot be paired; or a replicate
        gives a loss that is not positive.
    """
    columns = problem.columns(x)
    counts = {target.name: len(target.fit.replicates) for target in problem.targets}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(
            f"The fits have different numbers of replicates ({shown}); pairs need the same. "
            "Fit every target with the same runs, seed and replicates."
        )
    fits = [target.fit for target in problem.targets]
    bare = np.empty((0, len(x)))
    samples = np.stack([fit.samples(columns) if len(fit.replicates) else bare for fit in fits])
    if len(wrong := np.argwhere(samples <= 0)):
        k, r, row = wrong[0]
        raise ValueError(
            f"Replicate {r} of target {problem.targets[k].name} gives the loss {samples[k, r, row]:.3g} for mixture "
            f"{row} of those judged (0 is the plan); a loss is positive. Add runs nearer to it, or narrow the bounds."
        )
    unexplained = np.stack([fit.unexplained(columns) for fit in fits])
    mixtures = np.atleast_2d(x)[:, : len(problem.corpora)]
    return Spread(target_losses(problem, x), samples, unexplained, mixtures, problem.target_weights, level)
