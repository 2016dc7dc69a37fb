"""Carrying a sweep out: each result whole on disk at once, nothing done twice, a dead worker told."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from mixopt._discover import load
from mixopt.errors import RunsError
from mixopt.execute import local, simulate
from mixopt.execute.store import collect, path_of, save, split
from mixopt.proxy.data import load as load_data
from mixopt.sweep.settings import RunSettings, Sweep

UNIQUE = {"web": 20_000, "code": 5_000}


def run(share, seed=0, **changes):
    settings = {"model_size": 20_000, "batch_tokens": 1_024, "peak_lr": 1e-2, **changes}
    return RunSettings("transformer", 8_192, {"web": share, "code": 1 - share}, UNIQUE, seed, **settings)


def sweep(*runs):
    return Sweep(("web", "code"), ("code",), runs or tuple(run(share) for share in (0.2, 0.5, 0.8)))


def test_a_sweep_survives_json():
    assert Sweep.from_json(sweep().to_json()) == sweep()


def test_settings_make_the_id_and_the_purpose_does_not():
    assert run(0.5).id == run(0.5, purpose="again").id
    others = [
        run(0.4),
        run(0.5, seed=1),
        run(0.5, peak_lr=2e-2),
        run(0.5, data="other text"),
        run(0.5, schedule="cosine"),
        run(0.5, precision="bf16"),
    ]
    assert len({run(0.5).id, *(other.id for other in others)}) == 7


def test_what_is_simulated_is_still_to_be_trained(tmp_path):
    simulate.execute(sweep(), tmp_path)
    assert split(sweep(), tmp_path) == ((), sweep().runs)


def test_runs_on_disk_are_not_done_again(tmp_path):
    first = simulate.execute(sweep(), tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    more = simulate.execute(sweep(*sweep().runs, run(0.9)), tmp_path)
    assert len(written) == len(first) == 3
    assert len(more) == 4
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_broken_result_is_named_and_never_used(tmp_path):
    simulate.execute(sweep(), tmp_path)
    path = path_of(tmp_path / "simulated", sweep().runs[1])
    path.write_text(path.read_text()[:-30])
    with pytest.raises(RunsError, match=rf"{path.parent.name}/run\.json is not the result of a run .*delete it"):
        collect(sweep(), tmp_path / "simulated")


def test_a_result_of_other_settings_is_refused(tmp_path):
    simulate.execute(sweep(), tmp_path)
    first, second = (path_of(tmp_path / "simulated", r) for r in sweep().runs[:2])
    first.write_text(second.read_text())
    with pytest.raises(RunsError, match=f"holds run {second.parent.name}; delete it"):
        collect(sweep(), tmp_path / "simulated")


def test_half_written_results_do_not_count(tmp_path):
    """What a crash leaves before the rename is a part file, which nobody takes for a result."""
    folder = path_of(tmp_path, run(0.5)).parent
    folder.mkdir(parents=True)
    (folder / ".run.json.123.part").write_text("{")
    done, todo = split(sweep(run(0.5)), tmp_path)
    assert (len(done), len(todo)) == (0, 1)
    with pytest.raises(RunsError, match="holds no finished run"):
        collect(sweep(run(0.5)), tmp_path)


def test_results_are_joined_by_id_in_the_order_of_the_sweep(tmp_path):
    runs = simulate.execute(sweep(), tmp_path, noise=0.0)
    back = simulate.execute(sweep(*reversed(sweep().runs)), tmp_path)
    np.testing.assert_array_equal(runs["mixture"][:, 0], [0.2, 0.5, 0.8])
    for settings, row in zip(reversed(sweep().runs), back["loss"], strict=True):
        assert row[0] == pytest.approx(simulate.true_loss(settings, ("code",))["code"])


def test_the_simulated_world_has_diminishing_returns_and_a_best_learning_rate():
    loss = lambda **changes: simulate.true_loss(run(0.5, **changes), ("code",))["code"]  # noqa: E731
    assert loss(model_size=100_000) < loss(model_size=50_000) < loss(model_size=20_000)
    assert loss(peak_lr=1e-2) < min(loss(peak_lr=3e-3), loss(peak_lr=3e-2))
    own, other = (simulate.true_loss(run(share), ("code",))["code"] for share in (0.2, 0.8))
    assert own < other  # a target is served best by the corpus of its name


def test_training_on_two_workers_equals_training_in_this_process(study_folder, tmp_path):
    os.symlink(study_folder / "data", tmp_path / "data")
    seen: list[tuple[str, int, int]] = []
    settings = [run(0.3), RunSettings("ngram", 8_192, {"web": 1.0}, UNIQUE, 0)]
    todo = sweep(*settings)
    runs = local.execute(todo, tmp_path, workers=2, watch=lambda r, step, steps, loss: seen.append((r.id, step, steps)))
    for settings_, loss in zip(settings, runs["loss"][:, 0], strict=True):
        direct = load("proxy", settings_.proxy).train(settings_, load_data(tmp_path / "data"))
        assert loss == direct.loss["code"]
    for settings_ in settings:
        assert (settings_.id, 0, 0) in seen  # queued
        assert seen.count((settings_.id, 1, 1)) == 1  # ended
    assert local.execute(todo, tmp_path, workers=2).columns["loss"].tolist() == runs["loss"].tolist()


_KILLED = """
import sys
from pathlib import Path
from mixopt.execute import local
from mixopt.sweep.settings import Sweep
if __name__ == "__main__":
    local.execute(Sweep.from_json(Path(sys.argv[1], "sweep.json").read_text()), Path(sys.argv[1]), workers=1)
"""


@pytest.mark.slow
def test_killed_half_way_it_resumes_and_repeats_nothing(study_folder, tmp_path):
    os.symlink(study_folder / "data", tmp_path / "data")
    todo = sweep(*(run(0.1 * i) for i in range(1, 9)))
    (tmp_path / "sweep.json").write_text(todo.to_json())
    (tmp_path / "go.py").write_text(_KILLED)
    process = subprocess.Popen([sys.executable, tmp_path / "go.py", tmp_path])
    finished = lambda: sorted(tmp_path.glob("runs/*/run.json"))  # noqa: E731
    while len(finished()) < 3:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in finished()}
    assert 3 <= len(before) < 8
    assert all(json.loads(path.read_text())["result"]["status"] == "finished" for path in before)
    runs = local.execute(todo, tmp_path, workers=1)
    assert len(runs) == 8
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_dead_worker_is_told_in_a_sentence_and_loses_nothing(study_folder, tmp_path):
    os.symlink(study_folder / "data", tmp_path / "data")
    save(tmp_path, run(0.5), simulate_result())
    killer = RunSettings("transformer", 8_192, {"web": 1.0}, UNIQUE, 0, 20_000, 1_024, 1e-2)

    def kill(settings, step, steps, loss):
        if steps and step < steps:
            for child in _children():
                os.kill(child, signal.SIGKILL)

    with pytest.raises(RunsError, match=f"a worker died while {killer.id} was in hand .* finished runs are kept"):
        local.execute(sweep(run(0.5), killer), tmp_path, workers=1, watch=kill)
    assert path_of(tmp_path, run(0.5)).exists()


def simulate_result():
    return {"status": "finished", "loss": {"code": 3.0}, "bits_per_byte": {"code": 1.0}, "epochs": {}, "steps": 8} | {
        "flops": 1.0, "seconds": 1.0, "model_size": 20_000, "realized": {}}  # fmt: skip


def _children():
    import multiprocessing

    return [process.pid for process in multiprocessing.active_children()]
