"""The flat table of runs as parquet: what a sweep writes."""

from pathlib import Path

from mixopt.runs import Runs

SUFFIXES = (".parquet",)


def read(path: Path) -> Runs:
    """Runs from a parquet file with the columns of the vocabulary."""
    import pandas as pd

    return Runs.from_pandas(pd.read_parquet(path), str(path))
