"""Olmix: which mixture of 24 topics of DCLM is best for mathematics, code and question answering, from 127 runs.

github.com/allenai/olmix, commit 9586977981e01b60c8b20330f623047f0b693fe3 (the two CSV files are those of the commit
before 6df202e, which moved them to the data set allenai/olmix): 127 runs of a 30M model, bits per byte of 110 tasks,
joined by `run`. Predicted are the mean of each family of tasks (configs/dclm_per_family.yaml: 7 of mathematics, 19 of
code, 84 of questions), the mean of the three, and the mean of all tasks, in five folds of scikit-learn's
KFold(5, shuffle=True, random_state=0). No fold is looked at by what predicts it.
"""

import csv
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.columns import Array, Columns
from mixopt.fit.exchange import Exchange
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber
from mixopt.fit.ranks import spearman
from mixopt.fit.stack import Stack
from mixopt.laws.law import Law
from mixopt.laws.saturation import saturation
from mixopt.predictors.log_linear import LogLinear
from mixopt.predictors.predictor import Predictor

FILES = {
    "ratios": "adb28a62cb39da22fa0d9ce36a5631044b3f3ea13c57f23c1f08240ca5347c81",
    "metrics": "4c891a1eeb556e1e91abe60695011b51971aef6db40ce33796a73af612a70bdc",
}
BESIDE = ("", "run", "name", "index")
TARGETS = ("math", "code", "qa", "mean of the three", "mean of all tasks")
# Spearman of Olmix's own log-linear and of LightGBM, and what ours is to reach; R2 for the averages.
LOG_LINEAR = (0.977, 0.934, 0.832, float("nan"), float("nan"))
LIGHTGBM = (0.965, 0.952, 0.916, float("nan"), float("nan"))
REACH = (0.977, 0.955, 0.945, float("nan"), float("nan"))
REACH_R2 = 0.95
# Tokens of the run that the priors are about: passes are those of a mixture there.
TARGET_TOKENS = 6e12


class Scores(NamedTuple):
    """Of predictions on the folds that they had not seen, an entry a target; range is in spreads of what was seen."""

    rank: Array
    r2: Array
    coverage: Array
    beyond: float
    seconds: float


def read() -> tuple[dict[str, Array], tuple[str, ...]]:
    """Shares [127, 24] and losses [127, 5] in the order of TARGETS, and names of the topics."""
    ratios, metrics = ({row["run"]: row for row in _read(name)} for name in FILES)
    topics, tasks = ([name for name in next(iter(table.values())) if name not in BESIDE] for table in (ratios, metrics))
    shares = np.array([[float(row[name]) for name in topics] for row in ratios.values()])
    seen = np.array([[float(metrics[run][name]) for name in tasks] for run in ratios])
    family = np.array([_family(name) for name in tasks])
    means = [seen[:, family == name].mean(1) for name in ("math", "code", "qa")]
    losses = np.stack([*means, np.mean(means, axis=0), seen.mean(1)], 1)
    return {"mixture": shares / shares.sum(1, keepdims=True), "loss": losses}, tuple(topics)


def folds(n: int) -> Array:
    """The fold of each row in KFold(5, shuffle=True, random_state=0): blocks of a shuffled order."""
    order = np.arange(n)
    np.random.RandomState(0).shuffle(order)
    fold = np.empty(n, int)
    for f, block in enumerate(np.array_split(order, 5)):
        fold[block] = f
    return fold


def cross_validated(predict: Callable[[Columns, Columns], tuple[Array, Array, Array]], columns: Columns) -> Scores:
    """`predict(seen, unseen)` gives predictions and the ends of 90 % intervals, [n, k] each."""
    seen, fold, before = columns["loss"], folds(len(columns["loss"])), time.process_time()
    center, lower, upper = (np.full(seen.shape, np.nan) for _ in range(3))
    for f in range(5):
        at = fold == f
        parts = predict(*({name: values[mask] for name, values in columns.items()} for mask in (~at, at)))
        center[at], lower[at], upper[at] = parts
    seconds = time.process_time() - before
    spread = np.ptp(seen, axis=0)
    beyond = np.maximum(center - seen.max(0), seen.min(0) - center) / spread
    return Scores(
        rank=np.array([spearman(center[:, k], seen[:, k]) for k in range(seen.shape[1])]),
        r2=1 - ((center - seen) ** 2).sum(0) / ((seen - seen.mean(0)) ** 2).sum(0),
        coverage=((lower <= seen) & (seen <= upper)).mean(0),
        beyond=float(np.max(beyond)) if np.isfinite(center).all() else float("inf"),
        seconds=seconds,
    )


def by_predictor(predictor: Predictor, *, intervals: bool = True) -> Callable[[Columns, Columns], tuple[Array, ...]]:
    def predict(seen: Columns, unseen: Columns) -> tuple[Array, ...]:
        learned = predictor.learn(seen)
        center = learned.predict(unseen)
        ends = learned.interval(unseen, observation=True) if intervals else (center, center)
        return center, *ends

    return predict


def by_law(law: Law) -> Callable[[Columns, Columns], tuple[Array, ...]]:
    def predict(seen: Columns, unseen: Columns) -> tuple[Array, ...]:
        fits = fit_targets(law, seen, targets=TARGETS, norm=Huber(0.01), starts=3)
        center = np.stack([fitted.predict(unseen) for fitted in fits.values()], 1)
        return center, center, center

    return predict


def rows() -> Iterator[Row]:
    columns, topics = read()
    published = cross_validated(by_predictor(LogLinear(shapes=("share",)), intervals=False), columns)
    law = cross_validated(by_predictor(Exchange(), intervals=False), columns)
    stack = cross_validated(by_predictor(Stack()), columns)
    for k, target in enumerate(TARGETS):
        note = f"LightGBM {LIGHTGBM[k]}; token exchange alone {law.rank[k]:.4f}" if k < 3 else ""
        yield Row(
            "olmix", f"{target}, Spearman", "stack", float(stack.rank[k]), REACH[k], LOG_LINEAR[k],
            float(published.rank[k]), True, float(stack.coverage[k]), stack.seconds, note,
        )  # fmt: skip
    for k in (3, 4):
        yield Row(
            "olmix", f"{TARGETS[k]}, R2", "stack", float(stack.r2[k]), REACH_R2, reproduced=float(published.r2[k]),
            higher=True, coverage=float(stack.coverage[k]), note=f"token exchange alone {law.r2[k]:.4f}",
        )  # fmt: skip
    yield Row("olmix", "furthest prediction beyond the losses seen, in spreads", "stack", stack.beyond, 0.5)
    passed = {**columns, "epochs": columns["mixture"] * TARGET_TOKENS / np.array([tokens()[name] for name in topics])}
    harmed = cross_validated(by_law(saturation(topics)), passed)
    for k, target in enumerate(TARGETS):
        yield Row("olmix", f"{target}, Spearman", "saturation", float(harmed.rank[k]), seconds=harmed.seconds)


def tokens() -> dict[str, float]:
    """Tokens of each topic of DCLM, in billions, as in configs/dclm_per_family.yaml."""
    return {name: 1e9 * float(count) for name, count in (pair.split("=") for pair in _TOKENS.split())}


_TOKENS = """
    adult_content=67.8 art_and_design=70.7 crime_and_law=170.1 education_and_jobs=184.7
    electronics_and_hardware=80.2 entertainment=441.8 fashion_and_beauty=37.3 finance_and_business=310.3
    food_and_dining=105.9 games=230.0 health=393.5 history_and_geography=161.0 home_and_hobbies=126.9
    industrial=43.6 literature=364.8 politics=611.2 religion=277.8 science_math_and_technology=427.1
    social_life=218.7 software=108.0 software_development=223.4 sports_and_fitness=196.8 transportation=90.8
    travel_and_tourism=57.6
"""


def _family(task: str) -> str:
    if task.startswith("minerva_math"):
        return "math"
    return "code" if task.startswith(("codex_humaneval", "mbpp", "mt_mbpp")) else "qa"


def _read(name: str) -> list[dict[str, str]]:
    with reference(f"runs/olmix/dclm_{name}.csv", FILES[name]).open(newline="") as file:
        return list(csv.DictReader(file))
