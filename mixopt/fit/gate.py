"""The one place where a table meets a law: everything that a fit needs of its columns is checked here."""

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.laws.combine import refuse_unread
from mixopt.laws.law import Law, is_wide


def check(law: Law, columns: Columns, starts: int, replicates: int) -> None:
    """Refuses what cannot be fitted, by name, row and remedy.

    Raises
    ------
    FitError
        As `fit` says.
    """
    if starts < 0 or replicates < 0:
        raise ValueError(f"starts and replicates must be at least 0; got {starts} and {replicates}.")
    try:
        refuse_unread(law)
    except ValueError as error:
        raise FitError(str(error)) from error
    missing = [name for name in (*law.inputs, law.output) if name not in columns]
    if missing:
        raise FitError(
            f"The runs have no column {', '.join(missing)}; this law reads {', '.join(law.inputs) or 'none'} and makes "
            f"{law.output}. Add the column, or fit a law without it."
        )
    output = np.asarray(columns[law.output])
    if output.ndim != 1:
        raise FitError(
            f"{law.output} has shape {list(output.shape)}; a fit needs one number per run. "
            "Take one target at a time: runs.target(name)."
        )
    _check_rows(law.output, output, output > 0, "a positive number", len(output))
    for name in law.inputs:
        values = np.asarray(columns[name])
        shared = values.ndim == (1 if is_wide(name) else 0)
        _check_rows(name, values, np.isfinite(values), "finite", None if shared else len(output))
    free = len(law.coefficients) - sum(c.prior is not None for c in law.coefficients)
    if len(output) < free:
        open_ = ", ".join(c.name for c in law.coefficients if c.prior is None)
        raise FitError(
            f"{len(output)} run{'s' * (len(output) > 1)} cannot determine {free} coefficients ({open_}). Add runs, "
            "give coefficients priors, or fix some of them."
        )


def grouping(columns: Columns, n: int, run: Array | None, weight: Array | None) -> tuple[Array, Array | None]:
    """Which run each row belongs to `[n]`, and how much it counts `[n]`, one in the mean; None where all alike.

    Raises
    ------
    FitError
        Either has another number of rows, or a weight is not positive and finite.
    """
    run = np.asarray(columns.get("run", np.arange(n)) if run is None else run)
    if run.shape != (n,):
        raise FitError(f"run has shape {list(run.shape)} and the table {n} rows; name the run of every row.")
    if weight is None:
        return run, None
    weight = np.asarray(weight, float)
    if weight.shape != (n,):
        raise FitError(f"weight has shape {list(weight.shape)} and the table {n} rows; give one weight for every row.")
    _check_rows("weight", weight, weight > 0, "a positive number", n)
    return run, weight / weight.mean()


def _check_rows(name: str, values: Array, good: Array, accepted: str, rows: int | None) -> None:
    """`good` and finite on every row, with as many rows as the output; a shared value has no rows."""
    if rows is not None and len(values) != rows:
        raise FitError(f"Column {name} has {len(values)} rows and the output {rows}; every row is one run.")
    good = good & np.isfinite(values)
    if not good.all():
        place = np.argwhere(~good)[0]
        row = "" if rows is None else f" row {place[0]}"
        raise FitError(
            f"Column {name}{row} is {values[tuple(place)]}; it must be {accepted}. Leave the row out of the fit "
            "(diverged runs are kept in the table, not in the fit)."
        )
