"""Many targets of many corpora from few runs: the stack, beside what would be used instead.

    OMP_NUM_THREADS=1 python benchmarks/wide_fit.py [runs corpora targets]

By default 512 runs of 64 corpora and 110 targets, simulated: sparse mixtures, losses by a law of token exchange with
interactions and noise. CPU seconds, each for all targets; others are run for a few targets and scaled up. `Spearman`
and `R2` are of 500 new mixtures without noise, `cover` of noisy ones by 90 % intervals.
"""

import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(Path(__file__).parents[1]))

from mixopt.columns import Array, Columns
from mixopt.fit.ranks import spearman
from mixopt.fit.stack import Stack
from mixopt.predictors.ridge import Ridge

FEW, NEW, NOISE = 3, 500, 0.03
RESTARTS, TRIED = 300, 2  # Olmix restarts 300 times
Predict = Callable[[Array, Array, Array], Array]


def mixtures(rows: int, corpora: int, rng: np.random.Generator) -> Array:
    """One to eight corpora a run, a few of them with most of the tokens."""
    shares = np.zeros((rows, corpora))
    for row in shares:
        used = rng.choice(corpora, rng.integers(1, 9), replace=False)
        row[used] = rng.dirichlet(np.full(len(used), 0.8))
    return shares


def losses(shares: Array, targets: int, rng: np.random.Generator) -> Array:
    """Token exchange, with pairs of corpora that help or hinder one another."""
    m = shares.shape[1]
    made: list[Array] = []
    for _ in range(targets):
        worth = np.exp(rng.normal(0, 1.5, m))
        pairs = np.where(rng.random((m, m)) < 0.05, rng.normal(0, 0.3, (m, m)), 0)
        root = np.sqrt(shares)
        value = (0.05 + (worth * shares) ** rng.uniform(0.3, 0.8) @ np.ones(m)) ** -rng.uniform(0.3, 0.8)
        made.append(1 + value * np.exp(np.einsum("ni,ij,nj->n", root, pairs, root)))
    return np.stack(made, 1)


def grid_search(x: Array, y: Array, new: Array) -> Array:
    model = GridSearchCV(
        make_pipeline(StandardScaler(), SklearnRidge()), {"ridge__alpha": 10.0 ** np.arange(-3, 5)}, cv=5
    )
    return model.fit(x, y).predict(new)


def boosted(x: Array, y: Array, new: Array) -> Array:
    return HistGradientBoostingRegressor(early_stopping=False, max_iter=300, learning_rate=0.05).fit(x, y).predict(new)


def log_linear(x: Array, y: Array, new: Array) -> Array:
    """c + exp(t.h), Huber .02, L-BFGS with derivatives, the best of some restarts."""
    rng, best = np.random.default_rng(0), None

    def objective(theta: Array) -> tuple[float, Array]:
        grown = np.exp(np.clip(x @ theta[1:], -30, 10))
        missed = np.exp(theta[0]) + grown - y
        inside = np.clip(missed, -0.02, 0.02)
        value = np.where(np.abs(missed) <= 0.02, missed**2 / 2, 0.02 * (np.abs(missed) - 0.01)).sum()
        return float(value), np.append((inside * np.exp(theta[0])).sum(), (inside * grown) @ x)

    for _ in range(TRIED):
        start = np.append(rng.uniform(-2, 1), rng.normal(0, 1, x.shape[1]))
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
        best = found if best is None or found.fun < best.fun else best
    assert best is not None
    return np.exp(best.x[0]) + np.exp(np.clip(new @ best.x[1:], -30, 10))


def theirs(predict: Predict, x: Array, new: Array, runs: Columns, scale: float = 1) -> tuple[Array, float]:
    before, k = time.process_time(), runs["loss"].shape[1]
    said = np.stack([predict(x, runs["loss"][:, t], new) for t in range(FEW)], 1)
    return said, (time.process_time() - before) * k / FEW * scale


def line(name: str, said: Array, seconds: float, ours: float, truth: Array, cover: float) -> None:
    k = said.shape[1]
    rank = np.mean([spearman(said[:, t], truth[:, t]) for t in range(k)])
    r2 = np.mean(1 - ((said - truth[:, :k]) ** 2).sum(0) / ((truth - truth.mean(0)) ** 2).sum(0)[:k])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    covered = "" if np.isnan(cover) else f"{cover:.0%}"
    print(f"{name:44}{seconds:10.1f}{seconds / ours:9.2f}{rank:10.4f}{r2:9.3f}{covered:>7}{memory:9.0f}", flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    n, m, k = (int(word) for word in sys.argv[1:4]) if len(sys.argv) > 1 else (512, 64, 110)
    rng = np.random.default_rng(0)
    shares = mixtures(n + NEW, m, rng)
    exact = losses(shares, k, rng)
    seen = exact + NOISE * exact.std(0) * rng.standard_normal(exact.shape)
    runs, new, truth = {"mixture": shares[:n], "loss": seen[:n]}, shares[n:], exact[n:]
    print(f"{n} runs, {m} corpora, {k} targets\n{'':44}{'CPU s':>10}{'ratio':>9}{'Spearman':>10}{'R2':>9}", end="")
    print(f"{'cover':>7}{'MB':>9}")
    ours = 0.0
    for name, predictor in {"mixopt stack, with intervals": Stack(), "mixopt ridge, with intervals": Ridge()}.items():
        before = time.process_time()
        learned = predictor.learn(runs)
        lower, upper = learned.interval({"mixture": new}, observation=True)
        said, seconds = learned.predict({"mixture": new}), time.process_time() - before
        ours = ours or seconds
        line(name, said, seconds, ours, truth, float(((lower <= seen[n:]) & (seen[n:] <= upper)).mean()))
    wide = np.hstack([shares, np.sqrt(shares), np.log(shares + 1e-3)])
    others = {
        "scikit-learn GridSearchCV of ridge": (grid_search, wide, 1.0),
        "scikit-learn HistGradientBoosting": (boosted, shares, 1.0),
        f"log-linear, L-BFGS, {RESTARTS} restarts": (log_linear, shares, RESTARTS / TRIED),
    }
    for name, (predict, x, scale) in others.items():
        said, seconds = theirs(predict, x[:n], x[n:], runs, scale)
        line(name, said, seconds, ours, truth, float("nan"))


if __name__ == "__main__":
    main()
