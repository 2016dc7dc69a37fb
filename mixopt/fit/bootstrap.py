"""Bootstrap over runs: which runs count how often in each replicate, and the fits that follow."""

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.norms import Norm
from mixopt.fit.search import solve, space_of
from mixopt.laws.law import Law


def resample(run: Array, replicates: int, seed: int) -> Array:
    """How often each row counts in each replicate, `[s, n]`.

    Runs are drawn, not rows: checkpoints of one run share its luck and are kept or left together. The counts depend
    on the order of the run ids and the seed alone, so replicate i of one target and of another saw the same runs, and
    a weighted sum of their predictions keeps its correlation.

    Examples
    --------
    Two checkpoints of run a and one of run b, which come and go together:

    >>> resample(np.array(["a", "a", "b"]), 3, seed=0).tolist()
    [[1, 1, 1], [1, 1, 1], [0, 0, 2]]
    """
    _, first, inverse = np.unique(run, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))  # unique sorts; runs are numbered by first appearance instead
    draws = np.random.default_rng(seed).multinomial(len(first), np.full(len(first), 1 / len(first)), size=replicates)
    return draws[:, place[inverse]]


def bootstrap(law: Law, columns: Columns, theta: Array, norm: Norm, counts: Array) -> Array:
    """Coefficients refitted to each replicate's counts from the full fit, `[s, p]`; priors count once in each."""
    space = space_of(law.coefficients)
    starts = np.tile(space.to_search(theta), (len(counts), 1))
    return space.to_theta(solve(law, columns, starts, norm, counts).u)


def widening(runs: int, rank: int) -> float:
    r"""Factor by which replicates of a fit with `rank` determined coefficients lie too close: sqrt(runs/(runs - rank)).

    Fitted residuals are smaller than the noise by :math:`(1 - p / n)^{1/2}`, and replicates drawn from them as much
    too close. Predictions are spread by the inverse; coefficients are not, because on a curved valley of the objective
    that would leave it.

    >>> round(widening(64, 22), 3)
    1.234
    """
    return float(np.sqrt(runs / max(runs - rank, 1)))
