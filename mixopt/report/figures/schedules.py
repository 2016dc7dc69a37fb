"""Learning rate and batch size over the run."""

from typing import Any

import numpy as np

from mixopt.report.figures.canvas import COLORS, Drawing, panels, short
from mixopt.report.numbers import count, plain
from mixopt.report.outcome import Outcome
from mixopt.schedules.schedule import SHAPES, Schedule

_POINTS = 50


def draw(outcome: Outcome) -> Drawing:
    """Two panels over tokens, with the ends of the segments marked."""
    recipe = outcome.recipe
    figure, axes = panels(2, 1, 8.0, 4.2, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    _trace(axes[0, 0], recipe.learning_rate, COLORS[0])
    _trace(axes[1, 0], recipe.batch, COLORS[2])
    axes[0, 0].set(ylabel="learning rate", ylim=(0, 1.12 * recipe.learning_rate.peak))
    axes[1, 0].set(ylabel="batch [tokens]", xlabel="tokens trained on", ylim=(0, 1.2 * recipe.batch.peak))
    axes[0, 0].set_xlim(0, recipe.tokens)
    axes[0, 0].yaxis.set_major_formatter(lambda value, _: short(value))
    for axis in (axes[1, 0].xaxis, axes[1, 0].yaxis):
        axis.set_major_formatter(lambda value, _: count(value))
    return Drawing(
        "schedules",
        "Schedules",
        f"Learning rate: {in_words(recipe.learning_rate, plain)}. Batch in tokens: {in_words(recipe.batch, count)}.",
        f"Learning rate over {count(recipe.tokens)} tokens with its peak at {plain(recipe.learning_rate.peak)}; batch "
        f"of {count(recipe.batch.peak)} tokens at most.",
        figure,
    )


def in_words(schedule: Schedule, spell: Any) -> str:
    """A schedule's segments in a sentence."""
    first = schedule.segments[0]
    if all(segment.start == segment.end == first.start for segment in schedule.segments):
        return f"{spell(first.start)} throughout"
    told: list[str] = []
    for segment in schedule.segments:
        share = f"{segment.tokens / schedule.tokens:.0%}".replace("%", " %")
        if segment.shape == "constant" or segment.start == segment.end:
            told.append(f"{spell(segment.start)} for {share} of the run")
        else:
            told.append(f"{segment.shape} from {spell(segment.start)} to {spell(segment.end)} over {share}")
    return ", then ".join(told)


def _trace(ax: Any, schedule: Schedule, color: str) -> None:
    for at, segment in zip(schedule.boundaries, schedule.segments, strict=False):
        done = np.linspace(0.0, 1.0, _POINTS)
        values = segment.start + (segment.end - segment.start) * SHAPES[segment.shape](done)
        ax.plot(at + done * segment.tokens, values, color=color, lw=2, solid_capstyle="butt")
    for at in schedule.boundaries[1:-1]:
        ax.axvline(at, color="#c9ced6", lw=0.8, ls=(0, (3, 3)))
