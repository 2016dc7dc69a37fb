"""Stream: the sequences that one run trains on, in order."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mixopt.columns import Array
from mixopt.sampling.quota import quota_order

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Stream:
    """Which window of which corpus each sequence is; the tokens stay where they are until `tokens` gathers them.

    `corpus` [n] indexes `names`; `starts` [n] is the first token of each sequence in its corpus; `unique` the windows
    of each corpus that the run may see.
    """

    names: tuple[str, ...]
    sources: tuple[Array, ...]
    unique: tuple[int, ...]
    corpus: Array
    starts: Array
    sequence_length: int

    def __len__(self) -> int:
        return len(self.corpus)

    def tokens(self, first: int, last: int) -> Array:
        """Sequences `first` to `last`, uint16 [last - first, sequence_length + 1]: the label of a token is the next."""
        corpus, starts = self.corpus[first:last], self.starts[first:last]
        found = np.empty((len(corpus), self.sequence_length + 1), dtype=np.uint16)
        step = np.arange(self.sequence_length + 1)
        for index in np.unique(corpus):
            here = corpus == index
            source = self.sources[index]
            found[here] = source[(starts[here, None] + step) % len(source)]
        return found

    def first(self, n: int) -> "Stream":
        """The first n sequences."""
        return replace(self, corpus=self.corpus[:n], starts=self.starts[:n])

    @property
    def realized(self) -> dict[str, float]:
        """Share of each corpus in the sequences."""
        return {name: float(np.sum(self.corpus == index) / max(1, len(self))) for index, name in enumerate(self.names)}

    @property
    def epochs(self) -> dict[str, float]:
        """Passes over the windows of each corpus that the run may see."""
        drawn = np.bincount(self.corpus, minlength=len(self.names)).tolist()
        return {name: drawn[index] / max(1, self.unique[index]) for index, name in enumerate(self.names)}


def draw(
    train: Mapping[str, Array],
    mixture: Mapping[str, float],
    unique_tokens: Mapping[str, int],
    n: int,
    sequence_length: int,
    seed: int,
) -> Stream:
    """The n sequences of a run.

    A corpus is cut into windows of `sequence_length` tokens, each read with the token after it, the label of its last.
    A run may see `unique_tokens` of it: windows spread evenly over the whole corpus from a place that the seed chooses,
    so that a small part resembles the whole; a smaller number is part of a larger. Each epoch shuffles them afresh.
    Corpora take turns by `quota_order`. The windows of a corpus depend on the seed, its name and its unique tokens
    alone: mixtures with one seed read each corpus in the same order, and differ by nothing else.

    Inputs
    ------
    train : tokens of each corpus
    mixture : share of each corpus; one that is left out has share 0
    unique_tokens : tokens of each corpus that the run may see, in whole windows; a corpus of share 0 may be left out

    Raises
    ------
    ValueError
        The mixture names a corpus that is not there, or asks for more unique tokens than a corpus has.

    Examples
    --------
    >>> stream = draw({"web": np.arange(100, dtype=np.uint16)}, {"web": 1.0}, {"web": 50}, 10, 10, seed=0)
    >>> stream.epochs, stream.tokens(0, 2).shape
    ({'web': 2.0}, (2, 11))
    """
    names = tuple(train)
    unique = tuple(int(unique_tokens.get(name, 0)) // sequence_length for name in names)
    _check(train, mixture, unique_tokens, sequence_length)
    order = quota_order(np.array([mixture.get(name, 0.0) for name in names]), n)
    starts = np.empty(n, dtype=np.int64)
    for index, name in enumerate(names):
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        windows = spread(len(train[name]) // sequence_length, float(random.random()))[: unique[index]]
        here = order == index
        starts[here] = sequence_length * _epochs(windows, int(here.sum()), random)
    return Stream(names, tuple(train.values()), unique, order, starts, sequence_length)


def spread(n: int, offset: float) -> Array:
    """The numbers 0 to n - 1 in an order of which every beginning is spread evenly over the whole, [n].

    Steps of the golden ratio round a circle leave no large gap, wherever they end (three-gap theorem).

    >>> spread(12, 0.0)[:4].tolist()
    [0, 5, 10, 2]
    """
    return np.argsort((offset + _GOLDEN * np.arange(n)) % 1, kind="stable")


def _epochs(windows: Array, n: int, random: np.random.Generator) -> Array:
    """The first n of the windows, epoch after epoch, each in an order of its own."""
    epochs = [random.permutation(windows) for _ in range(-(-n // max(1, len(windows))))]
    return np.concatenate([np.empty(0, dtype=np.int64), *epochs])[:n]


def _check(
    train: Mapping[str, Array], mixture: Mapping[str, float], unique_tokens: Mapping[str, int], length: int
) -> None:
    for name, share in mixture.items():
        if name not in train:
            raise ValueError(f"mixture names corpus {name!r}; there are {', '.join(train)}. Correct the name.")
        tokens, there = unique_tokens.get(name, 0), len(train[name])
        if share > 0 and not length <= tokens <= there:
            raise ValueError(
                f"unique_tokens {tokens} of corpus {name!r}; it has {there} tokens, and a sequence has {length}. "
                "Ask for at least a sequence and at most what there is."
            )
