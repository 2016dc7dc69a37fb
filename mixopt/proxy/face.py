"""What every kind of proxy takes and gives: `train(settings, data, ...) -> Result`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Progress = Callable[[int, int, float], None]
"""Called with the step, the number of steps and the training loss in nats per token."""


@dataclass(frozen=True)
class Result:
    """What one run measured. `loss` [nats per token] and `bits_per_byte` go by target, the rest by corpus."""

    status: str
    loss: Mapping[str, float]
    bits_per_byte: Mapping[str, float]
    epochs: Mapping[str, float]
    realized: Mapping[str, float]
    steps: int
    flops: float
    seconds: float
    model_size: int | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)
