"""MLflow: a local store (a folder `mlruns` or a file `mlflow.db`), or a server, as `mlflow:http://host:5000`.

Every parameter of a run becomes a column `params.lr`, every metric, its last value, a column `metrics.loss`.
"""

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from mixopt.errors import RunsError
from mixopt.importers.table import Table, in_memory

ADDRESSES = True  # reads mlflow:<tracking uri>
_STATES = {"FINISHED": "finished"} | dict.fromkeys(("RUNNING", "SCHEDULED", "FAILED", "KILLED"), "unfinished")
_PAGE = 1000
_FOLDERS = "MLFLOW_ALLOW_FILE_STORE"


def recognizes(path: Path) -> bool:
    """Whether `path` is a store of MLflow."""
    if path.is_dir():
        return any("artifact_location" in meta.read_text("utf-8", "replace") for meta in path.glob("*/meta.yaml"))
    return path.suffix in (".db", ".sqlite") and _is_store(path)


def read(path: str | Path) -> Table:
    """All runs of all experiments of a store."""
    mlflow = _package(path)
    try:
        with _folders_allowed():
            rows = _rows(mlflow.MlflowClient(tracking_uri=_address(path)))
    except mlflow.exceptions.MlflowException as error:
        raise RunsError(f"{path} cannot be read as a store of MLflow ({error}); check the address.") from None
    if not rows:
        raise RunsError(f"{path} holds no run of MLflow.")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    note = f"{path} was read as a store of MLflow with {len(rows)} runs: the last value of every metric."
    return in_memory(str(path), columns, (note,), {"run": "run", "status": {"from": "state", "values": _STATES}})


def _rows(client: Any) -> list[dict[str, Any]]:
    """The runs of all experiments, the first started first."""
    experiments = {one.experiment_id: one.name for one in client.search_experiments()}
    rows: list[dict[str, Any]] = []
    token = None
    while True:
        page = client.search_runs(list(experiments), max_results=_PAGE, page_token=token)
        rows += [_row(run, experiments) for run in page]
        if not (token := page.token):
            return rows[::-1]


@contextmanager
def _folders_allowed() -> Generator[None]:
    """MLflow 3 opens a store that is a folder only where this variable asks for it."""
    before = os.environ.get(_FOLDERS)
    os.environ[_FOLDERS] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_FOLDERS]
        else:
            os.environ[_FOLDERS] = before


def _row(run: Any, experiments: dict[str, str]) -> dict[str, Any]:
    told = {
        "run": run.info.run_id,
        "name": run.info.run_name,
        "state": run.info.status,
        "experiment": experiments.get(run.info.experiment_id, ""),
    }
    params = {f"params.{name}": value for name, value in run.data.params.items()}
    return told | params | {f"metrics.{name}": value for name, value in run.data.metrics.items()}


def _address(path: str | Path) -> str:
    if str(path).startswith("mlflow:"):
        return str(path).removeprefix("mlflow:")
    return Path(path).resolve().as_uri() if Path(path).is_dir() else f"sqlite:///{Path(path).resolve()}"


def _is_store(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            found = store.execute("select name from sqlite_master where name in ('experiments', 'runs')").fetchall()
    except sqlite3.Error:
        return False
    return len(found) == 2


def _package(path: str | Path) -> Any:
    try:
        return import_module("mlflow")
    except ModuleNotFoundError:
        raise RunsError(f"{path} needs the package mlflow; run: pip install 'mixopt[tracking]'.") from None
