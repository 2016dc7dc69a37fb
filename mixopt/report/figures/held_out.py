"""Predicted against observed loss of runs that the law had not seen."""

import numpy as np

from mixopt.columns import Array
from mixopt.fit.ranks import spearman
from mixopt.report.figures.canvas import COLORS, FAINT, Drawing, label, target_panels
from mixopt.report.outcome import Outcome


def draw(outcome: Outcome) -> Drawing:
    """A panel a target: a point a held-out run, on the diagonal where the law was right."""
    held = outcome.selection.held_out
    if not held.run:
        return Drawing("held_out", "Held-out larger runs", "No run was held out, so the law was not tested on any.")
    figure, axes = target_panels(len(outcome.targets), 3.5)
    told: list[str] = []
    for k, (ax, target) in enumerate(zip(axes, outcome.targets, strict=True)):
        seen, said = np.array(held.observed[target]), np.array(held.predicted[target])
        words = residuals(seen, said)
        both = np.concatenate([seen, said])
        room = 0.06 * max(np.ptp(both), 1e-3)
        ends = (both.min() - room, both.max() + room)
        ax.plot(ends, ends, color=FAINT, lw=1, zorder=1)
        ax.plot(seen, said, "o", color=COLORS[k % len(COLORS)], ms=5.5, mew=0.6, mec="white", alpha=0.9)
        ax.text(0.04, 0.97, "\n".join(words), transform=ax.transAxes, va="top", size=8)
        ax.set(title=label(target), xlim=ends, ylim=ends, aspect="equal", xlabel="measured loss [nats per token]")
        ax.set_ylabel("predicted loss")
        ax.locator_params(nbins=5)
        told.append(f"{target}: {', '.join(words)}")
    return Drawing(
        "held_out",
        "Held-out larger runs",
        f"The {len(held.run)} runs with the most compute, predicted by the chosen law fitted to the smaller ones. On "
        "the diagonal the prediction was exact. A positive bias means that the loss was predicted too high.",
        f"Points near the diagonal. {'; '.join(told)}.",
        figure,
    )


def residuals(seen: Array, said: Array) -> list[str]:
    """Error of predictions in words: size, bias and rank correlation.

    >>> residuals(np.array([2.0, 3.0, 4.0]), np.array([2.02, 3.03, 4.04]))
    ['error 1.00 %', 'bias +1.00 %', 'rank 1.00']
    """
    error = np.log(said / seen)
    correlation = spearman(seen, said) if len(seen) > 1 else float("nan")
    rank = f"{correlation:.2f}" if np.isfinite(correlation) else "not known"
    size, bias = 100 * np.sqrt(np.mean(error**2)), 100 * np.mean(error)
    digits = 2 if size >= 0.1 else 4
    return [f"error {size:.{digits}f} %", f"bias {bias:+.{digits}f} %", f"rank {rank}"]
