"""Bootstrap over runs: which runs count how often in each replicate, and where priors are centered."""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from mixopt.columns import Array
from mixopt.fit.levenberg_marquardt import Box
from mixopt.fit.norms import Norm
from mixopt.laws.law import Coefficient

# A step is cut off where it moves a coefficient by this, a factor of e: slopes are others there.
_FARTHEST = 1.0


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


def step_from(u: Array, z: Array, slopes: Array, box: Box, norm: Norm, counts: Array, centers: Array) -> Array:
    r"""One Newton step from an optimum to each replicate's, all of them with the same slopes: `[s, p]`.

    .. math:: u_r = u - \left(\kappa\, J^T C_r J + P\right)^{-1} \left(J^T C_r \psi(z) + P (u - c_r)\right)

    with :math:`C_r` the counts and :math:`\kappa` the mean curvature of the norm, as in the variance of an M-estimator
    (Huber 1981): the curvature of single runs jumps where residuals cross a threshold, its mean does not. All
    :math:`J^T C_r J` are one product of matrices, so that a replicate costs little more than its own p equations.

    Parameters
    ----------
    u, z, slopes : the optimum `[p]`, its scaled residuals `[n]` and their slopes `[n, p]`
    counts, centers : of each replicate, `[s, n]` and `[s, p]`
    """
    p, upper = len(u), np.triu_indices(len(u))
    curvature = np.empty((len(counts), p, p))
    curvature[:, *upper] = counts @ (norm.curvature(z).mean().clip(0.05) * slopes[:, upper[0]] * slopes[:, upper[1]])
    curvature[:, *upper[::-1]] = curvature[:, *upper]
    pull = norm.weight(z) * z
    slope = (counts * pull) @ slopes + box.precision * (u - centers)
    outward = pull @ slopes + box.precision * (u - box.center)
    free = ~(((u <= box.lower) & (outward > 0)) | ((u >= box.upper) & (outward < 0)))
    curvature *= free[:, None] & free
    # A direction that neither runs nor priors determine is not moved along.
    least = 1e-12 * np.diagonal(curvature, axis1=1, axis2=2).max(1, initial=1e-12)
    curvature[:, range(p), range(p)] += box.precision * free + ~free + least[:, None]
    move = -np.linalg.solve(curvature, (slope * free)[..., None])[..., 0]
    move *= np.minimum(1.0, _FARTHEST / np.abs(move).max(1, keepdims=True, initial=_FARTHEST))
    return np.clip(u + move, box.lower, box.upper)


def widening(runs: int, freedom: float) -> float:
    r"""Factor by which replicates lie too close where runs determine `freedom` numbers: sqrt(runs/(runs - freedom)).

    Fitted residuals are smaller than the noise by :math:`(1 - \nu / n)^{1/2}`, and replicates drawn from them as much
    too close. Numbers that priors determine do not count: they follow no residual.

    >>> round(widening(64, 22), 3)
    1.234
    """
    return float(np.sqrt(runs / max(runs - freedom, 1)))
