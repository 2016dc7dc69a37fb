"""A table as CSV or TSV: read row by row, so that a file larger than memory leaves only the columns asked for."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import RunsError
from mixopt.importers.table import Kinds, Table, typed

SUFFIXES = (".csv", ".tsv")
_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_MARKS = {b"\xff\xfe\x00\x00": "utf-32", b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_FIELDS_AT_ONCE = 1_000_000
_SNIFFED_LINES = 20


def read(path: Path) -> Table:
    """The table in a CSV or TSV file; its delimiter and encoding are found out, and said where unusual.

    Raises
    ------
    RunsError
        The file is empty, not text, or its header names no columns.
    """
    encoding, usual = _encoding(path), "\t" if path.suffix.lower() == ".tsv" else ","
    delimiter = _delimiter(path, encoding, usual)
    header = next(_rows(path, encoding, delimiter))
    names = [name.strip() for name in header]
    if len(names) == 1 and " " in names[0]:
        raise RunsError(f"{path} has one column, {names[0][:60]!r}; separate columns by commas, tabs, semicolons or |.")
    notes: list[str] = []
    if delimiter != usual:
        notes.append(f"{path} was read with {_DELIMITERS[delimiter]} between its columns.")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"{path} was read as {encoding.upper()}.")

    twice = {name for name, count in Counter(names).items() if count > 1}

    def load(kinds: Kinds, limit: int | None) -> Columns:
        if unclear := [name for name in kinds if name in twice]:
            first = names.index(unclear[0])
            second = names.index(unclear[0], first + 1)
            raise RunsError(
                f"{path} has the column {unclear[0]!r} twice (columns {first + 1} and {second + 1}); rename one."
            )
        return _load(path, encoding, delimiter, names, kinds, limit)

    return Table(str(path), tuple(dict.fromkeys(names)), load, tuple(notes))


def _load(
    path: Path, encoding: str, delimiter: str, names: Sequence[str], kinds: Kinds, limit: int | None
) -> dict[str, Array]:
    place = {name: column for column, name in enumerate(names)}
    pieces: dict[str, list[Array]] = {name: [] for name in kinds}
    take = itemgetter(*(place[name] for name in kinds)) if len(kinds) > 1 else None
    rows = islice(_whole(path, encoding, delimiter, len(names)), limit)
    done = 0
    # Values as they are read are text and take ten times their room as numbers, so only so many are held at a time.
    while chunk := list(islice(rows, max(1, _FIELDS_AT_ONCE // len(names)))):
        taken = map(take, chunk) if take else ((row[place[next(iter(kinds))]],) for row in chunk)
        for (name, kind), values in zip(kinds.items(), zip(*taken, strict=True), strict=True):
            pieces[name].append(typed(values, kind, str(path), name, done))
        done += len(chunk)
    return {name: _joined(pieces.pop(name), kind, str(path), name) for name, kind in kinds.items()}


def _joined(pieces: list[Array], kind: bool | None, source: str, name: str) -> Array:
    if not pieces:
        return np.zeros(0, str if kind else float)
    whole = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
    return whole if kind is not None else typed(whole, None, source, name)


def _whole(path: Path, encoding: str, delimiter: str, width: int) -> Iterator[list[str]]:
    """The rows below the header, each as long as it."""
    rows = _rows(path, encoding, delimiter)
    next(rows)
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise RunsError(
                f"{path} row {number} has {len(row)} columns, the header {width}; quote values that hold "
                f"{_DELIMITERS[delimiter]}, and leave none out."
            )
        yield row


def _rows(path: Path, encoding: str, delimiter: str) -> Iterator[list[str]]:
    number = 0
    try:
        with path.open(encoding=encoding, newline="") as lines:
            for row in csv.reader(lines, delimiter=delimiter, strict=True):
                if any(row):
                    yield row
                    number += 1
    except UnicodeDecodeError as error:
        after = f"after row {number - 1}" if number > 1 else "in its first rows"
        raise RunsError(f"{path} is not {error.encoding.upper()} text ({after}); save it as UTF-8.") from None
    except csv.Error as error:
        after = max(number - 1, 0)
        raise RunsError(f"{path} is not a CSV table after row {after} ({error}); write it again.") from None
    if not number:
        raise RunsError(f"{path} is not a CSV table: it holds nothing; give one with a header and a row a run.")


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(4096)
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if head.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        raise RunsError(f"{path} is compressed; unpack it first.")
    if b"\0" in head:
        raise RunsError(f"{path} is not a CSV table: it holds zero bytes. Save it as UTF-8 text.")
    return "utf-8"


def _delimiter(path: Path, encoding: str, usual: str) -> str:
    """The delimiter that cuts the first lines into equally many columns, the most of them; the usual one if none."""
    found: dict[str, int] = {}
    for delimiter in dict.fromkeys((usual, *_DELIMITERS)):
        try:
            widths = {len(row) for row in islice(_rows(path, encoding, delimiter), _SNIFFED_LINES)}
        except RunsError:
            continue
        if len(widths) == 1:
            found[delimiter] = widths.pop()
    best = max(found, key=lambda delimiter: found[delimiter], default=usual)
    return best if found.get(best, 1) > 1 else usual
