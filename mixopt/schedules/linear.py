"""Warmup, then a straight line down (Bergsma et al. 2025, arXiv:2502.15938, for why down to zero)."""

from .schedule import Schedule, phases


def linear(peak: float, tokens: float, *, warmup: float = 0.02, final: float = 0.0) -> Schedule:
    """Rises linearly to `peak`, then falls linearly to `final` over all that is left.

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
    >>> linear(3e-4, 1e9, warmup=0.0)([0, 5e8, 1e9]).round(6).tolist()
    [0.0003, 0.00015, 0.0]
    """
    return phases(peak, tokens, warmup=warmup, decay=1 - warmup, final=final, shape="linear")
