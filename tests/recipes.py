"""Recipes that several tests start from; the numbers are chosen to be checked by hand."""

from collections.abc import Mapping
from typing import Any

from mixopt.recipe import Recipe
from mixopt.schedules.constant import constant
from mixopt.schedules.schedule import Schedule
from mixopt.schedules.wsd import wsd

MIXTURE = {"web": 0.62, "code": 0.23, "math": 0.15}
AVAILABLE = {"web": 5e9, "code": 1e9, "math": 1e8}
MEAN_DOCUMENT = {"web": 1000.0, "code": 500.0, "math": 2000.0}
INTERVAL = {"lower": 2.05, "upper": 2.15, "level": 0.9}
PROVENANCE = {
    "mixopt": "0.1.0",
    "study": "three-corpora",
    "study_sha256": "0" * 64,
    "law": "L = E + A N^-alpha + B D^-beta",
    "coefficients": {"code": {"E": 1.8172, "alpha": 0.3478}},
    "coefficient_intervals": {"code": {"E": {"lower": 1.7, "upper": 1.9, "level": 0.9}}},
    "runs": 64,
    "warnings": ["two of 64 runs diverged"],
}


def recipe(
    *,
    tokens: int = 1_048_576_000,
    sequence_length: int = 1024,
    batch: Schedule | None = None,
    learning_rate: Schedule | None = None,
    stages: list[dict[str, Any]] | None = None,
    available: Mapping[str, float] = AVAILABLE,
    **changes: Any,
) -> Recipe:
    """1000 steps of 1,048,576 tokens (1024 sequences of 1024) on three corpora, WSD; or as changed."""
    stages = stages or [{"tokens": tokens, "mixture": MIXTURE}]
    plain: dict[str, Any] = {
        "provenance": PROVENANCE,
        "model": {"model_size": 125_829_120},
        "tokens": tokens,
        "sequence_length": sequence_length,
        "batch": {"segments": (batch or constant(2.0**20, tokens)).to_list()},
        "learning_rate": {"segments": (learning_rate or wsd(3e-4, tokens, warmup=0.05)).to_list()},
        "stages": stages,
        "corpora": {name: _corpus(name, size, stages) for name, size in available.items()},
        "targets": {"code": {"weight": 1.0, "loss": 2.1, "interval": INTERVAL}},
        "predicted": {"loss": 2.1, "interval": INTERVAL},
        "seed": 17,
        "tokenizer": "data/tokenizer.json",
        **changes,
    }
    return Recipe.from_plain(plain)


def _corpus(name: str, size: float, stages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "available_tokens": size,
        "epochs": sum(stage["tokens"] * stage["mixture"].get(name, 0.0) for stage in stages) / size,
        "documents": max(1, int(size // MEAN_DOCUMENT.get(name, 1000))),
        "mean_document_tokens": MEAN_DOCUMENT.get(name),
        "files": [f"data/{name}.jsonl"],
    }
