"""Warmup, stable, decay (Hu et al. 2024, MiniCPM, arXiv:2404.06395)."""

from .schedule import Schedule, phases


def wsd(
    peak: float,
    tokens: float,
    *,
    warmup: float = 0.02,
    decay: float = 0.2,
    final: float = 0.0,
    shape: str = "linear",
) -> Schedule:
    """Rises linearly to `peak`, stays there, and decays at the end.

    A run can be prolonged from before its decay, so one long run serves many token budgets.

    Parameters
    ----------
    peak : largest value
    tokens : length of training [tokens]
    warmup, decay : shares of `tokens`; together at most 1
    final : last value, as a share of `peak`
    shape : of the decay: linear, cosine, or sqrt (the "1-sqrt" of Hägele et al. 2024, which not every stack can say)

    Raises
    ------
    ValueError
        A share is outside [0, 1], or warmup and decay leave less than nothing between them.

    Examples
    --------
    >>> wsd(3e-4, 1e9)([0, 1e7, 5e8, 9e8, 1e9]).round(6).tolist()
    [0.0, 0.00015, 0.0003, 0.00015, 0.0]
    """
    return phases(peak, tokens, warmup=warmup, decay=decay, final=final, shape=shape)
