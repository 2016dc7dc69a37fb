"""Runs: the table of proxy runs.

On disk a table is flat: one row a run, per-corpus and per-target columns spelled `mixture[web]`, `loss[exam]`. A table
from elsewhere is read with a mapping that says which of its columns means what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mixopt.columns import COLUMNS, Array, Columns
from mixopt.errors import RunsError
from mixopt.files import write_bytes
from mixopt.importers.table import Table, in_memory, join, numbers, open_table
from mixopt.runs_complete import Asked, complete
from mixopt.runs_gate import BITS, NATS, PASSES, finished, validate

if TYPE_CHECKING:
    import pandas as pd

    from mixopt.runs_columns import ColumnMap


@dataclass(frozen=True)
class Runs:
    """Proxy runs, a row each, as named columns of shape [n], [n, m] (corpora) or [n, k] (targets).

    A table needs run, status, mixture and loss; what else a law reads it asks for by name. Without `proxy` all runs are
    transformers; without `seed` their noise is not known. `loss_unit` is that of the column `loss`: nats/token, or
    bits/byte. `notes` say what was done to the table when it was read, and what its reader has to know.

    >>> known = {"tokens": 1e6}
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
    loss_unit: str = NATS
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        validate(self)

    def __len__(self) -> int:
        return len(self.columns["run"])

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise KeyError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}.")
        return self.columns[name]

    def where(self, mask: Array) -> "Runs":
        """The rows where `mask` [n] is true."""
        return replace(self, columns={name: values[mask] for name, values in self.columns.items()})

    def finished(self) -> "Runs":
        """The runs that are fitted: those that neither diverged nor stopped early."""
        return self.where(finished(self.columns))

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

    def in_bits_per_byte(self) -> "Runs":
        """The same runs with `loss` in bits per byte, which compare over tokenizers.

        Raises
        ------
        RunsError
            Bits per byte were not measured.
        """
        if "bits_per_byte" not in self.columns:
            raise RunsError(f"{self.source} has no bits_per_byte; they cannot be had from nats per token.")
        return replace(self, columns={**self.columns, "loss": self.columns["bits_per_byte"]}, loss_unit=BITS)

    def labels(self, name: str) -> tuple[str, ...]:
        """Names of the columns inside the column `name`: corpora, targets, or one without a name."""
        return {"nm": self.corpora, "nk": self.targets}.get(COLUMNS[name].shape, ("",))

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
            _refuse_unknown(row, f"{source} run {row.get('run')}")
        labels = {"nm": tuple(corpora), "nk": tuple(targets)}
        columns: dict[str, Array] = {}
        for name in COLUMNS:
            if any(name in row for row in rows):
                columns[name] = _stack(name, rows, labels.get(COLUMNS[name].shape), source)
        made, unit, notes = complete(columns, corpora, targets, source, Asked())
        return cls(tuple(corpora), tuple(targets), made, source, unit, tuple(notes))

    @classmethod
    def from_table(cls, table: Table, columns: "ColumnMap | None" = None) -> "Runs":
        """A table whose columns are in the vocabulary, or said to be by a mapping."""
        from mixopt.runs_columns import ColumnMap

        mapping = (columns or ColumnMap()).over(table.meaning)
        found = mapping.resolve(table, strict=not mapping.entries)
        asked = Asked(bool(mapping.renormalize), mapping.loss_unit, mapping.speaks_of_states())
        made, unit, notes = complete(
            found.columns(table, mapping.entries), found.corpora, found.targets, table.source, asked
        )
        told = tuple(dict.fromkeys((*table.notes, *found.notes(), *notes)))
        return cls(found.corpora, found.targets, made, table.source, unit, told)

    @classmethod
    def from_pandas(
        cls,
        frame: "pd.DataFrame",
        source: str = "runs",
        columns: "ColumnMap | Mapping[str, Any] | str | Path | None" = None,
    ) -> "Runs":
        """A table from its flat form; corpora and targets are named by the `mixture[...]` and `loss[...]` columns.

        Raises
        ------
        RunsError
            A column is not in the vocabulary, or a value breaks its contract; the message names run and column.
        """
        if len(twice := frame.columns[frame.columns.duplicated()]):
            raise RunsError(f"{source} has the column {str(twice[0])!r} twice; rename one.")
        given = {str(name): frame[name].to_numpy() for name in frame.columns}
        from mixopt.runs_columns import ColumnMap

        return cls.from_table(in_memory(source, given), ColumnMap.of(columns))

    @classmethod
    def read(
        cls,
        path: str | Path | Sequence[str | Path],
        columns: "ColumnMap | Mapping[str, Any] | str | Path | None" = None,
    ) -> "Runs":
        """A table from whatever an importer reads; `write` makes .parquet and .csv.

        Parameters
        ----------
        path : a file, a folder, an address such as `wandb:entity/project`, or several that describe the same runs,
            which are joined by the column that `columns` calls `run`
        columns : which column means what, as values or as a YAML file; needed unless the columns are in the vocabulary
            or of a layout that an importer recognizes. Columns that it does not name are read if the vocabulary does.

        Raises
        ------
        RunsError
            Nothing is there, no importer reads it, or a value breaks the contract of its column.
        """
        from mixopt.runs_columns import ColumnMap

        mapping = ColumnMap.of(columns)
        return cls.from_table(_tables(path, mapping), mapping)

    def to_pandas(self) -> "pd.DataFrame":
        """The flat table; losses in bits per byte are called so."""
        import pandas as pd

        flat: dict[str, Array] = {}
        for name, values in self.columns.items():
            if name == "loss" and self.loss_unit == BITS:
                continue
            for label, column in zip(self.labels(name), np.atleast_2d(values.T), strict=True):
                flat[f"{name}[{label}]" if label else name] = column
        return pd.DataFrame(flat)

    def write(self, path: str | Path) -> Path:
        """Write .parquet, notes and all, or .csv, in one step: a reader sees the old table or the new one, never half.

        Raises
        ------
        RunsError
            The name ends otherwise.
        """
        frame, content = self.to_pandas(), BytesIO()
        if Path(path).suffix not in (".parquet", ".csv"):
            raise RunsError(f"{path} ends in {Path(path).suffix!r}; runs are written to .parquet or .csv.")
        if Path(path).suffix == ".parquet":
            frame.attrs["notes"] = list(self.notes)  # pandas keeps these in the file
            frame.to_parquet(content, index=False)
        else:
            frame.to_csv(content, index=False)
        return write_bytes(Path(path), content.getvalue())


def _tables(path: str | Path | Sequence[str | Path], mapping: "ColumnMap") -> Table:
    paths = [path] if isinstance(path, str | Path) else list(path)
    if not paths:
        raise RunsError("no table was given; give a file, a folder, or several files to join.")
    paths += [Path(paths[0]).parent / other for other in mapping.join]
    if len(paths) == 1:
        return open_table(paths[0])
    tables = [open_table(one, layouts=False) for one in paths]
    return join(tables, mapping.over(tables[0].meaning).run_column())


def _refuse_unknown(given: Iterable[Any], source: str) -> None:
    if unknown := [str(name) for name in given if name not in COLUMNS]:
        raise RunsError(f"{source} has the unknown column {unknown[0]!r}; columns are {', '.join(COLUMNS)}.")


def _stack(name: str, rows: Sequence[Mapping[str, Any]], labels: tuple[str, ...] | None, source: str) -> Array:
    column = COLUMNS[name]
    if column.text:
        return np.array([str(row.get(name, "")) for row in rows])
    if labels is None:
        return numbers([row.get(name) for row in rows], source, name)
    default, known = 0.0 if name in ("mixture", *PASSES) else np.nan, set(labels)
    for row in rows:
        if not isinstance(row.get(name, {}), Mapping):
            raise RunsError(f"{source} run {row.get('run')}: {name} is {row[name]!r}; give a value by name.")
        if unknown := [label for label in row.get(name, {}) if label not in known]:
            raise RunsError(f"{source} run {row.get('run')}: {name} names {unknown[0]!r}; known: {', '.join(labels)}.")
    given = [[row.get(name, {}).get(label, default) for row in rows] for label in labels]
    return np.stack([numbers(one, source, f"{name}[{label}]") for one, label in zip(given, labels, strict=True)], -1)
