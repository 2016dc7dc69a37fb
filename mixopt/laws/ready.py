"""Whole laws, ready to fit: from what a run was given to the loss that it reached.

Each is the same chain with another law for the mixture. Which one holds for these corpora is not asked of anyone:
all are fitted, and the one that predicts the held-out runs best is used.
"""

from collections.abc import Mapping, Sequence
from math import log

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import PUBLISHED_R, CorpusRepetition
from mixopt.laws.token_exchange import TokenExchange

SCALARS = ("model_size", "tokens", "batch_tokens", "peak_lr")
# Sweeps rarely repeat a corpus often, and train two or three sizes: what they leave open is held near the published
# values, R within a factor of 2 and the exponent of the size within .15.
R_PRIOR = (log(PUBLISHED_R), 0.7)
ALPHA_PRIOR = (0.35, 0.15)
# No run says where losses end, only that they end below the lowest seen: at half of it, within a factor of 1.65.
_FLOOR_SHARE, _FLOOR_SD = 0.5, 0.5


def candidates(
    corpora: Sequence[str],
    *,
    tokens_unit: float,
    size_unit: float,
    batch_unit: float,
    least_loss: float | None = None,
    rates: Mapping[str, float] | None = None,
) -> dict[str, Law]:
    r"""The laws that compete for a target, by name.

    .. math:: L = E + A \, (N / u_N)^{-\alpha} + \text{mixture}(h, D') + c \, (\log \eta - \log \eta^*)^2

    with :math:`D'` the effective tokens of each corpus after repetition and batch size, and one of

    * ``mixing_law``: every share moved multiplies the excess loss by a fixed factor;
    * ``token_exchange_constant``: corpora are exchanged at constant rates;
    * ``token_exchange``: with diminishing returns, one power for all corpora;
    * ``token_exchange_rates``: the same, near the rates that a cheaper model found; only with `rates`.

    Parameters
    ----------
    corpora : names, in the order of the columns
    tokens_unit, size_unit, batch_unit : where coefficients are defined
    least_loss : nats per token, lowest loss of the runs; the irreducible loss is looked for below it, not above 5
        where it is None
    rates : rates of exchange for this target by corpus, up to a common factor (`TokenExchange.exchange_rates`)

    Raises
    ------
    ValueError
        `rates` lacks a corpus.

    Examples
    --------
    >>> laws = candidates(["web", "code"], tokens_unit=1e7, size_unit=1e6, batch_unit=1e4)
    >>> list(laws)
    ['mixing_law', 'token_exchange_constant', 'token_exchange']
    >>> print(*laws["token_exchange"].names)
    R b kappa E A alpha m[web] m[code] g eps B beta c lr0 p_batch p_tokens
    """
    names = tuple(corpora)
    exchange = TokenExchange(names, tokens_unit)
    mixtures: dict[str, Law] = {
        "mixing_law": MixingLaw(names, tokens_unit),
        "token_exchange_constant": exchange.fix(g=1.0),
        "token_exchange": exchange,
    }
    if rates is not None:
        mixtures["token_exchange_rates"] = TokenExchange(names, tokens_unit, rates=ordered(rates, names), rates_sd=0.7)
    effective = CorpusRepetition(R_PRIOR) >> CriticalBatch("corpus_tokens", tokens_unit)
    size = PowerLaw("model_size", size_unit, "A", "alpha", ALPHA_PRIOR)
    learning_rate = LearningRatePenalty(batch_unit, tokens_unit)
    return {name: effective >> (floor_below(least_loss) + size + law + learning_rate) for name, law in mixtures.items()}


def varied(columns: Columns) -> set[str]:
    """Which of size, tokens, batch, learning rate and mixture differ between runs by more than rounding.

    >>> sorted(varied({"tokens": np.array([1e6, 2e6]), "mixture": np.array([[0.5, 0.5], [0.5, 0.5]])}))
    ['tokens']
    """
    return {name for name in (*SCALARS, "mixture") if _varies(columns, name)}


def known(columns: Columns, name: str) -> bool:
    """Whether every run has this column."""
    return name in columns and bool(np.isfinite(columns[name]).all())


def _varies(columns: Columns, name: str) -> bool:
    """Whether a column has values that differ by more than rounding."""
    return known(columns, name) and bool((np.ptp(columns[name], axis=0) > 1e-6 * np.abs(columns[name]).max()).any())


def floor_below(least_loss: float | None) -> Law:
    if least_loss is None:
        return Constant("E")
    return Constant("E", 0.02 * least_loss, least_loss, (log(_FLOOR_SHARE * least_loss), _FLOOR_SD))


def units(columns: Columns) -> dict[str, float]:
    """Medians over the runs, to two digits: the units at which coefficients are numbers between .1 and 10.

    A proxy without a size, batch or learning rate leaves these NaN; such runs are passed over.

    >>> units({"tokens": np.array([1e6, 4.04e6, 9e6]), "model_size": np.array([2e5]), "batch_tokens": np.array([256])})
    {'tokens_unit': 4000000.0, 'size_unit': 200000.0, 'batch_unit': 260.0}
    """
    words = {"tokens_unit": "tokens", "size_unit": "model_size", "batch_unit": "batch_tokens"}
    return {unit: _median(columns, name) for unit, name in words.items()}


def _median(columns: Columns, name: str) -> float:
    values = columns[name][np.isfinite(columns[name])]
    if not values.size:
        raise ValueError(f"No run has a {name}; the laws need one. Add runs of a proxy that has it.")
    return rounded_median(values)


def rounded_median(values: Array) -> float:
    return float(f"{np.median(values):.1e}")


def ordered(rates: Mapping[str, float], corpora: tuple[str, ...]) -> tuple[float, ...]:
    if missing := [corpus for corpus in corpora if corpus not in rates]:
        raise ValueError(
            f"rates give {', '.join(rates)} but not {', '.join(missing)}; give a rate for each corpus, or no rates."
        )
    return tuple(float(rates[corpus]) for corpus in corpora)
