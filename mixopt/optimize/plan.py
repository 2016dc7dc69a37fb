"""Plan: what was decided, how good it is expected to be, how sure that is, and what holds it back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import log
from typing import Any

Interval = tuple[float, float]


@dataclass(frozen=True)
class Chosen:
    """The decision. `batch_tokens` and `peak_lr` are None where neither chosen nor given."""

    mixture: Mapping[str, float]
    model_size: float
    tokens: float
    batch_tokens: float | None = None
    peak_lr: float | None = None


@dataclass(frozen=True)
class TargetLoss:
    """Expected loss of one target, nats per token."""

    loss: float
    interval: Interval | None


@dataclass(frozen=True)
class Baseline:
    """A mixture that needs no plan, at the plan's model size, tokens, batch and learning rate.

    Attributes
    ----------
    mixture, epochs : by corpus
    feasible : whether it keeps the bounds and epoch caps
    loss : weighted target loss, nats per token
    difference : its loss minus the plan's: what the plan saves
    difference_interval : of that, from replicates in which both are evaluated and from the error of extrapolation
    plan_better : chance that the plan has the lower loss, from the same
    """

    mixture: Mapping[str, float]
    epochs: Mapping[str, float]
    feasible: bool
    loss: float
    interval: Interval | None
    difference: float
    difference_interval: Interval | None
    plan_better: float | None


@dataclass(frozen=True)
class Plan:
    """The answer to a problem.

    Attributes
    ----------
    chosen : the decision
    epochs : passes over the unique tokens of each corpus
    flops : 6 * model_size * tokens
    loss : weighted target loss, nats per token
    interval : of `loss`, covering it with probability `level`; None where nothing is known of the uncertainty
    targets : loss of each target
    kkt_residual : residual of the optimality conditions, relative to the gradient (see `kkt.certify`)
    agreement : share of the searches that ended within 1e-5 nats of the plan
    multipliers : derivative of the loss by each constraint that holds the plan back (see `kkt.sensitivities`)
    baselines : usual choices by name
    notes : what a reader should know before spending the budget
    """

    chosen: Chosen
    epochs: Mapping[str, float]
    flops: float
    loss: float
    interval: Interval | None
    level: float
    targets: Mapping[str, TargetLoss]
    kkt_residual: float
    agreement: float
    multipliers: Mapping[str, float]
    baselines: Mapping[str, Baseline]
    notes: tuple[str, ...] = field(default=())

    def sensitivities(self) -> tuple[str, ...]:
        """The multipliers in words, the most important first."""
        return tuple(sentence for _, sentence in sorted(_in_words(*item) for item in self.multipliers.items()))

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON can hold it."""
        return {**asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Plan":
        """The plan that `to_dict` wrote, also after a round trip through JSON."""
        values = dict(data)
        values["chosen"] = Chosen(**values["chosen"])
        values["interval"] = _interval(values["interval"])
        values["targets"] = {
            name: TargetLoss(entry["loss"], _interval(entry["interval"])) for name, entry in values["targets"].items()
        }
        values["baselines"] = {name: _baseline(entry) for name, entry in values["baselines"].items()}
        values["notes"] = tuple(values["notes"])
        return cls(**values)


def _baseline(entry: Mapping[str, Any]) -> Baseline:
    intervals: dict[str, Any] = {name: _interval(entry[name]) for name in ("interval", "difference_interval")}
    return Baseline(**{**entry, **intervals})


def _interval(ends: Any) -> Interval | None:
    return None if ends is None else (float(ends[0]), float(ends[1]))


def _in_words(name: str, slope: float) -> tuple[float, str]:
    """Sort key and sentence of one multiplier: what a tenth more, or a hundredth of share, would do to the loss."""
    kind, _, rest = name.partition("[")
    corpus = rest[:-1]
    subject, step = {
        "flops": ("10 % more flops", log(1.1)),
        "max_epochs": (f"10 % more epochs of {corpus}", log(1.1)),
        "share_lower": (f"A lower bound of {corpus}'s share smaller by 0.01", -0.01),
        "share_upper": (f"An upper bound of {corpus}'s share larger by 0.01", 0.01),
    }.get(kind, _bound_words(kind))
    change = slope * step
    verb = "lowers" if change < 0 else "raises"
    return change, f"{subject} {verb} the loss by {abs(change):.2g} nats per token."


def _bound_words(kind: str) -> tuple[str, float]:
    scalar, _, side = kind.rpartition("_")
    more = side == "upper"
    words = f"An upper bound of {scalar} larger" if more else f"A lower bound of {scalar} smaller"
    return f"{words} by 10 %", log(1.1) if more else log(0.9)
