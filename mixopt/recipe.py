"""The recipe: everything that a trainer needs, and why, without naming any trainer."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from .files import write_text
from .schedules.schedule import Schedule

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Level = Annotated[float, Field(gt=0, lt=1)]
Name = Annotated[str, Field(min_length=1)]


class Record(BaseModel):
    """A part of a recipe: immutable, unknown keys refused, no value converted to another type."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Interval(Record):
    """A value lies between `lower` and `upper` with probability `level`, by the bootstrap over runs."""

    lower: float
    upper: float
    level: Level

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower > self.upper:
            raise ValueError(f"interval runs from {self.lower} to {self.upper}; lower must not exceed upper.")
        return self


class Provenance(Record):
    """Where the recipe comes from: what chose it, from which study, by which fitted law, from how many runs.

    `coefficients` and `coefficient_intervals` go by target, then by name; `warnings` are what the reader must know
    before believing the recipe.
    """

    mixopt: Name
    study: Name
    study_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    law: Name
    coefficients: Mapping[str, Mapping[str, float]]
    coefficient_intervals: Mapping[str, Mapping[str, Interval]] = {}
    runs: Annotated[int, Field(ge=1)]
    warnings: tuple[str, ...] = ()


class Transfer(Record):
    """Where the peak learning rate comes from: `base_lr`, of `base_width` and `base_depth`, times `factor`.

    The factor is that of the hidden matrices; under muP embeddings take `base_lr` at every width.
    """

    base_lr: Positive
    base_width: Annotated[int, Field(ge=1)]
    base_depth: Annotated[int, Field(ge=1)]
    factor: Positive


class Model(Record):
    """The model: `model_size` non-embedding parameters, and the `width` and `depth` that `transfer` was made for."""

    model_size: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=1)] | None = None
    depth: Annotated[int, Field(ge=1)] | None = None
    transfer: Transfer | None = None
    note: str = ""


class Optimizer(Record):
    """AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) with the settings of the proxies.

    `weight_decay`, times the learning rate, shrinks every matrix but the embedding, per step; proxies multiply it by
    the rate of the base width at every size. Gradients are clipped to `clip_norm`, that of all of them together.
    """

    name: Literal["adamw"] = "adamw"
    beta1: Momentum = 0.9
    beta2: Momentum = 0.95
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    clip_norm: Positive = 1.0


class Stage(Record):
    """A stretch of training on one mixture; a corpus that the mixture leaves out has share 0."""

    tokens: Annotated[int, Field(ge=1)]
    mixture: Mapping[str, Share]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        total = math.fsum(self.mixture.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(
                f"mixture sums to {total:.8g}; shares must sum to 1 within 1e-6. "
                "Divide by the sum, or list the missing corpus."
            )
        return self


class CorpusUse(Record):
    """What there is of a corpus [tokens], where it lies, and how often the recipe passes over it.

    `files` are what the proxies read, relative to the folder that mixopt was called in; they may be a sample of
    `available_tokens`, and include what was held out. The warnings of the provenance say so.
    """

    available_tokens: Positive
    epochs: Annotated[float, Field(ge=0)]
    documents: Annotated[int, Field(ge=1)] | None = None
    mean_document_tokens: Positive | None = None
    files: tuple[str, ...] = ()


class Target(Record):
    """A target and its predicted loss [nats per token]."""

    weight: Annotated[float, Field(ge=0)]
    loss: float
    interval: Interval
    bits_per_byte: float | None = None


class Prediction(Record):
    """The weighted loss that the law predicts for this recipe [nats per token]."""

    loss: float
    interval: Interval


class Recipe(Record):
    """What to train on, for how long, at which batch size and learning rate, and what to expect of it.

    `learning_rate` and `batch` [tokens per step] are schedules over tokens. A trainer with one learning rate runs at
    `learning_rate`: it is that of the hidden matrices at the model's width and depth. The order of the corpora, and of
    the keys, is that of the file.

    Raises
    ------
    ValueError
        A key is missing, unknown or of the wrong type; shares do not sum to 1; stages or schedules do not add up to
        `tokens`; epochs disagree with share * tokens / available_tokens, or the peak learning rate with the transfer,
        by more than 1 %.
    """

    format: Literal[1] = 1
    provenance: Provenance
    model: Model
    tokens: Annotated[int, Field(ge=1)]
    sequence_length: Annotated[int, Field(ge=1)]
    batch: Schedule
    learning_rate: Schedule
    optimizer: Optimizer = Optimizer()
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]
    corpora: Annotated[Mapping[str, CorpusUse], Field(min_length=1)]
    targets: Annotated[Mapping[str, Target], Field(min_length=1)]
    predicted: Prediction
    seed: Annotated[int, Field(ge=0)]
    tokenizer: str | None = None

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        staged = sum(stage.tokens for stage in self.stages)
        for name, tokens in (
            ("stages", staged),
            ("batch", self.batch.tokens),
            ("learning_rate", self.learning_rate.tokens),
        ):
            if not math.isclose(tokens, self.tokens, rel_tol=1e-6):
                raise ValueError(f"{name} covers {tokens:.8g} tokens; it must cover all {self.tokens} of the recipe.")
        return self

    @model_validator(mode="after")
    def _known_corpora(self) -> Self:
        for number, stage in enumerate(self.stages, 1):
            for name in stage.mixture:
                if name not in self.corpora:
                    raise ValueError(f"stage {number} mixes {name!r}; corpora has only {', '.join(self.corpora)}.")
        return self

    @model_validator(mode="after")
    def _epochs_follow(self) -> Self:
        for name, corpus in self.corpora.items():
            seen = math.fsum(stage.tokens * stage.mixture.get(name, 0.0) for stage in self.stages)
            epochs = seen / corpus.available_tokens
            if not math.isclose(corpus.epochs, epochs, rel_tol=0.01, abs_tol=1e-9):
                raise ValueError(
                    f"corpora.{name}.epochs is {corpus.epochs:g}; {seen:.6g} tokens of {corpus.available_tokens:.6g} "
                    f"are {epochs:.6g}. Correct the epochs, or available_tokens."
                )
        return self

    @model_validator(mode="after")
    def _rate_follows(self) -> Self:
        transfer, peak = self.model.transfer, self.learning_rate.peak
        if transfer and not math.isclose(peak, transfer.base_lr * transfer.factor, rel_tol=0.01):
            raise ValueError(
                f"learning_rate peaks at {peak:.6g}; model.transfer says {transfer.base_lr:g} * {transfer.factor:g} = "
                f"{transfer.base_lr * transfer.factor:.6g}. Correct the schedule, or leave model.transfer out."
            )
        return self

    @property
    def mixture(self) -> dict[str, float]:
        """Share of each corpus in all the tokens, stages taken together; every corpus is named."""
        return {
            name: math.fsum(stage.tokens * stage.mixture.get(name, 0.0) for stage in self.stages) / self.tokens
            for name in self.corpora
        }

    def to_yaml(self) -> str:
        """YAML whose floats keep every digit and stay floats under YAML 1.1 (`2.0e-05`, which `2e-05` does not)."""
        plain = self.model_dump(mode="json")
        return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=None)

    @classmethod
    def from_yaml(cls, text: str, name: str = "recipe") -> "Recipe":
        """The recipe whose `to_yaml` is `text`; `name` is what errors call it."""
        try:
            _refuse_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), name)
            plain = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(f"{name} is not YAML: {' '.join(str(error).split())}.") from None
        return cls.from_plain(plain, name)

    @classmethod
    def from_plain(cls, plain: Any, name: str = "recipe") -> "Recipe":
        """The recipe of plain values, as JSON or YAML hold them; `name` is what errors call it."""
        try:
            # As JSON, for which pydantic's strict mode takes a list as a tuple.
            return cls.model_validate_json(json.dumps(plain, default=_not_plain))
        except TypeError as error:
            raise ValueError(f"{name} {error}") from None
        except ValidationError as error:
            raise ValueError(_sentence(name, error)) from None

    @classmethod
    def read(cls, path: str | Path) -> "Recipe":
        """The recipe in a file; the first thing wrong with it is told in a sentence with the file and the key."""
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"{path} is not a file; give the path of a recipe.yaml.")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not text; give the path of a recipe.yaml.") from None
        return cls.from_yaml(text, str(path))

    def write(self, path: str | Path) -> Path:
        """Write the YAML, whole or not at all."""
        return write_text(Path(path), self.to_yaml())

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON Schema of the file, for editors and for other languages."""
        return cls.model_json_schema()


def _refuse_repeated_keys(node: yaml.Node | None, name: str) -> None:
    """YAML readers keep the last of two equal keys and say nothing."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated_keys(item, name)
    elif isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if key.value in keys:
                raise ValueError(f"{name}, line {key.start_mark.line + 1}: key {key.value} is given twice. Remove one.")
            keys.add(key.value)
            _refuse_repeated_keys(value, name)


def _not_plain(value: object) -> None:
    raise TypeError(f"holds {value}, a {type(value).__name__}; only text, numbers, lists and keys are read. Quote it.")


def _sentence(name: str, error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"])
    place = f"{name}, key {key}" if key else name
    unknown = "this key is not known. Remove it, or correct its spelling."
    hints = {
        "extra_forbidden": unknown,
        "unexpected_keyword_argument": unknown,
        "missing": "this key is missing. Add it.",
        "float_type": f"{first['input']!r} is not a number. YAML reads 1e-4 as text; write 1.0e-4.",
        "value_error": first["msg"].removeprefix("Value error, "),
    }
    message = hints.get(first["type"], f"{first['msg']}; it is {first['input']!r}.")
    return f"{place}: {message}"
