"""What the runs of a sweep share: the corpora, how much there is of each, and the run that they stand for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mixopt.columns import Array
from mixopt.errors import InfeasibleError, StudyError
from mixopt.study import Study
from mixopt.sweep.settings import RunSettings
from mixopt.sweep.simplex import cap, most_tokens

T = TypeVar("T")

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
            batch_tokens=int(middle(self.study.ladder("batch_tokens"))),
            peak_lr=middle(self.study.ladder("peak_lr")),
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
        # More than the run reads at all cannot be needed.
        return np.minimum(self.available * min(1.0, tokens / self.target_tokens), tokens)


def frame_of(study: Study, counted: Mapping[str, float], data: str = "") -> Frame:
    """The frame of a study with `counted` tokens of each corpus on disk, whose digest is `data`.

    Raises
    ------
    StudyError
        A corpus has fewer than four sequences.
    InfeasibleError
        Epoch caps and share bounds leave fewer tokens than the study asks for.
    """
    least = 4 * study.sequence_length
    if short := [name for name in study.corpora if counted[name] < least]:
        raise StudyError(
            f"corpus {short[0]} has {counted[short[0]]:,.0f} tokens to train on; four sequences of "
            f"{study.sequence_length} are the least. Give it more text, leave it out, or lower sequence_length."
        )
    on_disk = np.array([counted[name] for name in study.corpora], dtype=float)
    declared = np.array([source.available_tokens or np.nan for source in study.corpora.values()])
    available = np.where(np.isnan(declared), on_disk, declared)
    return Frame(study, tuple(study.corpora), available, on_disk, target_tokens(study, available), data)


def target_tokens(study: Study, available: Array) -> float:
    """Tokens of the run to be decided, as well as can be said before: the middle, in log, of what is allowed.

    Allowed are the range in `choose`, what the budget pays for with the smallest model, and what epoch caps and share
    bounds leave; the whole budget is spent where that is possible.
    """
    size, tokens, flops = study.choose.model_size, study.choose.tokens, study.budget.flops
    bounds = np.array([*study.share_bounds().values()])
    most = most_tokens(np.array([*study.epoch_caps().values()]) * available, bounds)
    if most < tokens[0]:
        factor = math.ceil(1000 * tokens[0] / most) / 1000  # rounded so that what is advised suffices
        raise InfeasibleError(
            f"max_epochs and shares leave {math.floor(most):,} tokens of all corpora; choose.tokens starts at "
            f"{tokens[0]:,.0f}. Raise max_epochs by a factor of {factor:g}, or lower choose.tokens "
            f"to {math.floor(most)}."
        )
    high = max(tokens[0], min(tokens[1], flops / 6 / size[0], most))
    low = min(high, max(tokens[0], flops / 6 / size[1]))
    return float(np.sqrt(low * high))


def _named(corpora: tuple[str, ...], mixture: Array) -> dict[str, float]:
    return dict(zip(corpora, mixture.tolist(), strict=True))


def middle(values: Sequence[T]) -> T:
    """The middle one of a ladder, the upper one of two."""
    return values[len(values) // 2]
