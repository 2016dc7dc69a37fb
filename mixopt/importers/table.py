"""Table: what an importer found, before anyone said which column means what; nothing is read until asked for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mixopt._discover import available, load
from mixopt.columns import Array, Columns
from mixopt.errors import RunsError

Kinds = Mapping[str, bool | None]
"""Names of the columns to read, and whether each is text; None where the values decide."""

_BLANK = frozenset({"", "na", "n/a", "nan", "null", "none"})
_REFUSED = {
    **dict.fromkeys((".gz", ".bz2", ".xz", ".zst", ".zip"), "it is compressed; unpack it first"),
    **dict.fromkeys((".pkl", ".pickle"), "a pickle can run code when it is opened; write the table as parquet or CSV"),
}


@dataclass(frozen=True)
class Table:
    """Named columns of rows.

    `load(kinds, limit)` reads the columns of `kinds`, `limit` rows at most. `meaning` is what a known layout says of
    its own columns, in the words of a mapping file; it is empty where only the user knows.
    """

    source: str
    names: tuple[str, ...]
    load: Callable[[Kinds, int | None], Columns]
    notes: tuple[str, ...] = ()
    meaning: Mapping[str, Any] = field(default_factory=dict[str, Any])


def in_memory(
    source: str,
    columns: Mapping[str, Sequence[Any] | Array],
    notes: Sequence[str] = (),
    meaning: Mapping[str, Any] | None = None,
) -> Table:
    """A table of columns that are at hand."""

    def read(kinds: Kinds, limit: int | None) -> Columns:
        return {name: typed(columns[name][:limit], kind, source, name) for name, kind in kinds.items()}

    return Table(source, tuple(columns), read, tuple(notes), meaning or {})


def open_table(path: str | Path, *, layouts: bool = True) -> Table:
    """The table at `path`: a file or folder that an importer recognizes, or a file by its suffix.

    `layouts=False` reads nothing beside that file.

    Raises
    ------
    RunsError
        Nothing is there, or no importer reads it.
    """
    importers = {name: load("importers", name) for name in available("importers")}
    named = importers.get(str(path).partition(":")[0]) if ":" in str(path) else None
    if getattr(named, "ADDRESSES", False) and named is not None:
        return named.read(str(path))
    path = Path(path)
    if not path.exists():
        raise RunsError(f"{path} is not there; give a table of runs, e.g. runs.parquet.")
    for module in importers.values():
        if not layouts and getattr(module, "BESIDE", False):
            continue
        if hasattr(module, "recognizes") and module.recognizes(path):
            return module.read(path)
    return _by_suffix(path, importers).read(path)


def _by_suffix(path: Path, importers: Mapping[str, ModuleType]) -> ModuleType:
    readers = {suffix: module for module in importers.values() for suffix in getattr(module, "SUFFIXES", ())}
    suffix = path.suffix.lower()
    if path.is_dir():
        raise RunsError(f"{path} is a folder that no importer knows; give a table of runs in it, e.g. runs.parquet.")
    if suffix in _REFUSED:
        raise RunsError(f"{path} is not read: {_REFUSED[suffix]}.")
    if suffix not in readers:
        raise RunsError(f"{path} ends in {path.suffix!r}; a table of runs ends in {', '.join(sorted(readers))}.")
    return readers[suffix]


def join(tables: Sequence[Table], on: str) -> Table:
    """One table of several that describe the same runs, joined by the column `on`, whatever the order of their rows.

    Raises
    ------
    RunsError
        A table lacks `on`. When loaded: a run is missing from a table or twice in it, or two tables differ in a column.
    """
    for table in tables:
        if on not in table.names:
            raise RunsError(
                f"{table.source} has no column {on!r} to join it to {tables[0].source} by; name the column with the "
                "runs' ids, e.g. run: index, the same in both tables."
            )
    names = tuple(dict.fromkeys(name for table in tables for name in table.names))
    source = " and ".join(table.source for table in tables)

    def read(kinds: Kinds, limit: int | None) -> Columns:
        joined: dict[str, Array] = {}
        first: dict[str, int] | None = None
        for table in tables:
            loaded = table.load({on: True} | {k: v for k, v in kinds.items() if k in table.names and k != on}, None)
            rows = _rows_by_id(loaded[on], on, table.source)
            first = first or rows
            _refuse_strangers(first, rows, tables[0].source, table.source)
            order = [rows[one] for one in first][:limit]
            for name in loaded:
                _add(joined, name, loaded[name][order], source)
        if kinds.get(on) is False:
            joined[on] = numbers(joined[on], source, on)
        return joined

    meaning = {key: value for table in reversed(tables) for key, value in table.meaning.items()}
    return Table(source, names, read, tuple(note for table in tables for note in table.notes), meaning)


def _rows_by_id(ids: Array, on: str, source: str) -> dict[str, int]:
    rows: dict[str, int] = {}
    for row, one in enumerate(ids.tolist()):
        if one in rows:
            raise RunsError(f"{source} has {on} {one!r} in rows {rows[one] + 1} and {row + 1}; keep one of them.")
        rows[one] = row
    return rows


def _refuse_strangers(first: Mapping[str, int], rows: Mapping[str, int], one: str, other: str) -> None:
    for here, there, lacking, having in ((first, rows, other, one), (rows, first, one, other)):
        if missing := [name for name in here if name not in there]:
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise RunsError(
                f"{lacking} has no run {missing[0]!r}{more}, which {having} has in row {here[missing[0]] + 1}; rows "
                "are joined by id, so add it there or remove it here."
            )


def _add(joined: dict[str, Array], name: str, values: Array, source: str) -> None:
    if name in joined:
        same = (joined[name] == values) | ((joined[name] != joined[name]) & (values != values))
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            raise RunsError(
                f"{source} have the column {name!r} both and differ in it: {joined[name][row]} and {values[row]}; "
                "rename one."
            )
    joined.setdefault(name, values)


def typed(values: Sequence[Any] | Array, kind: bool | None, source: str, name: str, before: int = 0) -> Array:
    """`values` as text (kind true), as numbers (false), or as numbers where all are (None)."""
    if kind is None:
        try:
            return numbers(values, source, name)
        except RunsError:
            kind = True
    return texts(values) if kind else numbers(values, source, name, before)


def numbers(values: Sequence[Any] | Array, source: str, name: str, before: int = 0) -> Array:
    """Numbers [n]; what is blank or says that it is not available becomes NaN.

    Raises
    ------
    RunsError
        A value is not a number; the message names its row, counted from 1 after `before` others.
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return values.astype(float)
    try:
        if isinstance(values, np.ndarray) and values.dtype.kind == "c":
            raise TypeError
        return np.fromiter(map(float, values), float, len(values))
    except (ValueError, TypeError, OverflowError):
        return np.array([_number(v, source, name, before + row) for row, v in enumerate(values, 1)], dtype=float)


def _number(value: Any, source: str, name: str, row: int) -> float:
    if _is_missing(value) or (isinstance(value, str) and value.strip().lower() in _BLANK):
        return float("nan")
    try:
        if isinstance(value, complex):
            raise TypeError
        return float(value)
    except (ValueError, TypeError, OverflowError):
        raise RunsError(f"{source} row {row}: {name} is {_shown(value)}; give plain numbers, e.g. 1.5e9.") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def texts(values: Iterable[Any]) -> Array:
    """Text [n]: whole numbers without a point, nothing where a value is missing."""
    return np.array([_text(value) for value in values], dtype=str)


def _text(value: Any) -> str:
    if _is_missing(value):
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )
