"""The learning rate up to a row's step, as columns: what the laws of annealing read.

A row that was logged at step 8000 knows the schedule up to there and nothing after. Its history is a broken line of q
knots: `step_knots` [n, q] never fall, `lr_knots` [n, q] are the learning rates there, the last knot is the row's own
step. A jump is two knots at one step. A row whose history needs fewer knots repeats its last one.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.schedules.schedule import Schedule

# Knots of a stretch of each shape. A line needs none inside, but laws integrate from knot to knot.
_PIECES: Mapping[str, int] = {"constant": 1, "linear": 6, "cosine": 32, "sqrt": 16}
_WIDE = ("step_knots", "lr_knots")


def history(lr: Schedule, tokens: Array, *, batch_tokens: float | Schedule) -> dict[str, Array]:
    """The columns `tokens`, `steps` [n] and `step_knots`, `lr_knots` [n, q] of one run, at each of `tokens`.

    Parameters
    ----------
    lr : learning rate over tokens
    tokens : [n], tokens seen at each row; one row at the end of training is enough for a law of the final loss
    batch_tokens : tokens in one step, or the schedule of them, constant stretch by stretch

    Examples
    --------
    Half way down a decay of 2000 steps, the learning rate has been 3e-4 for 8000 steps and then fell to 1.5e-4:

    >>> from mixopt.schedules.wsd import wsd
    >>> rows = history(wsd(3e-4, 1e9, warmup=0, decay=0.2), np.array([9e8]), batch_tokens=1e5)
    >>> rows["steps"], rows["lr_knots"][0, [0, 1, -1]], rows["step_knots"][0, [0, 1, -1]]
    (array([9000.]), array([0.0003 , 0.0003 , 0.00015]), array([   0., 8000., 9000.]))
    """
    tokens = np.asarray(tokens, float)
    at, values = _knots(lr)
    if isinstance(batch_tokens, Schedule):
        ramp = np.array(batch_tokens.boundaries)
        at, values = _with_edges(lr, at, values, ramp[1:-1])
    own = cut(_steps(at, batch_tokens), values, _steps(tokens, batch_tokens), lr(tokens))
    return {"tokens": tokens, **own}


def cut(steps: Array, lr: Array, at: Array, lr_at: Array | None = None) -> dict[str, Array]:
    """The columns `steps` [n] and `step_knots`, `lr_knots` [n, q] of one run, from its logged learning rate.

    Parameters
    ----------
    steps, lr : [q], the log: steps that never fall, and the learning rate there
    at : [n], the steps of the rows
    lr_at : [n], the learning rate at the rows; read off the broken line by default

    Raises
    ------
    ValueError
        The log falls back, or a row lies outside it.

    Examples
    --------
    >>> cut(np.array([0, 100, 100, 200]), np.array([3.0, 3.0, 1.0, 1.0]), np.array([50, 150]))["lr_knots"]
    array([[3., 3., 3., 3.],
           [3., 3., 1., 1.]])
    """
    steps, lr, at = (np.asarray(values, float) for values in (steps, lr, at))
    if (np.diff(steps) < 0).any():
        row = int(np.argmax(np.diff(steps) < 0)) + 1
        raise ValueError(f"step {steps[row]:g} of the log follows step {steps[row - 1]:g}. Sort the log by step.")
    slack = 1e-9 * steps[-1]
    if outside := at[(at < steps[0] - slack) | (at > steps[-1] + slack)].tolist():
        raise ValueError(
            f"The learning rate is known from step {steps[0]:g} to {steps[-1]:g}; asked at {outside[0]:g}. "
            "Log it further, or leave out the row."
        )
    lr_at = np.interp(at, steps, lr) if lr_at is None else np.asarray(lr_at, float)
    past = steps <= at[:, None] + slack
    return {
        "steps": at,
        "step_knots": np.where(past, steps, at[:, None]),
        "lr_knots": np.where(past, lr, lr_at[:, None]),
    }


def joined(tables: Sequence[Columns]) -> dict[str, Array]:
    """Rows of several runs in one table: histories of fewer knots repeat their last, which changes nothing.

    >>> short, long = ({"lr_knots": np.ones((1, q)), "loss": np.ones(1)} for q in (2, 3))
    >>> joined([short, long])["lr_knots"].shape
    (2, 3)
    """
    widest = {name: max(np.shape(table[name])[-1] for table in tables) for name in _WIDE if name in tables[0]}

    def padded(name: str, values: Array) -> Array:
        missing = widest.get(name, 0) - values.shape[-1]
        return np.pad(values, ((0, 0), (0, missing)), mode="edge") if name in widest and missing else values

    return {name: np.concatenate([padded(name, np.asarray(table[name])) for table in tables]) for name in tables[0]}


def _knots(schedule: Schedule) -> tuple[Array, Array]:
    """Tokens and values of the broken line through a schedule, [q] each."""
    at, values = [np.zeros(1)], [np.array([schedule.segments[0].start])]
    for begin, segment in zip(schedule.boundaries, schedule.segments, strict=False):
        if segment.start != values[-1][-1]:
            at, values = [*at, np.array([begin])], [*values, np.array([segment.start])]
        done = np.arange(1, _PIECES[segment.shape] + 1) / _PIECES[segment.shape]
        # A square root falls steepest at its start, and its knots are closest there.
        inside = begin + segment.tokens * (done**2 if segment.shape == "sqrt" else done)
        at, values = [*at, inside], [*values, np.append(schedule(inside[:-1]), segment.end)]
    return np.concatenate(at), np.concatenate(values)


def _with_edges(lr: Schedule, at: Array, values: Array, edges: Array) -> tuple[Array, Array]:
    """The same line with knots where the batch changes, so that it is straight in steps too."""
    inside = edges[(edges < at[-1]) & ~np.isin(edges, at)]
    place = np.searchsorted(at, inside)
    return np.insert(at, place, inside), np.insert(values, place, lr(inside))


def _steps(tokens: Array, batch_tokens: float | Schedule) -> Array:
    if not isinstance(batch_tokens, Schedule):
        return tokens / batch_tokens
    stretches = batch_tokens.segments
    if moving := [segment for segment in stretches if segment.shape != "constant"]:
        raise ValueError(
            f"The batch goes from {moving[0].start:g} to {moving[0].end:g} in one {moving[0].shape} stretch; "
            "give it as constant stretches, as trainers run it."
        )
    edges = np.array(batch_tokens.boundaries)
    return np.interp(tokens, edges, np.append(0.0, np.cumsum([s.tokens / s.start for s in stretches])))
