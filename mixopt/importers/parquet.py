"""The flat table of runs as parquet: what a sweep writes."""

from pathlib import Path

from mixopt.errors import RunsError
from mixopt.runs import Runs

SUFFIXES = (".parquet",)


def read(path: Path) -> Runs:
    """Runs from a parquet file with the columns of the vocabulary."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (ValueError, OSError) as error:  # pyarrow's own errors are ValueErrors
        raise RunsError(f"{path} is not a parquet table ({error}); delete it, or give one that is.") from None
    return Runs.from_pandas(frame, str(path))
