"""Is the decision true? Trains the recommended mixture and the usual ones at the plan's own size, and compares.

    python benchmarks/decision.py [recipes/quickstart.yaml] [--seeds 3]

The recommended, natural and uniform mixtures and the best single corpus are trained with several seeds, on all the
text there is, with the model size, tokens, batch and learning rate of the plan: eight times the compute of the
largest proxy in the quickstart. Printed are the held-out losses, how they compare with what was predicted, and whether
the recommended mixture is best beyond twice the standard error. Runs are kept; a second call trains nothing.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from mixopt import pipeline
from mixopt.columns import Array
from mixopt.console import progress
from mixopt.execute import local
from mixopt.fit.selection import Selection
from mixopt.optimize.plan import Plan
from mixopt.pipeline import Workspace
from mixopt.proxy.data import TokenData
from mixopt.runs import Runs
from mixopt.sweep.settings import RunSettings, Sweep


@dataclass(frozen=True)
class Measured:
    """A mixture's weighted loss over seeds, beside what the laws said of it."""

    name: str
    losses: Array
    targets: Mapping[str, float]
    predicted: float
    interval: tuple[float, float]

    @property
    def mean(self) -> float:
        return float(self.losses.mean())

    @property
    def error(self) -> float:
        return float(self.losses.std(ddof=1) / np.sqrt(len(self.losses)))

    @property
    def inside(self) -> bool:
        return self.interval[0] <= self.mean <= self.interval[1]


def mixtures_of(work: Workspace, plan: Plan, selection: Selection, available: Mapping[str, float]) -> dict[str, Array]:
    """The recommended mixture, natural, uniform, and the single corpus that the laws like best, caps aside."""
    names = tuple(work.study.corpora)
    m = len(names)
    tokens = np.array([available[name] for name in names])
    alone = {f"only {name}": np.eye(m)[i] for i, name in enumerate(names)}
    best = min(alone, key=lambda name: predict(work, plan, selection, available, alone[name])[0])
    recommended = np.array([plan.chosen.mixture[name] for name in names])
    return {
        "recommended": recommended / recommended.sum(),
        "natural": tokens / tokens.sum(),
        "uniform": np.full(m, 1 / m),
        best: alone[best],
    }


def predict(
    work: Workspace, plan: Plan, selection: Selection, available: Mapping[str, float], mixture: Array
) -> tuple[float, tuple[float, float]]:
    """Weighted loss of a mixture at the plan's size, tokens, batch and learning rate, and its interval."""
    from mixopt.optimize.uncertainty import spread

    problem = pipeline.problem_of(work.study, selection, available)
    chosen = plan.chosen
    scalars = [np.log(getattr(chosen, name) or 1.0) for name in problem.scalars]
    known = spread(problem, np.concatenate([mixture, scalars])[None], plan.level)
    return float(problem.target_weights @ known.losses[:, 0]), known.weighted(0) or (np.nan, np.nan)


def run_of(work: Workspace, data: TokenData, plan: Plan, mixture: Array, seed: int) -> RunSettings:
    """One run of the plan on a mixture, with nothing subsampled."""
    names, chosen = tuple(work.study.corpora), plan.chosen
    return RunSettings(
        proxy="transformer",
        tokens=int(chosen.tokens),
        mixture=dict(zip(names, mixture.tolist(), strict=True)),
        unique_tokens={name: len(data.train[name]) for name in names},
        seed=1000 + seed,
        model_size=int(chosen.model_size),
        batch_tokens=int(chosen.batch_tokens or 0),
        peak_lr=chosen.peak_lr,
        schedule=work.study.choose.schedule,
        sequence_length=work.study.sequence_length,
        epoch_matched=False,
        data=data.digest[:12],
        purpose="decision",
    )


def measure(work: Workspace, data: TokenData, plan: Plan, selection: Selection, seeds: int) -> tuple[Measured, ...]:
    """Train every mixture with every seed; the recommended one comes first."""
    available = pipeline.available_tokens(work.study, data)
    mixtures = mixtures_of(work, plan, selection, available)
    runs = {
        name: [run_of(work, data, plan, mixture, seed) for seed in range(seeds)] for name, mixture in mixtures.items()
    }
    sweep = Sweep(
        tuple(work.study.corpora), tuple(work.study.targets), tuple(run for some in runs.values() for run in some)
    )
    with progress() as watch:
        table = local.execute(sweep, work.folder, watch=watch)
    weights = np.array([target.weight for target in work.study.targets.values()])
    rows: list[Measured] = []
    for name, some in runs.items():
        own = table.where(np.isin(table["run"], [run.id for run in some]))
        predicted, interval = predict(work, plan, selection, available, mixtures[name])
        rows.append(
            Measured(
                name=name,
                losses=own["loss"] @ (weights / weights.sum()),
                targets=dict(zip(own.targets, own["loss"].mean(0).tolist(), strict=True)),
                predicted=predicted,
                interval=interval,
            )
        )
    return tuple(rows)


def show(rows: tuple[Measured, ...], plan: Plan, largest: float) -> None:
    """The table, then the two verdicts in words."""
    console = Console(width=120)
    table = Table(
        title=f"Held-out loss, nats per token, {plan.flops:.3g} FLOPs = {plan.flops / largest:.2f} x largest proxy"
    )
    for name in ("mixture", "loss", "+- se", *rows[0].targets, "predicted", "90% interval", "inside"):
        table.add_column(name, justify="left" if name == "mixture" else "right")
    for row in rows:
        cells = [f"{row.mean:.4f}", f"{row.error:.4f}", *(f"{loss:.4f}" for loss in row.targets.values())]
        cells += [
            f"{row.predicted:.4f}",
            f"{row.interval[0]:.4f} to {row.interval[1]:.4f}",
            "yes" if row.inside else "NO",
        ]
        table.add_row(row.name, *cells)
    console.print(table)
    best = rows[0]
    for row in rows[1:]:
        gap, error = row.mean - best.mean, float(np.hypot(row.error, best.error))
        verdict = (
            "better beyond twice the standard error"
            if gap > 2 * error
            else "NOT better beyond twice the standard error"
        )
        console.print(f"recommended against {row.name}: {gap:+.4f} +- {error:.4f} nats per token, {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="?", default="recipes/quickstart.yaml")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    work = Workspace.open(options.study)
    data = pipeline.tokenize(work)
    with progress() as watch:
        runs = pipeline.run_sweep(work, data, watch=watch)
    selection = pipeline.fit_laws(work, runs)
    plan = pipeline.decide(work, selection, pipeline.available_tokens(work.study, data))
    rows = measure(work, data, plan, selection, options.seeds)
    show(rows, plan, largest_of(runs))


def largest_of(runs: Runs) -> float:
    """FLOPs of the largest proxy."""
    return float(np.nanmax(runs["flops"]))


if __name__ == "__main__":
    main()
