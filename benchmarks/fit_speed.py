"""How fast a law is fitted, beside what would be used instead: scipy, from the same starts, on the same runs.

    OMP_NUM_THREADS=1 python benchmarks/fit_speed.py

CPU seconds. `reached` is the share of starts that end within .1 % of the lowest objective that any method found; all
minimize the same Huber objective in the same coordinates. scipy gets a few starts, and its time is scaled to 64.
"""

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares, minimize

from mixopt.columns import Array, Columns
from mixopt.fit.fit import fit
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
    solvers = ("L-BFGS-B",) if space_of(law.coefficients).box.precision.any() else ("L-BFGS-B", "least_squares")
    for method in solvers:
        for derivative in ("2-point", "ours"):
            label = f"scipy {method}, {'finite differences' if derivative == '2-point' else 'complex step'}"
            methods[label] = scipys(law, runs, starts[:few], method, derivative)
    best = min(float(np.nanmin(ends)) for _, ends in methods.values())
    print(f"\n{name}: {len(law.coefficients)} coefficients, {RUNS} runs\n{'':44} s / 64 starts    ratio  reached")
    for label, (seconds, ends) in methods.items():
        reached = float((ends <= best * 1.001).mean())
        ratio = seconds / methods["mixopt"][0]
        print(f"{label:44} {seconds * STARTS:13.2f} {ratio:8.1f} {reached:8.0%}")


def main() -> None:
    rng = np.random.default_rng(0)
    law, corpora = chinchilla(), ("web", "code", "books", "math", "talk")
    published = from_paper(BESIROGLU)
    runs = observed(law, np.array([published[name] for name in law.names]), columns(rng, 5), rng)
    with np.errstate(all="ignore"):
        report("Chinchilla", law, runs, 16, rng)
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
            report(name, whole, observed(whole, middle, columns(rng, 5), rng), 4, rng)


if __name__ == "__main__":
    main()
