"""The flat table of runs as CSV: what a spreadsheet writes."""

from pathlib import Path

from mixopt.errors import RunsError
from mixopt.runs import Runs

SUFFIXES = (".csv",)


def read(path: Path) -> Runs:
    """Runs from a CSV file with the columns of the vocabulary."""
    import pandas as pd

    try:
        frame = pd.read_csv(path)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise RunsError(f"{path} is not a CSV table ({error}); give one with a header and a row a run.") from None
    return Runs.from_pandas(frame, str(path))
