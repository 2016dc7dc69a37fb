r"""How many tokens of each corpus a run saw."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Law


@dataclass(frozen=True)
class Exposure(Law):
    r"""Tokens of each corpus in a run that repeats none.

    .. math:: D_i = D \, h_i

    The first link of a chain whose later laws read tokens by corpus, where nothing is known of how often corpora
    repeat. Where runs do repeat them, `CorpusRepetition` takes its place.

    Parameters
    ----------
    tokens : of every run, where the table does not tell; None reads them from the column

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`; a share may be 0
    tokens : [n], tokens of the run, :math:`D`; only without a number in `tokens`

    Output
    ------
    corpus_tokens : [n, m]

    Coefficients
    ------------
    None.

    Examples
    --------
    A fifth of 1B tokens:

    >>> run = {"tokens": np.array([1e9]), "mixture": np.array([[0.8, 0.2]])}
    >>> Exposure()(np.empty(0), run)
    array([[8.e+08, 2.e+08]])
    """

    tokens: float | None = None

    output = "corpus_tokens"
    coefficients = ()
    reference = "the definition of a share"

    def __post_init__(self) -> None:
        if self.tokens is None:
            self._declare(inputs=("tokens", "mixture"), increasing=("tokens", "mixture"))
        else:
            self._declare(inputs=("mixture",), increasing=("mixture",))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        tokens = columns["tokens"][..., None] if self.tokens is None else self.tokens
        seen = tokens * columns["mixture"]
        return seen + np.zeros((*theta.shape[:-1], 1, 1))  # leading axes of theta, as every law has them


def examples() -> tuple[Law, ...]:
    return (Exposure(), Exposure(1e8))
