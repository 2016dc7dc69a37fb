"""The page: `report.html`, which loads nothing, and its figures as files."""

from pathlib import Path

from mixopt.files import write_text
from mixopt.report import tables, words
from mixopt.report.figures import exchange, held_out, learning_rate, mixture, scaling, schedules, shares
from mixopt.report.html import pictures, render
from mixopt.report.outcome import Outcome

_FIGURES = (mixture, scaling, shares, held_out, exchange, learning_rate, schedules)


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write `report.html` and `report/<figure>.png` below `folder`, each file whole or not at all.

    The same outcome gives the same bytes. A figure for which there is nothing to draw has no file; its place on the
    page says why.

    Returns
    -------
    path of the page
    """
    values = {
        "outcome": outcome,
        "pictures": pictures([figure.draw for figure in _FIGURES], outcome, folder / "report"),
        "tables": tables,
        "words": words,
        "reports": {name: fitted.report(outcome.plan.level) for name, fitted in outcome.fits.items()},
    }
    return write_text(folder / "report.html", render("page.html.jinja", values))
