r"""What repeated tokens are worth."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law

PUBLISHED_R = 15.387756


@dataclass(frozen=True)
class CorpusRepetition(Law):
    r"""Effective tokens of each corpus, when corpora are seen more than once.

    .. math:: D_i' = U_i \left(1 + R\,(1 - e^{-r_i / R})\right), \qquad r_i = D h_i / U_i - 1 \ge 0

    The first pass over a corpus counts in full; later passes are worth exponentially less, with :math:`R` the number
    of repeats at which 63 % of all they can give has been given. A corpus not yet finished counts as it is.

    Parameters
    ----------
    prior : (center, sd) of log R, or None. Runs that repeat little say little about R; (log 15.39, .7) keeps it near
        the published value until they do.

    Inputs
    ------
    tokens : [n], tokens seen in all, :math:`D`
    mixture : [n, m], share of each corpus, :math:`h`; a share may be 0
    unique_tokens : [n, m], tokens of each corpus before repeating, :math:`U`

    Output
    ------
    corpus_tokens : [n, m], effective tokens of each corpus

    Coefficients
    ------------
    R : repeats, in [1, 100], searched in log. Published: 15.39 (C4).

    References
    ----------
    Muennighoff et al., *Scaling Data-Constrained Language Models*, 2023, arXiv:2305.16264, equation 5.

    Examples
    --------
    Four passes over a corpus of 1B tokens are worth 3.73B fresh ones; half a pass over another is worth itself:

    >>> run = {"tokens": np.array([5e9]), "mixture": np.array([[0.8, 0.2]]), "unique_tokens": np.array([[1e9, 2e9]])}
    >>> CorpusRepetition()(np.array([PUBLISHED_R]), run).round(-7)
    array([[3.73e+09, 1.00e+09]])
    """

    prior: tuple[float, float] | None = None

    inputs = ("tokens", "mixture", "unique_tokens")
    output = "corpus_tokens"
    increasing = ("tokens", "unique_tokens")
    published = {"R": PUBLISHED_R}  # noqa: RUF012
    reference = "Muennighoff et al. 2023, arXiv:2305.16264"

    def __post_init__(self) -> None:
        self._declare(coefficients=(Coefficient("R", 1.0, 100.0, log=True, prior=self.prior),))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        R = theta[..., None]
        seen, unique = columns["tokens"][..., None] * columns["mixture"], columns["unique_tokens"]
        again = np.real(seen) > np.real(unique)
        # Where nothing repeats, the exponent is held at 0: the branch not taken must stay finite as well.
        repeats = np.where(again, seen / unique - 1, 0)
        return np.where(again, unique * (1 - R * np.expm1(-repeats / R)), seen)


@dataclass(frozen=True)
class Repetition(Law):
    r"""Effective tokens in all, when corpora are seen more than once.

    .. math:: D' = \sum_i U_i \left(1 + R\,(1 - e^{-r_i / R})\right), \qquad r_i = D h_i / U_i - 1 \ge 0

    The sum of `CorpusRepetition` over corpora, in place of `tokens`: what follows sees fewer tokens than were trained
    on. Parameters, coefficient and reference are those of `CorpusRepetition`.

    Inputs
    ------
    tokens : [n], tokens seen in all, :math:`D`
    mixture : [n, m], share of each corpus, :math:`h`; a share may be 0
    unique_tokens : [n, m], tokens of each corpus before repeating, :math:`U`

    Output
    ------
    tokens : [n], effective tokens

    Examples
    --------
    However often a corpus of 1B tokens is repeated, it is never worth more than 16.4B:

    >>> run = {"tokens": np.array([4e9, 1e15]), "mixture": np.ones((2, 1)), "unique_tokens": np.full((2, 1), 1e9)}
    >>> Repetition()(np.array([PUBLISHED_R]), run).round(-7)
    array([3.730e+09, 1.639e+10])
    """

    prior: tuple[float, float] | None = None

    inputs = ("tokens", "mixture", "unique_tokens")
    output = "tokens"
    increasing = ("tokens", "unique_tokens")
    published = {"R": PUBLISHED_R}  # noqa: RUF012
    reference = "Muennighoff et al. 2023, arXiv:2305.16264"

    def __post_init__(self) -> None:
        self._declare(coefficients=(Coefficient("R", 1.0, 100.0, log=True, prior=self.prior),))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return CorpusRepetition(self.prior)(theta, columns).sum(-1)


def examples() -> tuple[Law, ...]:
    return (CorpusRepetition(), Repetition())
