"""The sections of a study file. A field's description is its documentation and goes into the JSON Schema."""

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from .study_values import (
    Device,
    Files,
    Flops,
    Positive,
    RateRange,
    Rates,
    SizeRange,
    Sizes,
    TokenCounts,
    TokenRange,
    Tokens,
    Workers,
)

# What the transformer proxy can be built with, in non-embedding parameters.
SMALLEST_PROXY, LARGEST_PROXY = 20e3, 500e6
LARGEST_MODEL = 1e12
_LATER = ("gpu_hours", "dollars", "deadline")


class Section(BaseModel):
    """Strict and frozen; a key that it does not know is an error."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class TextSource(Section):
    """Where text is: files beside the study, or a dataset that the `datasets` library can load."""

    files: Files = Field(
        default=(),
        description="Paths or glob patterns of text, JSONL or parquet files; relative ones start at the study.",
    )
    dataset: str | None = Field(default=None, min_length=1, description="Name of a dataset to load instead of files.")
    config: str | None = Field(
        default=None, min_length=1, description="Configuration of the dataset, where it has several."
    )
    split: str = Field(default="train", min_length=1, description="Split of the dataset.")
    text: str = Field(default="text", min_length=1, description="Column or JSON key that holds the text of a document.")
    id: str = Field(
        default="id", min_length=1, description="Column or JSON key that names a document, where there is one."
    )
    max_documents: int | None = Field(
        default=None, ge=1, description="Read no more documents than this; left out: all."
    )
    _folder: Path = PrivateAttr(Path())

    def model_post_init(self, context: Any, /) -> None:
        """Remember which folder relative paths start from."""
        self._folder = Path((context or {}).get("folder", ""))

    def matches(self, pattern: str) -> tuple[Path, ...]:
        """The files that one of `files` stands for, sorted; a file whose name is the pattern itself comes first."""
        path = self._folder / Path(pattern).expanduser()
        if path.is_file():
            return (path,)
        found = glob.glob(str(Path(pattern).expanduser()), root_dir=self._folder, recursive=True)
        return tuple(sorted(path for name in found if (path := self._folder / name).is_file()))

    def paths(self) -> tuple[Path, ...]:
        """All files of this source, each once, sorted."""
        return tuple(sorted({path for pattern in self.files for path in self.matches(pattern)}))

    def _origins(self) -> Mapping[str, object]:
        return {"files": self.files, "dataset": self.dataset}

    @model_validator(mode="after")
    def _one_origin(self) -> "TextSource":
        given = [name for name, value in self._origins().items() if value]
        if len(given) != 1:
            found = " and ".join(given) or "no place of text"
            raise ValueError(f"{found} given; give exactly one of {', '.join(self._origins())}")
        if self.config is not None and self.dataset is None:
            raise ValueError("config belongs to a dataset; name the dataset, or leave config out")
        return self


class CorpusSource(TextSource):
    """A corpus to train on. A part of it is held out and never trained on."""

    available_tokens: Tokens | None = Field(
        default=None,
        description="Tokens that the target run has of this corpus, in the study's tokenizer, where the files are a "
        "sample; left out: counted.",
    )


class TargetSource(TextSource):
    """What should become good: the held-out text of a corpus, or text of its own."""

    corpus: str | None = Field(default=None, min_length=1, description="Corpus whose held-out text is the target.")
    weight: Positive = Field(
        default=1.0, description="Weight of this target's loss in what is minimized; only ratios matter."
    )

    def _origins(self) -> Mapping[str, object]:
        return {"corpus": self.corpus, "files": self.files, "dataset": self.dataset}


class Budget(Section):
    """What the target run may cost."""

    flops: Flops = Field(description="FLOPs of the target run, 6 * model_size * tokens: 1e18, 3 PFLOP, 2 PFLOP/s-days.")

    @model_validator(mode="before")
    @classmethod
    def _refuse_later_kinds(cls, value: object) -> object:
        later = [name for name in _LATER if isinstance(value, Mapping) and name in value]
        if later:
            raise ValueError(f"a budget in {later[0]} is not read yet; give flops")
        return value


class Choose(Section):
    """What may be chosen for the target run: a range [low, high], or one value to fix it."""

    model_size: SizeRange = Field(description="Non-embedding parameters of the target model.")
    tokens: TokenRange = Field(description="Tokens of the target run, repeats counted.")
    batch_tokens: TokenRange = Field(description="Tokens in one optimizer step.")
    peak_lr: RateRange = Field(description="Largest learning rate of the schedule.")
    schedule: str = Field(
        default="wsd", description="Shape of the learning-rate schedule: the name of one of mixopt's schedules."
    )

    def ranges(self) -> dict[str, tuple[float, float]]:
        """What is free, with its bounds."""
        return {name: bounds for name, bounds in self._bounds().items() if bounds[0] < bounds[1]}

    def fixed(self) -> dict[str, float]:
        """What is given as one value."""
        return {name: low for name, (low, high) in self._bounds().items() if low == high}

    def _bounds(self) -> dict[str, tuple[float, float]]:
        names = ("model_size", "tokens", "batch_tokens", "peak_lr")
        return {name: getattr(self, name) for name in names}


class SweepDesign(Section):
    """The proxy runs that laws are fitted to."""

    share_of_budget: float = Field(
        default=0.1,
        gt=0,
        allow_inf_nan=False,
        description="FLOPs of all transformer runs together, as a share of budget.flops.",
    )
    model_size: Sizes = Field(min_length=1, description="Ladder of proxy sizes, non-embedding parameters, rising.")
    tokens: TokenCounts = Field(min_length=1, description="Ladder of proxy run lengths in tokens, rising.")
    batch_tokens: TokenCounts = Field(
        default=(), description="Ladder of tokens per step, rising; left out: 4 values over the range in choose."
    )
    peak_lr: Rates = Field(
        default=(), description="Ladder of peak learning rates, rising; left out: 4 values over the range in choose."
    )
    mixtures: int = Field(
        default=24, ge=1, description="Mixtures that transformers are trained on; at least one per corpus."
    )
    screen: int = Field(default=64, ge=0, description="Mixtures that n-gram models are trained on first; 0 for none.")
    favorites: int = Field(
        default=4, ge=0, description="How many of the mixtures are the best of the screen; 0 for none."
    )
    replicates: int = Field(default=3, ge=2, description="Seeds that one run is repeated with, to measure the noise.")
    epoch_matched: bool = Field(
        default=True, description="Subsample corpora in proxy runs so that they repeat as often as in the target run."
    )


class ProxyTraining(Section):
    """How proxies are trained, and how text is held out for them."""

    vocabulary: int = Field(
        default=1024, ge=257, le=65_535, description="Tokens of the tokenizer trained on the corpora."
    )
    device: Device = Field(default="cpu", description="Device of the proxy runs: cpu, cuda, cuda:0 or mps.")
    workers: Workers = Field(default="auto", description="Runs trained at the same time; auto: one per core.")
    valid_share: float = Field(default=0.1, gt=0, lt=1, description="Share of each corpus's text that is held out.")
    leakage_limit: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Share of a target's text that a corpus may contain verbatim before it is refused.",
    )
