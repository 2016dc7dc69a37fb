"""Mixtures to try: points on the simplex of shares, capped from below and above, that fill it evenly."""

import math

import numpy as np

from mixopt.columns import Array
from mixopt.errors import InfeasibleError


def cap(shares: Array, lower: Array, upper: Array) -> Array:
    r"""Mixtures within bounds that keep the proportions of `shares` wherever no bound is met.

    .. math:: h_i = \mathrm{clip}(\lambda s_i,\ l_i,\ u_i), \qquad \lambda : \textstyle\sum_i h_i = 1

    Water poured over the corpora in proportion to `shares`: full ones stop taking, the rest take more.

    Parameters
    ----------
    shares : [..., m], non-negative; zeros count as a millionth of the largest so that they can take what others cannot
    lower, upper : [m], bounds of each share

    Raises
    ------
    InfeasibleError
        The lower bounds exceed 1 together, or the upper ones do not reach it.

    Examples
    --------
    A corpus that may be at most half leaves the rest to the others, three to one:

    >>> cap(np.array([6.0, 3.0, 1.0]), np.zeros(3), np.array([0.5, 1.0, 1.0]))
    array([0.5  , 0.375, 0.125])
    """
    if upper.sum() < 1 - 1e-9 or lower.sum() > 1 + 1e-9:
        raise InfeasibleError(
            f"share bounds allow totals from {lower.sum():.4g} to {upper.sum():.4g}; shares must sum to 1. "
            "Raise the upper bounds (or max_epochs), or lower the lower ones."
        )
    shares = np.maximum(shares, 1e-6 * shares.max(-1, keepdims=True))
    low, high = np.full(shares.shape[:-1], -30.0), np.full(shares.shape[:-1], 60.0)
    scale = np.log(shares.sum(-1))
    for _ in range(100):  # bisection on log lambda; the sum grows with it
        middle = (low + high) / 2
        total = np.clip(shares * np.exp(middle - scale)[..., None], lower, upper).sum(-1)
        low, high = np.where(total < 1, middle, low), np.where(total < 1, high, middle)
    capped = np.clip(shares * np.exp(high - scale)[..., None], lower, upper)
    return _settle(capped, lower, upper)


def _settle(mixture: Array, lower: Array, upper: Array) -> Array:
    """Give the last bits of rounding to the corpora with room, so that rows sum to 1 exactly enough."""
    gap = 1 - np.sum(mixture, axis=-1, keepdims=True)
    room = np.where(gap > 0, upper - mixture, mixture - lower)
    return np.clip(mixture + gap * room / np.maximum(room.sum(-1, keepdims=True), 1e-300), lower, upper)


def fill(n: int, lower: Array, upper: Array, *, center: Array, seed: int = 0) -> Array:
    r"""`n` mixtures [n, m] that fill the capped simplex evenly, from a scrambled Sobol sequence.

    Every other point is drawn uniformly over the simplex; the ones between are drawn sparse (Dirichlet 0.3), so that
    mixtures of two or three corpora, where optima lie, are as well covered as balanced ones. Points outside the bounds
    are moved in by `cap`, leaning on `center` for what a sparse point leaves open.

    Examples
    --------
    >>> points = fill(64, np.zeros(4), np.array([0.4, 1, 1, 1]), center=np.full(4, 0.25))
    >>> bool((points[:, 0] <= 0.4).all() and np.allclose(points.sum(-1), 1))
    True
    """
    from scipy.stats import gamma, qmc

    m = len(lower)
    if n == 0 or m == 1:
        return np.ones((n, m))
    half = -(-n // 2)
    # Two sequences, because every other point of one is not a low-discrepancy sequence.
    draws = [qmc.Sobol(m, seed=rng).random(2 ** int(np.ceil(np.log2(half))))[:half] for rng in _two(seed)]
    raw = np.stack([gamma.ppf(np.clip(u, 1e-9, 1 - 1e-9), a) for u, a in zip(draws, (1.0, 0.3), strict=True)], axis=1)
    raw = raw.reshape(-1, m)[:n] + 1e-12
    raw = raw / raw.sum(-1, keepdims=True)
    return cap(0.98 * raw + 0.02 * center, lower, upper)


def _two(seed: int) -> list[np.random.Generator]:
    return np.random.default_rng(seed).spawn(2)


def vertices(lower: Array, upper: Array, *, center: Array) -> Array:
    """As much as is allowed of one corpus, the rest in the proportions of `center`: [m, m], a row a corpus."""
    rows: list[Array] = []
    for corpus in range(len(lower)):
        floor = lower.astype(float)
        floor[corpus] = min(upper[corpus], 1 - float(np.sum(lower)) + lower[corpus])
        rows.append(cap(center, floor, upper))
    return np.stack(rows)


def most_tokens(caps: Array, share_bounds: Array) -> float:
    r"""Most tokens that a mixture inside its share bounds can have before a corpus exceeds its cap.

    .. math:: \max D \;\text{s.t.}\; \sum_i D_i = D,\; D_i \le c_i,\; l_i D \le D_i \le u_i D

    Every set S of corpora gives the bound `D <= sum_S(c) + D sum_notS(u)`; the tightest ones are the prefixes of the
    corpora sorted by `c / u`, so the answer is exact without a linear program.

    Parameters
    ----------
    caps : [m], most tokens of each corpus; may be inf
    share_bounds : [m, 2]; the upper bounds must sum to 1 or more

    Examples
    --------
    Of 6e9 and 1e9 tokens, when no corpus may be more than 60 %:

    >>> most_tokens(np.array([6e9, 1e9]), np.array([[0.0, 0.6], [0.0, 0.6]]))
    2500000000.0
    """
    lower, upper = share_bounds.T
    used = upper > 0
    order = np.argsort(caps[used] / upper[used])
    caps_sorted, upper_sorted = caps[used][order], upper[used][order]
    rest = np.append(np.cumsum(upper_sorted[::-1])[-2::-1], 0.0)
    bounds = np.cumsum(caps_sorted)[rest < 1] / (1 - rest[rest < 1])
    floors = caps[lower > 0] / lower[lower > 0]
    return float(min(bounds.min(initial=math.inf), floors.min(initial=math.inf)))
