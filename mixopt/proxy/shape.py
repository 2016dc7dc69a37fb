"""Which width, depth and feed-forward size make up a number of parameters, and what muP makes of the learning rate."""

import math
from dataclasses import dataclass

BASE_WIDTH, BASE_DEPTH = 64, 2
"""Width and depth at which the learning rate of a hidden matrix is the learning rate of the schedule."""

SMALLEST_SIZE, LARGEST_SIZE = 20e3, 500e6
"""Non-embedding parameters of the transformers that are trained here."""

LARGEST_SHAPE = 1e12
"""Non-embedding parameters of the largest model whose shape, and so whose learning rate, can be told."""

# Layers up to a size: slow growth among the proxies; from 1B on as OLMo, Llama and GPT-3 have them.
_DEPTHS = (
    *((150e3, 2), (500e3, 3), (1.5e6, 4), (6e6, 6), (3e7, 8), (2e8, 12), (8e8, 16), (2e9, 20), (4e9, 28)),
    *((1e10, 32), (2e10, 40), (5e10, 60), (1e11, 80), (2.5e11, 96), (math.inf, 128)),
)

# What a width is a multiple of, up to a width.
_STEPS = ((128, 8), (192, 16), (512, 32), (2048, 64), (4096, 256), (math.inf, 1024))


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

    Depth grows slowly, 2 layers at 100k, 12 at 100M and 32 at 7B; the width is that of hidden = 8/3 width, and the
    hidden units then make up the number. Sizes above those trained here tell what a recipe's learning rate is for.

    Raises
    ------
    ValueError
        `model_size` is outside 20k to 1000B.

    Examples
    --------
    >>> shape(100_000)
    Shape(width=64, depth=2, heads=4, hidden=176)
    >>> shape(100_000).model_size
    100352
    >>> shape(7e9).width, shape(7e9).depth
    (4096, 32)
    """
    if not SMALLEST_SIZE <= model_size <= LARGEST_SHAPE:
        raise ValueError(
            f"model_size {model_size:g}; shapes are known for 2e4 to 1e12 non-embedding parameters. "
            "Choose a number between."
        )
    depth = next(layers for limit, layers in _DEPTHS if model_size < limit)
    ideal = math.sqrt(model_size / (12 * depth))
    step = next(multiple for limit, multiple in _STEPS if ideal < limit)
    width = step * round(ideal / step)
    grain = 4 if width < 192 else 8 if width < 512 else 32
    hidden = grain * round((model_size / depth - 4 * width**2) / (3 * width) / grain)
    return Shape(width, depth, _heads(width), hidden)


def lr_factor(shape: Shape) -> float:
    """Learning rate of the hidden matrices as a share of `peak_lr`: BASE_WIDTH / width * sqrt(BASE_DEPTH / depth).

    The width's part is muP's for Adam (Yang et al. 2022, arXiv:2203.03466). The depth's is depth-muP's (Yang et al.
    2023, arXiv:2310.02244): 2 depth residual branches of 1 / sqrt(2 depth), each moved by Adam as far as any other,
    would move the states by sqrt(depth) without it.

    Examples
    --------
    >>> lr_factor(Shape(width=64, depth=2, heads=4, hidden=176))
    1.0
    >>> lr_factor(Shape(width=128, depth=8, heads=8, hidden=344))
    0.25
    """
    return BASE_WIDTH / shape.width * math.sqrt(BASE_DEPTH / shape.depth)


def _heads(width: int) -> int:
    """The most heads of an even size of at least 16 below width 192, 32 below 512, and 64 from there on."""
    smallest = 16 if width < 192 else 32 if width < 512 else 64
    return max(heads for heads in range(1, width // smallest + 1) if width % (2 * heads) == 0)
