"""Warmup, then half a cosine (Loshchilov & Hutter 2017, arXiv:1608.03983, one cycle)."""

from .schedule import Schedule, phases


def cosine(peak: float, tokens: float, *, warmup: float = 0.02, final: float = 0.1) -> Schedule:
    """Rises linearly to `peak`, then follows half a cosine down to `final`.

    `lr(s) = peak * (final + (1 - final) * (1 + cos(pi s)) / 2)` with s the share of the rest that is done. The length
    of the cosine is the length of training: stopped early, it has not decayed.

    Parameters
    ----------
    peak : largest value
    tokens : length of training [tokens]
    warmup : share of `tokens`
    final : last value, as a share of `peak`

    Raises
    ------
    ValueError
        A share is outside [0, 1].

    Examples
    --------
    >>> cosine(3e-4, 1e9, warmup=0.0)([0, 5e8, 1e9]).round(6).tolist()
    [0.0003, 0.000165, 3e-05]
    """
    return phases(peak, tokens, warmup=warmup, decay=1 - warmup, final=final, shape="cosine")
