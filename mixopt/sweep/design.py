"""The sweep of a study: which proxies to train so that the laws can be told apart and fitted.

Mixtures fill the capped simplex at a ladder of levels (size and tokens grow together), many where runs are cheap and
few where they are dear; the natural mixture is run off the ladder's diagonal too, so that size and tokens separate,
over a grid of learning rates and batch sizes, and with several seeds, so that the noise is known.
"""

import numpy as np

from mixopt.columns import Array
from mixopt.errors import StudyError
from mixopt.study import Study
from mixopt.sweep.frame import Frame, frame_of, middle
from mixopt.sweep.settings import RunSettings, Sweep
from mixopt.sweep.simplex import fill, vertices

# Counting n-grams takes a fraction of a second at this length, and its ranking of mixtures does not improve beyond.
_SCREEN_TOKENS = 2e6


def design(frame: Frame) -> Sweep:
    """All runs of the sweep but the favorites, which are known only once the screen has been run."""
    sweep = frame.study.sweep
    on_levels = sweep.mixtures - sweep.favorites
    pool = _mixtures(frame, max(sweep.screen, on_levels))
    screens = [frame.screen(mixture, min(middle(sweep.tokens), _SCREEN_TOKENS)) for mixture in pool[: sweep.screen]]
    runs = [*screens, *_on_levels(frame, pool, on_levels), *_off_diagonal(frame), *_rates(frame), *_replicates(frame)]
    return Sweep(frame.corpora, tuple(frame.study.targets), _distinct(runs))


def check_cost(study: Study) -> None:
    """Refuse a sweep that costs more than the study's share of the budget; what it costs does not hang on the corpora.

    Raises
    ------
    StudyError
        It does; the message says how much it costs and what to change.
    """
    size, tokens = levels(study)[-1]
    unlimited = {name: 1e15 * (1 + place) for place, name in enumerate(study.corpora)}
    cost = design(frame_of(study, unlimited)).flops + 6 * size * tokens * study.sweep.favorites
    allowed = study.sweep.share_of_budget * study.budget.flops
    if cost > allowed:
        raise StudyError(
            f"the sweep costs {cost:.3g} FLOPs, {cost / study.budget.flops:.3g} of the budget; "
            f"sweep.share_of_budget allows {study.sweep.share_of_budget:g}. Raise it, shorten the ladders of "
            "sweep.tokens or sweep.model_size, or ask for fewer mixtures."
        )


def cautions(frame: Frame) -> tuple[str, ...]:
    """What a reader should know of the sweep before paying for it, in sentences; empty if nothing."""
    tokens = levels(frame.study)[-1][1]
    if not frame.study.sweep.epoch_matched:
        return ("Corpora are not subsampled: a scarce one repeats less in the proxies than in the target run.",)
    return tuple(
        f"{name}: a proxy of {tokens:.3g} tokens needs {needed:.3g} of this corpus to repeat it as the target run "
        f"will; the files hold {frame.counted[frame.corpora.index(name)]:.3g}. Give more text, or shorten sweep.tokens."
        for name, needed in frame.missing(tokens).items()
    )


def favorites(frame: Frame, mixtures: Array) -> Sweep:
    """The mixtures [f, m] that a cheaper fidelity likes best, at the last level: where the decision will be made."""
    runs = [frame.run(mixture, *levels(frame.study)[-1], "favorite") for mixture in mixtures]
    return Sweep(frame.corpora, tuple(frame.study.targets), _distinct(runs))


def levels(study: Study) -> list[tuple[float, float]]:
    """Model size and tokens of each level of the ladder; the shorter list is held at its last entry."""
    sizes, tokens = study.sweep.model_size, study.sweep.tokens
    count = max(len(sizes), len(tokens))
    return [(sizes[min(i, len(sizes) - 1)], tokens[min(i, len(tokens) - 1)]) for i in range(count)]


def allot(total: int, costs: Array) -> list[int]:
    """Runs at each level, two at least: their number falls with the square root of the cost.

    That is the allotment of least variance for its cost, where runs of all levels are equally noisy.

    >>> allot(21, np.array([1.0, 4.0, 16.0]))
    [12, 6, 3]
    """
    weight = costs**-0.5 / (costs**-0.5).sum()
    counts = np.maximum(np.floor(total * weight), 2).astype(int)
    while counts.sum() > total and counts.max() > 2:
        counts[counts.argmax()] -= 1
    counts[0] += max(total - counts.sum(), 0)
    return counts.tolist()


def _mixtures(frame: Frame, n: int) -> Array:
    """Natural, uniform, the vertices, then points that fill the rest."""
    corners = np.vstack([frame.natural, frame.uniform, vertices(*frame.bounds, center=frame.natural)])
    filling = fill(max(n - len(corners), 0), *frame.bounds, center=frame.natural, seed=frame.study.seed)
    return np.vstack([corners, filling])[:n]


def _on_levels(frame: Frame, pool: Array, total: int) -> list[RunSettings]:
    """Each level has the natural and the uniform mixture and a part of the pool of its own."""
    ladder = levels(frame.study)
    counts = allot(total, np.array([size * tokens for size, tokens in ladder]))
    runs: list[RunSettings] = []
    taken = 0
    for level, ((size, tokens), count) in enumerate(zip(ladder, counts, strict=True), start=1):
        mixtures = np.vstack([pool[:2], pool[2 + taken : taken + count]])[:count] if taken else pool[:count]
        taken += len(mixtures) - (2 if taken else 0)
        runs += [frame.run(mixture, size, tokens, f"mixtures, level {level}") for mixture in mixtures]
    return runs


def _off_diagonal(frame: Frame) -> list[RunSettings]:
    """The natural mixture with a neighbor's tokens at each size, so that the effects of size and tokens separate."""
    ladder = levels(frame.study)
    pairs = [(ladder[i][0], ladder[j][1]) for i in range(len(ladder)) for j in (i - 1, i + 1) if 0 <= j < len(ladder)]
    return [frame.run(frame.natural, size, tokens, "size against tokens") for size, tokens in pairs]


def _rates(frame: Frame) -> list[RunSettings]:
    """Learning rates by batch sizes at the first level, and learning rates again at the second."""
    ladder = levels(frame.study)
    rates, batches = frame.study.ladder("peak_lr"), frame.study.ladder("batch_tokens")
    grid = [(*ladder[0], lr, batch) for lr in rates for batch in batches]
    grid += [(*ladder[min(1, len(ladder) - 1)], lr, middle(batches)) for lr in rates]
    return [
        frame.run(frame.natural, size, tokens, "learning rate and batch size", peak_lr=lr, batch_tokens=int(batch))
        for size, tokens, lr, batch in grid
    ]


def _replicates(frame: Frame) -> list[RunSettings]:
    """The natural mixture again with other seeds, at the first two levels."""
    seeds = range(1, frame.study.sweep.replicates)
    return [
        frame.run(frame.natural, *level, "seed noise", seed=frame.study.seed + seed)
        for level in levels(frame.study)[:2]
        for seed in seeds
    ]


def _distinct(runs: list[RunSettings]) -> tuple[RunSettings, ...]:
    return tuple({run.id: run for run in reversed(runs)}.values())[::-1]
