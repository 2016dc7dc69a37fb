"""Problem: what is decided, between which bounds, for which targets, under which budget.

A decision is a vector `x` of length d: the m shares of the mixture, then the natural logarithm of each scalar in
`choose`, in the order of `SCALARS`. Rows of decisions become rows of law columns by `Problem.columns`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Law

SCALARS = ("model_size", "tokens", "batch_tokens", "peak_lr")


class Fitted(Protocol):
    """What a problem needs of a fit: a law with its coefficients, and how sure they are.

    `unexplained` is the relative sd that a prediction has on top of its replicates', more the farther it lies beyond
    the runs, by `overshoot` in e-folds where its error was measured at `reach`; `support` is the smallest and largest
    value of inputs that its runs tried, empty where nothing is known of runs.
    """

    @property
    def law(self) -> Law: ...
    @property
    def theta(self) -> Array: ...
    @property
    def replicates(self) -> Array: ...
    @property
    def extrapolation(self) -> float: ...
    @property
    def reach(self) -> float: ...
    @property
    def support(self) -> Mapping[str, tuple[float, float]]: ...
    def overshoot(self, columns: Columns) -> Array: ...
    def unexplained(self, columns: Columns) -> Array: ...
    def samples(self, columns: Columns) -> Array: ...


@dataclass(frozen=True)
class Target:
    """One thing that the model should predict well.

    `weight` is relative: the weighted loss is sum(weight * loss) / sum(weight), so it stays in nats per token.
    """

    name: str
    weight: float
    fit: Fitted


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    r"""Choose a mixture and scalars that minimize the weighted target loss under a compute budget.

    .. math:: \min \sum_k w_k L_k(x) \quad\text{s.t.}\quad \sum_i h_i = 1,\; 6ND \le C,\; D h_i \le e_i U_i

    Parameters
    ----------
    corpora : m names
    targets : what is to be predicted well
    unique_tokens : [m], tokens of each corpus before it repeats
    max_epochs : [m] or one number, passes allowed over each corpus; `inf` is no cap
    budget_flops : FLOPs that may be spent, 6 * model_size * tokens
    choose : (lower, upper) of each scalar that is decided: any of model_size, tokens, batch_tokens, peak_lr
    given : value of each scalar that is not, and of any other column that a law reads
    share_bounds : [m, 2], lower and upper bound of each share
    spend : whether the whole budget must be spent; otherwise what the data cannot use stays unspent

    Raises
    ------
    ValueError
        Something above is missing, contradicts another, or is outside its range.
    """

    corpora: tuple[str, ...]
    targets: tuple[Target, ...]
    unique_tokens: Array
    max_epochs: Array
    budget_flops: float
    choose: Mapping[str, tuple[float, float]]
    given: Mapping[str, float] = field(default_factory=dict[str, float])
    share_bounds: Array = field(default_factory=lambda: np.array([0.0, 1.0]))
    spend: bool = False

    def __post_init__(self) -> None:
        m = len(self.corpora)
        for name, shape in (("unique_tokens", (m,)), ("max_epochs", (m,)), ("share_bounds", (m, 2))):
            values = np.asarray(getattr(self, name), dtype=float)
            if values.shape != shape and (name == "unique_tokens" or values.shape != shape[1:]):
                raise ValueError(
                    f"{name} has the shape {values.shape}; {m} corpora ({', '.join(self.corpora)}) need {shape}."
                )
            values = np.broadcast_to(values, shape).copy()
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        _check_names(self)
        _check_ranges(self)
        _check_scalars(self)
        _check_laws(self)

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        """Names of the scalars that are decided, in the order in which they stand in a decision."""
        return tuple(name for name in SCALARS if name in self.choose)

    @cached_property
    def lower(self) -> Array:
        """[d], lower bounds of a decision."""
        return np.concatenate([self.share_bounds[:, 0], [np.log(self.choose[name][0]) for name in self.scalars]])

    @cached_property
    def upper(self) -> Array:
        """[d], upper bounds of a decision."""
        return np.concatenate([self.share_bounds[:, 1], [np.log(self.choose[name][1]) for name in self.scalars]])

    @cached_property
    def cap_tokens(self) -> Array:
        """[m], tokens of each corpus that its epoch cap allows."""
        return self.unique_tokens * self.max_epochs

    @cached_property
    def target_weights(self) -> Array:
        """[k], weights of the targets, divided by their sum."""
        weights = np.array([target.weight for target in self.targets], dtype=float)
        return weights / weights.sum()

    @cached_property
    def laws(self) -> tuple[tuple[Law, Array, list[int]], ...]:
        """Distinct laws, each with the coefficients [g, p] of its g targets and the places of these targets."""
        places: dict[Law, list[int]] = {}
        for k, target in enumerate(self.targets):
            places.setdefault(target.fit.law, []).append(k)
        return tuple((law, np.stack([self.targets[k].fit.theta for k in ks]), ks) for law, ks in places.items())

    def bounds(self, scalar: str) -> tuple[float, float]:
        """Lower and upper bound of a scalar; both its value where it is given."""
        return self.choose[scalar] if scalar in self.choose else (self.given[scalar], self.given[scalar])

    def place(self, scalar: str) -> int | None:
        """Where a scalar's logarithm stands in a decision; None where it is given."""
        return len(self.corpora) + self.scalars.index(scalar) if scalar in self.choose else None

    def scalar(self, x: Array, name: str) -> float:
        """A scalar's value in the decision `x`."""
        place = self.place(name)
        return float(self.given[name] if place is None else np.exp(x[place]))

    def columns(self, x: Array) -> Columns:
        """Law columns of the decisions `x`, [n, d] or [d]: one row per decision. Complex decisions stay complex."""
        x = np.atleast_2d(x)
        n, m = len(x), len(self.corpora)
        columns = {name: np.full(n, float(value)) for name, value in self.given.items()}
        columns |= {name: np.exp(x[:, m + i]) for i, name in enumerate(self.scalars)}
        columns["mixture"] = x[:, :m]
        columns["unique_tokens"] = np.broadcast_to(self.unique_tokens, (n, m))
        columns["epochs"] = columns["mixture"] * columns["tokens"][:, None] / self.unique_tokens
        columns["flops"] = 6 * columns["model_size"] * columns["tokens"]
        if "batch_tokens" in columns:
            columns["steps"] = columns["tokens"] / columns["batch_tokens"]
        return columns


def _check_names(problem: Problem) -> None:
    for kind, names in (("corpus", problem.corpora), ("target", tuple(t.name for t in problem.targets))):
        if not names:
            raise ValueError(f"A problem needs at least one {kind}; this one has none.")
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"The {kind} {repeated[0]!r} is listed more than once; names must differ.")
    for target in problem.targets:
        if not (np.isfinite(target.weight) and target.weight > 0):
            raise ValueError(
                f"Target {target.name} has the weight {target.weight:g}; it must be positive. "
                "Leave the target out to ignore it."
            )


def _check_ranges(problem: Problem) -> None:
    for corpus, tokens, epochs, (lower, upper) in zip(
        problem.corpora, problem.unique_tokens, problem.max_epochs, problem.share_bounds, strict=True
    ):
        if not (np.isfinite(tokens) and tokens > 0):
            raise ValueError(f"Corpus {corpus} has {tokens:g} unique_tokens; it must be positive and finite.")
        if not epochs > 0:
            raise ValueError(
                f"Corpus {corpus} has max_epochs {epochs:g}; it must be positive (inf is no cap). "
                "Bound its share by (0, 0) to leave it out."
            )
        if not 0 <= lower <= upper <= 1:
            raise ValueError(
                f"Corpus {corpus} has the share bounds ({lower:g}, {upper:g}); 0 <= lower <= upper <= 1 must hold."
            )
    if not (np.isfinite(problem.budget_flops) and problem.budget_flops > 0):
        raise ValueError(f"budget_flops is {problem.budget_flops:g}; it must be positive and finite.")


def _check_scalars(problem: Problem) -> None:
    if unknown := sorted(set(problem.choose) - set(SCALARS)):
        raise ValueError(f"choose has {unknown[0]!r}; only {', '.join(SCALARS)} can be chosen. Put it under given.")
    if both := sorted(set(problem.choose) & set(problem.given)):
        raise ValueError(f"{both[0]} is under choose and under given; keep one.")
    for name in ("model_size", "tokens"):
        if name not in problem.choose and name not in problem.given:
            raise ValueError(f"{name} is needed for the budget; bound it under choose or fix it under given.")
    for name, (lower, upper) in problem.choose.items():
        if not (0 < lower < upper and np.isfinite(upper)):
            raise ValueError(
                f"choose bounds {name} by ({lower:g}, {upper:g}); the bounds must be positive, finite and increasing. "
                "Put a fixed value under given."
            )
    for name, value in problem.given.items():
        if not np.isfinite(value) or (name in SCALARS and value <= 0):
            raise ValueError(f"given has {name} = {value:g}; it must be finite{' and positive' * (name in SCALARS)}.")


def _check_laws(problem: Problem) -> None:
    made = {"mixture", "unique_tokens", "epochs", "flops", *problem.choose, *problem.given}
    made |= {"steps"} if "batch_tokens" in made else set()
    for target in problem.targets:
        law = target.fit.law
        if law.output != "loss":
            raise ValueError(f"The law of target {target.name} gives {law.output}; a target's law must give loss.")
        if missing := [name for name in law.inputs if name not in made]:
            raise ValueError(
                f"The law of target {target.name} reads {missing[0]}, which is neither chosen nor given. "
                f"Add it under {'choose or given' if missing[0] in SCALARS else 'given'}."
            )
    read = {name for target in problem.targets for name in target.fit.law.inputs}
    read |= {"batch_tokens"} if "steps" in read else set()
    read |= {"tokens"} if "epochs" in read else set()
    read |= {"model_size", "tokens"} if "flops" in read else set()
    for name in problem.choose:
        if name not in read:
            raise ValueError(
                f"{name} cannot be chosen: no target's law reads it, so any value is as good as another. "
                "Put it under given, or fit a law that has it."
            )
