"""A schedule is data: segments over tokens, the same class for the learning rate and for the batch size."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..columns import Array

# Each maps the share s of the segment that is done to the share of the way from start to end.
SHAPES: Mapping[str, Callable[[Array], Array]] = {
    "constant": lambda s: np.zeros_like(s),
    "linear": lambda s: s,
    "cosine": lambda s: (1 - np.cos(np.pi * s)) / 2,
    "sqrt": np.sqrt,
}


@dataclass(frozen=True)
class Segment:
    """A stretch of training over which a value goes from `start` to `end`.

    `value(s) = start + (end - start) * f(s)` with s the share of `tokens` done and f(s) = s (`linear`),
    (1 - cos(pi s))/2 (`cosine`), sqrt(s) (`sqrt`, "1-sqrt" when it decays: Hägele et al. 2024, arXiv:2405.18392),
    or 0 (`constant`).

    Parameters
    ----------
    tokens : length of the stretch, > 0 [tokens]
    start, end : values at its ends, >= 0; equal when the shape is constant
    shape : one of `SHAPES`

    Raises
    ------
    ValueError
        A value is out of range or not finite, the shape is unknown, or a constant segment moves.
    """

    tokens: float
    start: float
    end: float
    shape: str = "linear"

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f"segment shape is {self.shape!r}; it must be one of {', '.join(SHAPES)}.")
        if not (math.isfinite(self.tokens) and self.tokens > 0):
            raise ValueError(
                f"segment has {self.tokens} tokens; give a finite number above 0, or leave the segment out."
            )
        for name, value in (("start", self.start), ("end", self.end)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"segment {name} is {value}; it must be finite and at least 0.")
        if self.shape == "constant" and self.start != self.end:
            raise ValueError(
                f"constant segment goes from {self.start} to {self.end}; make both equal, or choose another shape."
            )


@dataclass(frozen=True)
class Schedule:
    """A value over the whole of training, as segments that follow each other without a gap.

    Indexed by tokens because with a batch ramp tokens are all that learning rate and batch size have in common.
    At a boundary the later segment holds, so a batch ramp is a row of constant segments of different values.

    Raises
    ------
    ValueError
        There is no segment, or a token asked for lies outside training.

    Examples
    --------
    >>> lr = Schedule((Segment(100.0, 0.0, 3e-4), Segment(800.0, 3e-4, 3e-4, "constant"), Segment(100.0, 3e-4, 0.0)))
    >>> lr([0, 50, 500, 950, 1000]).round(6).tolist()
    [0.0, 0.00015, 0.0003, 0.00015, 0.0]
    """

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not self.segments:
            raise ValueError("schedule has no segments; give at least one.")

    def __call__(self, tokens: Any) -> Array:
        """Values after `tokens` [any shape, tokens seen so far], same shape."""
        at = np.asarray(tokens, dtype=float)
        # Written so that NaN is outside; a few ulp of summing segment lengths are inside.
        if not np.all((at >= 0) & (at <= self.tokens * (1 + 1e-9))):
            raise ValueError(f"schedule covers 0 to {self.tokens:g} tokens; asked at {at.min():g} to {at.max():g}.")
        edges = np.array(self.boundaries)
        # The tolerance lets a boundary that is reached by another sum of floats count as reached.
        here = np.clip(np.searchsorted(edges * (1 - 1e-12), at, side="right") - 1, 0, len(self.segments) - 1)
        values = np.empty_like(at)
        for i, segment in enumerate(self.segments):
            inside = here == i
            done = np.clip((at[inside] - edges[i]) / segment.tokens, 0.0, 1.0)
            values[inside] = segment.start + (segment.end - segment.start) * SHAPES[segment.shape](done)
        return values

    @property
    def tokens(self) -> float:
        """Length of training [tokens]."""
        return self.boundaries[-1]

    @property
    def boundaries(self) -> tuple[float, ...]:
        """Where each segment starts, and where the last one ends [tokens]; one more than the segments."""
        edges = [0.0]
        for segment in self.segments:
            edges.append(edges[-1] + segment.tokens)
        return tuple(edges)

    @property
    def peak(self) -> float:
        """The largest value reached."""
        return max(max(segment.start, segment.end) for segment in self.segments)

    def to_list(self) -> list[dict[str, Any]]:
        """The segments as plain dicts, for JSON and YAML."""
        return [asdict(segment) for segment in self.segments]

    @classmethod
    def from_list(cls, segments: Iterable[Mapping[str, Any]]) -> "Schedule":
        """The schedule whose `to_list` is `segments`.

        >>> ramp = Schedule((Segment(1e9, 5e5, 5e5, "constant"), Segment(3e9, 1e6, 1e6, "constant")))
        >>> Schedule.from_list(ramp.to_list()) == ramp
        True
        """
        made: list[Segment] = []
        for number, segment in enumerate(segments, 1):
            try:
                made.append(Segment(**segment))
            except TypeError:
                raise ValueError(
                    f"segment {number} is {dict(segment)}; it must have numbers for tokens, start and end, and a shape."
                ) from None
        return cls(tuple(made))


def phases(peak: float, tokens: float, *, warmup: float, decay: float, final: float, shape: str) -> Schedule:
    """Linear warmup, plateau and decay, each left out when its share of the tokens is zero.

    Parameters
    ----------
    peak : largest value, > 0
    tokens : length of training, > 0 [tokens]
    warmup, decay : shares of `tokens`; together at most 1
    final : last value, as a share of `peak`
    shape : of the decay

    Raises
    ------
    ValueError
        A share is outside [0, 1], the two together exceed 1, or peak or tokens is not above 0.
    """
    for name, value in (("peak", peak), ("tokens", tokens)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}; it must be finite and above 0.")
    for name, share in (("warmup", warmup), ("decay", decay), ("final", final)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name} is {share}; it is a share and must lie between 0 and 1.")
    stable = 1 - warmup - decay
    if stable < -1e-12:
        raise ValueError(
            f"warmup {warmup} and decay {decay} add up to {warmup + decay:g}; together they must be at most 1."
        )
    ahead = [(warmup, 0.0, peak, "linear")]
    if stable > 1e-12:
        ahead.append((stable, peak, peak, "constant"))
    ahead.append((decay, peak, final * peak, shape))
    return Schedule(tuple(Segment(share * tokens, start, end, how) for share, start, end, how in ahead if share > 0))
