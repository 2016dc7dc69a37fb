"""Which width, depth and feed-forward size make up a number of parameters, and what muP makes of the learning rate."""

import math
from dataclasses import dataclass

BASE_WIDTH = 64
"""Width at which the learning rate of a hidden matrix is the learning rate of the schedule."""

SMALLEST_SIZE, LARGEST_SIZE = 20e3, 500e6

_DEPTHS = ((150e3, 2), (500e3, 3), (1.5e6, 4), (6e6, 6), (3e7, 8), (2e8, 12), (math.inf, 16))


@dataclass(frozen=True)
class Shape:
    """Width, layers, attention heads and hidden units of the feed-forward part."""

    width: int
    depth: int
    heads: int
    hidden: int

    @property
    def model_size(self) -> int:
        """Parameters without the embedding: depth * (4 width^2 + 3 width hidden)."""
        return self.depth * (4 * self.width**2 + 3 * self.width * self.hidden)


def shape(model_size: float) -> Shape:
    """A shape whose non-embedding parameters are within 3 % of `model_size`.

    Depth grows slowly, 2 layers at 100k and 12 at 100M; the width is that of hidden = 8/3 width, and the hidden units
    then make up the number.

    Raises
    ------
    ValueError
        `model_size` is outside 20k to 500M.

    Examples
    --------
    >>> shape(100_000)
    Shape(width=64, depth=2, heads=4, hidden=176)
    >>> shape(100_000).model_size
    100352
    """
    if not SMALLEST_SIZE <= model_size <= LARGEST_SIZE:
        raise ValueError(
            f"model_size {model_size:g}; a transformer here has 2e4 to 5e8 non-embedding parameters. "
            "Choose a number between."
        )
    depth = next(layers for limit, layers in _DEPTHS if model_size < limit)
    ideal = math.sqrt(model_size / (12 * depth))
    step = 8 if ideal < 128 else 16 if ideal < 192 else 32 if ideal < 512 else 64
    width = step * round(ideal / step)
    grain = 4 if width < 192 else 8 if width < 512 else 32
    hidden = grain * round((model_size / depth - 4 * width**2) / (3 * width) / grain)
    return Shape(width, depth, _heads(width), hidden)


def _heads(width: int) -> int:
    """The most heads of an even size of at least 16 below width 192, 32 below 512, and 64 from there on."""
    smallest = 16 if width < 192 else 32 if width < 512 else 64
    return max(heads for heads in range(1, width // smallest + 1) if width % (2 * heads) == 0)
