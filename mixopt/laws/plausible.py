"""The laws that runs could follow, judged by what varies between them."""

from collections.abc import Mapping, Sequence

from mixopt.columns import Array, Columns
from mixopt.laws.averaged_coefficients import averaged
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.exchange_with_size import ExchangeWithSize
from mixopt.laws.exposure import Exposure
from mixopt.laws.joint_mixture import JointMixture
from mixopt.laws.kaplan import Kaplan
from mixopt.laws.law import Law
from mixopt.laws.learning_rate import LearningRatePenalty
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.ready import ALPHA_PRIOR, R_PRIOR, SCALARS, floor_below, known, ordered, rounded_median, varied
from mixopt.laws.repetition import CorpusRepetition, Repetition
from mixopt.laws.tied_exponent import TiedExponent
from mixopt.laws.token_exchange import TokenExchange
from mixopt.laws.undertraining import Undertraining


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
    >>> import numpy as np
    >>> runs = {"model_size": np.array([1e6, 4e6]), "tokens": np.array([1e8, 1e8]), "peak_lr": np.array([3e-3, 3e-3])}
    >>> list(plausible(runs, ["web"], least_loss=3.0))
    ['size']
    """
    moved = varied(columns)
    if not moved:
        raise ValueError(
            f"All runs have the same {', '.join([n for n in (*SCALARS, 'mixture') if n in columns]) or 'settings'}: "
            "there is nothing that a law could explain. Add runs that differ."
        )
    unit = {name: rounded_median(columns[name]) for name in SCALARS if known(columns, name)}
    floor, names = floor_below(least_loss), tuple(corpora)
    if "mixture" in moved:
        bodies = _mixtures(names, unit, moved, rates) | _with_size(names, unit, moved)
    else:
        bodies = _without_mixture(unit, moved)
    before, last = _before(columns, unit, moved, "mixture" in moved), _learning_rate(unit, moved)
    laws = {name: _chain(before, [floor, *terms, *last]) for name, terms in bodies.items()}
    if {"mixture", "model_size", "tokens"} <= moved:
        averaged_law = averaged(names, tokens_unit=unit["tokens"], size_unit=unit["model_size"])
        # It reads the tokens of the whole run, and has floors of its own.
        laws["averaged"] = _chain(_before(columns, unit, moved, False), [averaged_law, *last])
    return laws


def _mixtures(
    names: tuple[str, ...], unit: Mapping[str, float], moved: set[str], rates: Mapping[str, float] | None
) -> dict[str, list[Law]]:
    size = [PowerLaw("model_size", unit["model_size"], "A", "alpha", ALPHA_PRIOR)] if "model_size" in moved else []
    tokens = unit.get("tokens", 1.0)
    exchange = TokenExchange(names, tokens)
    laws: dict[str, Law] = {
        "mixing_law": MixingLaw(names, tokens if "tokens" in moved else None),
        "token_exchange_constant": exchange.fix(g=1.0),
        "token_exchange": exchange,
    }
    if rates is not None:
        laws["token_exchange_rates"] = TokenExchange(names, tokens, rates=ordered(rates, names), rates_sd=0.7)
    return {name: [*size, law] for name, law in laws.items()}


def _with_size(names: tuple[str, ...], unit: Mapping[str, float], moved: set[str]) -> dict[str, list[Law]]:
    """Laws in which size and mixture do not just add: a small model lacks more on some corpora than on others."""
    if "model_size" not in moved:
        return {}
    size_unit, tokens = unit["model_size"], unit.get("tokens", 1.0)
    lacks = JointMixture(names, "model_size", size_unit, prior=ALPHA_PRIOR).fix(gamma_A=1.0)
    size = PowerLaw("model_size", size_unit, "A", "alpha", ALPHA_PRIOR)
    late = [Undertraining(tokens, size_unit)] if "tokens" in moved else []
    own = ExchangeWithSize(names, tokens, size_unit, shared_g=False)
    return {
        "token_exchange_joint": [lacks, TokenExchange(names, tokens)],
        "exchange_with_size": [size, own, *late],
        "exchange_with_size_joint": [lacks, own.fix(k=0.0), *late],
    }


def _without_mixture(unit: Mapping[str, float], moved: set[str]) -> dict[str, list[Law]]:
    size = PowerLaw("model_size", unit.get("model_size", 1.0), "A", "alpha", ALPHA_PRIOR)
    data = PowerLaw("tokens", unit.get("tokens", 1.0), "B", "beta")
    if {"model_size", "tokens"} <= moved:
        units = (unit["model_size"], unit["tokens"])
        return {"tied_exponent": [TiedExponent(*units)], "chinchilla": [size, data], "kaplan_floor": [Kaplan(*units)]}
    return {"size": [size]} if "model_size" in moved else {"tokens": [data]} if "tokens" in moved else {"constant": []}


def _before(columns: Columns, unit: Mapping[str, float], moved: set[str], mixed: bool) -> list[Law]:
    """What turns tokens, by corpus where `mixed`, into effective ones: repetition where corpora repeat, and batch."""
    chain: list[Law] = []
    if "tokens" not in unit:
        return [Exposure(1.0)] if mixed else []
    repeats = known(columns, "unique_tokens") and bool((_seen(columns) > columns["unique_tokens"] * (1 + 1e-6)).any())
    if mixed:
        chain.append(CorpusRepetition(R_PRIOR) if repeats else Exposure())
    elif repeats and "tokens" in moved:
        chain.append(Repetition(R_PRIOR))
    if "batch_tokens" in moved and (mixed or "tokens" in moved):
        chain.append(CriticalBatch("corpus_tokens" if mixed else "tokens", unit["tokens"]))
    return chain


def _learning_rate(unit: Mapping[str, float], moved: set[str]) -> list[Law]:
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


def _seen(columns: Columns) -> Array:
    return columns["tokens"][:, None] * columns["mixture"]
