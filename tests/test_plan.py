"""Plans: intervals, baselines, words, rounding and JSON, each against the law evaluated by hand."""

import json
from dataclasses import replace
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import pytest

from mixopt.errors import InfeasibleError
from mixopt.fit.fit import fit
from mixopt.laws.chinchilla import BESIROGLU, HOFFMANN, chinchilla, from_paper
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.mixing_law import MixingLaw
from mixopt.optimize.known import Known
from mixopt.optimize.plan import Plan
from mixopt.optimize.problem import Problem, Target
from mixopt.optimize.slsqp import slsqp
from mixopt.optimize.verdict import round_plan

CORPORA = ("web", "code", "math")
LAW = CriticalBatch("tokens", 1e9) >> (chinchilla() + MixingLaw(CORPORA))
SCALARS = [1e6, 0.3, *from_paper(BESIROGLU).values()]
THETA = {"prose": np.array([*SCALARS, -1.5, 0.0, -0.3]), "programs": np.array([*SCALARS, 0.2, -2.0, -0.5])}
WEIGHTS = {"prose": 3.0, "programs": 1.0}


def problem(replicates: int = 0, extrapolation: float = 0.0, **changes) -> Problem:
    rng = np.random.default_rng(5)
    noise = {name: rng.normal(scale=0.05, size=(replicates, 10)) for name in THETA}
    targets = tuple(
        Target(name, WEIGHTS[name], Known(LAW, theta, theta + noise[name] * np.abs(theta), extrapolation))
        for name, theta in THETA.items()
    )
    values = {
        "corpora": CORPORA,
        "targets": targets,
        "unique_tokens": np.array([6e10, 1e10, 3e9]),
        "max_epochs": 4.0,
        "budget_flops": 1e20,
        "choose": {"model_size": (1e7, 1e10), "tokens": (1e9, 1e12), "batch_tokens": (1e5, 1e7)},
    }
    return Problem(**(values | changes))


def row(plan: Plan, mixture) -> dict:
    chosen = plan.chosen
    scalars = {name: np.array([getattr(chosen, name)]) for name in ("model_size", "tokens", "batch_tokens")}
    return scalars | {"mixture": np.array([list(mixture)])}


def by_hand(theta: dict, columns: dict):
    """Weighted loss straight from the law; [s] for theta [s, p]."""
    return sum(WEIGHTS[name] * LAW(theta[name], columns)[..., 0] for name in THETA) / sum(WEIGHTS.values())


@pytest.fixture(scope="module")
def asked() -> Problem:
    return problem(replicates=400)


@pytest.fixture(scope="module")
def plan(asked) -> Plan:
    return slsqp(asked, mixtures={"present": [0.5, 0.3, 0.2]})


def replicates(asked: Problem) -> dict:
    return {target.name: target.fit.replicates for target in asked.targets}


def test_loss_and_targets_are_the_laws(plan):
    columns = row(plan, plan.chosen.mixture.values())
    assert plan.loss == pytest.approx(float(by_hand(THETA, columns)))
    for name, theta in THETA.items():
        assert plan.targets[name].loss == pytest.approx(float(LAW(theta, columns)[0]))
    assert plan.flops == 6 * plan.chosen.model_size * plan.chosen.tokens
    for corpus, unique in zip(CORPORA, [6e10, 1e10, 3e9], strict=True):
        assert plan.epochs[corpus] == pytest.approx(plan.chosen.tokens * plan.chosen.mixture[corpus] / unique)


def test_baselines_are_the_usual_mixtures_at_the_plans_scalars(plan, asked):
    assert list(plan.baselines) == ["natural", "uniform", "unimax", "only web", "present"]
    natural, only = plan.baselines["natural"], plan.baselines["only web"]
    assert list(natural.mixture.values()) == pytest.approx(np.array([60, 10, 3]) / 73)
    assert only.mixture == {"web": 1.0, "code": 0.0, "math": 0.0}
    chosen = replicates(asked)
    at_plan = by_hand(chosen, row(plan, plan.chosen.mixture.values()))
    for baseline in plan.baselines.values():
        columns = row(plan, baseline.mixture.values())
        loss, samples = float(by_hand(THETA, columns)), by_hand(chosen, columns)
        assert baseline.loss == pytest.approx(loss)
        assert baseline.difference == pytest.approx(loss - plan.loss)
        assert baseline.plan_better == np.mean(samples > at_plan)
        low, high = np.quantile(samples - at_plan, [0.05, 0.95])
        assert baseline.difference_interval == pytest.approx(
            (min(low, baseline.difference), max(high, baseline.difference))
        )
        assert baseline.feasible == all(baseline.epochs[corpus] <= 4 + 1e-6 for corpus in CORPORA)
        assert baseline.difference > 0 or not baseline.feasible


def test_a_corpus_alone_is_compared_only_where_it_lasts():
    scarce = slsqp(problem(unique_tokens=np.array([1e9, 1e9, 1e9])))
    assert not [name for name in scarce.baselines if name.startswith("only")]
    floors = slsqp(problem(share_bounds=np.array([[0.0, 1.0], [0.1, 1.0], [0.0, 1.0]])))
    assert not [name for name in floors.baselines if name.startswith("only web")]


def test_pairing_makes_differences_surer_than_losses(plan):
    for baseline in plan.baselines.values():
        apart = np.ptp(baseline.interval) + np.ptp(plan.interval)
        assert np.ptp(baseline.difference_interval) < apart / 2


def test_interval_is_the_quantiles_of_the_weighted_replicates(plan, asked):
    samples = by_hand(replicates(asked), row(plan, plan.chosen.mixture.values()))
    assert plan.interval == pytest.approx(tuple(np.exp(np.quantile(np.log(samples), [0.05, 0.95]))))
    assert plan.interval[0] < plan.loss < plan.interval[1]
    assert plan.level == 0.9


def test_extrapolation_is_added_over_targets_and_in_quadrature_to_replicates(plan):
    z = NormalDist().inv_cdf(0.95)
    alone = slsqp(problem(extrapolation=0.02))
    # The same relative sd for every target, fully correlated, is that relative sd of their mean.
    assert alone.interval == pytest.approx((alone.loss * np.exp(-0.02 * z), alone.loss * np.exp(0.02 * z)))
    assert alone.baselines["natural"].plan_better is None
    both = slsqp(problem(replicates=400, extrapolation=0.02))
    for end in (0, 1):
        expected = np.hypot(np.log(plan.interval[end] / plan.loss), np.log(alone.interval[end] / alone.loss))
        assert abs(np.log(both.interval[end] / both.loss)) == pytest.approx(expected, rel=1e-6)


def test_errors_of_extrapolation_cancel_as_far_as_mixtures_agree():
    """Independent where no token is shared, equal where the mixtures are: the law of cosines between."""
    z, plan = NormalDist().inv_cdf(0.95), slsqp(problem(extrapolation=0.02), mixtures={"near": [0.5, 0.3, 0.2]})
    here = np.array(list(plan.chosen.mixture.values()))
    for baseline in plan.baselines.values():
        moved = np.abs(here - list(baseline.mixture.values())).sum() / 2
        a, b = 0.02 * plan.loss, 0.02 * baseline.loss
        expected = z * np.sqrt(a**2 + b**2 - 2 * (1 - moved) * a * b)
        assert baseline.difference_interval[1] - baseline.difference == pytest.approx(expected, rel=1e-6)
    sure, doubtful = (
        slsqp(problem(replicates=400, extrapolation=sd)).baselines["uniform"].plan_better for sd in (0.0, 0.05)
    )
    assert 0.5 < doubtful < sure


def test_without_replicates_no_interval_is_claimed():
    bare = slsqp(problem())
    assert bare.interval is None
    assert bare.baselines["natural"].difference_interval is None
    assert any("The fits have no replicates" in note and "replicates=200" in note for note in bare.notes)


def test_a_replicate_without_a_positive_loss_is_refused(asked):
    theta = THETA["prose"].copy()
    theta[LAW.names.index("E")] = -9.0
    broken = replace(asked.targets[0], fit=Known(LAW, THETA["prose"], np.stack([THETA["prose"], theta])))
    with pytest.raises(
        ValueError, match=r"Replicate 1 of target prose gives the loss -\d.* \(0 is the plan\); a loss is"
    ):
        slsqp(replace(asked, targets=(broken,)))


def test_what_no_run_tried_is_noted(asked):
    """Only of scalars that the law reads: the support of a fit knows no others."""

    class Tried(Known):
        support: ClassVar = {"batch_tokens": (1024.0, 4096.0), "model_size": (1.0, 2.0)}

    def notes(batch_tokens, kind=Tried):
        targets = tuple(replace(t, fit=kind(LAW, THETA[t.name])) for t in asked.targets)
        fixed = {"batch_tokens": batch_tokens, "peak_lr": 1.0}
        bounds = {name: asked.choose[name] for name in ("model_size", "tokens")}
        said = slsqp(replace(asked, targets=targets, choose=bounds, given=fixed)).notes
        return [note for note in said if "the runs tried" in note]

    assert notes(512) == ["batch_tokens 512 is outside 1024 to 4096 that the runs tried."]
    assert notes(1024) == notes(4096) == notes(512, Known) == []


def test_replicates_that_cannot_be_paired_are_refused():
    few, many = problem(replicates=10), problem(replicates=20)
    mixed = replace(few, targets=(few.targets[0], many.targets[1]))
    with pytest.raises(
        ValueError, match=r"different numbers of replicates \(prose 10, programs 20\); pairs need the same"
    ):
        slsqp(mixed)


@pytest.mark.parametrize("mixture", [[0.5, 0.5], [0.5, 0.3, 0.1], [1.2, -0.1, -0.1]])
def test_mixtures_to_compare_are_checked(mixture):
    with pytest.raises(
        ValueError, match=r"The mixture 'present' is .*; it needs one share for each of web, code, math"
    ):
        slsqp(problem(), mixtures={"present": mixture})


def test_json_round_trip(plan):
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    bare = slsqp(problem())
    assert Plan.from_dict(json.loads(json.dumps(bare.to_dict()))) == bare


@pytest.mark.parametrize("sequence_length", [1, 1000, 1024, 2048, 3000, 4096])
def test_rounding_keeps_budget_and_caps_and_says_what_it_costs(asked, plan, sequence_length):
    rounded = round_plan(plan, asked, sequence_length)
    chosen = rounded.chosen
    assert isinstance(chosen.model_size, int)
    assert chosen.batch_tokens % sequence_length == 0
    assert chosen.tokens % chosen.batch_tokens == 0
    assert chosen.tokens + chosen.batch_tokens > plan.chosen.tokens >= chosen.tokens
    assert rounded.flops == pytest.approx(6 * chosen.model_size * chosen.tokens, rel=1e-15)
    assert rounded.flops <= asked.budget_flops
    assert max(rounded.epochs.values()) <= 4
    assert rounded.loss == pytest.approx(float(by_hand(THETA, row(rounded, chosen.mixture.values()))))
    assert (
        f"steps of {chosen.batch_tokens} tokens changes the loss by {rounded.loss - plan.loss:+.2g}"
        in (rounded.notes[-1])
    )
    assert abs(rounded.loss - plan.loss) < 1e-3
    natural = rounded.baselines["natural"]
    assert natural.loss == pytest.approx(float(by_hand(THETA, row(rounded, natural.mixture.values()))))
    again = round_plan(rounded, asked, sequence_length)
    assert again.chosen == chosen
    assert Plan.from_dict(json.loads(json.dumps(rounded.to_dict()))) == rounded


def test_whole_numbers_survive_rounding():
    exact = problem(choose={}, given={"model_size": 10**8, "tokens": 2048 * 10**5, "batch_tokens": 2048 * 100})
    chosen = round_plan(slsqp(exact), exact, sequence_length=2048).chosen
    assert (chosen.model_size, chosen.tokens, chosen.batch_tokens) == (10**8, 2048 * 10**5, 2048 * 100)


def test_a_plan_shorter_than_a_batch_is_refused():
    short = problem(choose={}, given={"model_size": 1e6, "tokens": 1e4, "batch_tokens": 1e5})
    with pytest.raises(
        InfeasibleError, match=r"plan's 1\.0e4 tokens do not fill one batch of 1\.0e5\. Lower the batch"
    ):
        round_plan(slsqp(short), short, sequence_length=1024)


def test_notes_say_why_budget_stays_unspent():
    web = Target("web", 1.0, Known(chinchilla(), np.array(list(from_paper(HOFFMANN).values()))))
    data = Problem(
        corpora=("web",),
        targets=(web,),
        unique_tokens=np.array([1e10]),
        max_epochs=2.0,
        budget_flops=1e21,
        choose={"model_size": (1e7, 1e9), "tokens": (1e8, 1e13)},
    )
    plan = slsqp(data)
    assert plan.notes[0] == (
        "88% of the budget stays unspent: the data are exhausted at 2.0e10 tokens by the epoch caps. "
        "A budget of 1.2e20 FLOPs gives the same plan. Or raise max_epochs."
    )
    assert "model_size is at its upper bound, 1.0e9: the best may lie beyond." in plan.notes
    assert slsqp(replace(data, budget_flops=1.2e20)).loss == pytest.approx(plan.loss)
    boxed = slsqp(replace(data, max_epochs=np.inf, choose={"model_size": (1e7, 1e9), "tokens": (1e8, 1e10)}))
    assert boxed.notes[0].startswith(
        "94% of the budget stays unspent: model_size and tokens are at their upper bounds."
    )
    assert "flops" not in plan.multipliers
    assert plan.multipliers["model_size_upper"] < 0
    assert plan.sensitivities()[1].startswith("An upper bound of model_size larger by 10 % lowers the loss by 0.0")


def test_a_fit_to_runs_gives_the_plan_of_the_law_that_made_them(rng):
    law = chinchilla(size_unit=1e8, tokens_unit=1e9) + MixingLaw(("a", "b"))
    truth = np.array([1.8, 0.5, 0.35, 1.2, 0.37, 0.5, -1.5])
    n = 60
    share = rng.uniform(size=n)
    runs = {
        "model_size": np.exp(rng.uniform(np.log(1e6), np.log(1e8), n)),
        "tokens": np.exp(rng.uniform(np.log(1e8), np.log(3e9), n)),
        "mixture": np.stack([share, 1 - share], axis=1),
    }
    runs["loss"] = law(truth, runs) * np.exp(0.001 * rng.normal(size=n))
    runs["flops"] = 6 * runs["model_size"] * runs["tokens"]
    fitted = replace(fit(law, runs, starts=16, replicates=20), extrapolation=0.01, reach=2.0)
    asked = Problem(
        corpora=("a", "b"),
        targets=(Target("all", 1.0, fitted),),
        unique_tokens=np.array([1e12, 1.5e9]),
        max_epochs=4.0,
        budget_flops=1e20,
        choose={"model_size": (1e7, 1e10), "tokens": (1e8, 1e12)},
    )
    plan = slsqp(asked)
    best = slsqp(replace(asked, targets=(Target("all", 1.0, Known(law, truth)),)))
    assert plan.chosen.tokens == pytest.approx(best.chosen.tokens, rel=0.1)
    assert plan.chosen.mixture["b"] == pytest.approx(best.chosen.mixture["b"], rel=0.1)
    assert plan.interval[0] < best.loss < plan.interval[1]
    # Extrapolation counts by how far the budget lies beyond the largest run.
    z = NormalDist().inv_cdf(0.95)
    far = z * 0.01 * np.log(1e20 / runs["flops"].max()) / 2.0
    near = slsqp(replace(asked, targets=(Target("all", 1.0, replace(fitted, extrapolation=0.0)),)))
    expected = np.hypot(far, np.log(near.interval[1] / near.loss))
    assert np.log(plan.interval[1] / plan.loss) == pytest.approx(expected, rel=1e-6)
    # The plan's band is the fit's own.
    here = {name: np.array([getattr(plan.chosen, name)]) for name in ("model_size", "tokens")}
    ends = fitted.interval(here | {"mixture": np.array([list(plan.chosen.mixture.values())])}, plan.level)
    assert plan.interval == pytest.approx((ends[0][0], ends[1][0]))
    assert plan.targets["all"].interval == pytest.approx(plan.interval)


def test_given_values_that_rounding_changes_are_named():
    asked = problem(given={"batch_tokens": 1000.0, "tokens": 3.0005e9}, choose={"model_size": (1e6, 1e9)})
    rounded = round_plan(slsqp(asked), asked, 128)
    assert rounded.chosen.batch_tokens == 1024
    notes = " ".join(rounded.notes)
    assert "batch_tokens was given as 1,000 and is 1,024, in whole sequences and steps." in notes
    assert "tokens was given as 3,000,500,000 and is 3,000,4" in notes


def test_shares_of_less_than_a_token_are_dropped(plan, asked):
    crumbs = {"web": 0.5 - 1e-12, "code": 0.5, "math": 1e-12}
    rounded = round_plan(replace(plan, chosen=replace(plan.chosen, mixture=crumbs)), asked, 128)
    assert rounded.chosen.mixture["math"] == 0
    assert sum(rounded.chosen.mixture.values()) == pytest.approx(1, abs=1e-15)
