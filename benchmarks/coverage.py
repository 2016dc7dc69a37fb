"""Do 90 % intervals cover 90 %? Tables simulated from a law, fitted, and asked about runs that were not in them.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py [tables] [law ...]

Truths are drawn from the priors as they are, N(center, sd), or where there is none from the middle half of the box;
noise is .5 %. Runs of whole laws are laid out as a sweep lays them out, those of others at random. `predictions` is
the share of unseen runs, drawn at random, whose loss without noise lies in the interval, `tables` the 10th and 90th
percentile of that share over tables, `coefficients` the share of coefficients in theirs. `z` is the root mean square of
(estimate - truth) / sd in search coordinates, worst coefficient named: 1 where sds are right, above where they are too
small.
"""

import sys
import time
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber
from mixopt.fit.search import space_of
from mixopt.laws.chinchilla import chinchilla
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.ready import candidates
from mixopt.laws.repetition import Repetition
from mixopt.laws.token_exchange import TokenExchange
from mixopt.testing import draw_truth, simulated_columns

NOISE, RUNS, UNSEEN, TOGETHER, STARTS, REPLICATES = 0.005, 80, 60, 20, 4, 100
CORPORA = ("web", "code", "math")
LAWS: dict[str, Law] = {
    "power law and floor": Constant("E") + PowerLaw("tokens", 1e8, "B", "beta"),
    "Chinchilla": chinchilla(size_unit=1e7, tokens_unit=1e8),
    "repetition": Repetition() >> (Constant("E") + PowerLaw("tokens", 1e8, "B", "beta")),
    "mixing law": Constant("E") + MixingLaw(CORPORA, 1e8),
    "token exchange": Constant("E") + TokenExchange(CORPORA, 1e8),
} | {
    f"whole, {name.replace('_', ' ')}": law
    for name, law in candidates(CORPORA, tokens_unit=1e8, size_unit=1e7, batch_unit=1e5).items()
}


def truth_of(law: Law, rng: np.random.Generator) -> Array:
    """Coefficients from the priors as the law states them, and from the middle half of the box, `[p]`."""
    space = space_of(law.coefficients)
    u = space.to_search(draw_truth(law, rng))
    for i, coefficient in enumerate(law.coefficients):
        if coefficient.prior is not None:
            u[i] = rng.normal(*coefficient.prior)
    return space.to_theta(np.clip(u, space.box.lower, space.box.upper))


def swept(columns: dict[str, Array], rng: np.random.Generator) -> dict[str, Array]:
    """Runs as a sweep lays them out: three sizes with three lengths of one mixture, all mixtures at the middle of both.

    Of the ladder there are 18 runs, two each; half of the other runs have the middle batch and learning rate too.
    """
    at = dict(columns)
    ladder, rows = np.arange(18), len(at["tokens"])
    middle = {"model_size": 1e7, "tokens": 1e8, "batch_tokens": 1e5, "peak_lr": 3e-3}
    usual = rng.random(rows) < 0.5
    for name, value in middle.items():
        if name in at:
            kept = np.ones(rows, bool) if name in ("model_size", "tokens") else usual
            at[name] = np.where(kept, value, at[name])
    steps = np.array([0.25, 1.0, 4.0])
    at["model_size"][ladder] *= np.repeat(steps, 6)
    at["tokens"][ladder] *= np.tile(np.repeat(steps, 2), 3)
    at["mixture"] = np.where(np.arange(rows)[:, None] < 18, 1 / len(CORPORA), at["mixture"])
    at["unique_tokens"] = columns["unique_tokens"] / columns["tokens"][:, None] * at["tokens"][:, None]
    if "steps" in at:
        at["steps"] = at["tokens"] / at["batch_tokens"]
    return at


class Covered(NamedTuple):
    """Coverage of the unseen runs of each table `[t]`, of each coefficient `[t, p]`, and `z` `[t, p]`."""

    predictions: Array
    coefficients: Array
    z: Array

    def line(self, name: str, law: Law, seconds: float) -> str:
        """A row of the table."""
        low, high = np.quantile(self.predictions, [0.1, 0.9])
        z = np.sqrt((self.z**2).mean(0))
        worst = f"{z.max():.2f} {law.names[int(z.argmax())]}"
        shares = f"{self.predictions.mean():9.1%}   {low:4.0%} to {high:4.0%} {self.coefficients.mean():10.1%}"
        return f"{name:32} {shares} {np.median(z):8.2f} {worst:>14} {seconds:7.1f}"


def covered(law: Law, tables: int, seed: int = 0) -> Covered:
    """Tables of one design are fitted together; every `TOGETHER` tables there is another design."""
    rng, parts = np.random.default_rng(seed), list[tuple[Array, ...]]()
    for start in range(0, tables, TOGETHER):
        count = min(TOGETHER, tables - start)
        runs, unseen = (simulated_columns(law.inputs, rows, len(CORPORA), rng) for rows in (RUNS, UNSEEN))
        if {"model_size", "mixture", "unique_tokens"} <= set(law.inputs):
            runs = swept(runs, rng)
        truth = np.stack([truth_of(law, rng) for _ in range(count)])
        noise = NOISE * rng.standard_normal((count, RUNS))
        names = tuple(map(str, range(count)))
        table = {**runs, law.output: (law(truth, runs) * np.exp(noise)).T}
        norm = Huber(NOISE)
        fits = fit_targets(law, table, targets=names, norm=norm, starts=STARTS, replicates=REPLICATES, seed=start)
        exact, space = law(truth, unseen), space_of(law.coefficients)
        for one, fitted in enumerate(fits.values()):
            low, high = fitted.interval(unseen)
            ends, u = fitted.coefficient_intervals(), space.to_search(truth[one])
            sd = space.to_search(fitted.replicates).std(0).clip(1e-2)  # all replicates may end at one end of a box
            parts.append(
                (
                    np.mean((low <= exact[one]) & (exact[one] <= high)),
                    (ends[0] <= truth[one]) & (truth[one] <= ends[1]),
                    (space.to_search(fitted.theta) - u) / sd,
                )
            )
    return Covered(*(np.array(column) for column in zip(*parts, strict=True)))


def main() -> None:
    tables = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{'':32} predictions   by table  coefficients  z, median and worst         CPU s")
    for name, law in LAWS.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        before = time.process_time()
        found = covered(law, tables)
        print(found.line(name, law, time.process_time() - before), flush=True)


if __name__ == "__main__":
    main()
