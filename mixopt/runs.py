"""Runs: the table of proxy runs, and the one gate where run data is validated.

On disk a table is flat: one row a run, per-corpus and per-target columns spelled `mixture[web]`, `loss[exam]`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixopt._discover import available, load
from mixopt.columns import COLUMNS, Array, Columns
from mixopt.errors import RunsError
from mixopt.files import write_bytes

if TYPE_CHECKING:
    import pandas as pd

SUM_TOLERANCE = 1e-6
_KINDS = {"status": ("finished", "diverged"), "proxy": ("transformer", "ngram")}
_REQUIRED = ("run", "status", "mixture", "tokens", "loss")


@dataclass(frozen=True)
class Runs:
    """Proxy runs, a row each, as named columns of shape [n], [n, m] (corpora) or [n, k] (targets).

    A table needs run, status, mixture, tokens and loss. Without `proxy` all runs are transformers; without `seed` their
    noise is not known; what else a law reads it asks for by name.

    >>> known = {"status": "finished", "tokens": 1e6}
    >>> runs = Runs.from_records(["web", "code"], ["code"], [
    ...     known | {"run": "a", "mixture": {"web": 0.75, "code": 0.25}, "loss": {"code": 3.1}},
    ...     known | {"run": "b", "mixture": {"web": 0.5, "code": 0.5}, "loss": {"code": 2.9}}])
    >>> runs["mixture"][:, 1]
    array([0.25, 0.5 ])
    >>> runs.target("code")["loss"]
    array([3.1, 2.9])
    """

    corpora: tuple[str, ...]
    targets: tuple[str, ...]
    columns: Columns
    source: str = "runs"

    def __post_init__(self) -> None:
        _validate(self)

    def __len__(self) -> int:
        return len(self.columns["run"])

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise KeyError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}.")
        return self.columns[name]

    def where(self, mask: Array) -> "Runs":
        """The rows where `mask` [n] is true."""
        kept = {name: values[mask] for name, values in self.columns.items()}
        return Runs(self.corpora, self.targets, kept, self.source)

    def finished(self) -> "Runs":
        """The runs that did not diverge."""
        return self.where(self["status"] == "finished")

    def of(self, proxy: str) -> "Runs":
        """The runs of one kind of proxy; a table without the column `proxy` holds transformers only."""
        kinds = self.columns.get("proxy", np.full(len(self), "transformer"))
        return self.where(kinds == proxy)

    def target(self, name: str) -> dict[str, Array]:
        """All columns, with `loss` and `bits_per_byte` [n] those of one target: what a law is fitted to.

        Raises
        ------
        RunsError
            No run measured that target.
        """
        if name not in self.targets:
            raise RunsError(f"no run in {self.source} measured target {name!r}; measured: {', '.join(self.targets)}.")
        at = self.targets.index(name)
        return {key: (values[:, at] if COLUMNS[key].shape == "nk" else values) for key, values in self.columns.items()}

    @classmethod
    def from_records(
        cls,
        corpora: Sequence[str],
        targets: Sequence[str],
        records: Iterable[Mapping[str, Any]],
        source: str = "runs",
    ) -> "Runs":
        """A table from one mapping a run, in which per-corpus and per-target values are mappings by name.

        A corpus missing from a run's mixture has share 0; a missing scalar is NaN.

        Raises
        ------
        RunsError
            A key is not in the vocabulary, or a value breaks its contract; the message names run and column.
        """
        rows = list(records)
        for row in rows:
            _refuse_unknown(row, COLUMNS, f"{source} run {row.get('run')}")
        labels = {"nm": tuple(corpora), "nk": tuple(targets)}
        columns: dict[str, Array] = {}
        for name in COLUMNS:
            if any(name in row for row in rows):
                columns[name] = _stack(name, rows, labels.get(COLUMNS[name].shape), source)
        return cls(tuple(corpora), tuple(targets), columns, source)

    def to_pandas(self) -> "pd.DataFrame":
        """The flat table."""
        import pandas as pd

        flat: dict[str, Array] = {}
        for name, values in self.columns.items():
            for label, column in zip(self._labels(name), np.atleast_2d(values.T), strict=True):
                flat[f"{name}[{label}]" if label else name] = column
        return pd.DataFrame(flat)

    @classmethod
    def from_pandas(cls, frame: "pd.DataFrame", source: str = "runs") -> "Runs":
        """A table from its flat form; corpora and targets are named by the `mixture[...]` and `loss[...]` columns.

        Raises
        ------
        RunsError
            A column is not in the vocabulary, or a value breaks its contract; the message names row and column.
        """
        corpora, targets = (_labels_of(frame, name, source) for name in ("mixture", "loss"))
        labels = {"nm": corpora, "nk": targets}
        flat = {
            name: [f"{name}[{label}]" for label in labels[column.shape]] if column.shape in labels else [name]
            for name, column in COLUMNS.items()
        }
        _refuse_unknown(frame.columns, [name for names in flat.values() for name in names], source)
        columns: dict[str, Array] = {}
        for name, names in flat.items():
            missing = [one for one in names if one not in frame]
            if missing and len(missing) < len(names):
                raise RunsError(f"{source} lacks the column {missing[0]}; give {name} for each name, or for none.")
            if not missing:
                values = _to_numpy(frame, names, source)
                columns[name] = values if COLUMNS[name].shape in labels else values[:, 0]
        return cls(corpora, targets, columns, source)

    @classmethod
    def read(cls, path: str | Path) -> "Runs":
        """A table from a file that an importer knows by its suffix; `write` makes .parquet and .csv.

        Raises
        ------
        RunsError
            The file is missing, of a kind that no importer reads, or breaks the contract of its columns.
        """
        path = Path(path)
        if not path.is_file():
            raise RunsError(f"{path} is not there; give a table of runs, e.g. runs.parquet.")
        readers = {suffix: name for name in available("importers") for suffix in load("importers", name).SUFFIXES}
        if path.suffix not in readers:
            raise RunsError(f"{path} ends in {path.suffix!r}; a table of runs ends in {', '.join(sorted(readers))}.")
        return load("importers", readers[path.suffix]).read(path)

    def write(self, path: str | Path) -> Path:
        """Write .parquet or .csv in one step: a reader sees the old table or the new one, never half."""
        frame, content = self.to_pandas(), BytesIO()
        if Path(path).suffix == ".parquet":
            frame.to_parquet(content, index=False)
        else:
            frame.to_csv(content, index=False)
        return write_bytes(Path(path), content.getvalue())

    def _labels(self, name: str) -> tuple[str, ...]:
        return {"nm": self.corpora, "nk": self.targets}.get(COLUMNS[name].shape, ("",))


def _to_numpy(frame: "pd.DataFrame", names: Sequence[str], source: str) -> Array:
    column = names[0].split("[")[0]
    try:
        return frame[list(names)].to_numpy(dtype=str if COLUMNS[column].text else float)
    except ValueError as error:
        raise RunsError(f"{source}, column {column}: {error}; give plain numbers.") from None


def _labels_of(frame: "pd.DataFrame", name: str, source: str) -> tuple[str, ...]:
    found = tuple(str(c)[len(name) + 1 : -1] for c in frame.columns if str(c).startswith(f"{name}["))
    if not found:
        raise RunsError(f"{source} has no {name}[...] column; spell one for each name, e.g. {name}[web].")
    return found


def _refuse_unknown(given: Iterable[Any], known: Iterable[str], source: str) -> None:
    if unknown := [str(name) for name in given if name not in known]:
        raise RunsError(f"{source} has the unknown column {unknown[0]!r}; columns are {', '.join(COLUMNS)}.")


def _stack(name: str, rows: Sequence[Mapping[str, Any]], labels: tuple[str, ...] | None, source: str) -> Array:
    column = COLUMNS[name]
    if column.text:
        return np.array([str(row.get(name, "")) for row in rows])
    if labels is None:
        values = [row.get(name) for row in rows]
        return np.array([np.nan if value is None else float(value) for value in values])
    default = 0.0 if name in ("mixture", "epochs") else np.nan
    for row in rows:
        if unknown := [label for label in row.get(name, {}) if label not in labels]:
            raise RunsError(f"{source} run {row.get('run')}: {name} names {unknown[0]!r}; known: {', '.join(labels)}.")
    return np.array([[row.get(name, {}).get(label, default) for label in labels] for row in rows], dtype=float)


def _validate(runs: Runs) -> None:
    """The gate: every rule that the rest of the package relies on, each with a sentence of its own."""
    source, columns = runs.source, runs.columns
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise RunsError(f"{source} lacks the column {missing[0]!r}; a run needs {', '.join(_REQUIRED)}.")
    ids, counts = np.unique(columns["run"], return_counts=True)
    if (counts > 1).any():
        raise RunsError(f"{source} has run {str(ids[counts > 1][0])!r} {counts.max()} times; each run has one row.")
    for name, kinds in _KINDS.items():
        if strange := sorted(set(columns.get(name, kinds)) - set(kinds)):
            raise RunsError(f"{source} has the {name} {str(strange[0])!r}; it is {' or '.join(kinds)}.")
    for name, values in columns.items():
        _check_range(runs, name, values)
    total = columns["mixture"].sum(-1)
    if len(bad := np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE)):
        raise RunsError(
            f"{_place(runs, bad[0])}: mixture sums to {total[bad[0]]:.6g}; shares must sum to 1 within "
            f"{SUM_TOLERANCE:g}. Divide by the sum, or list the missing corpus."
        )
    lost = (columns["status"] == "finished")[:, None] & ~COLUMNS["loss"].accepts(columns["loss"])
    if len(bad := np.argwhere(lost)):
        row, target = bad[0]
        raise RunsError(
            f"{_place(runs, row)} is finished but has the loss {columns['loss'][row, target]:g} for "
            f"{runs.targets[target]}; it must be in {COLUMNS['loss'].range}. Mark the run diverged if it was lost."
        )


def _check_range(runs: Runs, name: str, values: Array) -> None:
    column = COLUMNS[name]
    if column.text or name in ("loss", "bits_per_byte"):
        return
    wrong = ~(column.accepts(values) | np.isnan(values))
    if name in ("mixture", "tokens"):
        wrong |= np.isnan(values)
    if len(bad := np.argwhere(wrong)):
        value = values[tuple(bad[0])]
        raise RunsError(f"{_place(runs, bad[0][0])}: {name} is {value:g}; it must be in {column.range}.")


def _place(runs: Runs, row: int) -> str:
    return f"{runs.source} row {row + 1} (run {runs.columns['run'][row]})"
