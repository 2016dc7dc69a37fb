"""RegMix's two files: `train_mixture_1m.csv` holds shares rounded to .001, `train_pile_loss_1m.csv` losses.

The files are joined by their column `index`, never by position. Shares are divided by their sum, which rounding left
within .01 of 1.

Reference: Liu et al., RegMix, arXiv:2407.01492; github.com/sail-sg/regmix.
"""

from dataclasses import replace
from pathlib import Path

from mixopt.importers import csv_table
from mixopt.importers.table import Table, join

BESIDE = True  # reads a second file beside the one that was given
_ID = "index"


def recognizes(path: Path) -> bool:
    """Whether `path` is the file of mixtures, and the file of losses lies beside it."""
    if path.suffix != ".csv" or not path.is_file() or "mixture" not in path.name or not _losses(path).is_file():
        return False
    names = csv_table.read(path).names
    return names[0] == _ID and len(names) > 1 and all(name.startswith("train_") for name in names[1:])


def read(path: Path) -> Table:
    """Mixtures and losses of both files, and what their columns mean."""
    tables = [csv_table.read(Path(path)), csv_table.read(_losses(Path(path)))]
    shares, losses = (_pattern(table.names[1:]) for table in tables)
    meaning = {"run": _ID, "mixture": shares, "loss": losses, "renormalize": True}
    note = f"{path} and {_losses(Path(path)).name} were read as RegMix's files: mixture is {shares}, loss is {losses}."
    table = join(tables, _ID)
    return replace(table, meaning=meaning, notes=(note, *table.notes))


def _losses(path: Path) -> Path:
    return path.with_name(path.name.replace("mixture", "pile_loss"))


def _pattern(names: tuple[str, ...]) -> str:
    """What all names begin and end with, cut at whole words."""
    for before in ("train_the_pile_", "train_", "metric/the_pile_", "metric/", ""):
        for after in ("_val_loss", "_loss", ""):
            if all(name.startswith(before) and name.endswith(after) for name in names):
                return f"{before}*{after}"
    return "*"
