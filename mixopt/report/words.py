"""What the numbers say, in sentences."""

import numpy as np

from mixopt.fit.selection import Candidate, Selection
from mixopt.optimize.plan import Baseline, Plan
from mixopt.report.numbers import count, interval, listed, percent, plain
from mixopt.report.outcome import Outcome

_PROVEN, _DOUBTFUL, _SAME = 1e-6, 1e-4, 1e-6


def decision(outcome: Outcome) -> str:
    """The decision in one paragraph."""
    plan, chosen = outcome.plan, outcome.plan.chosen
    used = sorted((name for name in outcome.corpora if outcome.used(name)), key=outcome.used, reverse=True)
    mixture = listed([f"{percent(outcome.used(name))} {name}" for name in used])
    training = ""
    if chosen.batch_tokens is not None:
        training += f", in batches of {count(chosen.batch_tokens)} tokens"
    if chosen.peak_lr is not None:
        training += f", at a peak learning rate of {plain(chosen.peak_lr)} ({outcome.study.choose.schedule} schedule)"
    return (
        f"Train {count(chosen.model_size)} parameters on {count(chosen.tokens)} tokens: {mixture}{training}. "
        f"The fitted law expects a {'weighted ' * (len(outcome.targets) > 1)}loss of {plain(plan.loss)} nats per token"
        f" ({outcome.level} interval {interval(plan.interval)})."
    )


def comparisons(outcome: Outcome) -> list[str]:
    """What the plan gains over each mixture that needs no plan, at the same size, tokens, batch and learning rate."""
    return [_versus(name, baseline, outcome) for name, baseline in outcome.plan.baselines.items()]


def _versus(name: str, baseline: Baseline, outcome: Outcome) -> str:
    mixture = f"training on {name}" if name.startswith("only ") else f"the {name} mixture"
    if abs(baseline.difference) < _SAME:
        return f"as good as {mixture}: the two differ by less than a millionth of a nat per token."
    side = "better" if baseline.difference >= 0 else "worse"
    told = f"{plain(abs(baseline.difference))} nats per token {side} than {mixture}"
    ends = baseline.difference_interval
    if ends is not None:
        told += f" ({outcome.level} interval of the gain {interval(ends)}; {_chance(baseline.plan_better)})"
        if ends[0] <= 0 <= ends[1]:
            told += ", which the runs cannot tell from no difference"
    return told + ("" if baseline.feasible else ", which the bounds and epoch caps would not allow") + "."


def _chance(chance: float | None) -> str:
    return "how sure is not known" if chance is None else f"better with a chance of {percent(chance)}"


def optimality(plan: Plan) -> str:
    """Residual of the optimality conditions and agreement of the searches."""
    residual = f"The residual of the optimality conditions is {plain(plan.kkt_residual)} of the gradient"
    if plan.kkt_residual <= _PROVEN:
        verdict = "no small change that the constraints allow lowers the predicted loss"
    elif plan.kkt_residual <= _DOUBTFUL:
        verdict = "what a small change could still gain is negligible"
    else:
        verdict = "this is the best plan found, and it is not shown to be optimal"
    ended = "All searches" if plan.agreement == 1 else f"{percent(plan.agreement)} of the searches"
    trust = "they found no better valley elsewhere" if plan.agreement >= 0.5 else "the loss has several valleys"
    return f"{residual}: {verdict}. {ended}, each from another start, ended at this loss: {trust}."


def warnings(outcome: Outcome) -> list[str]:
    """All that a reader has to know before believing the plan."""
    said = [*outcome.selection.warnings, *outcome.plan.notes]
    runs, plan = outcome.trained, outcome.plan
    ratio = plan.flops / outcome.largest_flops
    if ratio > 1:
        said.append(
            f"The plan takes {plain(ratio)} times the compute of the largest run. The law was tested on held-out runs "
            f"nearer than that; the {outcome.level} intervals grow with the distance, by the error found there."
        )
    if len(np.unique(runs["model_size"])) == 1:
        size = count(runs["model_size"][0])
        said.append(f"All runs have {size} parameters: how loss falls with size was not measured, it is the prior's.")
    if (share := outcome.sweep_flops / outcome.study.budget.flops) > 1:
        said.append(f"The sweep cost {plain(share)} times the budget of the run that it plans.")
    return said


def rule(selection: Selection) -> str:
    """Which law was chosen, and why."""
    row = _chosen(selection)
    told = (
        "Each law was fitted without the largest runs and asked to predict them. The law with the fewest coefficients "
        f"among those within one standard error of the best is used: {selection.law}"
    )
    if row is None or row == selection.candidates[0]:
        return f"{told}, which also predicts best."
    return f"{told}, though {selection.candidates[0].name} predicts best by a margin that may be luck."


def _chosen(selection: Selection) -> Candidate | None:
    return next((row for row in selection.candidates if row.name == selection.law), None)


def screen(outcome: Outcome) -> list[str]:
    """How far the n-gram screen ranks mixtures as transformers do."""
    if not len(outcome.runs.of("ngram")):
        return ["No n-gram screen was run: mixtures were tried with transformers only."]
    if not outcome.selection.agreement:
        return [
            "Fewer than 4 mixtures were tried both by n-gram models and by transformers of one setting, so their "
            "agreement was not measured."
        ]
    used = outcome.selection.law == "token_exchange_rates"
    told = [
        "The screen is checked, not believed. What it says of mixtures chose some of the mixtures to train on, and is "
        "the center of the prior of one of the candidate laws, which the transformers' runs may overrule; that law "
        f"{'was' if used else 'was not'} the one chosen."
    ]
    for target, agreement in outcome.selection.agreement.items():
        told.append(
            f"{target}: over {agreement.mixtures} mixtures that both tried, the rank correlation is "
            f"{agreement.rank:.2f} (90 % interval {agreement.interval[0]:.2f} to {agreement.interval[1]:.2f}). "
            + _regret(agreement.regret)
        )
    return told


def _regret(regret: float) -> str:
    if regret <= 0:
        return "Its best mixture was also the transformer's best."
    return f"Its best mixture was {plain(regret)} nats per token worse for the transformer than the transformer's best."


def spending(outcome: Outcome) -> str:
    """What the sweep cost, and how it was run."""
    runs = outcome.runs.of("transformer")
    share = outcome.sweep_flops / outcome.study.budget.flops
    diverged = int((runs["status"] == "diverged").sum())
    matched = int(np.nansum(runs.columns.get("epoch_matched", np.zeros(len(runs)))))
    cost = f"{percent(share)} of" if share <= 1 else f"{plain(share)} times"
    return (
        f"{len(runs)} transformer runs took {plain(outcome.sweep_flops)} FLOPs, {cost} the budget of the run that they "
        f"plan; {diverged or 'none'} of them diverged. {matched} of {len(runs)} repeated each corpus as often as "
        "the planned run would (epoch-matched)."
    )
