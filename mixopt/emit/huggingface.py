"""Hugging Face: TrainingArguments and `interleave_datasets`, with the script that reads them."""

import math
from typing import Any

from ..errors import EmitError
from ..recipe import Model, Optimizer, Recipe
from ._trainer_script import SCRIPT
from .face import (
    INSTEAD,
    PATHS,
    Phases,
    batch_sequences,
    in_phases,
    largest_gap,
    one_mixture,
    phases,
    spoken,
    yaml_file,
)

STACK = "transformers 5.24.0 and datasets 5.2.0"
DECAYS = {"linear": "linear", "cosine": "cosine", "sqrt": "1-sqrt"}


def emit(recipe: Recipe) -> dict[str, str]:
    """`train.yaml`, and `train.py` that trains on it.

    `interleave_datasets` draws examples, not tokens. The script packs every corpus into sequences of one length first,
    so a probability is a share of tokens. For those who interleave whole documents instead, `document_probability` is
    proportional to share / mean tokens of a document, where the recipe knows all lengths.

    Raises
    ------
    EmitError
        Several stages, a batch ramp, a batch that is no whole number of sequences, a warmup that starts above 0, or a
        schedule other than warmup, plateau and one decay.
    """
    mixture = one_mixture(recipe, "huggingface")
    sequences = _sequences(recipe)
    phase = phases(recipe.learning_rate, "huggingface")
    steps = phase.in_steps(sequences * recipe.sequence_length)
    if sum(steps) < 1:
        raise EmitError(f"{recipe.tokens} tokens are less than half a batch; lower the recipe's batch.")
    kind, options = _scheduler(recipe, phase, steps)
    arguments = {
        "output_dir": "out",
        "max_steps": sum(steps),
        "learning_rate": phase.peak,
        "warmup_steps": steps[0],
        "lr_scheduler_type": kind,
        "lr_scheduler_kwargs": options,
        **_optimizer(recipe.optimizer),
        "seed": recipe.seed,
    }
    model = _llama(recipe.model, recipe.sequence_length)
    content = {"training_arguments": arguments, "model": model, "data": _data(recipe, mixture, sequences)}
    notes = [*_notes(recipe, phase, steps, options), *_model_notes(recipe.model, model)]
    return {"train.yaml": yaml_file(recipe, STACK, notes, content), "train.py": SCRIPT}


def _optimizer(optimizer: Optimizer) -> dict[str, Any]:
    return {
        "optim": "adamw_torch",
        "adam_beta1": optimizer.beta1,
        "adam_beta2": optimizer.beta2,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.clip_norm,
    }


def _sequences(recipe: Recipe) -> int:
    if len({value for part in recipe.batch.segments for value in (part.start, part.end)}) > 1:
        raise EmitError(f"huggingface keeps one batch size; this recipe has {spoken(recipe.batch)}. {INSTEAD}.")
    return batch_sequences(recipe.batch.peak, recipe.sequence_length, "huggingface")


def _scheduler(recipe: Recipe, phase: Phases, steps: tuple[int, int, int]) -> tuple[str, dict[str, Any]]:
    _, stable, decay = steps
    if phase.start:
        raise EmitError(
            f"huggingface warms up from 0; this schedule has {spoken(recipe.learning_rate)}. Start it at 0. {INSTEAD}."
        )
    if not phase.decay_tokens:
        return "constant_with_warmup", {}
    if not phase.stable_tokens and phase.shape == "linear":
        return ("polynomial", {"lr_end": phase.final, "power": 1.0}) if phase.final else ("linear", {})
    if not phase.stable_tokens and phase.shape == "cosine":
        return ("cosine_with_min_lr", {"min_lr_rate": phase.final / phase.peak}) if phase.final else ("cosine", {})
    # num_stable_steps too: some trainers on top of transformers fill it with a default of their own.
    return "warmup_stable_decay", {
        "num_stable_steps": stable,
        "num_decay_steps": decay,
        "decay_type": DECAYS[phase.shape],
        "min_lr_ratio": phase.final / phase.peak,
    }


def _data(recipe: Recipe, mixture: dict[str, float], sequences: int) -> dict[str, Any]:
    lengths = {name: recipe.corpora[name].mean_document_tokens for name in mixture}
    documents = {name: share / length for name, share in mixture.items() if (length := lengths[name])}
    total = math.fsum(documents.values()) if len(documents) == len(mixture) else math.nan
    return {
        "sequence_length": recipe.sequence_length,
        "batch_sequences": sequences,
        "tokenizer": recipe.tokenizer,
        "seed": recipe.seed,
        "stopping_strategy": "all_exhausted",
        "corpora": {
            name: {
                "files": list(recipe.corpora[name].files) or [f"data/{name}.jsonl"],
                "probability": share,
                "document_probability": None if math.isnan(total) else documents[name] / total,
            }
            for name, share in mixture.items()
        },
    }


def _llama(model: Model, sequence_length: int) -> dict[str, Any]:
    """A Llama of 4 width^2 + 3 width * hidden parameters a layer: hidden near 8/3 width, width near 64 * depth.

    Where the recipe gives width or depth they are kept; hidden makes up what the width rounds off. The embeddings are
    tied, as those of the proxies.
    """
    depth = model.depth or max(1, round((model.model_size / (12 * 64**2)) ** (1 / 3)))
    ideal = math.sqrt(model.model_size / (12 * depth))
    grain = 64 if ideal >= 512 else 16
    width = model.width or grain * max(1, round(ideal / grain))
    hidden = 8 * max(1, round((model.model_size / depth - 4 * width**2) / (3 * width) / 8))
    head = next(size for size in (64, 32, 16, 8, 4, 2, width) if width % size == 0)
    return {
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": width // head,
        "intermediate_size": hidden,
        "max_position_embeddings": sequence_length,
        "tie_word_embeddings": True,
    }


def _model_notes(asked: Model, made: dict[str, Any]) -> list[str]:
    width, depth, hidden = made["hidden_size"], made["num_hidden_layers"], made["intermediate_size"]
    size = depth * (4 * width**2 + 3 * width * hidden)
    return [f"model: {size} parameters in its layers, without norms and embeddings; the recipe has {asked.model_size}."]


def _notes(recipe: Recipe, phase: Phases, steps: tuple[int, int, int], options: dict[str, Any]) -> list[str]:
    batch = round(recipe.batch.peak)
    rest = recipe.tokens - sum(steps) * batch
    # warmup_stable_decay raises the warmup to its floor as well.
    made = in_phases(*steps, batch, phase, phase.peak * options.get("min_lr_ratio", 0.0))
    gap = largest_gap(made, recipe.learning_rate)
    return [
        "probability: of drawing the next packed sequence, so a share of tokens; train.py packs before it interleaves.",
        "document_probability: use it instead if you interleave whole documents.",
        f"max_steps covers {sum(steps) * batch} of {recipe.tokens} tokens ({rest:+d} left by whole steps).",
        f"Learning rate: at most {gap:.2g} of the peak from the recipe's, by whole steps and the floor of the warmup.",
        "train.py splits batch_sequences into micro-batches of at most 16, over the processes that it is started in.",
        "weight_decay: train.py spares the embedding, as the proxies did.",
        PATHS,
    ]
