"""The mixture beside the natural and the uniform one."""

from typing import Any

import numpy as np

from mixopt.report.figures.canvas import COLORS, FAINT, Drawing, label, panels
from mixopt.report.numbers import percent, plain
from mixopt.report.outcome import Outcome

_SHOWN = ("natural", "uniform")
_GRAYS = (FAINT, "#c9ced6")


def draw(outcome: Outcome) -> Drawing:
    """Bars of share by corpus, with the epochs that each share means written on them."""
    plan = outcome.plan
    order = np.argsort(-outcome.mixture, kind="stable")
    names = [outcome.corpora[i] for i in order]
    rows: list[tuple[str, Any, Any, str]] = [
        ("plan", {name: outcome.used(name) for name in names}, plan.epochs, COLORS[0])
    ]
    rows += [
        (name, plan.baselines[name].mixture, plan.baselines[name].epochs, gray)
        for name, gray in zip(_SHOWN, _GRAYS, strict=True)
        if name in plan.baselines
    ]
    figure, axes = panels(1, 1, 8.0, 0.95 + (0.16 * len(rows) + 0.1) * len(names))
    ax, thick = axes[0, 0], 0.84 / len(rows)
    for r, (name, mixture, epochs, color) in enumerate(rows):
        at = np.arange(len(names)) + (r - (len(rows) - 1) / 2) * thick
        shares = np.array([mixture[corpus] for corpus in names])
        ax.barh(at, 100 * shares, thick * 0.92, color=color, label=name)
        for y, share, corpus in zip(at, shares, names, strict=True):
            text = f"{plain(epochs[corpus], 2)} epochs" if share else "left out" if name == "plan" else ""
            ax.annotate(text, (100 * share, y), (3, 0), textcoords="offset points", va="center", size=7)
    ax.set(yticks=range(len(names)), yticklabels=[label(name) for name in names], xlabel="share of the tokens [%]")
    ax.set_xlim(0, 115 * max(max(row[1].values()) for row in rows))
    ax.set_ylim(len(names) - 0.45, -0.55)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=len(rows))
    shares = ", ".join(f"{name} {percent(outcome.used(name))}" for name in names)
    return Drawing(
        "mixture",
        "Mixture",
        "Share of each corpus in the plan and in mixtures that need no plan; on each bar, how often the run passes "
        "over the corpus.",
        f"Bars of the share of each corpus. The plan has {shares}.",
        figure,
    )
