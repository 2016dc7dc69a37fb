"""A table as JSON lines: an object a run; an object inside it, such as a mixture, becomes columns `mixture[web]`."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from mixopt.columns import Columns
from mixopt.errors import RunsError
from mixopt.importers.table import Kinds, Table, typed

SUFFIXES = (".jsonl", ".ndjson")


def read(path: Path) -> Table:
    """The table in a file of JSON lines; a key that a line lacks is a missing value.

    Raises
    ------
    RunsError
        A line is not a JSON object; the message has its number.
    """
    names: dict[str, None] = {}
    for record in _records(path):
        names |= dict.fromkeys(record)
    if not names:
        raise RunsError(f"{path} is not a table of JSON lines: it holds nothing; give an object a run.")

    def load(kinds: Kinds, limit: int | None) -> Columns:
        values: dict[str, list[Any]] = {name: [] for name in kinds}
        for record in islice(_records(path), limit):
            for name, column in values.items():
                column.append(record.get(name))
        return {name: typed(values.pop(name), kind, str(path), name) for name, kind in kinds.items()}

    return Table(str(path), tuple(names), load)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Objects in objects as columns.

    >>> flat({"run": "a", "mixture": {"web": 1.0}})
    {'run': 'a', 'mixture[web]': 1.0}
    """
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= {f"{key}[{name.replace('[', '.').replace(']', '')}]": one for name, one in flat(value).items()}
        else:
            found[str(key)] = value
    return found


def _records(path: Path) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    record = json.loads(line)
                    if not isinstance(record, dict):
                        raise RunsError(f"{path}:{number} is not a JSON object; give one a run.")
                    yield flat(record)
    except UnicodeDecodeError:
        raise RunsError(f"{path} is not UTF-8 text (after line {number}); save it as UTF-8.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, RunsError):
            raise
        raise RunsError(f"{path}:{number} is not JSON ({error}); give one object a line.") from None
