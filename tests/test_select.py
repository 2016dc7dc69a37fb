"""From runs to fitted laws, in a world whose truth is known: the simulated executor's."""

import json
from pathlib import Path

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.execute import simulate
from mixopt.fit import screen
from mixopt.fit.cautions import cautions
from mixopt.fit.select import select
from mixopt.fit.selection import Selection
from mixopt.runs import Runs
from mixopt.study import Study
from mixopt.sweep.design import design
from mixopt.sweep.frame import Frame, frame_of
from mixopt.sweep.settings import RunSettings

QUICKSTART = Path(__file__).parents[1] / "recipes" / "quickstart.yaml"
CORPORA = ("python_code", "c_code", "technical_prose")
WEIGHTS = {"python_code": 1.0}


@pytest.fixture(scope="module")
def framed() -> Frame:
    study = Study.read(QUICKSTART)
    sweep = study.sweep.model_copy(update={"mixtures": 30, "screen": 24, "favorites": 2})
    small = study.model_copy(
        update={
            "corpora": {name: study.corpora[name] for name in CORPORA},
            "targets": {"python_code": study.targets["python_code"]},
            "sweep": sweep,
        }
    )
    return frame_of(small, dict(zip(CORPORA, (2e5, 6e5, 5e5), strict=True)))


@pytest.fixture(scope="module")
def runs(framed: Frame, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return simulate.execute(design(framed), tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def selection(runs: Runs) -> Selection:
    return select(runs, WEIGHTS, replicates=100, for_plan=True)


def larger(framed: Frame, share: float, tokens: float = 1.2e6) -> RunSettings:
    mixture = np.array([share, (1 - share) / 2, (1 - share) / 2])
    return framed.run(mixture, 300_000, tokens, "larger", batch_tokens=1024, peak_lr=1e-2)


def test_the_law_predicts_runs_three_times_as_large_on_mixtures_never_seen(framed: Frame, selection: Selection):
    settings = [larger(framed, share) for share in (0.1, 0.35, 0.6)]
    truth = np.array([simulate.true_loss(run, ("python_code",))["python_code"] for run in settings])
    columns = {
        "mixture": np.array([[run.mixture[name] for name in CORPORA] for run in settings]),
        "unique_tokens": np.array([[run.unique_tokens[name] for name in CORPORA] for run in settings], dtype=float),
        "model_size": np.full(3, 300_000.0),
        "tokens": np.full(3, 1.2e6),
        "batch_tokens": np.full(3, 1024.0),
        "peak_lr": np.full(3, 1e-2),
    }
    predicted = selection.fits["python_code"].predict(columns)
    np.testing.assert_allclose(predicted, truth, rtol=0.03)
    assert (np.diff(predicted) < 0).all()
    low, high = selection.fits["python_code"].interval(columns)
    assert ((low <= truth) & (truth <= high)).all()


def test_the_world_exchanges_tokens_and_the_choice_finds_it(selection: Selection):
    """The simulated excess loss is a power of a weighted sum of tokens, which no exponential of shares is."""
    order = [candidate.name for candidate in selection.candidates]
    assert selection.law.startswith("token_exchange")
    assert order[-1] == "mixing_law"
    best = selection.candidates[0]
    assert best.behind == 0
    assert all(candidate.behind >= 0 for candidate in selection.candidates)
    close = [candidate for candidate in selection.candidates if candidate.behind <= candidate.behind_se]
    assert selection.law == min(close, key=lambda candidate: (candidate.coefficients, candidate.rmse)).name


def test_held_out_runs_are_the_largest_and_were_not_fitted(runs: Runs, selection: Selection):
    full = runs.of("transformer")
    held = np.isin(full["run"], selection.held_out.run)
    assert full["flops"][held].min() > full["flops"][~held].max()
    seen = np.array(selection.held_out.observed["python_code"])
    error = np.log(np.array(selection.held_out.predicted["python_code"]) / seen)
    chosen = next(candidate for candidate in selection.candidates if candidate.name == selection.law)
    assert chosen.rmse == pytest.approx(np.sqrt(np.mean(error**2)))


def test_the_noise_floor_is_the_worlds(selection: Selection):
    assert selection.noise["python_code"] == pytest.approx(simulate.NOISE, rel=0.8)  # 4 degrees of freedom


def test_the_screen_agrees_with_transformers_of_the_same_world(selection: Selection):
    found = selection.agreement["python_code"]
    assert found.mixtures >= 10
    assert found.rank > 0.9
    assert found.interval[0] <= found.rank <= found.interval[1]
    assert found.regret >= 0


def test_agreement_says_when_the_screen_is_wrong(runs: Runs):
    """With the screen's losses dealt out at random the correlation is gone, and its best mixture costs something."""
    shuffled = np.array(runs["loss"])
    screened = np.flatnonzero(runs["proxy"] == "ngram")
    shuffled[screened] = shuffled[np.random.default_rng(1).permutation(screened)]
    wrong = Runs(runs.corpora, runs.targets, {**runs.columns, "loss": shuffled})
    found = screen.agreement(wrong)["python_code"]
    assert found.rank < 0.6
    assert found.interval[0] < 0.3


def test_rates_rank_the_targets_own_corpus_first(runs: Runs):
    rates = screen.rates(screen.fit_screen(runs.of("ngram")))["python_code"]
    assert set(rates) == set(CORPORA)
    assert max(rates, key=lambda name: rates[name]) == "python_code"


def test_favorites_are_the_best_of_the_pool_and_differ(runs: Runs, rng: np.random.Generator):
    fits = screen.fit_screen(runs.of("ngram"))
    pool = rng.dirichlet(np.ones(3), 500)
    tokens = np.minimum(pool * 2e5, 2e5)
    chosen = screen.favorites(fits, WEIGHTS, tokens, pool, 3)
    assert chosen.shape == (3, 3)
    loss = lambda mixture: fits["python_code"].predict({"corpus_tokens": mixture * 2e5})  # noqa: E731
    assert loss(chosen[:1]) <= loss(pool).min() + 1e-12
    apart = np.abs(chosen[:, None] - chosen[None]).sum(-1) / 2
    assert apart[np.triu_indices(3, 1)].min() >= 0.15


def test_a_selection_survives_json(selection: Selection):
    read = Selection.from_dict(json.loads(json.dumps(selection.to_dict())))
    assert read.candidates == selection.candidates
    assert read.agreement == selection.agreement
    assert read.held_out == selection.held_out
    assert (read.law, read.noise, read.warnings) == (selection.law, selection.noise, selection.warnings)
    np.testing.assert_array_equal(read.fits["python_code"].replicates, selection.fits["python_code"].replicates)


def test_warnings_say_what_to_know(runs: Runs, selection: Selection):
    assert any("Proxies under 15M do not rank mixtures" in warning for warning in selection.warnings)
    status = np.array(runs["status"])
    at = np.flatnonzero(runs["proxy"] == "transformer")[5]
    status[at] = "diverged"
    diverged = Runs(runs.corpora, runs.targets, {**runs.columns, "status": status})
    once = diverged.where(diverged["seed"] == 0)
    said = select(once, WEIGHTS, replicates=20, for_plan=True).warnings
    assert any(
        "1 of" in warning and "diverged; they are kept in the table and not fitted" in warning for warning in said
    )
    assert any("No run was repeated with another seed" in warning for warning in said)


def test_the_floor_is_looked_for_below_the_fitted_runs_alone(runs: Runs, selection: Selection):
    """The box and prior of E rest on the runs of the comparison, so held-out losses cannot leak into it."""
    full = runs.of("transformer")
    seen = full["loss"][~np.isin(full["run"], selection.held_out.run), 0]
    floor = next(c for c in selection.fits["python_code"].law.coefficients if c.name == "E")
    assert floor.upper == seen.min() > full["loss"].min()


def test_what_the_runs_leave_to_priors_is_said(runs: Runs, selection: Selection):
    full = runs.of("transformer")

    def said(**changes):
        changed = Runs(runs.corpora, runs.targets, {**full.columns, **changes})
        return "\n".join(cautions(changed, selection.fits, selection.noise))

    same, size = np.ones(len(full)), full["model_size"]
    assert "was not measured" not in said()
    assert "Size and tokens rise together" not in said()
    assert "All runs have one peak_lr, so the best was not measured." in said(peak_lr=0.01 * same)
    assert "All runs have one batch_tokens, so the best was not measured." in said(batch_tokens=256 * same)
    diagonal = said(tokens=20 * size)
    assert "Size and tokens rise together in these runs, so their effects cannot be told apart; add runs" in diagonal
    one = said(model_size=1e5 * same)
    assert "All runs have one model_size, so what a larger model gains was not measured." in one
    assert "Size and tokens" not in one


def without(runs: Runs, *names: str) -> Runs:
    return Runs(runs.corpora, runs.targets, {k: v for k, v in runs.columns.items() if k not in names})


def test_a_table_of_ones_own_needs_no_proxy_and_no_seed(runs: Runs):
    """Every column but the ten that the laws read may be missing."""
    own = without(runs.of("transformer"), "proxy", "seed", "schedule", "epochs", "steps", "flops", "seconds")
    found = select(own, WEIGHTS, replicates=5, for_plan=True)
    assert "token_exchange_rates" not in [candidate.name for candidate in found.candidates]
    assert found.agreement == {}
    assert np.isnan(found.noise["python_code"])
    assert any("No run was repeated with another seed" in warning for warning in found.warnings)
    assert screen.agreement(without(runs, "seed"))["python_code"].mixtures >= 10


def test_a_table_that_lacks_columns_is_refused_with_all_their_names(runs: Runs):
    lacking = without(runs, "model_size", "unique_tokens", "batch_tokens", "peak_lr", "epochs")
    with pytest.raises(
        FitError, match=r"runs lacks the columns model_size, batch_tokens, .*, which a plan needs\. Add"
    ) as e:
        select(lacking, WEIGHTS, for_plan=True)
    assert all(name in str(e.value) for name in ("unique_tokens", "peak_lr", "epochs"))
    with pytest.raises(FitError, match="runs has no finished transformer run; laws are fitted to these"):
        select(runs.of("ngram"), WEIGHTS)


def test_more_corpora_than_can_be_told_apart_are_refused():
    names = [f"c{i}" for i in range(1001)]
    made = [{"run": f"r{i}", "tokens": 1e6, "mixture": {names[i]: 1.0}, "loss": {"exam": 3.0 + i}} for i in range(4)]
    with pytest.raises(FitError, match=r"has 1001 corpora; 1000 at most .* Merge them \(mixopt\.runs_pool\.pool\)"):
        select(Runs.from_records(names, ["exam"], made))


def test_an_unmeasured_target_is_refused(runs: Runs):
    with pytest.raises(FitError, match="no run measured target 'exam'; measured: python_code"):
        select(runs, {"exam": 1.0})


@pytest.mark.parametrize("weights", [{}, {"python_code": 0.0}, {"python_code": -1.0}])
def test_weights_that_weigh_nothing_are_refused(runs: Runs, weights: dict[str, float]):
    with pytest.raises(FitError, match=r"target weights are .*; give a positive weight for one target at least"):
        select(runs, weights)


def test_a_screen_of_next_to_nothing_is_left_out(runs: Runs):
    few = runs.where((runs["proxy"] == "transformer") | (np.cumsum(runs["proxy"] == "ngram") <= 2))
    found = select(few, WEIGHTS, replicates=5, for_plan=True)
    assert found.agreement == {}
    assert "token_exchange_rates" not in [candidate.name for candidate in found.candidates]
