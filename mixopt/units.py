"""Quantities as people write them: `3 PFLOP`, `12B tokens`, `300k`."""

import math
import re

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}

# What each unit may be called, in lower case, and how many of the unit one of them is.
_SPELLINGS: dict[str, dict[str, float]] = {
    "flops": {"": 1, "flop": 1, "flops": 1, "flop/s-day": 86_400, "flop/s-days": 86_400},
    "tokens": {"": 1, "token": 1, "tokens": 1},
    "parameters": {"": 1, "parameter": 1, "parameters": 1, "param": 1, "params": 1},
    "number": {"": 1},
}

# What is accepted, in the words of the error messages. Nothing is trained on less than one of these.
ACCEPTED = {
    "flops": "a positive number of FLOPs, such as 1e18, 3 PFLOP or 2 PFLOP/s-days",
    "tokens": "a number of tokens from 1 up, such as 2e9, 300k, 12B or 4M tokens",
    "parameters": "a number of parameters from 1 up, such as 1e6, 300k or 1.3B parameters",
    "number": "a positive number, such as 0.003 or 3e-3",
}
_SMALLEST = {"tokens": 1.0, "parameters": 1.0}

_NUMBER = re.compile(r"([-+]?(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)", re.ASCII)


def parse_quantity(value: object, unit: str) -> float:
    """The number of `unit` that `value` says: a number, or text with a prefix, a unit, both or neither.

    Parameters
    ----------
    value : what was written. The prefixes are k, M, G or B (1e9), T, P, E and Z; `m` is none, for it would be read as a
        million by some and a thousandth by others
    unit : flops, tokens, parameters, or number (no prefix, no unit)

    Raises
    ------
    ValueError
        Not a number, not finite, not positive, less than one token or parameter, or in another unit.

    Examples
    --------
    >>> parse_quantity("3 PFLOP", "flops"), parse_quantity("12B", "tokens"), parse_quantity(25_000, "parameters")
    (3000000000000000.0, 12000000000.0, 25000.0)

    One petaflop per second, kept up for a day:

    >>> parse_quantity("1 PFLOP/s-day", "flops")
    8.64e+19

    >>> parse_quantity("2e9 tokens", "flops")
    Traceback (most recent call last):
    ValueError: '2e9 tokens' is not accepted; give a positive number of FLOPs, such as 1e18, 3 PFLOP or 2 PFLOP/s-days
    """
    number = _parse_text(value, unit) if isinstance(value, str) else _parse_number(value)
    if number is None or not math.isfinite(number) or number <= 0 or number < _SMALLEST.get(unit, 0.0):
        raise ValueError(f"{spell(value)} is not accepted; give {ACCEPTED[unit]}")
    return number


def spell(value: object) -> str:
    """`value` as an error message shows it: text in quotes, numbers bare, collections by kind.

    >>> spell("3 apples"), spell(True), spell(None), spell([1, 2])
    ("'3 apples'", 'true', 'empty', 'a list')
    """
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case float():
            return f"{value:.12g}"
        case int():
            return str(value) if value.bit_length() <= 1024 else "a number beyond 1e308"
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def _parse_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _parse_text(text: str, unit: str) -> float | None:
    match = _NUMBER.fullmatch(text.strip())
    factor = _factor(match[2], unit) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def _factor(word: str, unit: str) -> float | None:
    """How many of `unit` one `word` is: `PFLOP` is 1e15 flops. None for a word that is none of it."""
    spellings = _SPELLINGS[unit]
    if word.lower() in spellings:
        return spellings[word.lower()]
    prefix, rest = word[0], word[1:].strip().lower()
    known = unit != "number" and prefix in _PREFIXES and rest in spellings
    return _PREFIXES[prefix] * spellings[rest] if known else None
