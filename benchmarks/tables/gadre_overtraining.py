"""Overtrained models from small ones: Gadre et al., 2024, arXiv:2403.08540, trained on RedPajama, C4 validation loss.

Table: github.com/mlfoundations/scaling at a003c49, exp_data/models, evals and grid.json. Split of the paper: fitted to
11M, 79M, 154M and 411M parameters at 20 tokens a parameter (multiplier 1) and 11M at 320 (multiplier 16); scored on
1.4B at 640 and 6.9B at 20. Parameters include embeddings.

Published protocol: least squares of the loss (not of its log) for E + (a M^eta + b M^-eta) C^-eta. Ours: the laws of
size and tokens are fitted to the same five runs and compared on the small runs (411M and below) that took more compute
than any of the five; the simplest within one standard error of the best predicts the large ones.

How blind this is: laws are chosen on small runs only and the norm is the default of `fit`, but the errors on the two
large runs had been seen for other laws, norms and sets of runs when this was written, and the held-out small runs were
narrowed to the larger ones afterwards (the same law is chosen on all 27). Five runs for four coefficients leave the
norm a say: the error with least squares of log loss, which does not reach .6, is printed beside ours.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
from scipy.optimize import curve_fit

from benchmarks.tables.row import Row, reference
from mixopt.fit.calibration import calibrate
from mixopt.fit.fit import fit
from mixopt.fit.holdout import choose, compare
from mixopt.fit.norms import Square
from mixopt.laws.size_tokens import size_and_tokens

TABLE = "runs/gadre_overtraining/runs.csv"
SHA256 = "62281ebc57af80202214a373e98da9db12475d59715b52c0a9ebd527aaa17ce3"
PUBLISHED = {"1.4B, 640 tokens a parameter": 0.710, "6.9B, 20 tokens a parameter": 0.732}


@dataclass(frozen=True)
class Split:
    """The five runs fitted and small runs larger than these, held out; and the two in the order of `PUBLISHED`."""

    small: dict[str, np.ndarray]
    held_out: np.ndarray
    large: dict[str, np.ndarray]


def read(path: Path) -> Split:
    """The runs on RedPajama."""
    with path.open() as file:
        table = [row for row in csv.DictReader(file) if row["train_set"] == "rpj"]
    names = {"model_size": "params", "tokens": "tokens", "loss": "loss_c4_val", "multiplier": "chinchilla_multiplier"}
    runs = {ours: np.array([float(row[theirs]) for row in table]) for ours, theirs in names.items()}
    size, multiplier = runs["model_size"], runs.pop("multiplier")
    small = size < 5e8
    fitted = small & ((multiplier == 1) | ((size < 2e7) & (multiplier == 16)))
    compute = size * runs["tokens"]
    held_out = small & (compute > compute[fitted].max() * (1 + 1e-6))
    used = fitted | held_out
    large = [np.flatnonzero((size > 1e9) & (multiplier == 32))[0], np.flatnonzero(size > 5e9)[0]]
    return Split(
        {name: values[used] for name, values in runs.items()},
        held_out[used],
        {name: values[large] for name, values in runs.items()},
    )


def by_published_protocol(split: Split) -> np.ndarray:
    """Relative error in percent on each large run."""

    def law(x: np.ndarray, E: float, a: float, b: float, eta: float) -> np.ndarray:
        size, tokens = x
        ratio, compute = tokens / size, 6 * size * tokens
        return E + (a * ratio**eta + b * ratio**-eta) * compute**-eta

    five = _fitted(split)
    x = np.array([five["model_size"], five["tokens"]])
    theta, _ = curve_fit(law, x, five["loss"], p0=[1, 100, 100, 0.1], maxfev=100_000)
    predicted = law(np.array([split.large["model_size"], split.large["tokens"]]), *theta)
    return 100 * np.abs(predicted / split.large["loss"] - 1)


def _fitted(split: Split) -> dict[str, np.ndarray]:
    return {name: values[~split.held_out] for name, values in split.small.items()}


def rows() -> Iterator[Row]:
    split = read(reference(TABLE, SHA256))
    published = by_published_protocol(split)
    began = process_time()
    laws = size_and_tokens(1e8, 1e9)
    scores = compare(laws, split.small, holdout=split.held_out, replicates=200)
    best = choose(scores)
    fitted = calibrate(best.fitted, [best.errors])
    seconds = process_time() - began
    error = 100 * np.abs(fitted.predict(split.large) / split.large["loss"] - 1)
    low, high = fitted.interval(split.large, observation=True)
    inside = (low <= split.large["loss"]) & (split.large["loss"] <= high)
    squares = fit(best.fitted.law, _fitted(split), norm=Square(5e-3))
    by_squares = 100 * np.abs(squares.predict(split.large) / split.large["loss"] - 1).mean()
    tried = ", ".join(f"{score.name} {score.rmse:.1%}" for score in scores)
    for i, (name, figure) in enumerate(PUBLISHED.items()):
        yield Row("gadre_overtraining", f"% error, {name}", best.name, error[i], 0.6, figure, published[i])
    yield Row(
        "gadre_overtraining",
        "% error, mean",
        best.name,
        float(error.mean()),
        reach=0.6,
        published=float(np.mean(list(PUBLISHED.values()))),
        reproduced=float(published.mean()),
        coverage=float(inside.mean()),
        seconds=seconds,
        note=f"{len(laws)} laws tried; on {best.n} small runs held out: {tried}. Half an interval: "
        f"{high[0] / low[0] / 2 - 0.5:.1%}, {high[1] / low[1] / 2 - 0.5:.1%}. By least squares of log loss: "
        f"{by_squares:.2f}",
    )
