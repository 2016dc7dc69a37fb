"""Predicted against observed loss of runs that the law had not seen, by size."""

from typing import Any

import numpy as np

from mixopt.report.evidence.evidence import Evidence, spell_range, steps_of
from mixopt.report.figures.canvas import FAINT, Drawing, label, ladder_colors, legend, target_panels
from mixopt.report.figures.held_out import residuals

NAME, TITLE = "predicted", "Predicted against observed"


def draw(evidence: Evidence) -> Drawing:
    """A panel a target: a point a held-out run with its interval, on the diagonal where the prediction was right."""
    held = evidence.selection.held_out
    if not held.row:
        return Drawing(NAME, TITLE, "No run was held out, so the predictions were not tested on any.")
    figure, axes = target_panels(len(evidence.targets), 3.5)
    told = [f"{target}: {_panel(ax, evidence, target)}" for ax, target in zip(axes, evidence.targets, strict=True)]
    legend(figure, axes)
    return Drawing(
        NAME,
        TITLE,
        f"Rows held out: {held.words}. On the diagonal the prediction was exact. A positive bias means that the "
        f"loss was predicted too high; bars are {evidence.level:.0%} intervals.{evidence.shown}",
        f"Points near the diagonal. {'; '.join(told)}.",
        figure,
    )


def _panel(ax: Any, evidence: Evidence, target: str) -> str:
    held = evidence.selection.held_out
    seen, said = np.array(held.observed[target]), np.array(held.predicted[target])
    name, ladder = evidence.ladder
    level = steps_of(ladder[list(held.row)])
    ends = [np.array(end[target]) for end in (held.lower, held.upper) if target in end]
    for step, color in ladder_colors(np.unique(level).tolist()).items():
        at = level == step
        words = (
            "" if not name else f"{spell_range(ladder[list(held.row)][at])} {'tokens' if name == 'tokens' else 'model'}"
        )
        ax.plot(seen[at], said[at], "o", color=color, ms=4.5, mew=0.5, mec="white", alpha=0.9, label=words or None)
        if len(ends) == 2:
            ax.vlines(seen[at], ends[0][at], ends[1][at], color=color, lw=0.7, alpha=0.5)
    both = np.concatenate([seen, said])
    room = 0.06 * max(np.ptp(both), 1e-3)
    line = (both.min() - room, both.max() + room)
    ax.plot(line, line, color=FAINT, lw=1, zorder=1)
    words = residuals(seen, said)
    ax.text(0.04, 0.97, "\n".join(words), transform=ax.transAxes, va="top", size=8)
    ax.set(title=label(target), xlim=line, ylim=line, aspect="equal")
    ax.set(xlabel=f"measured loss [{evidence.unit}]", ylabel="predicted loss")
    ax.locator_params(nbins=5)
    return ", ".join(words)
