"""TensorBoard: a folder of event files, each folder that holds one a run.

The last value of every scalar becomes a column called as its tag, `step` is the last step, and hyperparameters become
columns `hparams.lr`. What `add_hparams` writes into a folder below a run's belongs to that run.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from mixopt.errors import RunsError
from mixopt.importers.table import Table, in_memory

_EVENTS = "*tfevents*"


def recognizes(path: Path) -> bool:
    """Whether `path` is an event file, or a folder with some in or below it."""
    return "tfevents" in path.name if path.is_file() else next(path.rglob(_EVENTS), None) is not None


def read(path: str | Path) -> Table:
    """A row a folder of event files."""
    path = Path(path)
    root = path.parent if path.is_file() else path
    folders = [path] if path.is_file() else sorted({file.parent for file in path.rglob(_EVENTS)})
    rows: dict[str, dict[str, Any]] = {}
    for folder in folders:
        above = [one for one in folders if one in folder.parents]
        home = above[0] if above else folder
        run = home.relative_to(root).as_posix() if home != root else root.resolve().name
        row = rows.setdefault(run if home.is_dir() else home.name, {"run": run, "step": None})
        found = _last_values(folder)
        step = max((one for one in (row["step"], found.pop("step")) if one is not None), default=None)
        row |= found | {"step": step}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = {name: [row.get(name) for row in rows.values()] for name in names}
    note = f"{path} was read as event files of TensorBoard: the last value of every scalar of {len(rows)} runs."
    return in_memory(str(path), columns, (note,), {"run": "run"})


def _last_values(folder: Path) -> dict[str, Any]:
    """Scalars and hyperparameters of a run, and its last step."""
    try:
        events = import_module("tensorboard.backend.event_processing.event_accumulator")
        tensors = import_module("tensorboard.util.tensor_util")
    except ModuleNotFoundError:
        raise RunsError(f"{folder} needs the package tensorboard; run: pip install 'mixopt[tracking]'.") from None
    log = events.EventAccumulator(str(folder), size_guidance={"scalars": 1, "tensors": 1, "images": 1, "audio": 1})
    log.Reload()
    values: dict[str, Any] = {"step": None}
    for tag in log.Tags()["scalars"]:
        last = log.Scalars(tag)[-1]
        values[tag] = last.value
        values["step"] = max(values["step"] or 0, last.step)
    for tag in log.Tags()["tensors"]:
        last = log.Tensors(tag)[-1]
        content = tensors.make_ndarray(last.tensor_proto)
        if content.ndim == 0 and content.dtype.kind in "fiu":
            values[tag] = float(content)
            values["step"] = max(values["step"] or 0, last.step)
    return values | _hyperparameters(log)


def _hyperparameters(log: Any) -> dict[str, Any]:
    try:
        contents = log.PluginTagToContent("hparams")
    except KeyError:
        return {}
    data = import_module("tensorboard.plugins.hparams.plugin_data_pb2").HParamsPluginData
    found: dict[str, Any] = {}
    for content in contents.values():
        for name, value in sorted(data.FromString(content).session_start_info.hparams.items()):
            found[f"hparams.{name}"] = getattr(value, value.WhichOneof("kind")) if value.WhichOneof("kind") else None
    return found
