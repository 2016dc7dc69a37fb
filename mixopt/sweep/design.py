"""The sweep of a study: which proxies to train so that the laws can be told apart and fitted.

Mixtures fill the capped simplex at a ladder of levels (size and tokens grow together), many where runs are cheap and
few where they are dear; the natural mixture is run off the ladder's diagonal too, so that size and tokens separate,
over a grid of learning rates and batch sizes, and with several seeds, so that the noise is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mixopt.columns import Array
from mixopt.errors import StudyError
from mixopt.study import Study
from mixopt.sweep.settings import RunSettings, Sweep
from mixopt.sweep.simplex import cap, fill, vertices

T = TypeVar("T")

# Counting n-grams takes a fraction of a second at this length, and its ranking of mixtures does not improve beyond.
_SCREEN_TOKENS = 2e6
# A sample this much too small repeats a corpus hardly more often than it should.
_SLACK = 0.05


@dataclass(frozen=True)
class Frame:
    """What all runs of a sweep share.

    `available` [m] are the tokens of each corpus in the target run, `counted` [m] those on disk, `target_tokens` the
    length of the target run as well as it can be said before, `data` the digest of the tokens on disk.
    """

    study: Study
    corpora: tuple[str, ...]
    available: Array
    counted: Array
    target_tokens: float
    data: str

    @property
    def natural(self) -> Array:
        """Shares in proportion to the tokens available, within bounds."""
        return cap(self.available, *self.bounds)

    @property
    def uniform(self) -> Array:
        """Equal shares, within bounds."""
        return cap(np.ones(len(self.corpora)), *self.bounds)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Lowest and highest share of each corpus; no corpus is repeated more than its cap in the target run."""
        bounds, caps = self.study.share_bounds(), self.study.epoch_caps()
        lower = np.array([bounds[name][0] for name in self.corpora])
        upper = np.array([bounds[name][1] for name in self.corpora])
        epochs = np.array([caps[name] for name in self.corpora])
        return lower, np.minimum(upper, np.maximum(epochs * self.available / self.target_tokens, lower))

    def run(self, mixture: Array, size: float, tokens: float, purpose: str, **other: Any) -> RunSettings:
        """One transformer run at the study's middle learning rate and batch size unless `other` says so."""
        matched = self.study.sweep.epoch_matched
        settings = RunSettings(
            proxy="transformer",
            tokens=int(tokens),
            mixture=_named(self.corpora, mixture),
            unique_tokens=self.unique(tokens, matched=matched),
            seed=self.study.seed,
            model_size=int(size),
            batch_tokens=int(_middle(self.study.ladder("batch_tokens"))),
            peak_lr=_middle(self.study.ladder("peak_lr")),
            schedule=self.study.choose.schedule,
            sequence_length=self.study.sequence_length,
            epoch_matched=matched and not self.missing(tokens),
            precision="fp32" if self.study.proxy.device == "cpu" else "bf16",
            data=self.data,
            purpose=purpose,
        )
        return replace(settings, **other)

    def screen(self, mixture: Array, tokens: float) -> RunSettings:
        """One n-gram run."""
        return RunSettings(
            proxy="ngram",
            tokens=int(tokens),
            mixture=_named(self.corpora, mixture),
            unique_tokens=self.unique(tokens, matched=False),
            seed=self.study.seed,
            sequence_length=self.study.sequence_length,
            epoch_matched=False,
            data=self.data,
            purpose="screen",
        )

    def unique(self, tokens: float, *, matched: bool) -> dict[str, int]:
        r"""Tokens of each corpus that a run of `tokens` may see before it repeats.

        Epoch-matched (simulated epoching): :math:`U_i D / D_{target}`, so that a proxy repeats a scarce corpus as
        often as the target run will. In whole sequences, four at least, never more than are on disk.
        """
        length = self.study.sequence_length
        wanted = self._wanted(tokens) if matched else self.available
        sequences = np.minimum(np.maximum(wanted / length, 4), self.counted / length)
        return {name: int(unique) * length for name, unique in zip(self.corpora, sequences, strict=True)}

    def missing(self, tokens: float) -> dict[str, float]:
        """Tokens that a run of `tokens` needs on disk to repeat as the target run will, of the corpora that lack them.

        Where the disk holds a sample of what the target run has, a long proxy run can outrun the sample.
        """
        short = self._wanted(tokens) > np.maximum(self.counted, 4 * self.study.sequence_length) * (1 + _SLACK)
        wanted = zip(self.corpora, self._wanted(tokens).tolist(), short, strict=True)
        return {name: tokens for name, tokens, lacks in wanted if lacks}

    def _wanted(self, tokens: float) -> Array:
        return self.available * min(1.0, tokens / self.target_tokens)


def frame(study: Study, counted: Mapping[str, float], data: str = "") -> Frame:
    """The frame of a study with `counted` tokens of each corpus on disk, whose digest is `data`."""
    on_disk = np.array([counted[name] for name in study.corpora], dtype=float)
    declared = np.array([source.available_tokens or np.nan for source in study.corpora.values()])
    available = np.where(np.isnan(declared), on_disk, declared)
    return Frame(study, tuple(study.corpora), available, on_disk, target_tokens(study), data)


def target_tokens(study: Study) -> float:
    """Tokens of the run to be decided, as well as can be said before: the middle, in log, of what the budget allows."""
    size, tokens, flops = study.choose.model_size, study.choose.tokens, study.budget.flops
    low, high = max(tokens[0], flops / 6 / size[1]), min(tokens[1], flops / 6 / size[0])
    if low > high:
        raise StudyError(
            f"a budget of {flops:.3g} FLOPs and models of {size[0]:.3g} to {size[1]:.3g} parameters need "
            f"{flops / 6 / size[1]:.3g} to {flops / 6 / size[0]:.3g} tokens; choose.tokens allows {tokens[0]:.3g} to "
            f"{tokens[1]:.3g}. Widen choose.tokens or choose.model_size."
        )
    return float(np.sqrt(low * high))


def design(frame: Frame) -> Sweep:
    """All runs of the sweep but the favorites, which are known only once the screen has been run."""
    sweep = frame.study.sweep
    on_levels = sweep.mixtures - sweep.favorites
    pool = _mixtures(frame, max(sweep.screen, on_levels))
    screens = [frame.screen(mixture, min(_middle(sweep.tokens), _SCREEN_TOKENS)) for mixture in pool[: sweep.screen]]
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
    cost = design(frame(study, unlimited)).flops + 6 * size * tokens * study.sweep.favorites
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
    for (size, tokens), count in zip(ladder, counts, strict=True):
        mixtures = np.vstack([pool[:2], pool[2 + taken : taken + count]])[:count] if taken else pool[:count]
        taken += len(mixtures) - (2 if taken else 0)
        runs += [frame.run(mixture, size, tokens, f"mixtures at {size:g} x {tokens:g}") for mixture in mixtures]
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
    grid += [(*ladder[min(1, len(ladder) - 1)], lr, _middle(batches)) for lr in rates]
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


def _named(corpora: tuple[str, ...], mixture: Array) -> dict[str, float]:
    return dict(zip(corpora, mixture.tolist(), strict=True))


def _middle(values: Sequence[T]) -> T:
    return values[len(values) // 2]
