"""One entry of a column mapping: how it is written, which columns of a table it means, and how they are read."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from mixopt.columns import COLUMNS, Array, Columns
from mixopt.errors import RunsError
from mixopt.importers.table import numbers, texts

_KEYS = ("from", "times", "value", "values", "except", "counts", "same")
_COUNTS = ("non_embedding", "all")
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "null", "from", "inf", "nan"})


@dataclass(frozen=True)
class Part:
    """Where one column is read from, or one corpus or target of it: a column of the table, or a constant."""

    label: str
    name: str | None
    times: float = 1.0
    value: float | str | None = None
    values: Mapping[str, str] | None = None

    def read(self, loaded: Columns, rows: int, text: bool, source: str) -> Array:
        """[n], numbers or text."""
        if self.name is None:
            return np.full(rows, self.value)
        given = loaded[self.name]
        if self.values is not None:
            if strange := sorted({str(word) for word in np.unique(given)} - set(self.values)):
                row = int(np.flatnonzero(given == strange[0])[0]) + 1
                raise RunsError(
                    f"{source} row {row}: {self.name} is {strange[0]!r}, which the mapping's values do not name; add "
                    f"it to {', '.join(self.values)}."
                )
            given = np.array([self.values[str(word)] for word in given.tolist()])
        return texts(given.tolist()) if text else numbers(given, source, self.name) * self.times


@dataclass(frozen=True)
class Entry:
    """What a column is read from. `each` names a source for every corpus or target; `out` leaves the column out."""

    sources: tuple[str, ...] = ()
    times: float = 1.0
    value: float | str | None = None
    values: Mapping[str, str] | None = None
    without: tuple[str, ...] = ()
    counts: str = ""
    same: tuple[str, ...] = ()
    each: Mapping[str, "Entry"] | None = None

    def parts(self, column: str, names: Collection[str], place: str, table: str) -> tuple[Part, ...]:
        """The columns of a table that are meant; none where the entry leaves the column out."""
        if self.each is not None:
            return tuple(
                Part(label, *entry._only(names, f"{place}.{label}", table)) for label, entry in self.each.items()
            )
        if self.value is not None:
            return (Part("", None, value=self.value),)
        wide = COLUMNS[column].shape != "n"
        found: list[Part] = []
        for source in self.sources:
            if wide and "*" in source and source not in names:
                found += self._matches(source, names, place, table)
            else:
                label = source if len(self.sources) > 1 else ""
                found.append(Part(label, *self._only(names, place, table, source)))
        return tuple(found)

    def to_yaml(self) -> str:
        """As it is written in a mapping file, on one line."""
        if self.each is not None:
            return f"{{{', '.join(f'{_spell(label)}: {entry.to_yaml()}' for label, entry in self.each.items())}}}"
        given: dict[str, str] = {}
        if self.sources:
            given["from"] = _spell(self.sources[0]) if len(self.sources) == 1 else _list(self.sources)
        if self.times != 1:
            given["times"] = f"{self.times:.12g}"
        if self.value is not None:
            given["value"] = _spell(self.value) if isinstance(self.value, str) else f"{self.value:.12g}"
        if self.values:
            given["values"] = f"{{{', '.join(f'{_spell(k)}: {_spell(v)}' for k, v in self.values.items())}}}"
        given |= {"except": _list(self.without)} if self.without else {}
        given |= {"counts": self.counts} if self.counts else {}
        given |= {"same": _list(self.same)} if self.same else {}
        if not given:
            return "null"
        if given.keys() == {"from"} or (given.keys() == {"value"} and not isinstance(self.value, str)):
            return next(iter(given.values()))
        return f"{{{', '.join(f'{key}: {value}' for key, value in given.items())}}}"

    def _only(self, names: Collection[str], place: str, table: str, source: str | None = None) -> tuple[Any, ...]:
        """Arguments of a `Part` after its label."""
        name = source or (self.sources[0] if self.sources else None)
        if name is not None and name not in names:
            raise RunsError(f"{place} names the column {name!r}, which {table} lacks; {suggest(name, names)}")
        return name, self.times, self.value, self.values

    def _matches(self, pattern: str, names: Collection[str], place: str, table: str) -> list[Part]:
        before, after = pattern.split("*")
        excepted = [re.compile(".*".join(map(re.escape, one.split("*")))) for one in self.without]
        found = [
            Part(name[len(before) : len(name) - len(after)], name, self.times)
            for name in names
            if len(name) > len(before) + len(after) and name.startswith(before) and name.endswith(after)
            if not any(except_.fullmatch(name) for except_ in excepted)
        ]
        if not found:
            near = suggest(pattern, names)
            raise RunsError(f"{place} names the columns {pattern!r}, of which {table} has none; {near}")
        return found


def parse(column: str, given: Any, place: str) -> Entry:
    """An entry from the plain values of a mapping file.

    Raises
    ------
    RunsError
        It is of no form that is accepted; the message names the place and the nearest key.
    """
    if given is None:
        return Entry()
    if isinstance(given, bool):
        raise RunsError(f"{place} is {given}; give the name of a column, a number, or {{from: name, times: 2048}}.")
    if isinstance(given, int | float):
        _refuse_constant(column, given, place)
        return Entry(value=float(given))
    if isinstance(given, str):
        return Entry(_sources(column, [given], place))
    if isinstance(given, list | tuple):
        return Entry(_sources(column, list(given), place))
    if not isinstance(given, Mapping) or not given:
        raise RunsError(f"{place} is {given!r}; give the name of a column, a number, or {{from: name, times: 2048}}.")
    wide = COLUMNS[column].shape != "n"
    if wide and not set(given) & {"from", "value"}:
        return Entry(each={str(label): _single(column, one, f"{place}.{label}") for label, one in given.items()})
    return _spelled(column, given, place)


def suggest(name: str, known: Collection[str]) -> str:
    """What to write instead: the nearest known name, or some of them.

    >>> suggest("tokns", ["tokens", "loss"])
    "did you mean 'tokens'?"
    """
    listed = list(known)[:10_000]
    if near := get_close_matches(name, listed, n=1):
        return f"did you mean {near[0]!r}?"
    return f"it has {', '.join(listed[:12])}{', ...' if len(listed) > 12 else '.'}"


def mismatch(name: str, label: str, labels: Sequence[str], source: str) -> str:
    """The sentence about a corpus or target that a column names and the table does not know."""
    known = ", ".join(labels[:12])
    return f"{source} has the unknown column '{name}[{label}]'; {name} is for {known}. Rename it, or leave it out."


def _single(column: str, given: Any, place: str) -> Entry:
    entry = parse(column, given, place)
    if entry.each is not None or len(entry.sources) > 1 or any("*" in one for one in entry.sources):
        raise RunsError(f"{place} is {given!r}; give the name of one column, or a number.")
    return entry


def _spelled(column: str, given: Mapping[str, Any], place: str) -> Entry:
    if unknown := [key for key in given if key not in _KEYS]:
        raise RunsError(f"{place} has no key {unknown[0]!r}; {suggest(unknown[0], _KEYS)}")
    if sum(key in given for key in ("from", "value", "same")) != 1:
        raise RunsError(f"{place} needs one of from, value and same; it has {', '.join(given)}.")
    sources = given.get("from", [])
    times, value, values = given.get("times", 1.0), given.get("value"), given.get("values")
    if isinstance(times, bool) or not isinstance(times, int | float) or not np.isfinite(times) or times == 0:
        raise RunsError(f"{place}.times is {times!r}; give a number, e.g. 2048.")
    if "value" in given:
        _refuse_constant(column, value, f"{place}.value")
    if values is not None and not (
        isinstance(values, Mapping) and all(isinstance(one, str) for one in values.values()) and COLUMNS[column].text
    ):
        raise RunsError(f"{place}.values is for columns of text: give the word for each word of the table.")
    if "counts" in given and (column != "model_size" or given["counts"] not in _COUNTS):
        raise RunsError(f"{place}.counts is for model_size; give {' or '.join(_COUNTS)}.")
    same = _texts(given.get("same", []), f"{place}.same")
    if "same" in given and (column != "run" or not same or not set(same) <= set(COLUMNS)):
        raise RunsError(f"{place}.same is for run: give columns of the vocabulary that the rows of one run share.")
    return Entry(
        _sources(column, _texts(sources, f"{place}.from"), place),
        float(times),
        float(value) if isinstance(value, int | float) else value,
        {str(word): one for word, one in values.items()} if values is not None else None,
        _texts(given.get("except", []), f"{place}.except"),
        str(given.get("counts", "")),
        same,
    )


def _sources(column: str, names: Sequence[Any], place: str) -> tuple[str, ...]:
    if COLUMNS[column].shape == "n" and len(names) > 1:
        raise RunsError(f"{place} names {len(names)} columns; give one.")
    if bad := [one for one in names if isinstance(one, str) and one.count("*") > 1]:
        raise RunsError(f"{place} is {bad[0]!r}; give a pattern with one *, which stands for the name.")
    return _texts(names, place)


def _texts(given: Any, place: str) -> tuple[str, ...]:
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(one, str) for one in listed):
        raise RunsError(f"{place} is {given!r}; give names of columns.")
    return tuple(listed)


def _refuse_constant(column: str, value: Any, place: str) -> None:
    text = COLUMNS[column].text
    if text != isinstance(value, str) or isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RunsError(f"{place} is {value!r}; a constant {column} is {'text' if text else 'a number'}.")


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_spell, names))}]"


def _spell(text: str) -> str:
    return text if _BARE.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text)
