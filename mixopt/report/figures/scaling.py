"""Loss against tokens: what was measured, what the law says, and how far the plan lies beyond."""

from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.report.figures.canvas import (
    COLORS,
    INK,
    SHADE,
    Drawing,
    around,
    label,
    ladder_colors,
    log_counts,
    target_panels,
)
from mixopt.report.numbers import count, interval, plain
from mixopt.report.outcome import Outcome, band

_POINTS = 60


def draw(outcome: Outcome) -> Drawing:
    """A panel a target: runs by size, the law through the reference mixture and the plan's, and the prediction."""
    figure, axes = target_panels(len(outcome.targets), 3.7)
    tokens = outcome.trained["tokens"]
    ends = around(np.append(tokens, outcome.tokens), 1.3)
    for ax, target in zip(axes, outcome.targets, strict=True):
        if outcome.tokens > tokens.max():
            ax.axvspan(tokens.max(), ends[1], color=SHADE, lw=0, zorder=0)
            ax.annotate("beyond the runs", (ends[1], 1), (-3, -3), va="top", ha="right", size=7.5, color="#57606a",
                        xycoords=("data", "axes fraction"), textcoords="offset points")  # fmt: skip
        _runs(ax, outcome, target)
        _plan(ax, outcome, target, np.geomspace(tokens.min(), ends[1], _POINTS))
        _keep_in_sight(ax, outcome, target)
        log_counts(ax.xaxis, *ends)
        ax.set(title=label(target), xlabel="tokens", ylabel="loss [nats per token]")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 6))
    return Drawing("scaling", "Scaling: measured, fitted, predicted", _caption(outcome), _alt(outcome), figure)


def _runs(ax: Any, outcome: Outcome, target: str) -> None:
    """Runs at the usual batch and learning rate; those on the reference mixture joined to the law's curve."""
    runs, fitted = outcome.trained.where(outcome.usual), outcome.fits[target]
    reference, loss = outcome.reference[outcome.usual], runs.target(target)["loss"]
    for size, color in ladder_colors(np.unique(runs["model_size"]).tolist()).items():
        mine = runs["model_size"] == size
        ax.plot(runs["tokens"][mine & ~reference], loss[mine & ~reference], "o", color=color, ms=3.5, mew=0, alpha=0.45)
        if not (at := mine & reference).any():
            continue
        ax.plot(runs["tokens"][at], loss[at], "o", color=color, ms=5.5, mew=0.8, mec="white", zorder=4,
                label=f"{count(size)} model")  # fmt: skip
        curve = np.geomspace(*around(runs["tokens"][at], 1.1), _POINTS)
        columns = outcome.like(runs.where(at), curve)
        _law(ax, curve, fitted.predict(columns), band(fitted, columns, outcome.plan.level), color, "-")


def _plan(ax: Any, outcome: Outcome, target: str, curve: Array) -> None:
    fitted, plan = outcome.fits[target], outcome.plan
    columns = outcome.at_plan(np.tile(outcome.mixture, (len(curve), 1)), curve)
    size = count(plan.chosen.model_size)
    _law(ax, curve, fitted.predict(columns), band(fitted, columns, plan.level), COLORS[1], "--",
         f"plan's mixture, {size} model")  # fmt: skip
    predicted = plan.targets[target]
    if predicted.interval:
        low, high = predicted.interval
        ax.plot([outcome.tokens] * 2, [low, high], color=COLORS[1], lw=1.6, zorder=5)
    ax.plot([outcome.tokens], [predicted.loss], "*", color=COLORS[1], ms=13, mec=INK, mew=0.6, zorder=6, label="plan")


def _law(ax: Any, x: Array, y: Array, ends: tuple[Array, Array] | None, color: str, style: str, name: str = "") -> None:
    ax.plot(x, y, style, color=color, lw=1.3, zorder=3, label=name or None)
    if ends is not None:
        ax.fill_between(x, *ends, color=color, alpha=0.14, lw=0, zorder=2)


def _keep_in_sight(ax: Any, outcome: Outcome, target: str) -> None:
    """The axis leaves out the few mixtures that are far worse than all others, and marks them at its upper end."""
    runs = outcome.trained.where(outcome.usual)
    loss = runs.target(target)["loss"]
    reference = loss[outcome.reference[outcome.usual]]
    plan = outcome.plan.targets[target].interval or (0.0, 0.0)
    highest, low = max(reference.max(), plan[1], float(np.quantile(loss, 0.9))), ax.get_ylim()[0]
    top = highest + 0.08 * (highest - low)
    ax.set_ylim(low, top)
    colors = ladder_colors(np.unique(runs["model_size"]).tolist())
    for tokens, size in zip(runs["tokens"][loss > top], runs["model_size"][loss > top], strict=True):
        ax.plot([tokens], [top], "^", color=colors[size], ms=5, mew=0, clip_on=False)


def _caption(outcome: Outcome) -> str:
    largest = outcome.largest_flops
    sizes = np.unique(outcome.trained["model_size"])
    ladder = f"Points are runs, colored by model size ({count(sizes[0])} to {count(sizes[-1])} parameters)"
    if len(sizes) == 1:
        ladder = f"Points are runs of one model size ({count(sizes[0])} parameters): the effect of size is not measured"
    return (
        f"{ladder}; large ones have the {outcome.reference_name}, small ones others. Only runs at the usual batch size "
        "and learning rate are shown; a triangle is a run above the axis. Lines are the law, bands its "
        f"{outcome.level} intervals. The star is the plan with its interval: {plain(outcome.plan.flops / largest)} "
        "times the compute of the largest run."
    )


def _alt(outcome: Outcome) -> str:
    told = [
        f"{name}: {plain(target.loss)} nats per token, interval {interval(target.interval)}"
        for name, target in outcome.plan.targets.items()
    ]
    return f"Loss against tokens for each target, falling along the law's curves. Predicted: {'; '.join(told)}."
