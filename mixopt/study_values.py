"""The values that a study file may hold: what is read, what is refused and how, and the JSON Schema of each."""

import re
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from .units import ACCEPTED, parse_quantity, spell

_QUANTITY: dict[str, Any] = {"type": ["number", "string"]}
_RANGE: dict[str, Any] = {"anyOf": [_QUANTITY, {"type": "array", "items": _QUANTITY, "minItems": 2, "maxItems": 2}]}
_BOUND: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
_BOUNDS: dict[str, Any] = {"anyOf": [_BOUND, {"type": "array", "items": _BOUND, "minItems": 2, "maxItems": 2}]}
_TEXTS: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}
_CAP: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
_CAPS: dict[str, Any] = {"anyOf": [_CAP, {"type": "object", "additionalProperties": _CAP}]}


def _quantity(unit: str) -> BeforeValidator:
    return BeforeValidator(lambda value: parse_quantity(value, unit))


def _range(unit: str) -> BeforeValidator:
    """`[low, high]`, or one value for a range of no width."""

    def parse(value: object) -> tuple[float, float]:
        if not isinstance(value, list | tuple):
            fixed = parse_quantity(value, unit)
            return fixed, fixed
        bounds = [parse_quantity(bound, unit) for bound in value]
        if len(bounds) != 2 or bounds[0] >= bounds[1]:
            given = ", ".join(map(spell, value))
            raise ValueError(
                f"[{given}] is not accepted; give [low, high] with low below high, or one value to fix it, "
                f"each {ACCEPTED[unit]}"
            )
        return bounds[0], bounds[1]

    return BeforeValidator(parse)


def _rising(ladder: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(ladder)):
        given = ", ".join(f"{rung:.6g}" for rung in ladder)
        raise ValueError(f"[{given}] is not accepted; give the values in rising order, each once")
    return ladder


def _name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name) or name == "default":
        raise ValueError(
            f"{spell(name)} is not accepted as a name; give at most 64 letters, digits, _, - and ., "
            "the first a letter or digit, and not 'default'"
        )
    return name


def _device(device: str) -> str:
    if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", device):
        raise ValueError(f"{spell(device)} is not accepted; give cpu, cuda, cuda:0 or mps")
    return device


def _workers(workers: object) -> object:
    if workers != "auto" and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 1):
        raise ValueError(f"{spell(workers)} is not accepted; give auto, or a whole number from 1 up")
    return workers


def _pair(bounds: object) -> object:
    """One share stands for both bounds."""
    return (bounds, bounds) if isinstance(bounds, int | float) and not isinstance(bounds, bool) else bounds


def _ordered(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"[{bounds[0]:g}, {bounds[1]:g}] is not accepted; give [lower, upper], the lower one first")
    return bounds


def _listed(value: object) -> object:
    """One text stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _capped(value: object) -> object:
    """One number is the cap of every corpus."""
    return value if isinstance(value, dict) else {"default": value}


_Bound = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Parameters = Annotated[float, _quantity("parameters"), WithJsonSchema(_QUANTITY)]
_Rate = Annotated[float, _quantity("number"), WithJsonSchema(_QUANTITY)]
Flops = Annotated[float, _quantity("flops"), WithJsonSchema(_QUANTITY)]
Tokens = Annotated[float, _quantity("tokens"), WithJsonSchema(_QUANTITY)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]

SizeRange = Annotated[tuple[float, float], _range("parameters"), WithJsonSchema(_RANGE)]
TokenRange = Annotated[tuple[float, float], _range("tokens"), WithJsonSchema(_RANGE)]
RateRange = Annotated[tuple[float, float], _range("number"), WithJsonSchema(_RANGE)]
Sizes = Annotated[tuple[_Parameters, ...], Field(strict=False), AfterValidator(_rising)]
TokenCounts = Annotated[tuple[Tokens, ...], Field(strict=False), AfterValidator(_rising)]
Rates = Annotated[tuple[_Rate, ...], Field(strict=False), AfterValidator(_rising)]

Name = Annotated[str, AfterValidator(_name)]
Device = Annotated[str, AfterValidator(_device)]
Workers = Annotated[int | str, BeforeValidator(_workers)]
Names = Annotated[tuple[str, ...], Field(strict=False)]
Files = Annotated[tuple[str, ...], Field(strict=False), BeforeValidator(_listed), WithJsonSchema(_TEXTS)]
ShareBounds = Annotated[
    tuple[_Bound, _Bound],
    Field(strict=False),
    BeforeValidator(_pair),
    AfterValidator(_ordered),
    WithJsonSchema(_BOUNDS),
]
EpochCaps = Annotated[dict[str, Positive], BeforeValidator(_capped), WithJsonSchema(_CAPS)]
