"""Bootstrap over runs: which runs count how often in each replicate, and the fits that follow."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.norms import Norm
from mixopt.fit.search import solve, space_of
from mixopt.laws.law import Coefficient, Law


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


def redraw(coefficients: Sequence[Coefficient], replicates: int, seed: int) -> Array:
    """Where the prior of each coefficient is centered in each replicate, `[s, p]` in search coordinates.

    A prior is an observation, so it is drawn anew as runs are: from N(center, sd) ("randomize then optimize"). A
    coefficient that no run determines is then as unsure as its prior, where a fixed center would make it look
    certain. The draws depend on the name and the seed alone, so targets that share a coefficient, or a law, err
    together in it.

    Examples
    --------
    >>> kappa, floor = Coefficient("kappa", 0.0, 1.0, prior=(0.47, 0.1)), Coefficient("E", 0.0, 9.0)
    >>> redraw([kappa, floor], 4000, seed=0).std(0).round(2)
    array([0.1, 0. ])

    References
    ----------
    Bardsley, Solonen, Haario and Laine, 2014, *Randomize-then-optimize*, SIAM J. Sci. Comput. 36(4).
    """
    centers = np.zeros((replicates, len(coefficients)))
    for i, coefficient in enumerate(coefficients):
        if coefficient.prior is not None:
            rng = np.random.default_rng([seed, crc32(coefficient.name.encode())])
            centers[:, i] = rng.normal(*coefficient.prior, size=replicates)
    return centers


def bootstrap(law: Law, columns: Columns, theta: Array, norm: Norm, counts: Array, centers: Array) -> Array:
    """Coefficients refitted from the full fit to each replicate's counts and centers of priors, `[s, p]`."""
    space = space_of(law.coefficients)
    starts = np.tile(space.to_search(theta), (len(counts), 1))
    return space.to_theta(solve(law, columns, starts, norm, counts, centers).u)


def widening(runs: int, rank: int) -> float:
    r"""Factor by which replicates of a fit with `rank` determined coefficients lie too close: sqrt(runs/(runs - rank)).

    Fitted residuals are smaller than the noise by :math:`(1 - p / n)^{1/2}`, and replicates drawn from them as much
    too close. Predictions are spread by the inverse; coefficients are not, because on a curved valley of the objective
    that would leave it.

    >>> round(widening(64, 22), 3)
    1.234
    """
    return float(np.sqrt(runs / max(runs - rank, 1)))
