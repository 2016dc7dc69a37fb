"""Loss against peak learning rate, by batch size."""

from typing import Any

import numpy as np

from mixopt.report.figures.canvas import COLORS, Drawing, around, label, ladder_colors, log_counts, short, target_panels
from mixopt.report.numbers import count, plain
from mixopt.report.outcome import Outcome, most_frequent
from mixopt.runs import Runs

_NAME, _TITLE = "learning_rate", "Learning rate and batch size"
_POINTS = 80


def draw(outcome: Outcome) -> Drawing:
    """A panel a target: runs of one size and length that differ in learning rate and batch, and the law's curves."""
    runs = grid(outcome)
    if len(np.unique(runs["peak_lr"])) < 2:
        return Drawing(_NAME, _TITLE, "No run varied the learning rate alone, so its effect was not measured.")
    figure, axes = target_panels(len(outcome.targets), 3.5)
    chosen = outcome.plan.chosen
    rates = runs["peak_lr"] if chosen.peak_lr is None else np.append(runs["peak_lr"], chosen.peak_lr)
    ends = around(rates, 1.3)
    for ax, target in zip(axes, outcome.targets, strict=True):
        _panel(ax, outcome, runs, target, ends)
        log_counts(ax.xaxis, *ends, spell=short)
        ax.set(title=label(target), xlabel="peak learning rate", ylabel="loss [nats per token]")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 5))
    size, tokens = count(runs["model_size"][0]), count(runs["tokens"][0])
    return Drawing(
        _NAME,
        _TITLE,
        f"Runs of {size} parameters on {tokens} tokens of the {outcome.reference_name}; lines are the law. The "
        "vertical line is the plan's learning rate, for its own batch and tokens, which may move the best one.",
        f"Curves of loss against peak learning rate, one for each batch size. The plan has {plain(chosen.peak_lr)}.",
        figure,
    )


def grid(outcome: Outcome) -> Runs:
    """The runs on the reference mixture at the size and tokens where most learning rates and batches were tried."""
    runs = outcome.trained.where(outcome.reference)
    settings = np.stack([runs[name] for name in ("model_size", "tokens", "batch_tokens", "peak_lr")], -1)
    levels = np.unique(settings, axis=0)
    level = levels[most_frequent(levels[:, :2])][0, :2]
    return runs.where((settings[:, :2] == level).all(-1))


def _panel(ax: Any, outcome: Outcome, runs: Runs, target: str, ends: tuple[float, float]) -> None:
    fitted, loss = outcome.fits[target], runs.target(target)["loss"]
    rates = np.geomspace(*ends, _POINTS)
    highest = loss.max()
    for batch, color in ladder_colors(np.unique(runs["batch_tokens"]).tolist()).items():
        mine = runs["batch_tokens"] == batch
        ax.plot(runs["peak_lr"][mine], loss[mine], "o", color=color, ms=5, mew=0.6, mec="white", zorder=3)
        columns = outcome.like(runs.where(mine), np.full(_POINTS, runs["tokens"][0]), rates)
        ax.plot(rates, fitted.predict(columns), color=color, lw=1.4, label=f"batch of {count(batch)}")
    # The law's parabola rises steeply where nothing was measured; the measured range is what is to be seen.
    ax.set_ylim(loss.min() - 0.08 * np.ptp(loss), highest + 0.15 * np.ptp(loss))
    if outcome.plan.chosen.peak_lr is not None:
        ax.axvline(outcome.plan.chosen.peak_lr, color=COLORS[1], lw=1.6, ls=(0, (4, 2)), label="plan")
