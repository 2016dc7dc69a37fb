"""Tables for a trainer of one's own: what every step trains on, and how fast; says everything that a recipe can."""

import csv
import io
import math
from collections.abc import Iterable

import numpy as np

from ..columns import Array
from ..recipe import Recipe
from ..schedules.schedule import Schedule

ROWS = 10_000
"""The most rows that `schedule.csv` thins a long run to, boundaries aside."""


def emit(recipe: Recipe) -> dict[str, str]:
    """`schedule.csv`, a row a step, and `mixture.csv`, a row a corpus (RFC 4180, floats with every digit).

    schedule.csv: `step`; `tokens` seen before it; its `learning_rate`; its `batch_tokens`; and `share_<corpus>` in it.
    Of a run of more than 10,000 steps, 10,000 evenly spread ones, the last one, and the first of every segment and
    stage. The last step is cut so that the run ends at `recipe.tokens`.
    mixture.csv: `corpus`, its `share` of the whole run, its `tokens` and its `epochs`.
    """
    return {"schedule.csv": _schedule(recipe), "mixture.csv": _mixture(recipe)}


def step_tokens(batch: Schedule) -> Array:
    """Tokens seen before each step, and at the end: [steps + 1].

    A change of batch size takes effect at the first step that starts at or after it.

    >>> from mixopt.schedules.schedule import Segment
    >>> step_tokens(Schedule((Segment(250.0, 100.0, 100.0), Segment(450.0, 200.0, 200.0)))).tolist()
    [0.0, 100.0, 200.0, 300.0, 500.0, 700.0]
    """
    starts: list[Array] = []
    at = 0.0
    for segment, end in zip(batch.segments, batch.boundaries[1:], strict=True):
        if segment.start == segment.end:
            # The tolerance keeps the rounding of tokens / batch from adding a step of almost nothing.
            steps = max(0, math.ceil((end - at) / segment.start - 1e-6))
            starts.append(at + segment.start * np.arange(steps))
            at += segment.start * steps
        else:
            ramp: list[float] = []
            while at < end * (1 - 1e-12):
                ramp.append(at)
                at += max(1.0, float(batch(at)))
            starts.append(np.array(ramp))
    return np.append(np.concatenate(starts), batch.tokens)


def _schedule(recipe: Recipe) -> str:
    edges = np.rint(step_tokens(recipe.batch)).astype(np.int64)
    starts, sizes = edges[:-1], np.diff(edges)
    stage_edges = np.cumsum([0, *(stage.tokens for stage in recipe.stages)])
    rows = _thinned(starts, [*recipe.learning_rate.boundaries, *recipe.batch.boundaries, *stage_edges])
    rates = recipe.learning_rate(np.minimum(starts[rows], recipe.learning_rate.tokens))
    # As in `step_tokens`: a stage begins with the first step at or after it.
    stages = np.searchsorted(stage_edges[1:-1], starts[rows] * (1 + 1e-12), side="right")
    shares = [[stage.mixture.get(name, 0.0) for name in recipe.corpora] for stage in recipe.stages]
    columns = zip(rows.tolist(), starts[rows].tolist(), rates.tolist(), sizes[rows].tolist(), stages, strict=True)
    return _table(
        ("step", "tokens", "learning_rate", "batch_tokens", *(f"share_{name}" for name in recipe.corpora)),
        ((step, tokens, rate, batch, *shares[stage]) for step, tokens, rate, batch, stage in columns),
    )


def _thinned(starts: Array, boundaries: list[float]) -> Array:
    steps = len(starts)
    even = np.linspace(0, steps - 1, min(steps, ROWS)).round().astype(int)
    first_after = np.searchsorted(starts * (1 + 1e-12), boundaries)
    return np.unique(np.append(even, first_after[first_after < steps]))


def _mixture(recipe: Recipe) -> str:
    return _table(
        ("corpus", "share", "tokens", "epochs"),
        ((name, s, s * recipe.tokens, recipe.corpora[name].epochs) for name, s in recipe.mixture.items()),
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
