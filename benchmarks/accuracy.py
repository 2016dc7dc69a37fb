"""How well the laws fit published tables of runs: published, reproduced, ours.

    MIXOPT_REFERENCE_DATA=... OMP_NUM_THREADS=1 python benchmarks/accuracy.py [table ...]

Splits are those of the papers. `ours` never saw the rows that it is scored on; `cover` is the share of them inside
their 90 % interval. CPU seconds of our fit.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from math import isnan
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `python benchmarks/accuracy.py` finds the tables

from benchmarks.tables.row import MissingTable, Row

NAMES = sorted(path.stem for path in (Path(__file__).parent / "tables").glob("[!_]*.py") if path.stem != "row")


def rows(names: list[str]) -> Iterator[Row]:
    """The rows of each table, as they come; a table that is not at hand says so and is passed over."""
    for name in names:
        try:
            yield from import_module(f"benchmarks.tables.{name}").rows()
        except MissingTable as missing:
            print(f"{name}: {missing}", file=sys.stderr)


def main() -> None:
    console = Console(width=200)
    asked = sys.argv[1:] or NAMES
    if unknown := sorted(set(asked) - set(NAMES)):
        sys.exit(f"There is no table {', '.join(unknown)}; there are {', '.join(NAMES)}.")
    table = Table("table", "figure", "law", title="Accuracy on published tables of runs")
    for head in ("published", "reproduced", "ours", "reach", "", "cover", "CPU s"):
        table.add_column(head, justify="right")
    table.add_column("note", overflow="fold", max_width=48)
    for row in rows(asked):
        figures = [_figure(value) for value in (row.published, row.reproduced, row.ours, row.reach)]
        verdict = "" if isnan(row.reach) else "yes" if row.reached else "NO"
        cover = "" if isnan(row.coverage) else f"{row.coverage:.0%}"
        table.add_row(row.table, row.quantity, row.law, *figures, verdict, cover, _figure(row.seconds), row.note)
    console.print(table)


def _figure(value: float) -> str:
    return "" if isnan(value) else f"{value:.4g}"


if __name__ == "__main__":
    main()
