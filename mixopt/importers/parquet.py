"""A table as parquet: what a sweep writes; only the columns asked for are read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixopt.columns import Array, Columns
from mixopt.errors import RunsError
from mixopt.importers.table import Kinds, Table, typed

SUFFIXES = (".parquet",)


def read(path: Path) -> Table:
    """The table in a parquet file.

    Raises
    ------
    RunsError
        The file is not parquet.
    """
    from pyarrow import ArrowException, parquet

    broken = (ValueError, OSError, ArrowException)
    try:
        file = parquet.ParquetFile(path)
        names = tuple(str(name) for name in file.schema_arrow.names)
        notes = _notes(file.schema_arrow.metadata or {})
    except broken as error:
        raise RunsError(f"{path} is not a parquet table ({error}); delete it, or give one that is.") from None

    def load(kinds: Kinds, limit: int | None) -> Columns:
        try:
            table = file.read(columns=list(kinds))
            values = {name: _plain(table.column(name).slice(0, limit)) for name in kinds}
        except broken as error:
            raise RunsError(f"{path} cannot be read to its end ({error}); write it again.") from None
        return {name: typed(values.pop(name), kind, str(path), name) for name, kind in kinds.items()}

    return Table(str(path), names, load, notes)


def _notes(metadata: Mapping[bytes, bytes]) -> tuple[str, ...]:
    """What `Runs.write` had to say of the table."""
    told = json.loads(metadata.get(b"PANDAS_ATTRS", b"{}"))
    notes = told.get("notes", []) if isinstance(told, dict) else []
    return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ()


def _plain(column: Any) -> Sequence[Any] | Array:
    from pyarrow import types

    return column.to_pylist() if types.is_nested(column.type) else column.to_numpy()
