"""Olmix's two files: `ratios.csv` holds a column a corpus, `metrics.csv` bits per byte of a column a task.

The files are joined by their column `run`, never by position.

Reference: Chen et al., Olmix, arXiv:2602.12237; github.com/allenai/olmix.
"""

from dataclasses import replace
from pathlib import Path

from mixopt.importers import csv_table
from mixopt.importers.table import Table, join

BESIDE = True  # reads a second file beside the one that was given
_ID = "run"
_NAMES = ("", "run", "name", "index")


def recognizes(path: Path) -> bool:
    """Whether `path` is the file of ratios, or the one folder that holds it, and the file of metrics lies beside it."""
    ratios = _ratios(path)
    if ratios is None or not _metrics(ratios).is_file():
        return False
    return all(set(_NAMES[1:]) <= set(csv_table.read(one).names) for one in (ratios, _metrics(ratios)))


def read(path: Path) -> Table:
    """Ratios and metrics of both files, and what their columns mean."""
    ratios = _ratios(Path(path)) or Path(path)
    tables = [csv_table.read(ratios), csv_table.read(_metrics(ratios))]
    corpora, tasks = ([name for name in table.names if name not in _NAMES] for table in tables)
    note = (
        f"{ratios} and {_metrics(ratios).name} were read as Olmix's files: {len(corpora)} corpora, and {len(tasks)} "
        "tasks in bits per byte."
    )
    table = join(tables, _ID)
    return replace(table, meaning={"run": _ID, "mixture": corpora, "bits_per_byte": tasks}, notes=(note, *table.notes))


def _ratios(path: Path) -> Path | None:
    if path.is_dir():
        found = sorted(path.glob("*ratios.csv"))
        return found[0] if len(found) == 1 else None
    return path if path.name.endswith("ratios.csv") else None


def _metrics(ratios: Path) -> Path:
    return ratios.with_name(ratios.name.removesuffix("ratios.csv") + "metrics.csv")
