"""Finished runs on disk: `runs/<run id>/run.json`, whole or not there at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixopt.errors import RunsError
from mixopt.files import write_json
from mixopt.runs import Runs
from mixopt.sweep.settings import RunSettings, Sweep

_ASKED = (
    "proxy",
    "schedule",
    "tokens",
    "mixture",
    "unique_tokens",
    "batch_tokens",
    "peak_lr",
    "seed",
    "epoch_matched",
)
_MEASURED = ("status", "loss", "bits_per_byte", "epochs", "steps", "flops", "seconds", "model_size")


def path_of(folder: Path, run: RunSettings) -> Path:
    """Where the result of `run` is, once it is finished."""
    return folder / "runs" / run.id / "run.json"


def save(folder: Path, run: RunSettings, result: Mapping[str, Any]) -> None:
    """Record a run that ended, finished or diverged."""
    write_json(path_of(folder, run), {"settings": run.to_dict(), "result": dict(result)})


def split(sweep: Sweep, folder: Path) -> tuple[tuple[RunSettings, ...], tuple[RunSettings, ...]]:
    """The runs of the sweep that are on disk, and those still to do."""
    done = tuple(run for run in sweep.runs if path_of(folder, run).exists())
    known = {run.id for run in done}
    return done, tuple(run for run in sweep.runs if run.id not in known)


def collect(sweep: Sweep, folder: Path) -> Runs:
    """The runs of the sweep that are on disk, as one table, joined by run id.

    Raises
    ------
    RunsError
        No run is there, or a result on disk cannot be read or belongs to other settings.
    """
    done, _ = split(sweep, folder)
    if not done:
        raise RunsError(f"{folder / 'runs'} holds no finished run of this sweep; run the sweep first.")
    return Runs.from_records(sweep.corpora, sweep.targets, [_record(folder, run) for run in done], str(folder / "runs"))


def _record(folder: Path, run: RunSettings) -> dict[str, Any]:
    path = path_of(folder, run)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        settings, result = RunSettings.from_dict(content["settings"]), content["result"]
        measured = {name: result[name] for name in _MEASURED}
        for name in ("loss", "bits_per_byte", "epochs"):
            measured[name] = {key: float(value) for key, value in result[name].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunsError(f"{path} is not the result of a run ({error}); delete it and the run is done again.") from None
    if settings.id != run.id:
        raise RunsError(f"{path} holds run {settings.id}; delete it and the run is done again.")
    return {"run": run.id, **{name: getattr(run, name) for name in _ASKED}, **measured}
