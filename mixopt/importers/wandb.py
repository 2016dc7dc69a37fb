"""Weights & Biases: a table of runs or a chart, exported as CSV; or a project, as `wandb:entity/project`.

A project is read through the public API, which needs the package wandb and a login. Every key of a run's config becomes
a column `config.lr`, every one of its summary a column `summary.loss`.
"""

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from mixopt.errors import RunsError
from mixopt.importers import csv_table
from mixopt.importers.jsonl import flat
from mixopt.importers.table import Table, in_memory

ADDRESSES = True  # reads wandb:entity/project
_LOST = ("running", "crashed", "failed", "killed", "preempting", "preempted", "pending")
_STATES = {"finished": "finished"} | dict.fromkeys(_LOST, "unfinished")
_STEPS = ("Step", "_step", "Relative Time (Process)", "Relative Time (Wall)", "Wall Time")


def recognizes(path: Path) -> bool:
    """Whether `path` is a CSV file that the web page exported."""
    if path.suffix != ".csv" or not path.is_file():
        return False
    names = csv_table.read(path).names
    return _is_chart(names) or _is_table(names)


def read(path: str | Path) -> Table:
    """The runs of an exported table, of an exported chart (the last value of each), or of a project."""
    if str(path).startswith("wandb:"):
        return _project(str(path).removeprefix("wandb:"))
    table = csv_table.read(Path(path))
    if _is_chart(table.names):
        return _chart(table)
    run = "ID" if "ID" in table.names else "Name"
    meaning = {"run": run, "status": {"from": "State", "values": _STATES}}
    note = f"{path} was read as a table of runs from W&B: run is {run}, and State tells which are unfinished."
    return replace(table, meaning=meaning, notes=(note, *table.notes))


def of_runs(runs: Iterable[Any], source: str) -> Table:
    """A table of run objects of the public API, of which `id`, `name`, `state`, `config` and `summary` are read."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        config = {f"config.{key}": value for key, value in flat(dict(run.config)).items()}
        ended = dict(getattr(run, "summary_metrics", None) or run.summary)
        summary = {f"summary.{key}": value for key, value in ended.items() if not key.startswith("_")}
        rows.append({"run": run.id, "name": run.name, "state": run.state.lower()} | config | flat(summary))
    names = dict.fromkeys(name for row in rows for name in row)
    if not rows:
        raise RunsError(f"{source} holds no run; give a project as wandb:entity/project.")
    columns = {name: [row.get(name) for row in rows] for name in names}
    return in_memory(source, columns, (), {"run": "run", "status": {"from": "state", "values": _STATES}})


def _project(project: str) -> Table:
    try:
        wandb = import_module("wandb")
    except ModuleNotFoundError:
        raise RunsError(
            f"wandb:{project} needs the package wandb; run: pip install 'mixopt[tracking]', or export the runs as CSV."
        ) from None
    try:
        return of_runs(wandb.Api().runs(project), f"wandb:{project}")
    except (wandb.errors.Error, ValueError, OSError) as error:
        if isinstance(error, RunsError):
            raise
        raise RunsError(f"wandb:{project} cannot be read ({error}); log in, or export the runs as CSV.") from None


def _is_table(names: tuple[str, ...]) -> bool:
    return {"Name", "State"} <= set(names) and bool({"Created", "Runtime", "Tags", "User", "Notes"} & set(names))


def _is_chart(names: tuple[str, ...]) -> bool:
    return names[0] in _STEPS and any(name.endswith("__MIN") for name in names)


def _chart(table: Table) -> Table:
    """A chart has a column a run and metric, `run - metric`; its last value counts."""
    at, *others = table.names
    shown = [name for name in others if not name.endswith(("__MIN", "__MAX"))]
    loaded = table.load(dict.fromkeys((at, *shown), False), None)
    rows: dict[str, dict[str, Any]] = {}
    for name in shown:
        run, _, metric = name.rpartition(" - ")
        there = loaded[name] == loaded[name]
        row = rows.setdefault(run, {"run": run, at: None})
        if there.any():
            row[metric] = float(loaded[name][there][-1])
            row[at] = max(row[at] or 0.0, float(loaded[at][there][-1]))
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = {name: [row.get(name) for row in rows.values()] for name in names}
    note = f"{table.source} was read as a chart from W&B: the last value of each of {len(rows)} runs."
    return in_memory(table.source, columns, (note, *table.notes))
