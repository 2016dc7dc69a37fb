"""The tables of the report: a header, and rows whose first cell names them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.report.numbers import count, interval, percent, plain
from mixopt.report.outcome import Outcome

_UNTIL_SECONDS, _UNTIL_MINUTES = 120.0, 7200.0


@dataclass(frozen=True)
class Table:
    """Cells as text; `strong` are the names of rows that stand out."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    strong: frozenset[str] = frozenset()


def mixture(outcome: Outcome) -> Table:
    """Share, tokens and epochs of each corpus beside the natural and the uniform mixture."""
    plan, caps = outcome.plan, outcome.study.epoch_caps()
    beside = [(name, plan.baselines[name]) for name in ("natural", "uniform") if name in plan.baselines]
    forced = {name: cost for name in outcome.corpora if (cost := _forced(outcome, name)) is not None}
    head = ["corpus", "share", "tokens", "epochs", "epoch cap", "tokens available"]
    head += [f"{name} share (epochs)" for name, _ in beside] + ["forcing 1 % in costs"] * bool(forced)
    rows: list[list[str]] = []
    for name in sorted(outcome.corpora, key=outcome.used, reverse=True):
        share = outcome.used(name)
        epochs = plan.epochs[name] if share else 0.0
        row = [name, percent(share), count(share * outcome.tokens), plain(epochs), plain(caps[name])]
        row.append(count(outcome.available[name]))
        row += [f"{percent(b.mixture[name])} ({plain(b.epochs[name])})" for _, b in beside]
        row += [f"{plain(forced[name])} nats" if name in forced else "–"] * bool(forced)
        rows.append(row)
    return Table("Mixture of the plan, corpora by share", head, rows)


def _forced(outcome: Outcome, corpus: str) -> float | None:
    """Loss that the first hundredth of share of a corpus would add, where the plan leaves the corpus out."""
    slope = outcome.plan.multipliers.get(f"share_lower[{corpus}]")
    return None if slope is None or outcome.study.share_bounds()[corpus][0] > 0 else 0.01 * slope


def sensitivities(outcome: Outcome) -> tuple[str, ...]:
    """What more of each limit would be worth; a share cannot fall below 0, so that limit is left to `mixture`."""
    free = {f"share_lower[{name}]" for name in outcome.corpora if _forced(outcome, name) is not None}
    kept = {name: slope for name, slope in outcome.plan.multipliers.items() if name not in free}
    return replace(outcome.plan, multipliers=kept).sensitivities()


def settings(outcome: Outcome) -> Table:
    """Size, tokens, batch, learning rate and cost, with what was allowed."""
    plan, choose = outcome.plan, outcome.study.choose
    chosen, ranges = plan.chosen, choose.ranges()
    rows = [
        [words, spell(value), f"{spell(ranges[key][0])} to {spell(ranges[key][1])}" if key in ranges else "given"]
        for words, key, spell, value in (
            ("model size [parameters]", "model_size", count, chosen.model_size),
            ("tokens", "tokens", count, chosen.tokens),
            ("batch [tokens]", "batch_tokens", count, chosen.batch_tokens),
            ("peak learning rate", "peak_lr", plain, chosen.peak_lr),
        )
    ]
    if chosen.batch_tokens:
        rows.append(["steps", count(chosen.tokens / chosen.batch_tokens), "tokens / batch"])
    rows.append(["schedule", choose.schedule, "given"])
    spent = percent(plan.flops / outcome.study.budget.flops)
    rows.append(["compute [FLOPs]", plain(plan.flops), f"{spent} of {plain(outcome.study.budget.flops)}"])
    return Table("Settings of the plan", ["setting", "chosen", "allowed"], rows)


def losses(outcome: Outcome) -> Table:
    """Predicted loss of each target."""
    weights = {name: outcome.study.targets[name].weight for name in outcome.targets}
    rows = [
        [name, plain(weights[name] / sum(weights.values())), plain(target.loss), interval(target.interval)]
        for name, target in outcome.plan.targets.items()
    ]
    if len(rows) > 1:
        rows.append(["weighted", "1", plain(outcome.plan.loss), interval(outcome.plan.interval)])
    head = ["target", "weight", "predicted loss", f"{outcome.level} interval"]
    return Table("Predicted loss, nats per token", head, rows, frozenset({"weighted"}))


def baselines(outcome: Outcome) -> Table:
    """The plan beside mixtures that need no plan."""
    head = ["mixture", "weighted loss", f"{outcome.level} interval", "worse than the plan by"]
    head += [f"{outcome.level} interval of that", "chance that the plan is better", "allowed"]
    rows = [["plan", plain(outcome.plan.loss), interval(outcome.plan.interval), "–", "–", "–", "yes"]]
    for name, other in outcome.plan.baselines.items():
        better = "not known" if other.plan_better is None else percent(other.plan_better)
        # What is left of two equal losses after subtracting them is rounding.
        ends = other.difference_interval
        gain = [plain(round(other.difference, 9)), interval(ends and (round(ends[0], 9), round(ends[1], 9))), better]
        rows.append([name, plain(other.loss), interval(other.interval), *gain, "yes" if other.feasible else "no"])
    caption = "Mixtures at the plan's size, tokens, batch and learning rate"
    return Table(caption, head, rows, frozenset({"plan"}))


def laws(outcome: Outcome) -> Table:
    """The candidates' errors on held-out larger runs."""
    selection = outcome.selection
    head = ["law", "coefficients", "error", "bias", "rank", "squared error above the best's [10⁻⁶]"]
    head += [f"error on {target}" for target in outcome.targets]
    rows = [
        [
            row.name,
            str(row.coefficients),
            _relative(row.rmse),
            _relative(row.bias),
            f"{row.rank:.3f}",
            "best" if row == selection.candidates[0] else f"{plain(1e6 * row.behind)} ± {plain(1e6 * row.behind_se)}",
            *(_relative(row.targets[target]) for target in outcome.targets),
        ]
        for row in selection.candidates
    ]
    caption = "Laws by their error on held-out larger runs (root mean square of log loss); the bold one is used"
    return Table(caption, head, rows, frozenset({selection.law}))


def certainty(outcome: Outcome) -> Table:
    """Noise, scatter and extrapolation error of each target's law."""
    head = [
        "target",
        "noise between seeds",
        "scatter around the law",
        "error of extrapolation",
        "fit starts that agree",
    ]
    rows = [
        [
            name,
            _relative(outcome.selection.noise[name]),
            _relative(fitted.noise),
            _extrapolation(fitted),
            percent(fitted.agreement),
        ]
        for name, fitted in outcome.fits.items()
    ]
    return Table("How sure the laws are: standard deviations, relative to the loss", head, rows)


def runs(outcome: Outcome) -> Table:
    """How many runs of which purpose, and what they cost."""
    table = outcome.runs
    kind = _kinds(outcome)
    rows: list[list[str]] = []
    for name in dict.fromkeys(kind.tolist()):
        mine = table.where(kind == name)
        flops = float(np.nansum(6 * mine["model_size"] * mine["tokens"])) if "model_size" in mine.columns else 0.0
        seconds = float(np.nansum(mine.columns.get("seconds", np.zeros(1))))
        diverged = int((mine["status"] == "diverged").sum())
        rows.append([name, str(len(mine)), str(diverged), plain(flops), _duration(seconds)])
    return Table("Runs by what they vary", ["runs", "count", "diverged", "FLOPs", "CPU time"], rows)


def _kinds(outcome: Outcome) -> Array:
    """[n], what each run of the table is for, told from its settings."""
    table, trained = outcome.runs, outcome.trained
    usual = trained.where(outcome.usual)
    reference = np.abs(table["mixture"] - trained["mixture"][outcome.reference][0]).max(-1) < 1e-9
    same = (table["batch_tokens"] == usual["batch_tokens"][0]) & (table["peak_lr"] == usual["peak_lr"][0])
    seeds = table.columns.get("seed", np.zeros(len(table)))
    return np.select(
        [table["proxy"] == "ngram", table["proxy"] != "transformer", seeds != _first_seed(outcome), ~same, reference],
        ["n-gram screen of mixtures", "other proxies", "another seed", "learning rate and batch size",
         f"sizes and tokens, {outcome.reference_name}"],
        "mixtures",
    )  # fmt: skip


def _first_seed(outcome: Outcome) -> float:
    """The seed of the runs that are not repetitions: the lowest."""
    return float(np.min(outcome.trained.columns.get("seed", np.zeros(1))))


def _extrapolation(fitted: Fit) -> str:
    size = _relative(fitted.extrapolation) if fitted.extrapolation else "none beyond the noise"
    return f"{size} at {plain(float(np.exp(fitted.reach)))} times the compute"


def _relative(value: float) -> str:
    return "not known" if not np.isfinite(value) else f"{plain(100 * value)} %"


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "not known"
    if seconds < _UNTIL_SECONDS:
        return f"{plain(seconds)} s"
    return f"{plain(seconds / 60)} min" if seconds < _UNTIL_MINUTES else f"{plain(seconds / 3600)} h"
