"""What the fitted law leaves over, run by run, against the size of the run."""

from typing import Any

import numpy as np

from mixopt.report.evidence.evidence import Evidence
from mixopt.report.figures.canvas import COLORS, FAINT, SHADE, Drawing, around, label, log_counts, target_panels

NAME, TITLE = "residuals", "Residuals"


def draw(evidence: Evidence) -> Drawing:
    """A panel a target: the residual of each fitted run against what makes runs large, or against the loss."""
    figure, axes = target_panels(len(evidence.targets), 2.9)
    worst = [_panel(ax, evidence, target) for ax, target in zip(axes, evidence.targets, strict=True)]
    return Drawing(
        NAME,
        TITLE,
        "Measured over fitted loss of every run that was fitted. The band is twice the noise; a trend is structure "
        f"that the law does not have, and points far off are runs to look at.{evidence.shown}",
        f"Points around zero. Largest: {'; '.join(worst)}.",
        figure,
    )


def _panel(ax: Any, evidence: Evidence, target: str) -> str:
    columns = evidence.fitted.target(target)
    said = evidence.selection.fits[target].predict(columns)
    off = 100 * np.log(columns["loss"] / said)
    name, ladder = evidence.ladder
    x = ladder if name else said
    noise = 1.4826 * float(np.median(np.abs(off)))
    ax.axhspan(-2 * noise, 2 * noise, color=SHADE, lw=0, zorder=0)
    ax.axhline(0, color=FAINT, lw=1, zorder=1)
    ax.plot(x, off, "o", color=COLORS[0], ms=3.5, mew=0, alpha=0.6)
    if name:
        log_counts(ax.xaxis, *around(x, 1.3))
    words = {"model_size": "model size [parameters]", "tokens": "tokens"}.get(name, f"fitted loss [{evidence.unit}]")
    ax.set(title=label(target), xlabel=words, ylabel="measured over fitted [%]")
    place = int(np.abs(off).argmax())
    return f"{target}, run {columns['run'][place]}, {off[place]:+.2f} %"
