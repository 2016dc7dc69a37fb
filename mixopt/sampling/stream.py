"""Stream: the sequences that one run trains on, in order."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mixopt.columns import Array
from mixopt.sampling.quota import quota_order


@dataclass(frozen=True)
class Stream:
    """Which window of which corpus each sequence is; the tokens stay where they are until `tokens` gathers them.

    `corpus` [n] indexes `names`; `starts` [n] counts tokens from the first of the corpus's unique tokens, which form a
    ring of `unique` tokens that begins at `offsets` and goes round the end of the corpus.
    """

    names: tuple[str, ...]
    sources: tuple[Array, ...]
    offsets: tuple[int, ...]
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
            place = (starts[here, None] + step) % self.unique[index] + self.offsets[index]
            found[here] = self.sources[index][place % len(self.sources[index])]
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
        """Passes over the unique tokens of each corpus: its sequences times their length, by its unique tokens."""
        drawn = np.bincount(self.corpus, minlength=len(self.names)) * self.sequence_length
        return {name: float(drawn[index] / max(1, self.unique[index])) for index, name in enumerate(self.names)}


def draw(
    train: Mapping[str, Array],
    mixture: Mapping[str, float],
    unique_tokens: Mapping[str, int],
    n: int,
    sequence_length: int,
    seed: int,
) -> Stream:
    """The n sequences of a run.

    A run may see `unique_tokens` of each corpus: that many tokens from an offset that the seed chooses, going round the
    end of the corpus, so that a smaller number is part of a larger. This ring is cut into windows of `sequence_length`
    tokens, each read with the token after it, the label of its last. A token is the input of one window an epoch at
    most. Each epoch shifts the cuts and shuffles the windows afresh; what is left over, less than a window, differs
    from epoch to epoch. Corpora take turns by `quota_order`. The windows of a corpus depend on the seed, its name and
    its unique tokens alone: mixtures with one seed read each corpus in the same order, and differ by nothing else.

    Inputs
    ------
    train : tokens of each corpus
    mixture : share of each corpus; one that is left out has share 0
    unique_tokens : tokens of each corpus that the run may see; a corpus of share 0 may be left out

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
    unique = tuple(int(unique_tokens.get(name, 0)) for name in names)
    _check(train, mixture, unique)
    order = quota_order(np.array([mixture.get(name, 0.0) for name in names]), n)
    starts = np.empty(n, dtype=np.int64)
    offsets: list[int] = []
    for index, name in enumerate(names):
        random = np.random.default_rng([seed, zlib.crc32(name.encode())])
        offsets.append(int(random.integers(len(train[name]))))
        here = order == index
        starts[here] = _windows(unique[index], int(here.sum()), sequence_length, random)
    return Stream(names, tuple(train.values()), tuple(offsets), unique, order, starts, sequence_length)


def _windows(unique: int, n: int, length: int, random: np.random.Generator) -> Array:
    """Starts of the first n windows on the ring, epoch after epoch."""
    per_epoch = max(1, unique // length)
    epochs = [random.integers(unique) + length * random.permutation(per_epoch) for _ in range(-(-n // per_epoch))]
    return np.concatenate([np.empty(0, dtype=np.int64), *epochs])[:n]


def _check(train: Mapping[str, Array], mixture: Mapping[str, float], unique: tuple[int, ...]) -> None:
    for name in mixture:
        if name not in train:
            raise ValueError(f"mixture names corpus {name!r}; there are {', '.join(train)}. Correct the name.")
    for name, tokens in zip(train, unique, strict=True):
        if mixture.get(name, 0.0) > 0 and not 1 <= tokens <= len(train[name]):
            raise ValueError(
                f"unique_tokens {tokens} of corpus {name!r}; it has {len(train[name])} tokens. "
                "Ask for at least 1 and at most that."
            )
