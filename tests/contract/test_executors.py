"""Every executor answers a sweep in the same way: the same runs, in order, once each, on disk."""

import os
from pathlib import Path

import pytest

from mixopt._discover import available, load
from mixopt.execute.store import split
from mixopt.runs import Runs
from mixopt.sweep.settings import RunSettings, Sweep

UNIQUE = {"web": 12_800, "code": 6_400}
SWEEP = Sweep(
    ("web", "code"),
    ("code",),
    (
        RunSettings("ngram", 8_192, {"web": 0.5, "code": 0.5}, UNIQUE, 0),
        RunSettings("transformer", 8_192, {"web": 0.25, "code": 0.75}, UNIQUE, 0, 20_000, 1_024, 1e-2),
        RunSettings("transformer", 4_096, {"web": 1.0}, UNIQUE, 1, 20_000, 1_024, 1e-2),
    ),
)


@pytest.fixture(params=available("execute"))
def executed(request: pytest.FixtureRequest, study_folder: Path, tmp_path: Path) -> tuple[Runs, Path]:
    os.symlink(study_folder / "data", tmp_path / "data")
    return load("execute", request.param).execute(SWEEP, tmp_path), tmp_path


def test_every_run_comes_back_once_and_in_order(executed: tuple[Runs, Path]):
    runs, _ = executed
    assert list(runs["run"]) == [run.id for run in SWEEP.runs]


def test_only_trained_runs_count_as_done(executed: tuple[Runs, Path], request: pytest.FixtureRequest):
    """What another executor made up or looked up must not keep a run from being trained."""
    trained = request.node.callspec.params["executed"] == "local"
    done, todo = split(SWEEP, executed[1])
    assert (done, todo) == ((SWEEP.runs, ()) if trained else ((), SWEEP.runs))


def test_every_executor_takes_the_options_of_a_study(study_folder: Path, tmp_path: Path):
    os.symlink(study_folder / "data", tmp_path / "data")
    first = Sweep(SWEEP.corpora, SWEEP.targets, SWEEP.runs[:1])
    for name in available("execute"):
        assert len(load("execute", name).execute(first, tmp_path, workers=1, device="cpu", watch=None)) == 1


def test_what_was_asked_is_what_the_table_says(executed: tuple[Runs, Path]):
    runs, _ = executed
    assert (runs.corpora, runs.targets) == (SWEEP.corpora, SWEEP.targets)
    for row, run in enumerate(SWEEP.runs):
        assert runs["tokens"][row] == run.tokens
        assert runs["mixture"][row].tolist() == [run.mixture.get(name, 0.0) for name in SWEEP.corpora]
        assert runs["proxy"][row] == run.proxy
        assert runs["status"][row] == "finished"


def test_the_table_survives_a_file(executed: tuple[Runs, Path]):
    runs, folder = executed
    assert Runs.read(runs.write(folder / "runs.parquet"))["loss"].tolist() == runs["loss"].tolist()
