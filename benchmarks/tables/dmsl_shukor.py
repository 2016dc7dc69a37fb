"""Size, tokens and mixture together: LLMs on seven corpora of SlimPajama, Shukor et al., 2025, arXiv:2507.09404.

Table: github.com/meiqwq/Explaining-Data-Mixing-Scaling-Laws at c2bf110, data/dmsl_llm_slimpajama.csv: 122M, 310M and
680M parameters on 60, 60 and 40 mixtures. Rows are checkpoints along a run; a run is one mixture at one size. The last
checkpoint of each is in the table twice and is read once; rows that lack one of the seven losses are left out.

Splits. Across sizes: fitted to 122M and 310M at all tokens, scored on 680M. Across mixtures: a fifth of the mixtures
(drawn with seed 0) is held out at all sizes. Both score the mean relative error over rows, for the loss on each of the
seven corpora. One size: 122M after 9.998e9 tokens, a fifth of the mixtures (seed 11514) held out, scored where the
corpus has a share of .1 at least.

Published figures are of the additive and the joint law on splits like these, up to 2.7B. `reproduced` is the same law
here. Ours: the laws of size, tokens and mixture compete inside the rows fitted, across sizes by fitting 122M and
predicting 310M, across mixtures by holding out a fifth of the mixtures left. What the chosen law errs there, and on
every mixture left out in five folds, widens its intervals.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.fit.holdout import Score, calibrated, choose, compare
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber
from mixopt.laws.additive_mixture import AdditiveMixture
from mixopt.laws.capacity_split import CapacitySplit
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.size_tokens_mixture import size_tokens_mixture

TABLE = "runs/dmsl_shukor/runs.csv"
SHA256 = "d16bb0968fd1f53fdb66da8a2acbec2e477c750e30916daf24b628319f86aff4"
CORPORA = ("arxiv", "book", "c4", "github", "commoncrawl", "stackexchange", "wikipedia")
LAWS = size_tokens_mixture(CORPORA, 2e8, 1e10)
NORM = Huber(4e-3)  # about the noise between checkpoints
STARTS, REPLICATES = 3, 100


@dataclass(frozen=True)
class Result:
    """A law chosen and fitted inside the rows of a split; percent error and coverage by corpus on those held out."""

    scores: tuple[Score, ...]
    chosen: str
    fits: Mapping[str, Fit]
    errors: Array
    coverage: Array
    seconds: float


def read(path: Path) -> dict[str, Array]:
    """Columns of the table, with the seven losses as [n, 7]."""
    with path.open() as file:
        table = [row for row in csv.DictReader(file) if all(row[f"{name}_loss"] for name in CORPORA)]

    def wide(before: str, after: str) -> Array:
        return np.array([[float(row[f"{before}{name}{after}"]) for name in CORPORA] for row in table])

    size, tokens = (np.array([float(row[name]) for row in table]) for name in ("model_size", "n_tokens"))
    loss, mixture = wide("", "_loss"), wide("weight_", "")
    mixture = mixture / mixture.sum(-1, keepdims=True)
    _, which = np.unique(mixture.round(6), axis=0, return_inverse=True)
    which = which.reshape(-1)
    _, first = np.unique(np.column_stack([which, size, loss]), axis=0, return_index=True)
    kept = np.sort(first)
    columns = {"model_size": size, "tokens": tokens, "mixture": mixture, "loss": loss}
    columns |= {"corpus_tokens": mixture * tokens[:, None], "which": which}
    columns["run"] = which + 100 * np.unique(size, return_inverse=True)[1]
    return {name: values[kept] for name, values in columns.items()}


def part(columns: Mapping[str, Array], mask: Array) -> dict[str, Array]:
    return {name: values[mask] for name, values in columns.items()}


def a_fifth(columns: Mapping[str, Array], seed: int) -> Array:
    """Mask of the rows whose mixture is held out."""
    mixtures = np.unique(columns["which"])
    return np.isin(columns["which"], np.random.default_rng(seed).permutation(mixtures)[: len(mixtures) // 5])


def errors(fits: Mapping[str, Fit], unseen: Mapping[str, Array]) -> Array:
    """Mean relative error in percent of each corpus."""
    return np.array(
        [100 * np.abs(fits[name].predict(unseen) / unseen["loss"][:, i] - 1).mean() for i, name in enumerate(CORPORA)]
    )


def covered(fits: Mapping[str, Fit], unseen: Mapping[str, Array]) -> Array:
    """Share of rows inside their 90 % interval, of each corpus."""
    ends = [fits[name].interval(unseen, observation=True) for name in CORPORA]
    return np.array([((low <= y) & (y <= high)).mean() for (low, high), y in zip(ends, unseen["loss"].T, strict=True)])


def predicted(fitted: dict[str, Array], inner: Array, unseen: Mapping[str, Array]) -> Result:
    """Chooses among all laws by the inner hold-out, refits the best with intervals, and scores it on unseen rows."""
    began = process_time()
    scores = compare(LAWS, fitted, holdout=inner, targets=CORPORA, norm=NORM, starts=STARTS)
    best = choose(scores)
    fits = calibrated(
        dict.fromkeys(CORPORA, LAWS[best.name]),
        fitted,
        holdout=["mixtures", inner],
        norm=NORM,
        starts=STARTS,
        replicates=REPLICATES,
    )
    seconds = process_time() - began
    return Result(scores, best.name, fits, errors(fits, unseen), covered(fits, unseen), seconds)


@cache
def across_sizes(path: Path) -> Result:
    columns = read(path)
    small = part(columns, columns["model_size"] < 5e8)
    return predicted(small, small["model_size"] > 2e8, part(columns, columns["model_size"] > 5e8))


@cache
def across_mixtures(path: Path) -> Result:
    columns = read(path)
    held = a_fifth(columns, 0)
    return predicted(part(columns, ~held), a_fifth(part(columns, ~held), 1), part(columns, held))


def by_law(name: str, columns: Mapping[str, Array], held: Array) -> Array:
    """Error of one of the laws, fitted to all rows that are not held out."""
    seen = part(columns, ~held)
    return errors(fit_targets(LAWS[name], seen, targets=CORPORA, norm=NORM, starts=STARTS), part(columns, held))


def at_one_size(columns: Mapping[str, Array], law_of: Mapping[str, Law]) -> float:
    """Mean relative error in percent over held-out mixtures in which the corpus takes part."""
    here = part(columns, (columns["model_size"] < 2e8) & (np.abs(columns["tokens"] - 9.998e9) < 1e6))
    held = a_fifth(here, 11514)
    seen, unseen = part(here, ~held), part(here, held)
    fits = fit_targets(law_of, seen, targets=CORPORA, norm=NORM, starts=8)
    off = np.stack([fits[name].predict(unseen) / unseen["loss"][:, i] - 1 for i, name in enumerate(CORPORA)], 1)
    return float(100 * np.abs(off[unseen["mixture"] >= 0.1]).mean())


def rows() -> Iterator[Row]:
    path = reference(TABLE, SHA256)
    columns = read(path)
    large, fifth = columns["model_size"] > 5e8, a_fifth(columns, 0)
    yield from _rows("across sizes", across_sizes(path), (1.0, 1.5), (1.55, 1.34), columns, large)
    yield from _rows("across mixtures", across_mixtures(path), (0.6, float("nan")), (0.86, 0.71), columns, fifth)
    began = process_time()
    split = at_one_size(columns, {name: CapacitySplit(CORPORA, name, 1e10, 2e8) for name in CORPORA})
    seconds = process_time() - began
    additive = at_one_size(columns, dict.fromkeys(CORPORA, Constant("E") + AdditiveMixture(CORPORA)))
    quantity = "% error, one size"
    yield Row("dmsl_shukor", quantity, "capacity split", split, published=0.948, seconds=seconds)
    yield Row("dmsl_shukor", quantity, "additive", additive, published=0.948)


def _rows(
    split: str,
    result: Result,
    reach: tuple[float, float],
    published: tuple[float, float],
    columns: Mapping[str, Array],
    held: Array,
) -> Iterator[Row]:
    mean, most = reach
    for name, figure in zip(("additive", "joint"), published, strict=True):
        here = float(by_law(name, columns, held).mean())
        yield Row("dmsl_shukor", f"% error {split}, mean of 7", name, here, published=figure, reproduced=here)
    tried = ", ".join(f"{score.name} {score.rmse:.2%}" for score in result.scores)
    yield Row(
        "dmsl_shukor",
        f"% error {split}, mean of 7",
        result.chosen,
        float(result.errors.mean()),
        reach=mean,
        published=published[1],
        coverage=float(result.coverage.mean()),
        seconds=result.seconds,
        note=f"{len(result.scores)} laws tried; on inner hold-out: {tried}",
    )
    worst = int(result.errors.argmax())
    quantity = f"% error {split}, worst of 7"
    coverage = float(result.coverage[worst])
    yield Row(
        "dmsl_shukor",
        quantity,
        result.chosen,
        float(result.errors[worst]),
        most,
        coverage=coverage,
        note=CORPORA[worst],
    )
