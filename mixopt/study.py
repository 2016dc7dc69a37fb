"""Study: what the user writes, and what every later step reads."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from ._discover import available
from .errors import StudyError
from .study_errors import spell_errors, suggest
from .study_sections import (
    LARGEST_MODEL,
    LARGEST_PROXY,
    SMALLEST_PROXY,
    Budget,
    Choose,
    CorpusSource,
    ProxyTraining,
    Section,
    SweepDesign,
    TargetSource,
)
from .study_values import EpochCaps, Name, Names, ShareBounds
from .study_yaml import Location, read_document, spell_location

_Problems = Iterator[tuple[Location, str]]
_ROUNDING = 1e-9
_LADDER = 4


class Study(Section):
    """Corpora, targets, a budget, and what may be chosen under it."""

    name: Name = Field(description="Name of the study and of its folder under outputs/.")
    corpora: dict[Name, CorpusSource] = Field(min_length=1, description="Corpora that may be trained on, by name.")
    targets: dict[Name, TargetSource] = Field(min_length=1, description="What should become good, by name.")
    budget: Budget = Field(description="What the target run may cost, such as {flops: 1e18}.")
    max_epochs: EpochCaps = Field(
        default={"default": 4.0},
        description="Most passes over a corpus in the target run: one number, or numbers by corpus and a 'default'.",
    )
    shares: dict[str, ShareBounds] = Field(
        default={},
        description="Bounds [lower, upper] on the shares of corpora, or one value to fix a share; left out: [0, 1].",
    )
    choose: Choose = Field(description="What may be chosen for the target run: ranges [low, high], or one value.")
    sequence_length: int = Field(
        default=128,
        ge=8,
        le=65_536,
        description="Tokens in one training sequence, of the proxy runs and of the recipe.",
    )
    sweep: SweepDesign = Field(description="Which proxy runs the laws are fitted to.")
    proxy: ProxyTraining = Field(default=ProxyTraining(), description="How proxy runs are trained.")
    emit: Names = Field(default=(), description="Training stacks to write configuration files for.")
    seed: int = Field(default=0, ge=0, description="Seed of everything random in the study.")

    @classmethod
    def read(cls, path: str | Path, *, folder: str | Path | None = None, check_files: bool = True) -> "Study":
        """Read and check a study file.

        Parameters
        ----------
        path : the YAML file
        folder : where relative paths in it start; the file's own folder when None
        check_files : whether files of corpora and targets must exist; False to look at a study whose text is elsewhere

        Raises
        ------
        StudyError
            One sentence about the first problem in the file, with its line, and how many more there are.

        Examples
        --------
        >>> Study.read("nowhere.yaml")
        Traceback (most recent call last):
        mixopt.errors.StudyError: nowhere.yaml does not exist; `mixopt init` writes a study to start from.
        """
        document = read_document(Path(path))
        start = Path(path).parent if folder is None else Path(folder)
        try:
            return cls.model_validate(document.values, context={"folder": start, "check_files": check_files})
        except ValidationError as error:
            raise StudyError(spell_errors(error, document, cls)) from None

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON Schema (2020-12) of the study file, for editors.

        >>> Study.json_schema()["properties"]["seed"]["description"]
        'Seed of everything random in the study.'
        """
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **cls.model_json_schema()}

    def epoch_caps(self) -> dict[str, float]:
        """Most passes over each corpus; 4 where neither the corpus nor 'default' is given."""
        default = self.max_epochs.get("default", 4.0)
        return {corpus: self.max_epochs.get(corpus, default) for corpus in self.corpora}

    def share_bounds(self) -> dict[str, tuple[float, float]]:
        """Lower and upper bound on the share of each corpus; (0, 1) where none is given."""
        return {corpus: self.shares.get(corpus, (0.0, 1.0)) for corpus in self.corpora}

    def ladder(self, name: str) -> tuple[float, ...]:
        """Values of `batch_tokens` or `peak_lr` in the sweep: those given, or 4 spread evenly in log over `choose`.

        Batches that are not given are whole sequences.
        """
        given: tuple[float, ...] = getattr(self.sweep, name)
        if given:
            return given
        low, high = getattr(self.choose, name)
        spread = {low * (high / low) ** (rung / (_LADDER - 1)) for rung in range(_LADDER)}
        if name == "batch_tokens":
            length = self.sequence_length
            spread = {max(1, round(value / length)) * length for value in spread}
        return tuple(sorted(spread))

    @property
    def digest(self) -> str:
        """SHA-256 of the content; comments, the order of keys and spellings such as 1e6 or 1M do not count."""
        content = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @model_validator(mode="after")
    def _agrees_with_itself(self, info: ValidationInfo) -> "Study":
        problems = [*self._wrong_names(), *self._wrong_shares(), *self._wrong_sweep(), *self._too_small_budget()]
        if (info.context or {}).get("check_files", True):
            problems += self._missing_files()
        if problems:
            text = "; ".join(f"{spell_location(where)}: {problem}" for where, problem in problems)
            raise PydanticCustomError("study", "{text}", {"text": text, "problems": problems})
        return self

    def _wrong_names(self) -> _Problems:
        named = [(("targets", name, "corpus"), target.corpus) for name, target in self.targets.items() if target.corpus]
        capped = [(("max_epochs", name), name) for name in self.max_epochs if name != "default"]
        bounded = [(("shares", name), name) for name in self.shares]
        for location, name in [*named, *capped, *bounded]:
            if name not in self.corpora:
                yield location, f"no corpus is named {name!r}; {suggest(name, list(self.corpora))}"
        emitters = [(("emit", i), "emit", name) for i, name in enumerate(self.emit)]
        for location, folder, name in [*emitters, (("choose", "schedule"), "schedules", self.choose.schedule)]:
            if name not in available(folder):
                yield location, f"mixopt.{folder} has no {name!r}; it has {', '.join(available(folder))}"

    def _wrong_shares(self) -> _Problems:
        bounds = self.share_bounds().values()
        lower, upper = sum(low for low, _ in bounds), sum(high for _, high in bounds)
        if lower > 1 + _ROUNDING:
            yield ("shares",), f"the lower bounds sum to {lower:g}; shares sum to 1, so lower some of them"
        if upper < 1 - _ROUNDING:
            yield ("shares",), f"the upper bounds sum to {upper:g}; shares sum to 1, so raise some of them"

    def _wrong_sweep(self) -> _Problems:
        sweep, length, batch = self.sweep, self.sequence_length, self.choose.batch_tokens[0]
        largest, levels = max(self.ladder("batch_tokens")), max(len(self.sweep.model_size), len(self.sweep.tokens))
        least = max(len(self.corpora), 2 * levels) + sweep.favorites
        if sweep.mixtures < least:
            text = f"{sweep.mixtures} is not accepted; one per corpus, two per level and the favorites are {least}"
            yield ("sweep", "mixtures"), text
        if sweep.favorites > sweep.screen:
            text = f"{sweep.favorites} is not accepted; give at most as many as are screened, {sweep.screen}"
            yield ("sweep", "favorites"), text
        if 0 < sweep.screen < len(self.corpora) + 2:
            text = f"{sweep.screen} is not accepted; give 0, or at least two more than corpora, {len(self.corpora) + 2}"
            yield ("sweep", "screen"), text
        if levels == 1:
            text = (
                "the ladders have one level; laws are told apart by larger runs, so give two or more, such as [x, 2x]"
            )
            yield ("sweep", "tokens"), text
        for i, size in enumerate(sweep.model_size):
            if not SMALLEST_PROXY <= size <= LARGEST_PROXY:
                text = f"{size:g} is not accepted; proxies have {SMALLEST_PROXY:g} to {LARGEST_PROXY:g} parameters"
                yield ("sweep", "model_size", i), text
        for i, value in enumerate(sweep.batch_tokens):
            if value % length:
                near = max(1, round(value / length)) * length
                text = f"{value:g} is no multiple of sequence_length, {length}; the nearest is {near}"
                yield ("sweep", "batch_tokens", i), text
        low, high = self.choose.model_size
        if not SMALLEST_PROXY <= low <= high <= LARGEST_MODEL:
            text = f"{low:g} to {high:g} is not accepted; shapes are known for {SMALLEST_PROXY:g} to {LARGEST_MODEL:g}"
            yield ("choose", "model_size"), text
        if batch < length:
            text = f"{batch:g} tokens are less than one sequence; give at least sequence_length, {length}"
            yield ("choose", "batch_tokens"), text
        if largest > sweep.tokens[0]:
            text = f"a run of {sweep.tokens[0]:g} tokens is shorter than the largest batch; give at least {largest:g}"
            yield ("sweep", "tokens"), text

    def _too_small_budget(self) -> _Problems:
        proxy = 6 * self.sweep.model_size[0] * self.sweep.tokens[0] / self.sweep.share_of_budget
        target = 6 * self.choose.model_size[0] * self.choose.tokens[0]
        needed, what = max((proxy, "the smallest proxy run"), (target, "the smallest model and run in choose"))
        if self.budget.flops < needed:
            yield (
                ("budget", "flops"),
                f"{self.budget.flops:.4g} FLOPs do not pay for {what}; give at least {needed:.4g}",
            )

    def _missing_files(self) -> _Problems:
        for section, sources in (("corpora", self.corpora), ("targets", self.targets)):
            for name, source in sources.items():
                for i, pattern in enumerate(source.files):
                    if not source.matches(pattern):
                        yield (
                            (section, name, "files", i),
                            f"no file matches {pattern!r}; paths start at the study's folder",
                        )


def template() -> str:
    """The commented study that `mixopt init` writes.

    >>> template().splitlines()[0]
    '# A study for mixopt: which corpora, what for, and under which budget.'
    """
    return Path(__file__).with_name("study_template.yaml").read_text("utf-8")
