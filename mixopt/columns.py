"""The vocabulary: every column that runs, laws and recipes share, with its unit, shape and range.

Shapes use the letters n (runs), m (corpora), k (targets) and q (knots of a schedule).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = Mapping[str, Array]


@dataclass(frozen=True)
class Column:
    """One word of the vocabulary: what it means, in which unit, of which shape, inside which range."""

    name: str
    shape: str
    unit: str
    meaning: str
    lower: float = -np.inf
    upper: float = np.inf
    text: bool = False
    positive: bool = False

    def accepts(self, values: Array) -> Array:
        """Mask of the entries inside the range; NaN and infinity are outside."""
        above = values > self.lower if self.positive else values >= self.lower
        return above & (values <= self.upper) & np.isfinite(values)

    @property
    def range(self) -> str:
        """The range as mathematicians write it, e.g. [1, inf)."""
        opening, closing = "(" if self.positive else "[", "]" if np.isfinite(self.upper) else ")"
        return f"{opening}{self.lower:g}, {self.upper:g}{closing}"


VOCABULARY = (
    Column("run", "n", "", "identifier of the run; rows are joined by it, never by position", text=True),
    Column("proxy", "n", "", "kind of model trained: transformer (where the column is missing) or ngram", text=True),
    Column("status", "n", "", "finished, diverged or unfinished", text=True),
    Column("schedule", "n", "", "shape of the learning-rate schedule", text=True),
    Column("model_size", "n", "parameters", "non-embedding parameters; NaN for a proxy without a size", 1),
    Column("tokens", "n", "tokens", "tokens trained on, repeats counted", 1),
    Column("mixture", "nm", "share", "share of each corpus in the tokens; rows sum to 1", 0, 1),
    Column("unique_tokens", "nm", "tokens", "tokens of each corpus before it repeats, in this run", 1),
    Column("epochs", "nm", "passes", "passes over each corpus's unique tokens", 0),
    Column("batch_tokens", "n", "tokens", "tokens in one optimizer step", 1),
    Column("peak_lr", "n", "", "largest learning rate of the schedule", 0, positive=True),
    Column("steps", "n", "steps", "optimizer steps", 1),
    Column("flops", "n", "FLOPs", "6 * model_size * tokens", 0),
    Column("seconds", "n", "CPU seconds", "time that the run took", 0),
    Column("seed", "n", "", "seed of the weights and of the order of the data", 0),
    Column("epoch_matched", "n", "", "1 where corpora were subsampled so that they repeat as in the target run", 0, 1),
    Column("loss", "nk", "nats/token", "held-out loss of each target", 0, positive=True),
    Column("bits_per_byte", "nk", "bits/byte", "held-out loss of each target, free of the tokenizer"),
    Column("corpus_tokens", "nm", "tokens", "effective tokens of each corpus (a law's intermediate)", 0),
    Column("step_knots", "nq", "steps", "steps of the knots of the learning rate so far; the last is the row's own", 0),
    Column("lr_knots", "nq", "", "learning rate at those knots", 0),
    Column("lr_sum", "n", "", "sum of the learning rate over steps (a law's intermediate)", 0, positive=True),
    Column("tokenizer", "n", "", "name of the tokenizer; nats per token compare under one alone", text=True),
    Column("size_counts", "n", "", "what model_size counts: non_embedding (where missing) or all", text=True),
    Column("initial_loss", "n", "nats/token", "loss of the untrained model; a run that ends above it diverged", 0),
    Column(
        "epochs_anneal", "nm", "passes", "passes over each corpus in a second phase; epochs then counts the first", 0
    ),
)

COLUMNS: Mapping[str, Column] = {column.name: column for column in VOCABULARY}
