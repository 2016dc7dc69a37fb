"""The tables of a fit: candidates, targets, coefficients."""

from dataclasses import replace

import numpy as np

from mixopt.fit.fit import Fit
from mixopt.report.evidence.evidence import Evidence
from mixopt.report.numbers import percent, plain
from mixopt.report.tables import Table

# A table of more coefficients than this is read by machines: it is in fit.json.
_READABLE, _BESIDE = 40, 3
_UNKNOWN = plain(None)


def candidates(evidence: Evidence) -> Table:
    """What was tried, best first, by its error on rows that it had not seen."""
    head = ["law", "free", "error", "behind", "bias", "rank", "regret@1", "optimism"]
    rows = [
        [
            row.name,
            f"{row.coefficients:.3g}",
            _relative(row.rmse),
            "best" if row == evidence.selection.candidates[0] else _behind(row.rmse, row.behind, row.behind_se),
            _relative(row.bias),
            _rank(row.rank),
            plain(row.regret),
            plain(row.optimism),
        ]
        for row in evidence.selection.candidates
    ]
    rule = "the simplest within one standard error of the best"
    if evidence.selection.law == "stack":
        rule = "the average of all, weighted by their errors"
    caption = (
        f"Candidates by their error on rows held out: {evidence.selection.held_out.words} (root mean square of log "
        "loss, all targets). free: numbers that it could choose; behind: how much of its squared error is above the "
        f"best's, paired by run. The bold one is used: {rule}"
    )
    return _told(Table(caption, head, rows, frozenset({evidence.selection.law})))


def targets(evidence: Evidence) -> Table:
    """Every target: its losses, how well held-out rows were predicted, and how sure the fit is."""
    selection = evidence.selection
    head = ["target", f"loss [{evidence.unit}]", "held-out error", "rank", f"inside {evidence.level:.0%} interval"]
    head += ["seed noise", "scatter", "extrapolation"]
    rows: list[list[str]] = []
    for name, fitted in selection.fits.items():
        loss = evidence.fitted.target(name)["loss"]
        error, rank, covered = selection.held_out.score(name)
        told = ["", ""]
        if isinstance(fitted, Fit):
            told = [_relative(fitted.noise), _extrapolation(fitted)]
        row = [name, f"{plain(loss.min())} to {plain(loss.max())}", _relative(error), _rank(rank), _share(covered)]
        rows.append([*row, _relative(selection.noise[name]), *told])
    return _told(Table("Targets", head, rows))


def coefficients(evidence: Evidence) -> Table | None:
    """Values and intervals of the chosen law's coefficients, a column a target; None where there are too many."""
    fits = evidence.law_fits()
    if not fits or len(fits) > _BESIDE or len(next(iter(fits.values())).theta) > _READABLE:
        return None
    names = next(iter(fits.values())).law.names
    cells = {target: _cells(fitted, evidence.level) for target, fitted in fits.items()}
    rows = [[name, *(cells[target][i] for target in fits)] for i, name in enumerate(names)]
    return Table(f"Coefficients of {evidence.selection.law}, {evidence.level:.0%} intervals", ["", *fits], rows)


def _told(table: Table) -> Table:
    """The table without columns of which nothing is known."""
    kept = [i for i in range(len(table.head)) if any(row[i] not in ("", _UNKNOWN) for row in table.rows)]
    return replace(table, head=[table.head[i] for i in kept], rows=[[row[i] for i in kept] for row in table.rows])


def _cells(fitted: Fit, level: float) -> list[str]:
    if not len(fitted.replicates):
        return [plain(value) for value in fitted.theta]
    low, high = fitted.coefficient_intervals(level)
    return [f"{plain(v)} ({plain(a)} to {plain(b)})" for v, a, b in zip(fitted.theta, low, high, strict=True)]


def _behind(rmse: float, behind: float, se: float) -> str:
    """The squared error above the best's and its standard error, as parts of this candidate's own."""
    if not np.isfinite(behind) or not rmse:
        return "failed"
    return f"+{percent(behind / rmse**2)}" + (f" ± {percent(se / rmse**2)}" if np.isfinite(se) else "")


def _extrapolation(fitted: Fit) -> str:
    if not fitted.extrapolation:
        return ""
    return f"{_relative(fitted.extrapolation)} at x{plain(float(np.exp(fitted.reach)))}"


def _relative(value: float) -> str:
    return _UNKNOWN if not np.isfinite(value) else f"{plain(100 * value)} %"


def _rank(value: float) -> str:
    return _UNKNOWN if not np.isfinite(value) else f"{value:.3f}"


def _share(value: float) -> str:
    return _UNKNOWN if not np.isfinite(value) else percent(value)
