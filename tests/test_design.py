"""The sweep of a study: what it holds, what it costs, and that proxies repeat corpora as the target run will."""

from pathlib import Path

import numpy as np
import pytest

from mixopt.errors import InfeasibleError, StudyError
from mixopt.study import Study
from mixopt.sweep.design import allot, cautions, check_cost, design, favorites, levels
from mixopt.sweep.frame import Frame, frame_of, target_tokens

QUICKSTART = Path(__file__).parents[1] / "recipes" / "quickstart.yaml"


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.read(QUICKSTART)


@pytest.fixture(scope="module")
def framed(study: Study) -> Frame:
    return frame_of(study, {name: 1e5 * (place + 1.5) for place, name in enumerate(study.corpora)}, "digest")


def test_natural_uniform_and_every_vertex_are_in_the_screen_and_at_the_first_level(framed: Frame):
    sweep = design(framed)
    size, tokens = levels(framed.study)[0]
    for runs in (
        [run for run in sweep.runs if run.proxy == "ngram"],
        [run for run in sweep.runs if (run.model_size, run.tokens, run.seed) == (size, tokens, 0)],
    ):
        mixtures = np.array([[run.mixture[name] for name in framed.corpora] for run in runs])
        for wanted in (framed.natural, framed.uniform):
            assert np.abs(mixtures - wanted).max(-1).min() < 1e-9
        np.testing.assert_allclose(mixtures.max(0), np.minimum(framed.bounds[1], 1), atol=1e-4)


def test_every_mixture_of_the_transformers_was_screened(framed: Frame):
    """So that the screen's ranking can be compared with the transformer's on the same mixtures."""
    sweep = design(framed)
    screened = {tuple(run.mixture.values()) for run in sweep.runs if run.proxy == "ngram"}
    assert {tuple(run.mixture.values()) for run in sweep.runs if run.proxy == "transformer"} <= screened


def test_mixtures_keep_the_bounds_and_sum_to_one(framed: Frame):
    lower, upper = framed.bounds
    for run in design(framed).runs:
        shares = np.array([run.mixture[name] for name in framed.corpora])
        assert shares.sum() == pytest.approx(1, abs=1e-9)
        assert (shares >= lower - 1e-9).all()
        assert (shares <= upper + 1e-9).all()


def test_a_proxy_repeats_every_corpus_as_often_as_the_target_run(framed: Frame):
    """Epoch-matched: passes depend on the mixture, not on the length of the run."""
    length = framed.study.sequence_length
    for run in design(framed).runs:
        if run.proxy == "transformer":
            for name, available in zip(framed.corpora, framed.available, strict=True):
                here = run.mixture[name] * run.tokens / run.unique_tokens[name]
                there = run.mixture[name] * framed.target_tokens / available
                slack = length / run.unique_tokens[name]  # whole sequences
                assert here == pytest.approx(there, rel=slack + 1e-6)
                assert run.unique_tokens[name] % length == 0


def test_without_epoch_matching_nothing_is_subsampled(study: Study):
    plain = study.model_copy(update={"sweep": study.sweep.model_copy(update={"epoch_matched": False})})
    counted = {name: 1e6 for name in study.corpora}
    for run in design(frame_of(plain, counted)).runs:
        assert set(run.unique_tokens.values()) == {10**6 // 128 * 128}
        assert not run.epoch_matched


def test_a_sample_of_a_declared_corpus_is_never_asked_for_more_than_it_holds(study: Study):
    source = study.corpora["german"].model_copy(update={"available_tokens": 1e12})
    declared = study.model_copy(update={"corpora": {**study.corpora, "german": source}})
    found = frame_of(declared, {name: 2e5 for name in study.corpora})
    assert found.available[list(study.corpora).index("german")] == 1e12
    runs = [run for run in design(found).runs if run.proxy == "transformer"]
    assert max(run.unique_tokens["german"] for run in runs) <= 2e5
    # The table says which runs repeat it more often: those that could read more than there is.
    assert {run.tokens: run.epoch_matched for run in runs} == {100_000: True, 200_000: True, 400_000: False}
    assert any(text.startswith("german: a proxy of 4e+05 tokens needs 4e+05") for text in cautions(found))


def test_every_level_has_two_mixtures_at_least_whatever_it_costs():
    for total in range(6, 40):
        counts = allot(total, np.array([1.0, 100.0, 10_000.0]))
        assert sum(counts) == total
        assert min(counts) >= 2


def test_runs_are_distinct_and_replicates_differ_by_seed_only(framed: Frame):
    sweep = design(framed)
    assert len({run.id for run in sweep.runs}) == len(sweep.runs)
    seeds = [run.seed for run in sweep.runs if run.purpose == "seed noise"]
    assert sorted(set(seeds)) == [1, 2]


def test_size_and_tokens_can_be_told_apart(framed: Frame):
    """On the ladder's diagonal alone log size and log tokens are one direction; off it they are two."""
    runs = [run for run in design(framed).runs if run.proxy == "transformer"]
    logs = np.log([[run.model_size, run.tokens] for run in runs])
    assert np.linalg.cond(logs - logs.mean(0)) < 10


def test_favorites_are_run_where_the_decision_is_made(framed: Frame):
    sweep = favorites(framed, np.array([framed.natural, framed.uniform]))
    assert [(run.model_size, run.tokens) for run in sweep.runs] == [levels(framed.study)[-1]] * 2


def test_the_target_run_is_in_the_middle_of_what_the_budget_allows(study: Study):
    tokens, flops, size = target_tokens(study, np.full(8, 1e12)), study.budget.flops, study.choose.model_size
    assert tokens == pytest.approx(np.sqrt(flops / 6 / size[1] * flops / 6 / size[0]), rel=0.05)


def test_the_target_run_is_no_longer_than_the_caps_allow(study: Study):
    scarce = np.full(8, 5e4)
    assert target_tokens(study, scarce) <= 4 * scarce.sum()
    shares = cap_shares(study, scarce)
    assert shares.sum() >= 1


def cap_shares(study: Study, available: np.ndarray) -> np.ndarray:
    return np.minimum(1, 4 * available / target_tokens(study, available))


def test_a_budget_may_be_left_unspent(study: Study):
    fixed = study.choose.model_copy(update={"model_size": (1e5, 1e5), "tokens": (4e5, 4e5)})
    assert target_tokens(study.model_copy(update={"choose": fixed}), np.full(8, 1e6)) == 4e5


def test_caps_that_leave_too_little_are_infeasible_with_a_remedy_that_works(study: Study):
    little = np.full(8, 1e4)
    with pytest.raises(
        InfeasibleError, match=r"leave 320,000 tokens .*a factor of 1\.25, or lower choose\.tokens to 320000\."
    ):
        target_tokens(study, little)
    raised = study.model_copy(update={"max_epochs": {"default": 4 * 1.25}})
    assert target_tokens(raised, little) == pytest.approx(4e5)


def test_a_corpus_too_short_for_a_proxy_is_named(study: Study):
    with pytest.raises(
        StudyError, match="corpus german has 500 tokens to train on; four sequences of 128 are the least"
    ):
        frame_of(study, {name: 500 if name == "german" else 1e6 for name in study.corpora})


def test_a_sweep_that_costs_more_than_its_share_says_what_it_costs(study: Study):
    check_cost(study)
    cheap = study.model_copy(update={"sweep": study.sweep.model_copy(update={"share_of_budget": 0.1})})
    with pytest.raises(StudyError, match=r"of the budget; sweep\.share_of_budget allows 0\.1\. Raise it, shorten"):
        check_cost(cheap)
