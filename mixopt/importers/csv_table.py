"""The flat table of runs as CSV: what a spreadsheet writes."""

from pathlib import Path

from mixopt.runs import Runs

SUFFIXES = (".csv",)


def read(path: Path) -> Runs:
    """Runs from a CSV file with the columns of the vocabulary."""
    import pandas as pd

    return Runs.from_pandas(pd.read_csv(path), str(path))
