"""What emitters share: what an emitter is, and the questions that it asks of a recipe before translating it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from ..errors import EmitError
from ..recipe import Recipe
from ..schedules.schedule import Schedule, Segment

Emitter = Callable[[Recipe], Mapping[str, str]]
"""Texts of files by relative path; a pure function of the recipe."""

INSTEAD = "Emit it with 'tabulated' instead"

PATHS = "Paths are relative to the folder that mixopt was called in."


@dataclass(frozen=True)
class Phases:
    """A schedule read as linear warmup, plateau and one decay; a phase that is absent has 0 tokens."""

    warmup_tokens: float
    stable_tokens: float
    decay_tokens: float
    start: float
    peak: float
    final: float
    shape: str

    def in_steps(self, batch_tokens: int) -> tuple[int, int, int]:
        """Steps of warmup, plateau and decay: the boundaries are rounded, so the three add up to the rounded total."""
        edges = np.cumsum([0.0, self.warmup_tokens, self.stable_tokens, self.decay_tokens]) / batch_tokens
        warmup, stable, decay = np.diff([round(edge) for edge in edges]).tolist()
        return warmup, stable, decay


def phases(schedule: Schedule, stack: str) -> Phases:
    """The schedule as warmup, plateau and decay.

    Raises
    ------
    EmitError
        It has more, or other, phases, or jumps between them.
    """
    rest = list(schedule.segments)
    warmup = rest.pop(0) if rest[0].shape == "linear" and rest[0].start < rest[0].end else None
    stable = rest.pop(0) if rest and rest[0].start == rest[0].end else None
    decay = rest.pop(0) if rest and rest[0].start > rest[0].end else None
    at_peak = [part.end for part in (warmup, stable) if part] + [part.start for part in (stable, decay) if part]
    if rest or not all(math.isclose(value, at_peak[0]) for value in at_peak):
        raise EmitError(
            f"{stack} can express a linear warmup, a plateau and one decay; this schedule has {spoken(schedule)}. "
            f"{INSTEAD}."
        )
    return Phases(
        warmup_tokens=warmup.tokens if warmup else 0.0,
        stable_tokens=stable.tokens if stable else 0.0,
        decay_tokens=decay.tokens if decay else 0.0,
        start=warmup.start if warmup else 0.0,
        peak=at_peak[0],
        final=decay.end if decay else at_peak[0],
        shape=decay.shape if decay else "constant",
    )


def spoken(schedule: Schedule) -> str:
    """The schedule in words, for messages: `linear 0->0.001 + cosine 0.001->0`."""
    return " + ".join(f"{part.shape} {part.start:g}->{part.end:g}" for part in schedule.segments)


def one_mixture(recipe: Recipe, stack: str) -> dict[str, float]:
    """The shares above 0 of the only stage, summing to 1 to the last digit.

    Corpora with share 0 are left out: stacks read a 0 as an error, or as a little.

    Raises
    ------
    EmitError
        The recipe has several stages.
    """
    stage, *later = recipe.stages
    if later:
        raise EmitError(f"{stack} trains on one mixture; this recipe has {len(recipe.stages)} stages. {INSTEAD}.")
    mixture = {name: share for name, share in stage.mixture.items() if share > 0}
    total = math.fsum(mixture.values())
    return {name: share / total for name, share in mixture.items()}


def batch_sequences(batch_tokens: float, sequence_length: int, stack: str) -> int:
    """Sequences in a batch.

    Raises
    ------
    EmitError
        The batch is no whole number of sequences.
    """
    sequences = batch_tokens / sequence_length
    whole = max(1, round(sequences))
    if not math.isclose(sequences, whole):
        raise EmitError(
            f"{stack} counts a batch in whole sequences; {batch_tokens:.10g} tokens are {sequences:g} sequences of "
            f"{sequence_length}. Change the recipe's batch to {whole * sequence_length} tokens."
        )
    return whole


def in_phases(warmup: int, stable: int, decay: int, batch_tokens: int, phase: Phases, start: float) -> Schedule:
    """What a stack makes of the phases: whole steps, warmup from `start`."""
    parts = (
        (warmup, start, phase.peak, "linear"),
        (stable, phase.peak, phase.peak, "constant"),
        (decay, phase.peak, phase.final, phase.shape),
    )
    return Schedule(tuple(Segment(n * batch_tokens, low, high, shape) for n, low, high, shape in parts if n))


def largest_gap(made: Schedule, asked: Schedule) -> float:
    """Largest difference of two schedules over both, as a share of the peak."""
    tokens = np.linspace(0, min(made.tokens, asked.tokens), 10_001)
    return float(np.max(np.abs(made(tokens) - asked(tokens)))) / asked.peak


def yaml_file(recipe: Recipe, stack: str, notes: list[str], content: Mapping[str, Any]) -> str:
    """YAML under a comment that says who wrote it, for which release of which stack, and what the reader must know."""
    source = recipe.provenance
    first = f"Written by mixopt {source.mixopt} for {stack}, from the recipe of study {source.study!r}."
    warned = [f"Warning: {' '.join(warning.split())}" for warning in source.warnings]
    header = "".join(f"# {line}\n" for line in [first, *notes, *recipe.model.note.splitlines(), *warned])
    return header + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)
