"""What a person sees of `mixopt fit`: how the table was read, which law won, what it says, and where the files are."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.markup import escape
from rich.table import Table as Shown

from mixopt.columns import COLUMNS
from mixopt.console import console, show_warnings
from mixopt.errors import RunsError
from mixopt.files import write_json, write_text
from mixopt.fit.fit import Fit
from mixopt.fit.select import Watch, select
from mixopt.report.evidence import tables
from mixopt.report.evidence.evidence import Evidence
from mixopt.report.numbers import count, plain
from mixopt.report.tables import Table
from mixopt.runs import Runs
from mixopt.runs_gate import BITS

# More rows than this scroll the verdict out of sight; fit.html and fit.json have all of them.
_ROWS = 24


def fit_table(
    source: str,
    *,
    columns: Path | None,
    targets: Sequence[str],
    holdout: str | int,
    replicates: int,
    seed: int,
    out: Path | None,
) -> None:
    """Read a table of runs, fit and compare the laws that could hold, and write what was found."""
    from mixopt.report.evidence.page import write_evidence

    runs = Runs.read(source, columns=columns)
    _show_runs(runs)
    show_warnings(runs.notes)
    folder = out or Path("outputs") / f"{_stem(source)}-fit"
    with _watched() as watch:
        weights = _weights(runs, targets)
        selection = select(runs, weights, holdout=holdout, replicates=replicates, seed=seed, watch=watch)
        evidence = Evidence(runs, selection)
        watch("drawing the figures")
        page = write_evidence(evidence, folder)
        write_text(folder / "fit.txt", _reports(evidence))
        write_json(folder / "fit.json", selection.to_dict())
    for table in (tables.candidates(evidence), tables.targets(evidence), tables.coefficients(evidence)):
        if table is not None:
            _show(table)
    console.print(escape(selection.verdict()))
    show_warnings(selection.warnings)
    files = {"fit": folder / "fit.json", "laws": folder / "fit.txt", "report": page, "figures": folder / "figures"}
    shown = Shown(title="Files", show_header=False)
    for name, path in files.items():
        shown.add_row(name, str(path))
    console.print(shown)


def show_table(source: str, columns: Path | None, targets: Sequence[str]) -> None:
    """How a table would be read; nothing is fitted. Without a mapping, where names are unknown, a guess to confirm."""
    try:
        runs = Runs.read(source, columns=columns)
    except RunsError:
        from mixopt.runs_guess import guess

        guessed = guess(source)
        if columns is not None or not guessed.columns.entries:
            raise  # what is wrong is not what its columns are called
        console.print(
            "The columns are not called as mixopt calls them. A guess of what they mean; check it, save it and give it "
            "as --columns:"
        )
        console.print(escape(guessed.to_yaml()), highlight=False, soft_wrap=True)
        return
    _weights(runs, targets)
    _show_runs(runs)
    show_warnings(runs.notes)


def _stem(source: str) -> str:
    """What the folder of results is called after: the file's name without its ending, or an address's last part."""
    return Path(source).stem or "runs"


@contextmanager
def _watched() -> Generator[Watch]:
    """Says what is being done: in place on a terminal, a line each elsewhere."""
    if not console.is_terminal:
        yield lambda words: console.print(words, style="dim", highlight=False)
        return
    with console.status("fitting") as status:
        yield status.update


def _weights(runs: Runs, targets: Sequence[str]) -> dict[str, float]:
    if unknown := [name for name in targets if name not in runs.targets]:
        raise RunsError(f"No run measured target {unknown[0]!r}; measured: {', '.join(runs.targets)}.")
    return dict.fromkeys(targets or runs.targets, 1.0)


def _show_runs(runs: Runs) -> None:
    """Columns as they were understood, with their unit and range."""
    left_out = len(runs) - len(runs.finished())
    title = f"{Path(runs.source).name}: {len(runs)} rows" + (f", {left_out} of them not fitted" if left_out else "")
    shown = Shown(title=title)
    for head in ("column", "unit", "values"):
        shown.add_column(head)
    for name, values in runs.columns.items():
        if name == "bits_per_byte" and runs.loss_unit == BITS:
            continue  # these are the losses
        labels = runs.labels(name)
        head = name if labels == ("",) else f"{name} x {len(labels)}: {_names(labels)}"
        unit = runs.loss_unit if name == "loss" else COLUMNS[name].unit
        shown.add_row(escape(head), unit, _range(values))
    console.print(shown)


def _names(labels: Sequence[str]) -> str:
    return ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")


def _range(values: object) -> str:
    import numpy as np

    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        kinds = sorted(set(array.ravel().tolist()))
        return f"{len(kinds)} different" if len(kinds) > 3 else ", ".join(map(str, kinds))
    if not np.isfinite(array).any():
        return "none known"
    low, high = float(np.nanmin(array)), float(np.nanmax(array))
    return _spell(low) if low == high else f"{_spell(low)} to {_spell(high)}"


def _spell(value: float) -> str:
    if 1e4 <= abs(value) < 1e15:
        return count(value)
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e4 else plain(value)


def _show(table: Table) -> None:
    shown = Shown(title=escape(table.caption), title_justify="left")
    for head in table.head:
        first = head == table.head[0]
        shown.add_column(escape(head), justify="left" if first else "right", overflow="fold", min_width=8 * first)
    for row in table.rows[:_ROWS]:
        shown.add_row(*map(escape, row), style="bold" if row[0] in table.strong else None)
    console.print(shown)
    if len(table.rows) > _ROWS:
        console.print(f"{len(table.rows) - _ROWS} more rows are in the report.")


def _reports(evidence: Evidence) -> str:
    fits: Mapping[str, object] = evidence.selection.fits
    told = [
        f"{target}\n{'=' * len(target)}\n{fitted.report(evidence.level)}\n"
        for target, fitted in fits.items()
        if isinstance(fitted, Fit)
    ]
    return "\n".join(told or [evidence.selection.verdict() + "\n"])
