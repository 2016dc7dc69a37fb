"""Trains the runs of a sweep on this machine: one process a worker, one thread a run, each result on disk at once."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from mixopt._discover import load
from mixopt.errors import RunsError
from mixopt.execute.store import collect, save, split
from mixopt.runs import Runs
from mixopt.sweep.settings import RunSettings, Sweep

Watch = Callable[[RunSettings, int, int, float], None]
"""Called with a run, its step, its steps and its training loss: 0 of 0 when it is queued, 1 of 1 when it has ended."""

# Several linear-algebra threads a run would fight for the cores that the other runs use.
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
_events: Any = None


def execute(
    sweep: Sweep,
    folder: Path,
    *,
    workers: int | None = None,
    device: str = "cpu",
    watch: Watch | None = None,
    **ignored: object,
) -> Runs:
    """Do the runs of `sweep` that `folder` does not hold yet, several at a time, and return all of them.

    Data are read from `folder/data`. A run is on disk as soon as it ends; stopped at any moment, a second call goes on
    with the runs that are missing.

    Raises
    ------
    RunsError
        A worker died (out of memory, killed); what had ended is kept.
    """
    _, todo = split(sweep, folder)
    if todo:
        _check_device(device)
        _train_all(sorted(todo, key=_cost, reverse=True), folder, workers or default_workers(device), device, watch)
    return collect(sweep, folder)


def _check_device(device: str) -> None:
    if device == "cpu":
        return
    import torch

    there = torch.backends.mps.is_available() if device == "mps" else torch.cuda.is_available()
    if not there:
        raise RunsError(f"proxy.device is {device}, which PyTorch does not find on this machine. Give cpu.")


def default_workers(device: str) -> int:
    """A run a core on the CPU; one at a time on a device that runs would share."""
    return available_cores() if device == "cpu" else 1


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cost(run: RunSettings) -> float:
    # Long runs first, so that no worker is left with one at the end. A run without a size costs next to nothing.
    return run.flops or run.tokens


def _train_all(todo: list[RunSettings], folder: Path, workers: int, device: str, watch: Watch | None) -> None:
    for run in todo:
        if watch is not None:
            watch(run, 0, 0, float("nan"))
    context = multiprocessing.get_context("spawn")
    events = context.Queue()
    with _environment(_ONE_THREAD), _pool(min(workers, len(todo)), context, events) as pool:
        pending = {pool.submit(_train, run, folder, device): run for run in todo}
        by_id = {run.id: run for run in todo}
        while pending:
            ended, _ = wait(pending, timeout=0.1)
            _report(events, by_id, watch)
            for future in ended:
                run = pending.pop(future)
                _check(future, run)
                if watch is not None:
                    watch(run, 1, 1, float("nan"))


@contextmanager
def _pool(workers: int, context: Any, events: Any) -> Generator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(events,))
    try:
        yield pool
    except BaseException:
        # Ctrl-C or a failed run: what is in hand is given up, what has ended is on disk.
        for process in list((pool._processes or {}).values()):  # pyright: ignore[reportPrivateUsage]
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _environment(values: dict[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(events: Any) -> None:
    global _events
    _events = events
    events.cancel_join_thread()  # a worker that is told to stop must not wait for its last progress to be read
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    # A parent that was killed cannot stop its workers; without this they would wait for work for ever.
    parent = multiprocessing.parent_process()
    while parent is not None and parent.is_alive():
        time.sleep(1)
    os._exit(1)


def _train(run: RunSettings, folder: Path, device: str) -> None:
    from mixopt.proxy.data import load as load_data

    last = [0.0]

    def progress(step: int, steps: int, loss: float) -> None:
        if time.monotonic() - last[0] > 0.2:
            last[0] = time.monotonic()
            _events.put((run.id, step, steps, loss))

    train = load("proxy", run.proxy).train
    result = train(
        run, load_data(folder / "data"), sequence_length=run.sequence_length, device=device, progress=progress
    )
    save(folder, run, result.to_dict())


def _report(events: Any, by_id: dict[str, RunSettings], watch: Watch | None) -> None:
    while True:
        try:
            run, step, steps, loss = events.get_nowait()
        except Empty:
            return
        if watch is not None:
            watch(by_id[run], step, steps, loss)


def _check(future: Future[None], run: RunSettings) -> None:
    try:
        future.result()
    except ValueError as error:
        raise RunsError(f"{run.id}: {error}") from error
    except BrokenProcessPool:
        raise RunsError(
            f"a worker died while {run.id} was in hand (out of memory, or killed); finished runs are kept. "
            "Run the same command again, with fewer workers if memory is short."
        ) from None
