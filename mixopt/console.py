"""What a person sees of the pipeline: progress while it works, tables and paths when it is done."""

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from mixopt import pipeline
from mixopt.execute.local import Watch, available_cores
from mixopt.execute.store import split
from mixopt.optimize.plan import Baseline, Plan
from mixopt.pipeline import Workspace
from mixopt.proxy.data import TokenData
from mixopt.report.outcome import Outcome
from mixopt.report.page import write_report
from mixopt.runs import Runs
from mixopt.schedules.schedule import Schedule
from mixopt.study import Study
from mixopt.sweep.design import cautions, design
from mixopt.sweep.frame import Frame
from mixopt.sweep.settings import RunSettings, Sweep

# FLOPs (6 N D) that one core trains in a second at proxy sizes, where embeddings and small matrices cost most of the
# time; measured on one core of an AMD EPYC server. Only the dry run's estimate of time uses it.
FLOPS_PER_CORE = 8e9

console = Console()


def make_recipe(source: Path, out: Path | None, executor: str) -> None:
    """All steps, each with its progress; then the decision and where the files are."""
    work = Workspace.open(source, out, executor)
    data = _tokenize(work)
    runs = _train(work, data, executor)
    with console.status("comparing the laws, fitting the best and choosing the recipe"):
        outcome = pipeline.conclude(work, data, runs, executor=executor)
    with console.status("writing the configuration files and the report"):
        emitted = pipeline.emit(work, outcome.recipe)
        page = write_report(outcome, work.folder)
    show_plan(outcome)
    show_warnings(outcome.selection.warnings + outcome.plan.notes)
    _show_paths({"recipe": work.folder / "recipe.yaml", "report": page}, emitted)


def train_sweep(source: Path, out: Path | None, executor: str) -> None:
    """The proxy runs only."""
    work = Workspace.open(source, out, executor)
    runs = _train(work, _tokenize(work), executor)
    console.print(f"{len(runs)} runs in {work.folder / 'runs.parquet'}")


def show_sweep(source: Path, out: Path | None) -> None:
    """The runs that a sweep would do and what they would cost; nothing is trained."""
    work = Workspace.open(source, out)
    shared = pipeline.framed(work, _tokenize(work))
    sweep = design(shared)
    console.print(_sweep_table(sweep))
    done, _ = split(sweep, work.folder)
    console.print(_cost_sentence(work.study, shared, sweep, len(done)))
    show_warnings(cautions(shared))


def draw_report(source: Path, out: Path | None, executor: str) -> None:
    """The report of a recipe that was made before."""
    work = Workspace.open(source, out, executor)
    console.print(write_report(pipeline.stored_outcome(work), work.folder))


def _tokenize(work: Workspace) -> TokenData:
    with console.status("reading and tokenizing the corpora"):
        return pipeline.tokenize(work)


def _train(work: Workspace, data: TokenData, executor: str) -> Runs:
    show_warnings(cautions(pipeline.framed(work, data)))
    with progress() as watch:
        return pipeline.run_sweep(work, data, executor=executor, watch=watch)


def show_plan(outcome: Outcome) -> None:
    """The decision: the mixture against the usual ones, then size, tokens, batch and learning rate."""
    plan, recipe = outcome.plan, outcome.recipe
    console.print(_mixture_table(plan))
    table = Table(title="Recipe", show_header=False)
    low, high = plan.interval or (math.nan, math.nan)
    for name, value in {
        "predicted loss": f"{plan.loss:.4f} nats/token, {plan.level:.0%} interval {low:.4f} to {high:.4f}",
        "model size": f"{recipe.model.model_size:,} non-embedding parameters",
        "tokens": f"{recipe.tokens:,}",
        "batch size": f"{recipe.batch.peak:,.0f} tokens",
        "peak LR": f"{recipe.learning_rate.peak:.3g}; {plan.chosen.peak_lr or math.nan:.3g} at the proxies' base width",
        "schedule": f"{outcome.study.choose.schedule}: {_in_words(recipe.learning_rate)}",
        "compute": f"{plan.flops:.3g} of {outcome.study.budget.flops:.3g} FLOPs",
    }.items():
        table.add_row(f"[bold]{name}[/bold]", value)
    console.print(table)


def show_warnings(warnings: tuple[str, ...]) -> None:
    """What the reader has to know before believing the numbers."""
    for warning in warnings:
        console.print(f"[yellow]note[/yellow] {escape(warning)}", highlight=False)


def _mixture_table(plan: Plan) -> Table:
    """Shares and epochs of the plan beside those of the natural and the uniform mixture, and their losses."""
    others = {name: plan.baselines[name] for name in ("natural", "uniform") if name in plan.baselines}
    table = Table(title="Mixture: share of the tokens x passes over the corpus")
    table.add_column("corpus")
    table.add_column("recommended", justify="right")
    for name, other in others.items():
        table.add_column(name if other.feasible else f"{name} (not allowed)", justify="right")
    for corpus, share in plan.chosen.mixture.items():
        cells = [_share(share, plan.epochs[corpus])]
        cells += [_share(other.mixture[corpus], other.epochs[corpus]) for other in others.values()]
        table.add_row(escape(corpus), *cells)
    table.add_section()
    table.add_row("predicted loss", f"{plan.loss:.4f}", *(f"{other.loss:.4f}" for other in others.values()))
    table.add_row("behind", "", *(_behind(other) for other in others.values()))
    return table


def _share(share: float, epochs: float) -> str:
    return f"{share:.1%} x {epochs:.2f}"


def _behind(other: Baseline) -> str:
    low, high = other.difference_interval or (math.nan, math.nan)
    return f"{other.difference:+.3f} ({low:.3f} to {high:.3f})"


def _in_words(schedule: Schedule) -> str:
    spans = [f"{part.tokens / schedule.tokens:.0%}" for part in schedule.segments]
    changes = [
        f"at {part.end:.3g}" if part.start == part.end else f"{part.shape} to {part.end:.3g}"
        for part in schedule.segments
    ]
    return ", ".join(f"{span} {change}" for span, change in zip(spans, changes, strict=True))


def _sweep_table(sweep: Sweep) -> Table:
    table = Table(title="Sweep", caption=f"{len(sweep.runs)} runs, {sweep.flops:.3g} FLOPs")
    for name in ("purpose", "proxy", "runs", "model size", "tokens", "FLOPs"):
        table.add_column(name, justify="left" if name in ("purpose", "proxy") else "right")
    groups: dict[tuple[str, str], list[RunSettings]] = {}
    for run in sweep.runs:
        groups.setdefault((run.purpose, run.proxy), []).append(run)
    for (purpose, proxy), runs in groups.items():
        sizes = {run.model_size or 0 for run in runs}
        cells = [_span(sizes) if any(sizes) else "", _span({run.tokens for run in runs})]
        table.add_row(purpose, proxy, str(len(runs)), *cells, f"{sum(run.flops for run in runs):.3g}")
    return table


def _span(values: set[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _cost_sentence(study: Study, shared: Frame, sweep: Sweep, done: int) -> str:
    told = [f"{done} of {len(sweep.runs)} runs are on disk."]
    if study.sweep.favorites:
        told.append(f"{study.sweep.favorites} mixtures follow that the n-gram screen likes best.")
    cost = f"The sweep spends {sweep.flops / study.budget.flops:.3g} of the budget of {study.budget.flops:.3g} FLOPs"
    if study.proxy.device == "cpu":
        cores = available_cores()
        cost += f", about {_duration(sum(map(seconds, sweep.runs)) / cores)} on {cores} cores"
    told.append(f"{cost}.")
    told.append(
        f"The target run is taken to have {shared.target_tokens:.3g} tokens, the middle of what is allowed; corpora "
        "repeat in the proxies as they would in that run."
    )
    return "\n".join(told)


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"


@contextmanager
def progress() -> Generator[Watch]:
    """One bar over all runs, by their cost so that the time left is true, with the run in hand and its loss."""
    columns = (TextColumn("{task.fields[count]}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[note]}"), console=console) as bar:
        yield _Watcher(bar)


class _Watcher:
    """Shows runs as they go; knows nothing of how they are trained."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task: TaskID | None = None
        self._left: dict[str, float] = {}
        self._total = 0.0
        self._runs = 0

    def __call__(self, run: RunSettings, step: int, steps: int, loss: float) -> None:
        cost = seconds(run)
        if step == steps == 0:
            self._total += cost
            self._runs += 1
        if self._left.get(run.id) != 0:  # progress may come in after the end
            self._left[run.id] = cost * (1 - step / steps) if steps else cost
        done = sum(left == 0 for left in self._left.values())
        if self._task is None:  # nothing is shown where nothing is to do
            self._task = self._bar.add_task("", count="proxy runs", note="")
        self._bar.update(
            self._task,
            total=self._total,
            completed=self._total - sum(self._left.values()),
            count=f"proxy runs {done}/{self._runs}",
        )
        if math.isfinite(loss):
            self._bar.update(self._task, note=f"{_spoken(run)}, loss {loss:.3f}")


def seconds(run: RunSettings) -> float:
    """About how long a run takes on one core."""
    return run.flops / FLOPS_PER_CORE + 1e-6 * run.tokens + 0.2


def _spoken(run: RunSettings) -> str:
    return (
        f"{run.model_size:,} parameters x {run.tokens:,} tokens"
        if run.model_size
        else f"n-gram x {run.tokens:,} tokens"
    )


def _show_paths(main: Mapping[str, Path], emitted: tuple[Path, ...]) -> None:
    table = Table(title="Files", show_header=False)
    for name, path in main.items():
        table.add_row(name, str(path))
    for path in emitted:
        table.add_row("config", str(path))
    console.print(table)
