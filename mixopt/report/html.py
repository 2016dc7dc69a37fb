"""Pages that load nothing: figures become data addresses, templates become one file."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixopt.files import write_bytes
from mixopt.report.figures.canvas import Drawing, look, to_bytes


@dataclass(frozen=True)
class Picture:
    """A drawing on the page: `source` is the figure as a data address, empty where there is none."""

    drawing: Drawing
    source: str
    png: bytes


def picture(draw: Callable[..., Drawing], of: Any) -> Picture:
    """Draws a figure and puts it into bytes."""
    with look():
        drawing = draw(of)
        if drawing.figure is None:
            return Picture(drawing, "", b"")
        svg, png = (to_bytes(drawing.figure, kind) for kind in ("svg", "png"))
    return Picture(drawing, f"data:image/svg+xml;base64,{b64encode(svg).decode()}", png)


def pictures(draws: Sequence[Callable[..., Drawing]], of: Any, folder: Path) -> dict[str, Picture]:
    """All figures by name, each also as `<folder>/<name>.png`; one for which there is nothing to draw has no file."""
    made = {each.drawing.name: each for each in (picture(draw, of) for draw in draws)}
    for name, each in made.items():
        path = folder / f"{name}.png"
        if each.png:
            write_bytes(path, each.png)
        else:
            path.unlink(missing_ok=True)
    return made


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template of this folder with its values; a value that the template names and does not get is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
