"""RegMix: which mixture of 17 corpora of the Pile is best for each of 13 held-out sets.

github.com/sail-sg/regmix, commit b004d3a3f39846dcec6b3740da22bcd1ba95a5d0, data/: 512 mixtures at 1M parameters are
fitted; 256 others at 1M and the same 256 at 60M are predicted. Files are joined by `index`. Shares are rounded to
.001, so rows sum to .996-1.003 and are divided by their sum. Losses fall by 1-2.5 nats from 1M to 60M: across sizes
only the order of mixtures is scored.
"""

import csv
import time
from collections.abc import Callable, Iterator, Mapping
from math import nan
from pathlib import Path

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.fit.holdout import choose, compare
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber, Norm, Square
from mixopt.fit.ranks import spearman
from mixopt.fit.stack import Stack, Stacked
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.token_exchange import TokenExchange

FILES = {
    "fitted": (
        ("train_mixture_1m", "04a32ef4ab594376bf90e11404c033668f887c351d6a03ad3744824c7296a2d8"),
        ("train_pile_loss_1m", "49a959aa07ce5c20831d5abe3a7896ff0cd90a398bd407c8913fd5588be0465a"),
    ),
    "1M": (
        ("test_mixture_1m", "197267b7d6f15367e2f46c881e564c35b0d34e51b1754bb09d07e650cf8e1ce8"),
        ("test_pile_loss_1m", "e027b1674f60140a65a87b5e4a59ab5f09dc33e8fd02c080682678074b160f53"),
    ),
    "60M": (
        ("test_mixture_60m", "197267b7d6f15367e2f46c881e564c35b0d34e51b1754bb09d07e650cf8e1ce8"),
        ("test_pile_loss_60m", "8fe69d59ab7dd4fae4736459f4265ec93c7ed1ad1eca407346052560edc72b5b"),
    ),
}
TOKENS = 1e9
# Shares below half of .001 were rounded to 0: tokens below the sd of that rounding cannot be told from none.
ROUNDING = 1e-3 / 12**0.5
NOISE = Huber(0.01)
REPLICATES = 40

Table = dict[str, Array]


def read(part: str) -> tuple[Table, tuple[str, ...], tuple[str, ...]]:
    """Columns with losses [n, 13], names of the corpora and of the targets."""
    (ids, names, shares), (others, targets, losses) = (
        _read(reference(f"runs/regmix/{name}.csv", sha256)) for name, sha256 in FILES[part]
    )
    place = {index: row for row, index in enumerate(others)}
    mixture = shares / shares.sum(-1, keepdims=True)
    columns = {"mixture": mixture, "corpus_tokens": TOKENS * mixture, "loss": losses[[place[index] for index in ids]]}
    corpora = tuple(name.removeprefix("train_the_pile_") for name in names)
    return columns, corpora, tuple(name.removeprefix("metric/the_pile_").removesuffix("_val_loss") for name in targets)


def _read(path: Path) -> tuple[list[str], list[str], Array]:
    with path.open() as file:
        head, *lines = csv.reader(file)
    return [line[0] for line in lines], head[1:], np.array([line[1:] for line in lines], float)


def laws(corpora: tuple[str, ...]) -> dict[str, tuple[Law, Norm]]:
    """The laws compared, by name, and the norm each is fitted by."""
    exchange = TokenExchange(corpora, TOKENS, shared_g=False, interference=True, floor=ROUNDING)
    return {
        "mixing law": (Constant("E") + MixingLaw(corpora, lowest=-500.0), Square(0.02)),
        "token exchange, constant rates": (Constant("E") + TokenExchange(corpora, TOKENS).fix(g=1.0), NOISE),
        "token exchange, one power": (Constant("E") + TokenExchange(corpora, TOKENS), NOISE),
        "token exchange": (Constant("E") + exchange, NOISE),
    }


def fitted(law: Law, norm: Norm, columns: Table, targets: tuple[str, ...]) -> dict[str, Fit]:
    """A fit of each target with its uncertainty, from the priors' center: other starts end there too."""
    return fit_targets(law, columns, targets=targets, norm=norm, starts=0, replicates=REPLICATES)


def ranks(predicted: Array, seen: Array) -> float:
    """Spearman correlation, averaged over the targets."""
    return float(np.mean([spearman(p, y) for p, y in zip(predicted.T, seen.T, strict=True)]))


def rmse(predicted: Array, seen: Array) -> float:
    """Root mean square error in nats, averaged over the targets."""
    return float(np.sqrt(((predicted - seen) ** 2).mean(0)).mean())


def coverage(fits: Mapping[str, Fit], columns: Table) -> float:
    """Share of held-out losses inside their 90 % interval for a single run."""
    inside: list[Array] = []
    for k, found in enumerate(fits.values()):
        lower, upper = found.interval(columns, observation=True)
        inside.append((lower <= columns["loss"][:, k]) & (columns["loss"][:, k] <= upper))
    return float(np.mean(inside))


def chosen(columns: Table, corpora: tuple[str, ...], targets: tuple[str, ...]) -> str:
    """The law that predicts held-out mixtures of the fitted runs best, in five folds."""
    candidates = {name: law for name, (law, _) in laws(corpora).items()}
    return choose(compare(candidates, columns, holdout=5, targets=targets, norm=NOISE, starts=1)).name


PUBLISHED = {"mixing law": (0.973, 0.968, nan), "boosted trees": (0.990, 0.984, 0.094)}
REACH = {
    "mixing law": (0.970, 0.965, nan),
    "token exchange": (0.993, 0.989, 0.080),
    "stack": (0.993, 0.989, nan),
    "boosted trees": (0.987, 0.981, nan),
}
_NONE = (nan, nan, nan)


def rows() -> Iterator[Row]:
    columns, corpora, targets = read("fitted")
    small, large = read("1M")[0], read("60M")[0]
    best = chosen(columns, corpora, targets)
    for name, (law, norm) in laws(corpora).items():
        began = time.process_time()
        fits = fitted(law, norm, columns, targets)
        seconds = (time.process_time() - began) / len(targets)
        guess = [np.stack([found.predict(table) for found in fits.values()], -1) for table in (small, large)]
        note = "chosen by five folds of the 512" if name == best else ""
        yield from _rows(name, guess, (small, large), seconds, coverage(fits, small), note)
    began = time.process_time()
    learned = stacked(columns)
    seconds = (time.process_time() - began) / len(targets)
    guess = [learned.predict(table) for table in (small, large)]
    lower, upper = learned.interval(small, observation=True)
    cover = float(((lower <= small["loss"]) & (small["loss"] <= upper)).mean())
    yield from _rows("stack", guess, (small, large), seconds, cover)
    began = time.process_time()
    predict = boosted(columns)
    seconds = (time.process_time() - began) / len(targets)
    yield from _rows("boosted trees", [predict(small), predict(large)], (small, large), seconds)


def stacked(columns: Table) -> Stacked:
    """The stack of default candidates, of which the law of token exchange with powers of each corpus is one."""
    return Stack().learn({name: columns[name] for name in ("mixture", "loss")})


def boosted(columns: Table) -> Callable[[Table], Array]:
    from mixopt.predictors.boosted_trees import BoostedTrees

    return BoostedTrees().learn(columns).predict


def _rows(
    law: str, guess: list[Array], tables: tuple[Table, Table], seconds: float, cover: float = nan, note: str = ""
) -> Iterator[Row]:
    """CPU seconds are those of one target, with its uncertainty."""
    seen = [table["loss"] for table in tables]
    ours = {
        "Spearman, 1M": ranks(guess[0], seen[0]),
        "Spearman, 1M -> 60M": ranks(guess[1], seen[1]),
        "RMSE in nats, 1M": rmse(guess[0], seen[0]),
    }
    published, reach = PUBLISHED.get(law, _NONE), REACH.get(law, _NONE)
    for (word, mine), theirs, asked in zip(ours.items(), published, reach, strict=True):
        higher = word.startswith("Spearman")
        yield Row(
            "regmix",
            word,
            law,
            mine,
            asked,
            theirs,
            mine if law == "mixing law" else nan,
            higher,
            nan if higher else cover,
            seconds,
            note,
        )
