"""The coefficients of the law and how sure each is."""

from typing import Any

import numpy as np

from mixopt.fit.fit import Fit
from mixopt.report.evidence.evidence import Evidence
from mixopt.report.figures.canvas import COLORS, FAINT, Drawing, label, legend, panels
from mixopt.report.numbers import plain

NAME, TITLE = "coefficients", "Coefficients"
_ROW, _ACROSS = 0.2, 3


def draw(evidence: Evidence) -> Drawing:
    """A panel a kind of coefficient, a row each coefficient, a color a target: value and interval on the prior."""
    fits = dict(list(evidence.law_fits().items())[: len(COLORS)])
    if not fits:
        return Drawing(NAME, TITLE, f"{evidence.selection.law} has no coefficients that a person could read.")
    every = len(evidence.selection.fits)
    kinds = _kinds(next(iter(fits.values())))
    down = -(-len(kinds) // _ACROSS)
    longest = max(len(places) for places in kinds.values())
    figure, axes = panels(down, min(len(kinds), _ACROSS), 10.5, down * (1.0 + _ROW * min(longest, 24)))
    for spare in axes.flat[len(kinds) :]:
        spare.set_visible(False)
    for ax, (kind, places) in zip(axes.flat, kinds.items(), strict=False):
        _panel(ax, kind, places, fits, evidence.level)
    legend(figure, list(axes.flat))
    return Drawing(
        NAME,
        TITLE,
        f"Points are fitted values, lines their {evidence.level:.0%} intervals, the faint line what was believed "
        "before the runs were seen. Where color covers the faint line from end to end, the runs have said nothing."
        + f" The first {len(fits)} of {every} targets."
        * (len(fits) < every),
        "Values and intervals of each coefficient by target; the numbers are in the tables below.",
        figure,
    )


def _kinds(fitted: Fit) -> dict[str, list[int]]:
    """Places of coefficients by what stands before the bracket: all m[...] in one panel."""
    kinds: dict[str, list[int]] = {}
    for i, name in enumerate(fitted.law.names):
        kinds.setdefault(name.partition("[")[0], []).append(i)
    return kinds


def _panel(ax: Any, kind: str, places: list[int], fits: dict[str, Fit], level: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    first = next(iter(fits.values())).law
    for k, (target, fitted) in enumerate(fits.items()):
        rows = np.arange(len(places)) + (k - (len(fits) - 1) / 2) * 0.8 / max(len(fits), 2)
        ax.plot(fitted.theta[places], rows, "o", color=COLORS[k], ms=3.5, mew=0, label=label(target))
        if len(fitted.replicates):
            low, high = fitted.coefficient_intervals(level)
            ax.hlines(rows, low[places], high[places], color=COLORS[k], lw=1.1)
    for row, place in enumerate(places):
        coefficient = first.coefficients[place]
        if coefficient.prior is not None:
            ends = coefficient.prior[0] + 1.645 * coefficient.prior[1] * np.array([-1, 1])
            ends = np.exp(ends) if coefficient.log else ends
            ends = np.clip(ends, coefficient.lower, coefficient.upper)
            ax.plot(ends, [row, row], color=FAINT, lw=5, alpha=0.25, solid_capstyle="butt", zorder=0)
    if first.coefficients[places[0]].log:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 3), numticks=5))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value, 1)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    names = [first.names[place].partition("[")[2].removesuffix("]") or first.names[place] for place in places]
    ax.set_yticks(np.arange(len(places)), [label(name, 22) for name in names])
    ax.set(title=label(kind), ylim=(len(places) - 0.4, -0.6))
