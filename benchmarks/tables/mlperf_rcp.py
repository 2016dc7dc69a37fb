"""Samples to a target accuracy at many batch sizes, 20 seeds each: MLPerf's reference convergence points.

Table: github.com/mlcommons/logging at 7bbf792, mlperf_logging/rcp_checker, one row a seed: BERT (training 5.1, batches
of 256 to 16384 sequences of 512) and Llama 3.1 8B (6.1, 16 to 128 sequences of 8192). Nothing is published of a
critical batch. Ours: `ToTarget` fitted to all seeds, bootstrapped over batch sizes, because the learning rate was tuned
once for each, so that 20 seeds of one batch err together. Coverage: each batch size is left out in turn; the share of
its seeds inside the interval for single runs, widened by `LeftOut.margin` of the others.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.columns import Array
from mixopt.fit.fit import Fit, fit
from mixopt.fit.left_out import leave_out
from mixopt.fit.norms import Square
from mixopt.laws.to_target import ToTarget

TABLE = "runs/mlperf_rcp/rcps.csv"
SHA256 = "fda772a6ce61320e144a93494dd429bdb3123ba170b8ed08bf5db9195c7d33ec"
ROUNDS = {"bert": ("training_5.1.0", 512), "llama31_8b": ("training_6.1.0", 8192)}
NORM = Square(0.05)
Runs = dict[str, Array]


def read(path: Path, benchmark: str) -> Runs:
    """Tokens to the target and tokens a step of every seed."""
    round_, sequence = ROUNDS[benchmark]
    with path.open() as file:
        table = [row for row in csv.DictReader(file) if (row["benchmark"], row["round"]) == (benchmark, round_)]
    names = {"tokens": "epochs_or_samples_to_converge", "batch_tokens": "batch_size"}
    return {ours: sequence * np.array([float(row[theirs]) for row in table]) for ours, theirs in names.items()}


def law_of(runs: Runs) -> ToTarget:
    return ToTarget("tokens", float(np.median(runs["tokens"])), float(np.median(runs["batch_tokens"])))


def fitted_to(runs: Runs) -> Fit:
    return fit(law_of(runs), runs, norm=NORM, replicates=500, run=runs["batch_tokens"])


def seed_spread(runs: Runs) -> float:
    """sd of log tokens between seeds of one batch size, root mean square over batch sizes."""
    batch, tokens = runs["batch_tokens"], np.log(runs["tokens"])
    return float(np.sqrt(np.mean([tokens[batch == one].var(ddof=1) for one in np.unique(batch)])))


def coverage(runs: Runs) -> float:
    """Share of seeds of a batch size not seen that lie within the margin measured on the other batch sizes."""
    group, inside = runs["batch_tokens"], list[Array]()
    error = leave_out(law_of(runs), runs, group, norm=NORM, starts=1).errors
    for one in np.unique(group):
        others = {name: values[group != one] for name, values in runs.items()}
        margin = leave_out(law_of(runs), others, others["batch_tokens"], norm=NORM, starts=1).margin()
        inside.append(np.abs(error[group == one]) <= margin)
    return float(np.concatenate(inside).mean())


def rows() -> Iterator[Row]:
    path = reference(TABLE, SHA256)
    for benchmark, (_, sequence) in ROUNDS.items():
        runs, began = read(path, benchmark), process_time()
        fitted = fitted_to(runs)
        seconds = process_time() - began
        critical = fitted.theta[1] / sequence
        low, high = fitted.coefficient_intervals()[:, 1] / sequence
        yield Row(
            "mlperf_rcp",
            f"critical batch, {benchmark}, sequences",
            "ToTarget",
            critical,
            coverage=coverage(runs),
            seconds=seconds,
            note=f"90 % interval {low:.0f} to {high:.0f}; sd between seeds {seed_spread(runs):.1%}, "
            f"of the fit {np.std(np.log(fitted.predict(runs) / runs['tokens'])):.1%}",
        )
