"""RunSettings: all that makes one proxy run what it is. Sweep: the runs of a study, in the order to do them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

# Goes into every id. Whoever changes what the same settings train to raises it, and old results are other runs.
_FORMAT = 1


@dataclass(frozen=True)
class RunSettings:
    """One proxy run. Two runs with the same settings are the same run and share an `id`.

    `mixture` and `unique_tokens` go by corpus name; a corpus with share 0 may be left out of the mixture.
    `unique_tokens` caps what the run may see of each corpus before it repeats. `model_size`, `batch_tokens` and
    `peak_lr` are None for a proxy that has none. `precision` is fp32 or bf16; `data` the digest of the tokens that the
    run reads, so that a run on other text is another run.

    >>> run = RunSettings("ngram", 100_000, {"web": 1.0}, {"web": 50_000}, seed=0)
    >>> run.id == RunSettings("ngram", 100_000, {"web": 1.0}, {"web": 50_000}, seed=0).id
    True
    """

    proxy: str
    tokens: int
    mixture: Mapping[str, float]
    unique_tokens: Mapping[str, int]
    seed: int
    model_size: int | None = None
    batch_tokens: int | None = None
    peak_lr: float | None = None
    schedule: str = "wsd"
    sequence_length: int = 128
    epoch_matched: bool = True
    precision: str = "fp32"
    data: str = ""
    purpose: str = field(default="", compare=False)

    @cached_property
    def id(self) -> str:
        """Kind of proxy and 12 digits of the SHA-256 of the settings, `purpose` aside."""
        content = {"format": _FORMAT} | {key: value for key, value in asdict(self).items() if key != "purpose"}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.proxy}-{digest[:12]}"

    @property
    def flops(self) -> float:
        """6 * model_size * tokens; 0 for a proxy without a size."""
        return 6.0 * (self.model_size or 0) * self.tokens

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunSettings":
        """Inverse of `to_dict`."""
        return cls(**values)


@dataclass(frozen=True)
class Sweep:
    """The runs of a study, cheapest kind first, and the names that their mixtures and losses go by."""

    corpora: tuple[str, ...]
    targets: tuple[str, ...]
    runs: tuple[RunSettings, ...]

    def __add__(self, other: "Sweep") -> "Sweep":
        known = {run.id for run in self.runs}
        return Sweep(self.corpora, self.targets, self.runs + tuple(run for run in other.runs if run.id not in known))

    @property
    def flops(self) -> float:
        """FLOPs of all runs together."""
        return sum(run.flops for run in self.runs)

    def to_json(self) -> str:
        """The sweep as a JSON document that `from_json` reads."""
        content = {
            "corpora": self.corpora,
            "targets": self.targets,
            "runs": [{"id": run.id, **run.to_dict()} for run in self.runs],
        }
        return json.dumps(content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Sweep":
        """Inverse of `to_json`."""
        content = json.loads(text)
        runs = [{key: value for key, value in run.items() if key != "id"} for run in content["runs"]]
        return cls(
            tuple(content["corpora"]), tuple(content["targets"]), tuple(RunSettings.from_dict(run) for run in runs)
        )
