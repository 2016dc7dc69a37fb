"""From a decision to a plan: its losses, intervals, baselines and notes; and the plan rounded to whole steps."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mixopt.columns import Array
from mixopt.cost.flops import training_flops
from mixopt.errors import InfeasibleError
from mixopt.optimize.baselines import judge
from mixopt.optimize.feasible import number, token_limit
from mixopt.optimize.kkt import Certificate, sensitivities
from mixopt.optimize.plan import Chosen, Plan, TargetLoss
from mixopt.optimize.problem import Problem
from mixopt.optimize.uncertainty import Spread, spread

# A budget of which less than this stays unspent counts as spent.
UNSPENT = 0.01
DOUBTFUL_RESIDUAL = 1e-4
DOUBTFUL_AGREEMENT = 0.2
# Scalars with an optimum of their own, of which runs beyond the tried say little.
_TUNED = ("batch_tokens", "peak_lr")


def make_plan(
    problem: Problem,
    x: Array,
    certificate: Certificate,
    *,
    agreement: float,
    level: float,
    compared: Mapping[str, Array],
) -> Plan:
    """The plan of the decision `x`, compared with mixtures by name."""
    rows = _rows(problem, x, compared)
    known = spread(problem, rows, level)
    chosen = choice(problem, x)
    return Plan(
        chosen=chosen,
        epochs=_by_corpus(problem, problem.columns(x)["epochs"][0]),
        flops=training_flops(chosen.model_size, chosen.tokens),
        loss=float(problem.target_weights @ known.losses[:, 0]),
        interval=known.weighted(0),
        level=level,
        targets=_targets(problem, known),
        kkt_residual=certificate.residual,
        agreement=agreement,
        multipliers=sensitivities(problem, x, certificate),
        baselines=judge(problem, rows, tuple(compared), known),
        notes=tuple(_notes(problem, x, certificate, agreement, known)),
    )


def choice(problem: Problem, x: Array) -> Chosen:
    """The decision `x` by name."""
    optional = {name: problem.scalar(x, name) for name in _TUNED if name in problem.choose or name in problem.given}
    return Chosen(
        _by_corpus(problem, x[: len(problem.corpora)]),
        problem.scalar(x, "model_size"),
        problem.scalar(x, "tokens"),
        **optional,
    )


def round_plan(plan: Plan, problem: Problem, sequence_length: int) -> Plan:
    """The plan in whole parameters, steps and sequences, judged anew; a note says what the rounding costs.

    `batch_tokens` becomes the nearest multiple of `sequence_length`, `tokens` the largest multiple of `batch_tokens`
    (of `sequence_length` where there is no batch) not above the plan's, `model_size` the integer below: budget and
    epoch caps stay kept. A share of less than one token becomes 0. Residual, agreement and multipliers remain those of
    the plan before rounding. Values that the problem gave and rounding changed are named in a note.

    Raises
    ------
    InfeasibleError
        The plan's tokens do not fill one batch.
    """
    before = plan.chosen
    batch = before.batch_tokens
    if batch is not None:
        batch = max(1, round(batch / sequence_length)) * sequence_length
    unit = batch or sequence_length
    tokens = _whole(before.tokens / unit) * unit
    if tokens == 0:
        raise InfeasibleError(
            f"The plan's {number(before.tokens)} tokens do not fill one batch of {number(unit)}. "
            "Lower the batch, or sequence_length."
        )
    mixture = _pruned(before.mixture, tokens)
    chosen = replace(before, mixture=mixture, model_size=_whole(before.model_size), tokens=tokens, batch_tokens=batch)
    rounded = replace(problem, choose={}, given={**problem.given, **_scalars(chosen)})
    m = len(problem.corpora)
    rows = np.array([list(h.mixture.values()) for h in (chosen, *plan.baselines.values())]).reshape(-1, m)
    known = spread(rounded, rows, plan.level)
    loss = float(problem.target_weights @ known.losses[:, 0])
    change = f"{loss - plan.loss:+.2g} nats per token"
    note = f"Rounding to whole parameters and steps of {unit} tokens changes the loss by {change}."
    return replace(
        plan,
        chosen=chosen,
        epochs=_by_corpus(problem, rounded.columns(rows[0])["epochs"][0]),
        flops=training_flops(chosen.model_size, tokens),
        loss=loss,
        interval=known.weighted(0),
        targets=_targets(problem, known),
        baselines=judge(rounded, rows, tuple(plan.baselines), known),
        notes=(*plan.notes, *_changed(problem, chosen), note),
    )


def _pruned(mixture: Mapping[str, float], tokens: float) -> dict[str, float]:
    """The mixture without shares of less than a token: what a search leaves beside a zero."""
    kept = {name: share if share * tokens >= 1 else 0.0 for name, share in mixture.items()}
    total = sum(kept.values())
    return {name: share / total for name, share in kept.items()}


def _changed(problem: Problem, chosen: Chosen) -> list[str]:
    return [
        f"{name} was given as {problem.given[name]:,.10g} and is {value:,.10g}, in whole sequences and steps."
        for name, value in _scalars(chosen).items()
        if name in problem.given and value != problem.given[name]
    ]


def _whole(value: float) -> int:
    """The integer below, or the one that a logarithm and back has missed by rounding."""
    return int(value * (1 + 1e-12))


def _scalars(chosen: Chosen) -> dict[str, float]:
    named = {name: getattr(chosen, name) for name in ("model_size", "tokens", "batch_tokens", "peak_lr")}
    return {name: value for name, value in named.items() if value is not None}


def _rows(problem: Problem, x: Array, compared: Mapping[str, Array]) -> Array:
    m = len(problem.corpora)
    for name, mixture in compared.items():
        if mixture.shape != (m,) or not abs(mixture.sum() - 1) <= 1e-6 or (mixture < 0).any():
            raise ValueError(
                f"The mixture {name!r} is {mixture.tolist()}; it needs one share for each of "
                f"{', '.join(problem.corpora)}, non-negative and summing to 1 within 1e-6."
            )
    return np.stack([x, *(np.concatenate([mixture, x[m:]]) for mixture in compared.values())])


def _by_corpus(problem: Problem, values: Array) -> dict[str, float]:
    return dict(zip(problem.corpora, values.tolist(), strict=True))


def _targets(problem: Problem, known: Spread) -> dict[str, TargetLoss]:
    return {
        target.name: TargetLoss(float(known.losses[k, 0]), known.target(k, 0))
        for k, target in enumerate(problem.targets)
    }


def _notes(problem: Problem, x: Array, certificate: Certificate, agreement: float, known: Spread) -> list[str]:
    notes = [_unspent(problem, x), *(_at_bound(problem, x, name) for name in problem.scalars)]
    notes += [_untried(problem, x, name) for name in _TUNED]
    if certificate.residual > DOUBTFUL_RESIDUAL:
        notes.append(
            f"The optimality residual is {certificate.residual:.1g}: the best plan found, not shown to be optimal."
        )
    if agreement < DOUBTFUL_AGREEMENT:
        notes.append(
            f"Only {agreement:.0%} of the starts reach this plan: the loss has several valleys or a flat one. Try more."
        )
    if not known.samples.shape[1]:
        notes.append(
            "The fits have no replicates, so intervals leave out the noise of the runs. Fit with replicates=200."
        )
    return [note for note in notes if note]


def _unspent(problem: Problem, x: Array) -> str:
    model_size, tokens = problem.scalar(x, "model_size"), problem.scalar(x, "tokens")
    used = training_flops(model_size, tokens)
    rest = 1 - used / problem.budget_flops
    if rest < UNSPENT:
        return ""
    told = f"{rest:.0%} of the budget stays unspent: "
    advice = f" A budget of {number(used)} FLOPs gives the same plan."
    if tokens > 0.999 * token_limit(problem):
        return (
            f"{told}the data are exhausted at {number(tokens)} tokens by the epoch caps.{advice} Or raise max_epochs."
        )
    if model_size > 0.999 * problem.bounds("model_size")[1] and tokens > 0.999 * problem.bounds("tokens")[1]:
        return f"{told}model_size and tokens are at their upper bounds.{advice}"
    return f"{told}the laws expect no gain from spending it within these bounds and epoch caps.{advice}"


def _at_bound(problem: Problem, x: Array, name: str) -> str:
    value, (lower, upper) = problem.scalar(x, name), problem.choose[name]
    side = "lower" if value <= lower * (1 + 1e-6) else "upper" if value >= upper * (1 - 1e-6) else ""
    return side and f"{name} is at its {side} bound, {number(value)}: the best may lie beyond."


def _untried(problem: Problem, x: Array, name: str) -> str:
    """Whether a scalar is chosen or given outside what the runs behind a target's fit tried."""
    if name not in problem.choose and name not in problem.given:
        return ""
    value = problem.scalar(x, name)
    for target in problem.targets:
        low, high = target.fit.support.get(name, (0.0, np.inf))
        if not low * (1 - 1e-6) <= value <= high * (1 + 1e-6):
            return f"{name} {number(value)} is outside {number(low)} to {number(high)} that the runs tried."
    return ""
