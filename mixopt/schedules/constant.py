"""One value throughout, after an optional warmup."""

from .schedule import Schedule, phases


def constant(value: float, tokens: float, *, warmup: float = 0.0) -> Schedule:
    """Stays at `value` after a linear warmup.

    Parameters
    ----------
    value : the value
    tokens : length of training [tokens]
    warmup : share of `tokens`

    Raises
    ------
    ValueError
        The warmup is outside [0, 1].

    Examples
    --------
    >>> constant(2**20, 1e9)([0, 5e8, 1e9]).tolist()
    [1048576.0, 1048576.0, 1048576.0]
    """
    return phases(value, tokens, warmup=warmup, decay=0.0, final=1.0, shape="linear")
