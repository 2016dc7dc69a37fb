"""The page: `report.html`, which loads nothing, and its figures as files."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixopt.files import write_bytes, write_text
from mixopt.report import tables, words
from mixopt.report.figures import exchange, held_out, learning_rate, mixture, scaling, schedules, shares
from mixopt.report.figures.canvas import Drawing, look, to_bytes
from mixopt.report.outcome import Outcome

_FIGURES = (mixture, scaling, shares, held_out, exchange, learning_rate, schedules)


@dataclass(frozen=True)
class Picture:
    """A drawing on the page: `source` is the figure as a data address, empty where there is none."""

    drawing: Drawing
    source: str
    png: bytes


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write `report.html` and `report/<figure>.png` below `folder`, each file whole or not at all.

    The same outcome gives the same bytes. A figure for which there is nothing to draw has no file; its place on the
    page says why.

    Returns
    -------
    path of the page
    """
    pictures = [picture(figure.draw, outcome) for figure in _FIGURES]
    for each in pictures:
        path = folder / "report" / f"{each.drawing.name}.png"
        if each.png:
            write_bytes(path, each.png)
        else:
            path.unlink(missing_ok=True)
    return write_text(folder / "report.html", _render(outcome, {each.drawing.name: each for each in pictures}))


def picture(draw: Any, outcome: Outcome) -> Picture:
    """Draws a figure and puts it into bytes."""
    with look():
        drawing: Drawing = draw(outcome)
        if drawing.figure is None:
            return Picture(drawing, "", b"")
        svg, png = (to_bytes(drawing.figure, kind) for kind in ("svg", "png"))
    return Picture(drawing, f"data:image/svg+xml;base64,{b64encode(svg).decode()}", png)


def _render(outcome: Outcome, pictures: Mapping[str, Picture]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(
        outcome=outcome,
        pictures=pictures,
        tables=tables,
        words=words,
        reports={name: fitted.report(outcome.plan.level) for name, fitted in outcome.fits.items()},
    )
