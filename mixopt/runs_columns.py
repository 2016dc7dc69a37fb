"""ColumnMap: which column of a table means what, as a person writes it; nothing in it is evaluated.

In YAML:

    run: name                                # rename
    model_size: {from: params_no_embed, counts: non_embedding}
    batch_tokens: {from: bs, times: 2048}    # another unit
    peak_lr: 3e-4                            # the same in every run
    mixture: "weight_*"                      # weight_web is the share of the corpus web
    loss: {from: "loss_*", except: ["loss_lo_*", "loss_hi_*"]}
    unique_tokens: {web: web_tokens, code: 2e9}
    status: {from: state, values: {finished: finished, crashed: unfinished}}
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from mixopt.columns import COLUMNS, Array
from mixopt.errors import RunsError, StudyError
from mixopt.importers.table import Table
from mixopt.runs_entry import Entry, Part, mismatch, parse, suggest
from mixopt.study_yaml import Document, read_document

OPTIONS = ("renormalize", "loss_unit", "join")
UNITS = ("nats/token", "bits/byte")
SIZE_COUNTS = ("non_embedding", "all")
ONLY = "all"
"""What the one corpus of a table without mixtures is called."""

_FLAT = re.compile(r"(\w+)(?:\[(.*)\])?", re.DOTALL)
_WITHOUT_EMBEDDINGS = re.compile(r"(?i)(no|non|without|excl\w*|minus)[_\- ]?emb")
_WITH_EMBEDDINGS = re.compile(r"(?i)^(n_|num_|total_|model_)?(params|parameters|model_size)(_total|_all)?$")


@dataclass(frozen=True)
class ColumnMap:
    """What each column of the vocabulary is read from.

    >>> columns = ColumnMap.of({"tokens": {"from": "bs", "times": 2048}, "loss": "*_loss"})
    >>> print(columns.to_yaml())
    tokens: {from: bs, times: 2048}
    loss: "*_loss"
    """

    entries: Mapping[str, Entry] = field(default_factory=dict[str, Entry])
    renormalize: bool | None = None
    loss_unit: str | None = None
    join: tuple[str, ...] = ()
    source: str = "columns"

    @classmethod
    def of(cls, given: "ColumnMap | Mapping[str, Any] | str | Path | None") -> "ColumnMap":
        """A mapping from what a caller gave: a YAML file, plain values, or nothing.

        Raises
        ------
        RunsError
            The file cannot be read, or an entry is not accepted; the message has its line and names the nearest key.
        """
        if given is None:
            return cls()
        if isinstance(given, ColumnMap):
            return given
        if isinstance(given, Mapping):
            return _parse(given, "columns", None)
        path = Path(given)
        if not path.is_file():
            raise RunsError(f"{path} is not there; give a YAML file that says which column means what.")
        if not path.read_bytes().strip():
            raise RunsError(f"{path} is empty; say which column means what, e.g. 'tokens: n_tokens'.")
        try:
            document = read_document(path)
            return _parse(document.values, str(path), document)
        except StudyError as error:
            raise RunsError(str(error)) from None

    def over(self, meaning: Mapping[str, Any]) -> "ColumnMap":
        """This mapping, and what a layout says of the columns that it does not name."""
        if not meaning:
            return self
        below = _parse(meaning, self.source, None)
        return ColumnMap(
            {**below.entries, **self.entries},
            below.renormalize if self.renormalize is None else self.renormalize,
            self.loss_unit or below.loss_unit,
            self.join,
            self.source,
        )

    def to_yaml(self) -> str:
        """The mapping as a file that `ColumnMap.of` reads."""
        lines = [f"{name}: {entry.to_yaml()}" for name, entry in self.entries.items()]
        lines += [] if self.renormalize is None else [f"renormalize: {str(self.renormalize).lower()}"]
        lines += [f"loss_unit: {self.loss_unit}"] if self.loss_unit else []
        return "\n".join(lines + ([f"join: [{', '.join(self.join)}]"] if self.join else []))

    def run_column(self) -> str:
        """The column of a table that holds the ids of its runs."""
        entry = self.entries.get("run")
        if entry is None:
            return "run"
        if len(entry.sources) != 1:
            raise RunsError(f"{self.source}: tables are joined by run ids; name their column, e.g. run: index.")
        return entry.sources[0]

    def speaks_of_states(self) -> bool:
        """Whether the status is translated from a tracker's words, which tell how a process ended, not a loss."""
        return "status" in self.entries and self.entries["status"].values is not None

    def resolve(self, table: Table, *, strict: bool) -> "Resolved":
        """Where each column of the vocabulary is in `table`.

        Raises
        ------
        RunsError
            A column that the mapping names is not in the table, a column of the table is not in the vocabulary
            (`strict`), or a corpus or target lacks a column that others have.
        """
        flat, strange = _flat(table.names)
        names = dict.fromkeys(table.names)  # ordered, and quick to look into
        parts: dict[str, tuple[Part, ...]] = {}
        for name, column in COLUMNS.items():
            if name in self.entries:
                parts[name] = self.entries[name].parts(name, names, f"{self.source}: {name}", table.source)
            elif name in flat and column.shape in ("n", "nm", "nk"):
                parts[name] = tuple(Part(label, one) for label, one in flat[name].items())
        parts = {name: found for name, found in parts.items() if found}
        used = {part.name for found in parts.values() for part in found}
        if strict and (unknown := strange or [one for one in table.names if one not in used]):
            raise RunsError(_unknown(table, unknown[0]))
        corpora = _primary(parts, ("mixture",)) or (ONLY,)
        targets = _primary(parts, ("loss", "bits_per_byte"))
        if not targets:
            raise RunsError(_lossless(table))
        labels = {"nm": corpora, "nk": targets}
        for name, found in parts.items():
            if COLUMNS[name].shape in labels:
                parts[name] = _each(name, found, labels[COLUMNS[name].shape], table.source)
        self._refuse_unsaid_size(table.names, parts)
        return Resolved(corpora, targets, parts, tuple(one for one in table.names if one not in used))

    def _refuse_unsaid_size(self, names: Sequence[str], parts: Mapping[str, tuple[Part, ...]]) -> None:
        """Exponents change by a tenth with the embeddings, so a table that has both sizes must say which it means."""
        without = [name for name in names if _WITHOUT_EMBEDDINGS.search(name)]
        with_ = [name for name in names if _WITH_EMBEDDINGS.match(name)]
        entry = self.entries.get("model_size")
        if "model_size" in parts and without and with_ and (entry is None or not entry.counts):
            raise RunsError(
                f"{self.source}: the table has {with_[0]} and {without[0]}; say what model_size counts: "
                f"{{from: {without[0]}, counts: non_embedding}}, or {{from: {with_[0]}, counts: all}}."
            )


@dataclass(frozen=True)
class Resolved:
    """A mapping met a table: the parts of each column, the names of corpora and targets, and what nobody reads."""

    corpora: tuple[str, ...]
    targets: tuple[str, ...]
    parts: Mapping[str, tuple[Part, ...]]
    unread: tuple[str, ...]

    def notes(self) -> tuple[str, ...]:
        """What was left unread."""
        if not self.unread:
            return ()
        shown = ", ".join(name or "one without a name" for name in self.unread[:6]) + (
            f" and {len(self.unread) - 6} more" if len(self.unread) > 6 else ""
        )
        return (f"Columns not read: {shown}.",)

    def columns(self, table: Table, entries: Mapping[str, Entry]) -> dict[str, Array]:
        """The columns of the vocabulary that are in the table."""
        kinds: dict[str, bool | None] = {}
        for name, found in self.parts.items():
            for part in found:
                if part.name is not None:
                    text = COLUMNS[name].text or part.values is not None
                    kinds[part.name] = kinds.get(part.name) or text
        loaded = dict(table.load(kinds, None)) if kinds else {}
        rows = len(next(iter(loaded.values()))) if loaded else 0
        made: dict[str, Array] = {}
        for name, found in self.parts.items():
            read = [part.read(loaded, rows, COLUMNS[name].text, table.source) for part in found]
            made[name] = read[0] if COLUMNS[name].shape == "n" else np.stack(read, -1)
        for name, entry in entries.items():
            if missing := [one for one in entry.same if one not in made]:
                raise RunsError(f"{name}.same names {missing[0]!r}, which {table.source} does not tell; leave it out.")
            if entry.same:
                made[name] = _grouped([made[one] for one in entry.same], rows)
            if entry.counts:
                made["size_counts"] = np.full(rows, entry.counts)
        return made


def _parse(given: Mapping[str, Any], source: str, document: Document | None) -> ColumnMap:
    entries: dict[str, Entry] = {}
    options: dict[str, Any] = {}
    for key, value in given.items():
        line = f"{source}:{document.line((key,))}" if document else source
        if key in OPTIONS:
            options[key] = _option(key, value, line)
        elif key not in COLUMNS:
            raise RunsError(f"{line}: {key!r} is not in the vocabulary; {suggest(key, [*COLUMNS, *OPTIONS])}")
        else:
            entries[key] = parse(key, value, f"{line}: {key}")
    return ColumnMap(entries, source=source, **options)


def _option(key: str, value: Any, line: str) -> Any:
    if key == "renormalize" and isinstance(value, bool):
        return value
    if key == "loss_unit" and value in UNITS:
        return value
    if key == "join" and isinstance(value, str | list) and all(isinstance(one, str) for one in value):
        return (value,) if isinstance(value, str) else tuple(value)
    accepted = {"renormalize": "true or false", "loss_unit": " or ".join(UNITS), "join": "a file, or a list of files"}
    raise RunsError(f"{line}: {key} is {value!r}; give {accepted[key]}.")


def _flat(names: Iterable[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """The names that are in the vocabulary, by column and label (none: ''), and those that are not."""
    found: dict[str, dict[str, str]] = {}
    strange: list[str] = []
    for name in names:
        match = _FLAT.fullmatch(name)
        column = COLUMNS.get(match[1]) if match else None
        if match is None or column is None or (match[2] is not None and column.shape == "n"):
            strange.append(name)
        else:
            found.setdefault(column.name, {})[match[2] or ""] = name
    return found, strange


def _primary(parts: Mapping[str, tuple[Part, ...]], columns: Sequence[str]) -> tuple[str, ...]:
    """The names that the first of `columns` gives; one without a name is called after its column."""
    for name in columns:
        if name in parts:
            found = [part.label or part.name or (ONLY if name == "mixture" else name) for part in parts[name]]
            if len(found) > len(set(found)):
                twice = Counter(found).most_common(1)[0][0]
                raise RunsError(f"{name} names {twice!r} twice; give each name once.")
            return tuple(found)
    return ()


def _each(name: str, found: tuple[Part, ...], labels: tuple[str, ...], source: str) -> tuple[Part, ...]:
    """The parts in the order of `labels`, each label once."""
    if len(found) == 1 and (found[0].name is None and not found[0].label):
        return tuple(Part(label, None, value=found[0].value) for label in labels)
    if len(found) == 1 and not found[0].label:
        if len(labels) == 1:
            return found
        raise RunsError(f"{source}: {name} is one column for {len(labels)} names; give one for each, or none.")
    by_label, known = {part.label or part.name or name: part for part in found}, set(labels)
    if strange := [label for label in by_label if label not in known]:
        raise RunsError(mismatch(name, strange[0], labels, source))
    if missing := [label for label in labels if label not in by_label]:
        raise RunsError(f"{source} lacks the column {name}[{missing[0]}]; give {name} for each name, or for none.")
    return tuple(by_label[label] for label in labels)


def _grouped(columns: Sequence[Array], rows: int) -> Array:
    """Text that is the same where all columns are: [n]."""
    keys = np.column_stack([column.reshape(rows, -1).astype(str) for column in columns])
    _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first)) + 1
    return order[group.reshape(-1)].astype(str)


def _unknown(table: Table, name: str) -> str:
    column, _, label = name.partition("[")
    if near := get_close_matches(column, list(COLUMNS), n=1):
        hint = f"did you mean {near[0]}{'[' + label if label else ''}? " if near[0] != column else ""
    else:
        hint = ""
    return (
        f"{table.source} has the unknown column {name!r}; {hint}columns are {', '.join(COLUMNS)}. Rename it, or give a "
        "mapping of columns; `mixopt fit --dry-run` proposes one."
    )


def _lossless(table: Table) -> str:
    shown = (", ".join(table.names[:8]) or "none at all") + (", ..." if len(table.names) > 8 else "")
    return (
        f"{table.source} has no loss[...] column (it has {shown}); spell one for each target, e.g. loss[exam], or give "
        "a mapping of columns; `mixopt fit --dry-run` proposes one."
    )
