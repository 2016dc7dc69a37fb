"""What all figures share: their look, the words beside them, axes that count in k and M, and the way to bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixopt.columns import Array
from mixopt.report.numbers import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which people with any color vision tell apart; black and yellow left out.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, FAINT, SHADE = "#24292f", "#8b949e", "#eef0f3"
_LOOK: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe3e8",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "path",
    "svg.hashsalt": "mixopt",
    "figure.facecolor": "white",
}


@dataclass(frozen=True)
class Drawing:
    """A figure with its words; `figure` is None where there is nothing to draw, and `caption` says why.

    `alt` says in words what a reader who cannot see the figure would miss. `table` are its numbers, header first.
    """

    name: str
    title: str
    caption: str
    alt: str = ""
    figure: Figure | None = None
    table: Sequence[Sequence[str]] = ()


@contextmanager
def look() -> Generator[None]:
    """The settings under which figures are drawn and written, and only they."""
    import matplotlib

    settings: dict[Any, Any] = dict(_LOOK)
    with matplotlib.rc_context(settings):
        yield


def panels(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Array]:
    """A figure and its axes [rows, columns]; width and height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def target_panels(count_: int, height: float = 3.4, **options: Any) -> tuple[Figure, list[Any]]:
    """A figure with a panel for each target, at most three side by side."""
    across = min(count_, 3)
    down = -(-count_ // across)
    figure, axes = panels(down, across, max(3.6 * across, 6.0) + 0.4, height * down + 0.3, **options)
    for spare in axes.flat[count_:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:count_])


def legend(figure: Figure, axes: Sequence[Any]) -> None:
    """One legend below all panels, of what the first shows, in as many columns as there is room for."""
    handles, names = axes[0].get_legend_handles_labels()
    if len(names) > 1:
        room = max(2, int(12 * figure.get_figwidth() / (3 + max(map(len, names)))))
        figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), room))


def label(name: str, width: int = 24) -> str:
    """A name as figures show it: no formula is read into it, and a long one is cut.

    >>> label("a$b$"), label("common_crawl_2019_head_and_middle")
    ('a\\\\$b\\\\$', 'common_crawl_2019_head_…')
    """
    short = name if len(name) <= width else name[: width - 1] + "…"
    return short.replace("$", r"\$")


def log_counts(axis: Any, low: float, high: float, spell: Any = count) -> None:
    """A logarithmic axis from `low` to `high` with ticks at 1, 2 and 5, spelled with k, M and B."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})
    ticks = [m * 10.0**e for e in range(-12, 16) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    if len(ticks) > 7:
        ticks = [tick for tick in ticks if round(np.log10(tick), 6) % 1 == 0]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: spell(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """A number on an axis: no zeros that say nothing.

    >>> short(0.005), short(0.01)
    ('0.005', '0.01')
    """
    return f"{value:g}"


def around(values: Array, room: float = 1.15) -> tuple[float, float]:
    """Ends of a logarithmic axis that leave some room around the values."""
    return float(np.min(values)) / room, float(np.max(values)) * room


def ladder_colors(values: Sequence[float]) -> dict[float, str]:
    """A color for each of a few values of a scale: light for the smallest, dark for the largest."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    steps = np.linspace(0.72, 0.08, len(values)) if len(values) > 1 else np.array([0.3])
    return {value: to_hex(colormaps["viridis"](step)) for value, step in zip(sorted(values), steps, strict=True)}


def to_bytes(figure: Figure, kind: str) -> bytes:
    """The figure as `svg` or `png`: the same figure gives the same bytes."""
    stream = io.BytesIO()
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    figure.savefig(stream, format=kind, dpi=144, metadata=metadata)
    content = stream.getvalue()
    # An address of a document type is never fetched, but a page that loads nothing need not name one.
    return re.sub(rb"<!DOCTYPE.*?>\s*", b"", content, flags=re.DOTALL) if kind == "svg" else content
