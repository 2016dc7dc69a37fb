"""Critical batch sizes from 85M to 604M parameters: Zhang et al., 2024, arXiv:2410.21676.

Table: github.com/hlzhang109/critical-batch-size at c5b509d, plots/chinchilla.ipynb: steps to a loss on C4 that the size
reaches in its Chinchilla-optimal tokens at 256 sequences of 512, for batches of 64 to 16384 sequences.

Published: the batch that takes a fifth more tokens than 256 sequences, by a fit of S_min (1 + B_c / B) to each size in
log steps by least squares; and a power of the size through these (1.2B is in theirs, not in this table). Ours: one law
for all sizes, in which both the tokens and the critical batch are powers of the size; intervals by bootstrap over runs.
Coverage: each batch size in turn is predicted from the others, whose own errors when left out are the margin.
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
from mixopt.laws.to_target import ToTarget, overhead_batch

TABLE = "runs/critical_batch_size/steps_to_target.csv"
SHA256 = "796d619efdfc322bdad4e9406b20d0cd10ced11dd1da6c671a2b4ad5ccfddcb9"
PUBLISHED = {85e6: 745.0, 151e6: 955.0, 302e6: 1394.0, 604e6: 1889.0}
SCALE, EXPONENT = 93.2, 0.468
SEQUENCE, BASE = 512, 256.0
NORM = Square(0.05)
Runs = dict[str, Array]


def read(path: Path) -> Runs:
    with path.open() as file:
        table = list(csv.DictReader(file))
    names = {"model_size": "n_params", "batch_tokens": "batch_size_tokens", "steps": "steps_to_target"}
    return {ours: np.array([float(row[theirs]) for row in table]) for ours, theirs in names.items()}


def by_size(runs: Runs) -> dict[float, float]:
    """The published protocol: the critical batch of each size in sequences, fitted by itself."""
    law, found = ToTarget("steps", 1e10, 1e6), dict[float, float]()
    for size in PUBLISHED:
        fitted = fit(law, {name: values[runs["model_size"] == size] for name, values in runs.items()}, norm=NORM)
        found[size] = float(in_sequences(fitted.theta, law, np.array([size]))[0])
    return found


def in_sequences(theta: Array, law: ToTarget, sizes: Array) -> Array:
    """Critical batches by the published definition, in sequences, [*s, n]."""
    return overhead_batch(law.critical(theta, {"model_size": sizes}) / SEQUENCE, BASE)


def jointly(runs: Runs) -> tuple[Fit, ToTarget]:
    law = ToTarget("steps", 1e10, 1e6, size_unit=3e8)
    return fit(law, runs, norm=NORM, replicates=500), law


def slope(batches: Array, sizes: Array) -> Array:
    """Exponent of a power of the size through critical batches, [*s]."""
    x = np.log(sizes) - np.log(sizes).mean()
    return np.log(batches) @ x / (x @ x)


def exponent(fitted: Fit, law: ToTarget, sizes: Array) -> tuple[float, float, float]:
    """Exponent of the published critical batch in the size, and its 90 % interval."""
    ours = float(slope(in_sequences(fitted.theta, law, sizes), sizes))
    ends = np.quantile(slope(in_sequences(fitted.replicates, law, sizes), sizes), [0.05, 0.95])
    low, high = ours + fitted.widening * (ends - ours)
    return ours, float(low), float(high)


def coverage(runs: Runs) -> float:
    """Share of runs of a batch size not seen that lie within the margin measured on the other batch sizes."""
    law, group, inside = ToTarget("steps", 1e10, 1e6, size_unit=3e8), runs["batch_tokens"], list[Array]()
    error = leave_out(law, runs, group, norm=NORM, starts=4).errors
    for batch in np.unique(group):
        others = {name: values[group != batch] for name, values in runs.items()}
        margin = leave_out(law, others, others["batch_tokens"], norm=NORM, starts=4).margin()
        inside.append(np.abs(error[group == batch]) <= margin)
    return float(np.concatenate(inside).mean())


def rows() -> Iterator[Row]:
    runs = read(reference(TABLE, SHA256))
    sizes, published = np.array(list(PUBLISHED)), np.array(list(PUBLISHED.values()))
    singly = by_size(runs)
    began = process_time()
    fitted, law = jointly(runs)
    seconds = process_time() - began
    joint, drawn = (in_sequences(theta, law, sizes) for theta in (fitted.theta, fitted.replicates))
    spread = fitted.widening * (np.quantile(drawn, [0.05, 0.95], axis=0) - joint)
    for i, size in enumerate(sizes):
        off = 100 * abs(singly[size] / published[i] - 1)
        note = f"% off published; joint law {joint[i]:.0f}, 90 % {joint[i] + spread[0, i]:.0f} "
        note += f"to {joint[i] + spread[1, i]:.0f}"
        name = f"critical batch, {size / 1e6:.0f}M, sequences"
        yield Row("critical_batch_size", name, "ToTarget, each size", off, 3, published[i], singly[size], note=note)
    ours, low, high = exponent(fitted, law, sizes)
    yield Row(
        "critical_batch_size",
        "exponent of the size",
        "ToTarget, joint",
        ours,
        published=EXPONENT,
        reproduced=float(slope(np.array(list(singly.values())), sizes)),
        coverage=coverage(runs),
        seconds=seconds,
        note=f"90 % interval {low:.3f} to {high:.3f}; published: {SCALE} (N / 1M)^{EXPONENT}",
    )
