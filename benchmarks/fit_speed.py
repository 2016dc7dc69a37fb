"""How fast a law is fitted, beside what would be used instead: scipy, from the same starts, on the same runs.

    OMP_NUM_THREADS=1 python benchmarks/fit_speed.py

CPU seconds. `reached` is the share of starts that end within .1 % of the lowest objective that any method found; all
minimize the same Huber objective in the same coordinates. scipy gets a few starts, and its time is scaled to 64.
Boosted trees (scikit-learn) have no start; their time is that of one model on the same runs.

Then it prints how time and memory grow with runs, corpora and targets, with 100 replicates for uncertainty where runs
x corpora are under 100,000. Wall seconds there are on all cores, memory is the peak so far. The whole takes about two
minutes of CPU.
"""

import resource
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import curve_fit, least_squares, minimize

from mixopt.columns import Array, Columns
from mixopt.fit.fit import fit
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber
from mixopt.fit.search import LogResidual, solve, space_of
from mixopt.laws.chinchilla import BESIROGLU, chinchilla, from_paper
from mixopt.laws.constant import Constant
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import CorpusRepetition
from mixopt.laws.token_exchange import TokenExchange

NOISE, RUNS, STARTS = 0.004, 240, 64
Found = tuple[float, Array]  # CPU seconds per start, objectives


def columns(rng: np.random.Generator, corpora: int) -> dict[str, Array]:
    """Runs as a sweep would hold them."""
    size = np.exp(rng.uniform(np.log(5e7), np.log(1e10), RUNS))
    tokens = size * np.exp(rng.uniform(np.log(3), np.log(100), RUNS))
    mixture = rng.dirichlet(np.ones(corpora), RUNS)
    return {
        "model_size": size,
        "tokens": tokens,
        "mixture": mixture,
        "unique_tokens": tokens[:, None] * np.exp(rng.uniform(np.log(0.1), np.log(3), (RUNS, corpora))),
        "batch_tokens": np.exp(rng.uniform(np.log(1e5), np.log(4e6), RUNS)),
        "peak_lr": np.exp(rng.uniform(np.log(3e-4), np.log(1e-2), RUNS)),
    }


def observed(law: Law, theta: Array, runs: Columns, rng: np.random.Generator) -> dict[str, Array]:
    """The law's own loss with noise, and one run in 25 an outlier."""
    noise = NOISE * rng.standard_normal(RUNS) * np.where(rng.random(RUNS) < 0.04, 10, 1)
    return {**runs, "loss": law(theta, runs) * np.exp(noise)}


def ours(law: Law, runs: Columns, starts: Array) -> Found:
    before = time.process_time()
    found = solve(law, runs, starts, Huber())
    return (time.process_time() - before) / len(starts), found.objective


def scipys(law: Law, runs: Columns, starts: Array, method: str, derivative: str) -> Found:
    """scipy from each start; derivatives by finite differences ("2-point") or by our complex step ("ours")."""
    residual, box, norm = LogResidual(law, runs, Huber().scale), space_of(law.coefficients).box, Huber()

    def objective(u: Array) -> float:
        return float(norm.rho(residual.value(u[None])[0]).sum() + box.penalty(u[None])[0])

    def gradient(u: Array) -> Array:
        z, slopes = residual.slopes(u[None])
        return (norm.weight(z[0]) * z[0]) @ slopes[0] + box.precision * (u - box.center)

    def one(u: Array) -> float:
        if method == "curve_fit":
            inside = np.clip(u, box.lower + 1e-9, box.upper - 1e-9)
            try:
                found = curve_fit(
                    lambda _, *at: residual.value(np.array(at)[None])[0] + residual.target,
                    np.arange(float(RUNS)), residual.target, inside, bounds=(box.lower, box.upper), loss="huber",
                )  # fmt: skip
            except RuntimeError:  # too many evaluations
                return float("inf")
            return objective(found[0])
        bounds = np.stack([box.lower, box.upper])
        if method == "L-BFGS-B":
            jac = gradient if derivative == "ours" else None
            return float(minimize(objective, u, jac=jac, method=method, bounds=bounds.T).fun)
        slopes: Callable[[Array], Array] | str = derivative
        if derivative == "ours":
            slopes = lambda u: residual.slopes(u[None])[1][0]  # noqa: E731
        inside = np.clip(u, box.lower + 1e-9, box.upper - 1e-9)
        solved = least_squares(lambda u: residual.value(u[None])[0], inside, slopes, bounds=bounds, loss="huber")
        return objective(solved.x)

    before = time.process_time()
    ends = np.array([one(u) for u in starts])
    return (time.process_time() - before) / len(starts), ends


def report(name: str, law: Law, runs: Columns, few: int, rng: np.random.Generator) -> None:
    """Ours on 64 starts, scipy on the first few of them."""
    starts = space_of(law.coefficients).starts(STARTS - 1, rng)
    methods = {"mixopt": ours(law, runs, starts)}
    # Priors are a term of the objective that least_squares cannot take; laws with priors are left to L-BFGS-B.
    solvers = (
        ("L-BFGS-B",) if space_of(law.coefficients).box.precision.any() else ("L-BFGS-B", "least_squares", "curve_fit")
    )
    for method in solvers:
        for derivative in ("2-point",) if method == "curve_fit" else ("2-point", "ours"):
            label = f"scipy {method}, {'finite differences' if derivative == '2-point' else 'complex step'}"
            methods[label] = scipys(law, runs, starts[:few], method, derivative)
    best = min(float(np.nanmin(ends)) for _, ends in methods.values())
    print(f"\n{name}: {len(law.coefficients)} coefficients, {RUNS} runs\n{'':44} s / 64 starts    ratio  reached")
    for label, (seconds, ends) in methods.items():
        reached = float((ends <= best * 1.001).mean())
        ratio = seconds / methods["mixopt"][0]
        print(f"{label:44} {seconds * STARTS:13.2f} {ratio:8.1f} {reached:8.0%}")
    label, seconds = "scikit-learn gradient boosting, one model", boosting(law, runs)
    print(f"{label:44} {seconds:13.2f} {seconds / methods['mixopt'][0] / STARTS:8.1f}")


def boosting(law: Law, runs: Columns) -> float:
    """CPU seconds of scikit-learn's gradient boosting on what the law reads."""
    from sklearn.ensemble import GradientBoostingRegressor

    features = np.concatenate([np.asarray(runs[name]).reshape(RUNS, -1) for name in law.inputs], 1)
    before = time.process_time()
    GradientBoostingRegressor(n_estimators=300, max_depth=3).fit(features, np.log(runs["loss"]))
    return time.process_time() - before


def growth() -> None:
    """Token exchange fitted to 100 to 100,000 runs, 4 to 256 corpora, 1 to 110 targets, two starts each."""
    print(f"\n{'runs':>8} {'corpora':>8} {'targets':>8} {'replicates':>10} {'wall s':>8} {'CPU s':>8} {'peak MB':>8}")
    tables = [(100, 4, 1), (1_000, 4, 1), (10_000, 4, 1), (100_000, 4, 1), (300, 16, 1), (600, 64, 1), (1_000, 256, 1),
              (512, 16, 8), (512, 16, 110),
              (512, 64, 110)]  # fmt: skip
    for runs, corpora, targets in tables:
        replicates = 100 if runs * corpora < 100_000 else 0
        wall, cpu = exchange(runs, corpora, targets, replicates)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{runs:8} {corpora:8} {targets:8} {replicates:10} {wall:8.1f} {cpu:8.1f} {peak:8.0f}", flush=True)


def exchange(runs: int, corpora: int, targets: int, replicates: int) -> tuple[float, float]:
    """Wall and CPU seconds to fit all targets of one table; rates differ by a factor of 1.6 between corpora."""
    rng = np.random.default_rng(0)
    law = Constant("E", lower=0.05) + TokenExchange(tuple(f"c{i}" for i in range(corpora)), 1.0)
    rates = np.exp(0.5 * rng.standard_normal((targets, corpora)))
    rest = np.tile([0.6, 0.05, 0.4, 0.6], (targets, 1))
    theta = np.concatenate([np.full((targets, 1), 2.0), rates, rest], 1)
    table = {"corpus_tokens": rng.dirichlet(np.full(corpora, 0.5), runs)}
    loss = np.stack([law(one, table) for one in theta], 1) * np.exp(0.003 * rng.standard_normal((runs, targets)))
    names = tuple(f"t{i}" for i in range(targets))
    wall, cpu = time.perf_counter(), time.process_time()
    fit_targets(law, table | {"loss": loss}, targets=names, norm=Huber(0.003), starts=1, replicates=replicates)
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    rng = np.random.default_rng(0)
    law, corpora = chinchilla(), ("web", "code", "books", "math", "talk")
    published = from_paper(BESIROGLU)
    runs = observed(law, np.array([published[name] for name in law.names]), columns(rng, 5), rng)
    with np.errstate(all="ignore"):
        report("Chinchilla", law, runs, 8, rng)
        before = time.process_time()
        fit(law, runs, starts=1, replicates=1000)
        print(f"{'mixopt, 1000 bootstrap replicates':44} {time.process_time() - before:13.2f}")
        before_mixture = CorpusRepetition() >> CriticalBatch("corpus_tokens", 1e9)
        size = Constant("E") + PowerLaw("model_size", 1e9, "A", "alpha")
        for name, mixture in {
            "Repetition >> batch >> (size + mixing law + learning rate)": MixingLaw(corpora, 1e9),
            "Repetition >> batch >> (size + token exchange + learning rate)": TokenExchange(corpora, 1e9),
        }.items():
            whole = before_mixture >> (size + mixture + LearningRatePenalty())
            theta = space_of(whole.coefficients)
            middle = theta.to_theta(theta.starts(0, rng)[0])
            report(name, whole, observed(whole, middle, columns(rng, 5), rng), 1, rng)
    growth()


if __name__ == "__main__":
    main()
