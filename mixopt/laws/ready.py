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
from mixopt.laws.exposure import Exposure
from mixopt.laws.kaplan import Kaplan
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import PUBLISHED_R, CorpusRepetition, Repetition
from mixopt.laws.tied_exponent import TiedExponent
from mixopt.laws.token_exchange import TokenExchange

# Sweeps rarely repeat a corpus often, and train two or three sizes: what they leave open is held near the published
# values, R within a factor of 2 and the exponent of the size within .15.
_R_PRIOR = (log(PUBLISHED_R), 0.7)
_ALPHA_PRIOR = (0.35, 0.15)
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
        mixtures["token_exchange_rates"] = TokenExchange(names, tokens_unit, rates=_ordered(rates, names), rates_sd=0.7)
    effective = CorpusRepetition(_R_PRIOR) >> CriticalBatch("corpus_tokens", tokens_unit)
    size = PowerLaw("model_size", size_unit, "A", "alpha", _ALPHA_PRIOR)
    learning_rate = LearningRatePenalty(batch_unit, tokens_unit)
    return {name: effective >> (_floor(least_loss) + size + law + learning_rate) for name, law in mixtures.items()}


def plausible(
    columns: Columns, corpora: Sequence[str], *, least_loss: float, rates: Mapping[str, float] | None = None
) -> dict[str, Law]:
    """The laws that could hold for runs that vary what these vary, by name: what never changed has no term.

    A table of mixtures at one size gets laws of the mixture, one of sizes and tokens Chinchilla's and its relatives,
    one that varies everything the chains of `candidates`. Units are medians over the runs.

    Parameters
    ----------
    columns : the runs that will be fitted; columns that laws read are told apart by name and by whether they vary
    corpora : names, in the order of the columns
    least_loss, rates : as in `candidates`

    Raises
    ------
    ValueError
        Nothing varies, so there is nothing that a law could explain; or `rates` lacks a corpus.

    Examples
    --------
    >>> runs = {"model_size": np.array([1e6, 4e6]), "tokens": np.array([1e8, 1e8]), "peak_lr": np.array([3e-3, 3e-3])}
    >>> list(plausible(runs, ["web"], least_loss=3.0))
    ['size']
    """
    moved = varied(columns)
    if not moved:
        raise ValueError(
            f"All runs have the same {', '.join([n for n in (*_SCALARS, 'mixture') if n in columns]) or 'settings'}: "
            "there is nothing that a law could explain. Add runs that differ."
        )
    unit = {name: _unit(columns[name]) for name in _SCALARS if _known(columns, name)}
    floor, scale = _floor(least_loss), _scale(unit, moved)
    bodies = _mixtures(tuple(corpora), unit, moved, rates) if "mixture" in moved else _without_mixture(unit, moved)
    before = _before(columns, unit, moved)
    return {name: _chain(before, [floor, *terms, *scale]) for name, terms in bodies.items()}


_SCALARS = ("model_size", "tokens", "batch_tokens", "peak_lr")


def varied(columns: Columns) -> set[str]:
    """Which of size, tokens, batch, learning rate and mixture differ between runs by more than rounding.

    >>> sorted(varied({"tokens": np.array([1e6, 2e6]), "mixture": np.array([[0.5, 0.5], [0.5, 0.5]])}))
    ['tokens']
    """
    return {name for name in (*_SCALARS, "mixture") if _varies(columns, name)}


def _mixtures(
    names: tuple[str, ...], unit: Mapping[str, float], moved: set[str], rates: Mapping[str, float] | None
) -> dict[str, list[Law]]:
    size = [PowerLaw("model_size", unit["model_size"], "A", "alpha", _ALPHA_PRIOR)] if "model_size" in moved else []
    tokens = unit.get("tokens", 1.0)
    exchange = TokenExchange(names, tokens)
    laws: dict[str, Law] = {
        "mixing_law": MixingLaw(names, tokens if "tokens" in moved else None),
        "token_exchange_constant": exchange.fix(g=1.0),
        "token_exchange": exchange,
    }
    if rates is not None:
        laws["token_exchange_rates"] = TokenExchange(names, tokens, rates=_ordered(rates, names), rates_sd=0.7)
    return {name: [*size, law] for name, law in laws.items()}


def _without_mixture(unit: Mapping[str, float], moved: set[str]) -> dict[str, list[Law]]:
    size = PowerLaw("model_size", unit.get("model_size", 1.0), "A", "alpha", _ALPHA_PRIOR)
    data = PowerLaw("tokens", unit.get("tokens", 1.0), "B", "beta")
    if {"model_size", "tokens"} <= moved:
        units = (unit["model_size"], unit["tokens"])
        return {"tied_exponent": [TiedExponent(*units)], "chinchilla": [size, data], "kaplan_floor": [Kaplan(*units)]}
    return {"size": [size]} if "model_size" in moved else {"tokens": [data]} if "tokens" in moved else {"constant": []}


def _before(columns: Columns, unit: Mapping[str, float], moved: set[str]) -> list[Law]:
    """What turns tokens into effective tokens: repetition where corpora repeat, batch size where it varies."""
    mixed = "mixture" in moved
    chain: list[Law] = []
    if "tokens" not in unit:
        return [Exposure(1.0)] if mixed else []
    repeats = "unique_tokens" in columns and bool((_seen(columns) > columns["unique_tokens"] * (1 + 1e-6)).any())
    if mixed:
        chain.append(CorpusRepetition(_R_PRIOR) if repeats else Exposure())
    elif repeats and "tokens" in moved:
        chain.append(Repetition(_R_PRIOR))
    if "batch_tokens" in moved and (mixed or "tokens" in moved):
        chain.append(CriticalBatch("corpus_tokens" if mixed else "tokens", unit["tokens"]))
    return chain


def _scale(unit: Mapping[str, float], moved: set[str]) -> list[Law]:
    if "peak_lr" not in moved or "tokens" not in unit or "batch_tokens" not in unit:
        return []
    return [LearningRatePenalty(unit["batch_tokens"], unit["tokens"])]


def _chain(before: Sequence[Law], terms: Sequence[Law]) -> Law:
    """The substitutions that some term reads, before the sum of the terms."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    for law in reversed([law for law in before if law.output in total.inputs]):
        total = law >> total
    return total


def _known(columns: Columns, name: str) -> bool:
    return name in columns and bool(np.isfinite(columns[name]).all())


def _varies(columns: Columns, name: str) -> bool:
    """Whether a column has values that differ by more than rounding."""
    return _known(columns, name) and bool((np.ptp(columns[name], axis=0) > 1e-6 * np.abs(columns[name]).max()).any())


def _seen(columns: Columns) -> Array:
    return columns["tokens"][:, None] * columns["mixture"]


def _floor(least_loss: float | None) -> Law:
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
    return _unit(values)


def _unit(values: Array) -> float:
    return float(f"{np.median(values):.1e}")


def _ordered(rates: Mapping[str, float], corpora: tuple[str, ...]) -> tuple[float, ...]:
    if missing := [corpus for corpus in corpora if corpus not in rates]:
        raise ValueError(
            f"rates give {', '.join(rates)} but not {', '.join(missing)}; give a rate for each corpus, or no rates."
        )
    return tuple(float(rates[corpus]) for corpus in corpora)
