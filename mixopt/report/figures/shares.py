"""What the share of each corpus does to each target's loss."""

from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.report.figures.canvas import COLORS, FAINT, INK, Drawing, label, panels
from mixopt.report.numbers import percent, plain
from mixopt.report.outcome import Outcome

_POINTS = 41
_ACROSS = 4


def draw(outcome: Outcome) -> Drawing:
    """A panel a corpus: change of loss as its share goes from 0 to its cap, the others kept in proportion."""
    m = len(outcome.corpora)
    if m == 1:
        return Drawing("shares", "Effect of each corpus", "There is one corpus, so there is no share to vary.")
    across = min(m, _ACROSS)
    down = -(-m // across)
    figure, axes = panels(down, across, 2.3 * across + 0.6, 2.1 * down + 0.5, sharey=True)
    moved = [varied(outcome, i) for i in range(m)]
    for ax, i in zip(axes.flat, range(m), strict=False):
        _panel(ax, outcome, i, moved[i])
    for spare in axes.flat[m:]:
        spare.set_visible(False)
    for row in axes:
        row[0].set_ylabel("loss minus the plan's\n[nats per token]")
    axes[0, 0].set_ylim(*_limits(outcome, moved))
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return Drawing(
        "shares",
        "Effect of each corpus",
        "Change of each target's loss as the share of one corpus goes from 0 to the largest that bounds and epoch "
        "caps allow, the other corpora kept in proportion, at the plan's size and tokens. Bands are "
        f"{outcome.level} intervals of the change; the dashed line is the plan's share.",
        _alt(outcome),
        figure,
    )


def varied(outcome: Outcome, i: int) -> Array:
    """[q, m], the plan's mixture with corpus `i` from share 0 to its cap, the others in proportion.

    Where the plan is corpus `i` alone, the others are in proportion to their natural shares.
    """
    others = np.where(np.arange(len(outcome.corpora)) == i, 0.0, outcome.mixture)
    if others.sum() < 1e-9:
        others = np.where(np.arange(len(others)) == i, 0.0, outcome.natural + 1e-12)
    top = max(min(outcome.caps[i], 1.0), outcome.mixture[i])
    shares = np.linspace(0.0, top, _POINTS)
    mixtures = (1 - shares)[:, None] * others / others.sum()
    mixtures[:, i] = shares
    return mixtures


def change(outcome: Outcome, target: str, mixtures: Array) -> tuple[Array, Array | None]:
    """Loss of a target on mixtures [q, m] minus its loss in the plan, [q], and ends [2, q] of its interval."""
    fitted = outcome.fits[target]
    columns, plan = outcome.at_plan(mixtures), outcome.at_plan(outcome.mixture[None])
    moved = fitted.predict(columns) - fitted.predict(plan)
    if not len(fitted.replicates):
        return moved, None
    level = outcome.plan.level
    each = fitted.samples(columns) - fitted.samples(plan)
    return moved, np.quantile(each, [(1 - level) / 2, (1 + level) / 2], axis=0)


def weighted(outcome: Outcome, mixtures: Array) -> Array:
    """Weighted loss on mixtures [q, m] minus the plan's, [q]: lowest at the plan, within bounds."""
    weights = np.array([outcome.study.targets[target].weight for target in outcome.targets])
    return weights / weights.sum() @ np.stack([change(outcome, target, mixtures)[0] for target in outcome.targets])


def _panel(ax: Any, outcome: Outcome, i: int, mixtures: Array) -> None:
    shares = 100 * mixtures[:, i]
    for k, target in enumerate(outcome.targets):
        moved, ends = change(outcome, target, mixtures)
        color = COLORS[k % len(COLORS)]
        ax.plot(shares, moved, color=color, lw=1.5, label=label(target))
        if ends is not None:
            ax.fill_between(shares, *ends, color=color, alpha=0.18, lw=0)
    if len(outcome.targets) > 1:
        ax.plot(shares, weighted(outcome, mixtures), color=INK, lw=1.6, ls=(0, (1, 1)), label="weighted")
    ax.axhline(0, color=FAINT, lw=0.8)
    ax.axvline(100 * outcome.mixture[i], color=FAINT, lw=1.2, ls=(0, (4, 2)))
    ax.set_title(label(outcome.corpora[i], 20), size=9)
    ax.set_xlabel(f"share [%]; plan: {percent(outcome.mixture[i])}", size=7.5)
    ax.set_xlim(0, max(shares.max(), 1e-9))
    ax.tick_params(labelsize=7.5)


def _limits(outcome: Outcome, moved: list[Array]) -> tuple[float, float]:
    """Room for all but the steepest tenth of the curves: what a corpus does near the plan must stay visible."""
    values = np.concatenate([change(outcome, target, rows)[0] for rows in moved for target in outcome.targets])
    low, high = float(values.min()), float(np.quantile(values, 0.97))
    room = 0.12 * max(high - low, 1e-3)
    return low - room, high + room


def _alt(outcome: Outcome) -> str:
    told: list[str] = []
    for i, corpus in enumerate(outcome.corpora):
        rows = varied(outcome, i)[[0, -1]]
        ends = [f"{target} {plain(change(outcome, target, rows)[0][1])}" for target in outcome.targets]
        told.append(f"{corpus} at {percent(rows[1, i])}: {', '.join(ends)}")
    return f"Curves of loss change by corpus share. Change at the largest share allowed: {'; '.join(told)}."
