"""OLMo-core 3: a source mixture, a scheduler over tokens and, for a batch ramp, its batch-size scheduler."""

import math
from itertools import pairwise
from typing import Any

from ..errors import EmitError
from ..recipe import Model, Optimizer, Recipe
from .face import INSTEAD, PATHS, Phases, batch_sequences, one_mixture, phases, spoken, yaml_file

STACK = "ai2-olmo-core 3.0.0"


def emit(recipe: Recipe) -> dict[str, str]:
    """`sources.yaml`, a `SourceMixtureList`, and `train.yaml`, the fields of the other configs.

    Shares are shares of tokens. OLMo-core fills up to whole batches by giving every path the same, whatever its share,
    so `requested_tokens` is made whole batches beforehand. Repetition is a cap there, not a request, and is set 1 %
    above what the recipe needs. At a change of batch size OLMo-core multiplies the learning rate by the square root of
    the change, so it starts from the rate that ends at the recipe's; the file says so.

    Raises
    ------
    EmitError
        Several stages; a decay after a plateau that is not linear; a batch that is no whole number of sequences, or
        changes other than by an integer factor at once.
    """
    mixture = one_mixture(recipe, "olmo_core")
    ramp = _ramp(recipe)
    phase = phases(recipe.learning_rate, "olmo_core")
    largest = max(size for _, size in ramp)
    requested = math.ceil(recipe.tokens / largest - 1e-9) * largest
    sources = {"sources": _sources(recipe, mixture, requested)}
    dataset = {"requested_tokens": requested, "global_batch_size": largest, "seed": recipe.seed}
    train = {"dataset": {"source_list": "sources.yaml", **dataset}, **_train(recipe, phase, ramp)}
    return {
        "sources.yaml": yaml_file(recipe, STACK, _source_notes(recipe, mixture), sources),
        "train.yaml": yaml_file(recipe, STACK, _train_notes(recipe, phase, ramp), train),
    }


def _train(recipe: Recipe, phase: Phases, ramp: list[tuple[int, int]]) -> dict[str, Any]:
    train: dict[str, Any] = {
        "sequence_length": recipe.sequence_length,
        "model": _model(recipe.model),
        "data_loader": {"global_batch_size": ramp[0][1], "seed": recipe.seed},
        "train_module": {
            "max_sequence_length": recipe.sequence_length,
            "optim": _optimizer(recipe.optimizer, phase.peak / math.sqrt(ramp[-1][1] / ramp[0][1])),
            "max_grad_norm": recipe.optimizer.clip_norm,
            "scheduler": _scheduler(recipe, phase),
        },
        "trainer": {"max_duration": {"value": recipe.tokens, "unit": "tokens"}},
    }
    if len(ramp) > 1:
        train["batch_size_scheduler"] = {
            "batch_sizes": [size for _, size in ramp],
            "schedule": [{"value": start, "unit": "tokens"} for start, _ in ramp],
        }
    return train


def _model(model: Model) -> dict[str, Any]:
    shape = {"d_model": model.width, "n_layers": model.depth}
    return {name: size for name, size in shape.items() if size} | {"tie_word_embeddings": True}


def _optimizer(optimizer: Optimizer, lr: float) -> dict[str, Any]:
    return {
        "type": optimizer.name,
        "lr": lr,
        "betas": [optimizer.beta1, optimizer.beta2],
        "weight_decay": optimizer.weight_decay,
        "group_overrides": [{"params": ["embeddings.weight"], "opts": {"weight_decay": 0.0}}],
    }


def _ramp(recipe: Recipe) -> list[tuple[int, int]]:
    """(tokens at which it starts, batch tokens) of each batch size."""
    ramp: list[tuple[int, int]] = []
    for start, segment in zip(recipe.batch.boundaries[:-1], recipe.batch.segments, strict=True):
        if segment.start != segment.end:
            raise EmitError(
                f"olmo_core changes the batch at once, by an integer factor; this one has {spoken(recipe.batch)}. "
                f"Use constant segments. {INSTEAD}."
            )
        size = batch_sequences(segment.start, recipe.sequence_length, "olmo_core") * recipe.sequence_length
        if not ramp or size != ramp[-1][1]:
            ramp.append((round(start), size))
    for (_, before), (_, after) in pairwise(ramp):
        if max(before, after) % min(before, after):
            raise EmitError(
                f"olmo_core changes the batch by an integer factor; this one goes from {before} to {after} tokens. "
                f"Use a multiple. {INSTEAD}."
            )
    return ramp


def _scheduler(recipe: Recipe, phase: Phases) -> dict[str, Any]:
    warmup = round(phase.warmup_tokens)
    # Without a warmup, wsd and constant_with_warmup divide by it.
    whole = {"units": "tokens", "warmup": warmup, "warmup_min_lr": phase.start}
    least = {**whole, "warmup": max(1, warmup)}
    if not phase.decay_tokens:
        return {"type": "constant_with_warmup", **least} if warmup else {"type": "constant", "units": "tokens"}
    if not phase.stable_tokens and phase.shape in ("linear", "cosine"):
        kind = {"linear": "linear_with_warmup", "cosine": "cos_with_warmup"}[phase.shape]
        return {"type": kind, **whole, "alpha_f": phase.final / phase.peak}
    if phase.shape != "linear":
        raise EmitError(
            f"olmo_core decays linearly, or as a cosine without a plateau; this schedule has "
            f"{spoken(recipe.learning_rate)}. Use a linear decay. {INSTEAD}."
        )
    decay = round(phase.decay_tokens)
    # decay_fraction has a default, and the two together are refused.
    return {"type": "wsd", **least, "decay": decay, "decay_fraction": None, "decay_min_lr": phase.final}


def _sources(recipe: Recipe, mixture: dict[str, float], requested: int) -> list[dict[str, Any]]:
    return [
        {
            "source_name": name,
            "target_ratio": share,
            "paths": _paths(recipe, name),
            "max_repetition_ratio": _repetition_cap(
                share * requested + 2 * recipe.sequence_length, recipe.corpora[name].available_tokens
            ),
        }
        for name, share in mixture.items()
    ]


def _repetition_cap(needed_tokens: float, available_tokens: float) -> float:
    """1 % above need, rounded up to hundredths, and at least 1, which is one whole pass."""
    return max(1.0, math.ceil(1.01 * needed_tokens / available_tokens * 100) / 100)


def _paths(recipe: Recipe, name: str) -> list[str]:
    files = recipe.corpora[name].files
    return list(files) if files and all(file.endswith(".npy") for file in files) else [f"data/{name}/*.npy"]


def _source_notes(recipe: Recipe, mixture: dict[str, float]) -> list[str]:
    notes = [
        "SourceMixtureList.from_yaml reads this file. target_ratio is a share of tokens;",
        "max_repetition_ratio is a cap on the passes over a source.",
        PATHS,
    ]
    missing = [name for name in mixture if _paths(recipe, name) != list(recipe.corpora[name].files)]
    if missing:
        notes.append(f"Tokenize these first, into the paths below: {', '.join(missing)}.")
    return notes


def _train_notes(recipe: Recipe, phase: Phases, ramp: list[tuple[int, int]]) -> list[str]:
    notes = [
        "dataset: SourceMixtureDatasetConfig (batch in tokens). train_module: TransformerTrainModuleConfig.from_dict,",
        "with a rank_microbatch_size of your own. model: keywords of TransformerConfig, for "
        f"{recipe.model.model_size} parameters without embeddings.",
        "trainer.max_duration: Duration; tokens, because the scheduler counts tokens.",
    ]
    if not phase.warmup_tokens and phase.decay_tokens and phase.stable_tokens:
        notes.append("No warmup: the wsd scheduler needs one of at least 1 token, so the first step has rate 0.")
    if len(ramp) > 1:
        rates = [phase.peak * math.sqrt(size / ramp[-1][1]) for _, size in ramp]
        peaks = ", ".join(f"{rate:.4g} from {start} tokens" for rate, (start, _) in zip(rates, ramp, strict=True))
        notes += [
            "batch_size_scheduler: BatchSizeSchedulerCallback. It multiplies the rate by the square root of the",
            f"change, so the peak is {peaks}; the recipe asks for {phase.peak:.4g} throughout.",
        ]
    return notes
