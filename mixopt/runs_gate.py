"""The one gate of run data: the rules that the rest of the package relies on, each with a sentence of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mixopt.columns import COLUMNS, Array, Columns
from mixopt.errors import RunsError

if TYPE_CHECKING:
    from mixopt.runs import Runs

SUM_TOLERANCE = 1e-6
ROUNDED = 0.01
"""How far shares that were rounded may sum from 1 and be divided by their sum, where that was asked for."""
NATS, BITS = "nats/token", "bits/byte"
KINDS: Mapping[str, tuple[str, ...]] = {
    "status": ("finished", "diverged", "unfinished"),
    "proxy": ("transformer", "ngram"),
    "size_counts": ("non_embedding", "all"),
}
PASSES = ("epochs", "epochs_anneal")
"""Passes over each corpus in the phases of a run; a corpus that is not told was not read."""
_REQUIRED = ("run", "status", "mixture", "loss")


def validate(runs: "Runs") -> None:
    """Refuse a table that breaks a rule.

    Raises
    ------
    RunsError
        The first rule that is broken, with row, run and value.
    """
    source, columns = runs.source, runs.columns
    if missing := [name for name in _REQUIRED if name not in columns]:
        raise RunsError(f"{source} lacks the column {missing[0]!r}; a run needs {', '.join(_REQUIRED)}.")
    _refuse_ragged(runs)
    for name, kinds in KINDS.items():
        if strange := sorted(set(np.unique(columns.get(name, kinds)).tolist()) - set(kinds)):
            raise RunsError(f"{source} has the {name} {strange[0]!r}; it is {_either(kinds)}.")
    for name, values in columns.items():
        _check_range(runs, name, values)
    _refuse_twins(runs)
    total = columns["mixture"].sum(-1)
    if len(bad := np.flatnonzero(np.abs(total - 1) > SUM_TOLERANCE)):
        raise RunsError(
            f"{_place(runs, bad[0])}: mixture sums to {total[bad[0]]:.6g}; shares must sum to 1 within "
            f"{SUM_TOLERANCE:g}. {_remedy(float(total[bad[0]]))}"
        )
    _check_losses(runs)
    _refuse_mixed(runs)


def finished(columns: Columns) -> Array:
    """Mask of the runs that are fitted: [n]."""
    return columns["status"] == "finished"


def _refuse_ragged(runs: "Runs") -> None:
    lengths = {name: len(values) for name, values in runs.columns.items()}
    if len(set(lengths.values())) > 1:
        other = next(name for name in lengths if lengths[name] != lengths["run"])
        raise RunsError(f"{runs.source} has {lengths['run']} runs and {lengths[other]} rows of {other}; give as many.")
    for name, values in runs.columns.items():
        wanted = (len(runs.labels(name)),) if COLUMNS[name].shape in ("nm", "nk") else values.shape[1:]
        if values.shape[1:] != wanted:
            raise RunsError(
                f"{runs.source}: {name} has the shape {values.shape}; give {wanted[0]} columns, one a name."
            )


def _check_range(runs: "Runs", name: str, values: Array) -> None:
    column = COLUMNS[name]
    if column.text or name in ("loss", "bits_per_byte"):
        return
    # A share may be above 1 by as much as shares may sum to more than 1.
    inside = values - SUM_TOLERANCE * (values > 1) if name == "mixture" else values
    wrong = ~(column.accepts(inside) | np.isnan(values))
    if name in ("mixture", "tokens"):
        lost = np.isnan(values)
        wrong |= lost & (finished(runs.columns)[:, None] if lost.ndim > 1 else finished(runs.columns))
    if len(bad := np.argwhere(wrong)):
        value = values[tuple(bad[0])]
        raise RunsError(f"{_place(runs, bad[0][0])}: {name} is {value:g}; it must be in {column.range}.")


def _check_losses(runs: "Runs") -> None:
    columns = runs.columns
    lost = finished(columns)[:, None] & ~COLUMNS["loss"].accepts(columns["loss"])
    if len(bad := np.argwhere(lost)):
        row, target = bad[0]
        raise RunsError(
            f"{_place(runs, row)} is finished but has the loss {columns['loss'][row, target]:g} for "
            f"{runs.targets[target]}; it must be in {COLUMNS['loss'].range}. Mark the run diverged if it was lost, or "
            "give no status and it will be."
        )
    if "initial_loss" in columns:
        above = finished(columns) & (columns["loss"].max(-1) > columns["initial_loss"])
        if len(bad := np.flatnonzero(above)):
            raise RunsError(
                f"{_place(runs, bad[0])} is finished with the loss {columns['loss'][bad[0]].max():g}, above its "
                f"initial loss {columns['initial_loss'][bad[0]]:g}; mark it diverged."
            )


def _refuse_twins(runs: "Runs") -> None:
    """A run has one row, or rows at different tokens (its checkpoints)."""
    columns = runs.columns
    ids, group = np.unique(columns["run"], return_inverse=True)
    if len(ids) == len(runs):
        return
    when = next((name for name in ("tokens", "steps") if name in columns), None)
    at = columns[when] if when else np.zeros(len(runs))
    order = np.lexsort((at, group))
    twins = (group[order][1:] == group[order][:-1]) & (at[order][1:] == at[order][:-1])
    if not twins.any():
        return
    place = int(np.flatnonzero(twins)[0])
    one, other = sorted((int(order[place]), int(order[place + 1])))
    what = f"{runs.source} has run {str(columns['run'][one])!r} twice" + (f" at {at[one]:g} {when}" if when else "")
    what += f", in rows {one + 1} and {other + 1}"
    if (differs := _difference(runs, one, other)) is not None:
        name, first, second = differs
        raise RunsError(f"{what}, with {name} {first} and {second}; keep the right row, or name the runs apart.")
    raise RunsError(f"{what}, the same in every column; remove one.")


def _difference(runs: "Runs", one: int, other: int) -> tuple[str, str, str] | None:
    for name in dict.fromkeys(("loss", *runs.columns)):
        first, second = np.atleast_1d(runs.columns[name][one]), np.atleast_1d(runs.columns[name][other])
        different = (first != second) & ~((first != first) & (second != second))
        if different.any():
            at = int(np.flatnonzero(different)[0])
            label = runs.labels(name)[at]
            return f"{name}[{label}]" if label else name, str(first[at]), str(second[at])
    return None


def _refuse_mixed(runs: "Runs") -> None:
    """Nats per token compare under one tokenizer alone, and sizes when they count the same."""
    columns = runs.columns
    if runs.loss_unit == NATS and len(kinds := np.unique(columns.get("tokenizer", np.array([""])))) > 1:
        named = " and ".join(repr(str(kind)) if kind else "an unnamed one" for kind in kinds[:3])
        raise RunsError(
            f"{runs.source} holds losses of the tokenizers {named} in nats per token, which do not compare; measure in "
            "bits per byte (bits_per_byte[...], or loss_unit: bits/byte in the mapping), or read one tokenizer's runs."
        )
    kinds = np.unique(columns.get("size_counts", np.array(["non_embedding"])))
    if len(kinds) > 1:
        raise RunsError(
            f"{runs.source} holds a model_size with embeddings for some runs and without for others (size_counts is "
            f"{' and '.join(map(str, kinds))}); give one of them for all runs."
        )


def _remedy(total: float) -> str:
    if abs(total - 1) <= ROUNDED:
        return "They were rounded, it seems: divide by the sum (renormalize: true in the mapping does)."
    return "Divide by the sum, or list the missing corpus."


def _place(runs: "Runs", row: int) -> str:
    return f"{runs.source} row {row + 1} (run {runs.columns['run'][row]})"


def _either(kinds: tuple[str, ...]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"
