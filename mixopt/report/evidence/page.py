"""The page of a fit: `fit.html`, which loads nothing, and its figures as files."""

from pathlib import Path

from mixopt.files import write_text
from mixopt.fit.fit import Fit
from mixopt.report.evidence import coefficients, curves, predicted, residuals, tables
from mixopt.report.evidence.evidence import Evidence
from mixopt.report.html import pictures, render

_FIGURES = (predicted, curves, residuals, coefficients)


def write_evidence(evidence: Evidence, folder: Path) -> Path:
    """Write `fit.html` and `figures/<name>.png` below `folder`, each file whole or not at all.

    Returns
    -------
    path of the page
    """
    values = {
        "evidence": evidence,
        "pictures": pictures([figure.draw for figure in _FIGURES], evidence, folder / "figures"),
        "tables": tables,
        "reports": {
            name: fitted.report(evidence.level)
            for name, fitted in evidence.selection.fits.items()
            if isinstance(fitted, Fit)
        },
    }
    return write_text(folder / "fit.html", render("evidence/page.html.jinja", values))
