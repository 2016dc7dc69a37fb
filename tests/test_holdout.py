"""Hold-out: the law that made the runs wins, the simplest of equals is taken, and larger runs are what is asked."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.calibration import calibrate
from mixopt.fit.fit import Fit, fit
from mixopt.fit.folds import folds
from mixopt.fit.holdout import calibrated, choose, compare, largest
from mixopt.fit.scores import Errors
from mixopt.laws.chinchilla import chinchilla
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.power_law import PowerLaw
from mixopt.predictors.predictor import Learned, Predictor


@dataclass(frozen=True)
class Line(Law):
    """A loss that falls by as much in every e-fold of tokens."""

    inputs = ("tokens",)
    output = "loss"
    coefficients = (Coefficient("a", 0.1, 9.0), Coefficient("b", 0.3, 1.0))

    def __call__(self, theta, columns):
        return theta[..., :1] - theta[..., 1:] * np.log(columns["tokens"] / 1e8)


@pytest.fixture
def runs(rng):
    size, ratio = (grid.ravel() for grid in np.meshgrid(np.geomspace(1e7, 1e10, 6), [5.0, 20.0, 80.0]))
    columns = {"model_size": size, "tokens": size * ratio}
    exact = chinchilla()(np.array([1.8, 0.36, 0.35, 1.06, 0.37]), columns)
    return columns | {"loss": exact * np.exp(0.001 * rng.standard_normal(len(size)))}


CANDIDATES = {
    "size alone": Constant("E") + PowerLaw("model_size", 1e9, "A", "alpha"),
    "chinchilla": chinchilla(),
    "no floor": PowerLaw("model_size", 1e9, "A", "alpha") + PowerLaw("tokens", 1e9, "B", "beta"),
    "constant": Constant("E"),
}


def test_the_true_law_predicts_larger_runs_best(runs):
    scores = compare(CANDIDATES, runs, holdout=largest(runs), starts=8)
    assert scores[0].name == "chinchilla"
    assert scores[0].rmse < 0.02
    assert scores[0].behind == 0
    assert scores[0].rank > 0.9
    assert scores[-1].name == "constant"
    assert scores[-1].bias > 0.1  # larger runs lose less than the mean of small ones
    assert np.isnan(scores[-1].rank)
    assert [score.coefficients for score in scores if score.name == "chinchilla"] == [5]
    assert [s.rmse for s in scores] == sorted(s.rmse for s in scores)
    assert choose(scores).name == "chinchilla"


def test_scores_are_those_of_a_fit_without_the_rows(runs):
    mask = largest(runs)
    (score,) = compare({"only": chinchilla()}, runs, holdout=mask, starts=4)
    by_hand = fit(chinchilla(), {name: v[~mask] for name, v in runs.items()}, starts=4)
    error = np.log(by_hand.predict(runs) / runs["loss"])[mask]
    assert score.rmse == pytest.approx(np.sqrt((error**2).mean()), rel=1e-9)
    assert score.bias == pytest.approx(error.mean(), rel=1e-9)
    assert score.n == mask.sum()
    assert score.objective == by_hand.objective


def test_the_simplest_of_equals_is_chosen(runs):
    """A floor that is really zero costs a coefficient and gains nothing."""
    truth = PowerLaw("tokens", 1e9, "B", "beta")
    noise = np.exp(0.003 * np.random.default_rng(5).standard_normal(len(runs["tokens"])))
    flat = runs | {"loss": truth(np.array([3.0, 0.1]), runs) * noise}
    laws = {"richer": truth + PowerLaw("model_size", 1e9, "A", "alpha"), "true": truth}
    assert choose(compare(laws, flat, holdout=largest(flat), starts=4)).name == "true"


def test_checkpoints_of_one_run_are_one_draw(runs):
    """Every row twice is no more evidence when both rows are of one run."""
    n = len(runs["loss"])
    twice = {name: np.concatenate([v, v]) for name, v in runs.items()}
    laws = {name: CANDIDATES[name] for name in ("chinchilla", "no floor")}
    once = compare(laws, runs, holdout=largest(runs), starts=4)
    by_run = compare(laws, twice, holdout=largest(twice), starts=4, run=np.tile(np.arange(n), 2))
    assert by_run[1].behind_se == pytest.approx(once[1].behind_se, rel=1e-3)
    by_row = compare(laws, twice, holdout=largest(twice), starts=4)
    assert by_row[1].behind_se < 0.8 * once[1].behind_se


def test_largest_takes_whole_sizes(runs):
    compute = runs["model_size"] * runs["tokens"]
    mask = largest(runs, 0.25)
    assert compute[mask].min() > compute[~mask].max()
    assert mask.mean() == pytest.approx(0.25, abs=0.06)
    tied = {"model_size": np.array([1e6] * 8 + [2e6] * 8), "tokens": np.full(16, 1e8)}
    assert largest(tied, 0.1).tolist() == [False] * 8 + [True] * 8


def farther(runs, efolds):
    """The run of most compute, larger in size and in tokens until it took so many e-folds more."""
    top = int(np.argmax(runs["model_size"] * runs["tokens"]))
    return {name: runs[name][[top]] * np.exp(efolds / 2) for name in ("model_size", "tokens")}


def test_extrapolation_is_what_the_noise_does_not_explain(runs):
    (score,) = compare({"no floor": CANDIDATES["no floor"]}, runs, holdout=largest(runs), starts=8)
    whole = fit(CANDIDATES["no floor"], runs, starts=8, replicates=20)
    wider = calibrate(whole, [score.errors], noise=0.001)
    assert wider.extrapolation**2 + 0.001**2 == pytest.approx(score.rmse**2)
    assert wider.reach == pytest.approx(score.reach)
    assert (wider.inside, wider.groups) == (0, 0)
    # At the tested reach beyond the largest run, the sd added is the one found.
    far = farther(runs, score.reach)
    center = wider.predict(far)
    added = np.log(wider.interval(far)[1] / center) ** 2 - np.log(whole.interval(far)[1] / center) ** 2
    assert np.sqrt(added) == pytest.approx(1.6449 * wider.extrapolation, rel=1e-3)
    assert wider.unexplained(far) == pytest.approx(wider.extrapolation)


def test_an_excess_of_error_is_known_no_better_than_a_mean_of_squares(runs):
    """Where the law is right, the mean square of n errors scatters by sqrt(2/n) of itself, here by simulation."""
    (score,) = compare({"chinchilla": chinchilla()}, runs, holdout=largest(runs), starts=4)
    assert score.n == 5
    scatter = np.mean(np.random.default_rng(1).standard_normal((20_000, 5)) ** 2, axis=1).std()
    wide = calibrate(fit(chinchilla(), runs, starts=4, replicates=20), [score.errors], noise=1.0)
    assert wide.extrapolation**2 == pytest.approx(score.rmse**2 * scatter, rel=0.03)


def errors(log, run, beyond=0.0, spread=0.0, weight=1.0):
    """Errors of one target, seen to be 1 everywhere."""
    rows = np.ones((len(log), 1))
    flat = (np.full(len(log), value) for value in (weight, beyond))
    return Errors(np.exp(log)[:, None], rows, spread * rows, np.asarray(run), *flat, same=[], freedom=1.0)


def test_what_replicates_and_noise_leave_of_errors_inside_is_carried_everywhere(runs, rng):
    """Rows of a run err alike: it is runs that are averaged, and of whose number Student's t is."""
    whole = fit(chinchilla(), runs, starts=4, replicates=40)
    run = np.repeat(np.arange(400), [1] * 200 + [9] * 200)
    log = 0.05 * rng.standard_normal(400)[run] + 0.03 * rng.standard_normal(2000)
    found = calibrate(whole, [errors(log, run, spread=0.03)], noise=0.03)
    assert found.groups == 400
    assert found.inside == pytest.approx(np.sqrt(0.05**2 - 0.03**2), rel=0.1)
    few = calibrate(whole, [errors(np.array([0.1, -0.1, 0.1]), [0, 1, 2])], noise=0.0)
    bare = replace(few, replicates=np.empty((0, 5)))
    half = np.log(bare.interval(runs)[1] / bare.predict(runs))
    assert half == pytest.approx(2.3534 * 0.1, rel=1e-3)  # of Student's t with three degrees of freedom


def test_errors_inside_are_not_blamed_on_the_distance(runs):
    whole = fit(chinchilla(), runs, starts=4)
    near, far = errors(np.full(40, 0.03), np.arange(40)), errors(np.full(40, 0.05), np.arange(40), beyond=2.0)
    found = calibrate(whole, [near, far], noise=0.0)
    assert (found.inside, found.extrapolation, found.reach) == pytest.approx((0.03, 0.04, 2.0))
    assert calibrate(whole, [errors(np.full(9, 0.03), np.arange(9), beyond=1e-3)], noise=0.0).extrapolation == 0


def test_rows_count_as_much_as_in_the_fit(runs):
    whole = fit(chinchilla(), runs, starts=4)
    log = np.array([0.1, 0.3])
    found = calibrate(whole, [errors(log, [0, 0], weight=np.array([1.5, 0.5]))], noise=0.0)
    assert found.inside == pytest.approx(np.sqrt(0.75 * 0.1**2 + 0.25 * 0.3**2))


def test_a_law_that_predicts_no_number_is_last(runs):
    """A falling line through the loss ends below zero: as wrong as can be, and not an error."""
    steep = runs | {"loss": 0.2 + 3 * np.exp(-np.log(runs["tokens"] / 1e8))}
    scores = compare({"line": Line(), "chinchilla": chinchilla()}, steep, holdout=largest(runs, 0.4), starts=4)
    assert scores[-1].name == "line"
    assert scores[-1].rmse == np.inf
    assert choose(scores).name == "chinchilla"


def test_runs_without_a_size_are_ordered_by_tokens():
    assert largest({"tokens": np.array([3e6, 1e6, 9e6]), "model_size": np.full(3, np.nan)}, 0.3).tolist() == [
        False,
        False,
        True,
    ]


def test_refusals(runs):
    steep = runs | {"loss": 0.2 + 3 * np.exp(-np.log(runs["tokens"] / 1e8))}
    with pytest.raises(FitError, match=r"No candidate predicts a positive number for every held-out row"):
        choose(compare({"line": Line()}, steep, holdout=largest(runs, 0.4), starts=4))
    everything = np.ones(18, bool)
    with pytest.raises(FitError, match=r"18 of 18 rows are held out; hold out some and leave some to fit"):
        compare(CANDIDATES, runs, holdout=everything)
    with pytest.raises(FitError, match=r"0 of 18 rows are held out"):
        compare(CANDIDATES, runs, holdout=~everything)
    with pytest.raises(ValueError, match=r"no candidate to compare; give at least one law by name"):
        compare({}, runs, holdout=largest(runs))
    with pytest.raises(ValueError, match=r"share is the part of the runs to hold out, between 0 and 1; got 25"):
        largest(runs, 25)
    same = {"model_size": np.full(4, 1e6), "tokens": np.full(4, 1e8)}
    with pytest.raises(FitError, match=r"All runs took the same compute, so none is larger\. Hold out other rows"):
        largest(same)


@dataclass(frozen=True)
class Nearest(Predictor):
    """The loss of the run whose mixture is nearest, for every target at once."""

    inputs = ("mixture",)
    output = "loss"

    def learn(self, columns, *, seed=0):
        return LearnedNearest(np.asarray(columns["mixture"]), np.asarray(columns["loss"]))


@dataclass(frozen=True)
class LearnedNearest(Learned):
    mixture: np.ndarray
    loss: np.ndarray
    freedom = 7.0

    def predict(self, columns):
        away = ((columns["mixture"][:, None] - self.mixture[None]) ** 2).sum(-1)
        return self.loss[away.argmin(1)]

    def interval(self, columns, level=0.9, *, observation=False):
        raise NotImplementedError

    def outside(self, columns):
        return np.zeros(len(columns["mixture"]), bool)

    def to_dict(self):
        return {}

    @classmethod
    def from_dict(cls, data):
        raise NotImplementedError


@dataclass(frozen=True)
class Mix(Law):
    """exp(k + t h), the mixing law of two corpora."""

    inputs = ("mixture",)
    output = "loss"
    coefficients = (Coefficient("k", -3, 3), Coefficient("t", -3, 3))

    def __call__(self, theta, columns):
        return np.exp(theta[..., :1] + theta[..., 1:] * columns["mixture"][..., 0])


@pytest.fixture
def mixtures():
    rng = np.random.default_rng(2)
    mixture = np.repeat(rng.dirichlet([1, 1], 20), 2, 0)  # every mixture twice
    truth = np.array([[1.0, -0.5], [0.5, 0.8]])
    loss = Mix()(truth, {"mixture": mixture}) * np.exp(0.002 * rng.standard_normal((2, 40)))
    return {"mixture": mixture, "tokens": np.full(40, 1e8), "loss": loss.T}


def test_folds_predict_every_run_once_without_having_seen_it(mixtures):
    one = mixtures | {"loss": mixtures["loss"][:, 0]}
    (score,) = compare({"mix": Mix()}, one, holdout=5, starts=4, seed=3)
    assert len(score.fits) == 5
    assert score.n == 40
    masks = folds(one, 5, np.arange(40), seed=3)
    assert (np.sum(masks, 0) == 1).all()
    errors = [
        np.log(fit(Mix(), {n: v[~mask] for n, v in one.items()}, starts=4, seed=3).predict(one) / one["loss"])[mask]
        for mask in masks
    ]
    assert score.rmse == pytest.approx(np.sqrt((np.concatenate(errors) ** 2).mean()), rel=1e-6)


def test_a_mixture_is_held_out_with_all_its_runs(mixtures):
    for mask in folds(mixtures, "mixtures", np.arange(40)):
        assert (mask[::2] == mask[1::2]).all()


def test_laws_and_other_models_are_compared_on_all_targets(mixtures):
    """The nearest run is a twin of the same mixture when single runs are held out, and another mixture when all are."""
    candidates = {"mix": Mix(), "nearest": Nearest(), "by target": {"code": Mix(), "math": Mix()}}
    targets = {"code": 3.0, "math": 1.0}
    scores = {s.name: s for s in compare(candidates, mixtures, holdout="mixtures", targets=targets, starts=4)}
    twins = {s.name: s for s in compare(candidates, mixtures, holdout=20, targets=targets, starts=4)}
    assert scores["mix"].rmse < 0.003 < scores["nearest"].rmse
    assert twins["nearest"].rmse < 0.005
    assert scores["by target"].rmse == scores["mix"].rmse
    assert scores["nearest"].coefficients == 7
    mix = scores["mix"]
    assert mix.rmse**2 == pytest.approx(0.75 * mix.targets["code"] ** 2 + 0.25 * mix.targets["math"] ** 2)
    assert mix.of("math").rmse == mix.targets["math"]
    assert isinstance(mix.of("math").fitted, Fit)
    # All took the same compute: what the choice of the mixture predicted best costs is told.
    assert 0 <= mix.regret < 0.02
    assert abs(mix.optimism) < 0.02
    assert choose(tuple(scores.values())).name in ("mix", "by target")


def test_a_candidate_that_fails_is_listed_with_the_reason(runs):
    scores = compare({"chinchilla": chinchilla(), "mixture": Mix()}, runs, holdout="larger", starts=4)
    assert [score.name for score in scores] == ["chinchilla", "mixture"]
    assert scores[1].failure.startswith("The runs have no column mixture")
    assert choose(scores).name == "chinchilla"
    with pytest.raises(FitError, match=r"mixture could not be fitted: The runs have no column mixture"):
        _ = scores[1].fitted
    with pytest.raises(FitError, match=r"No candidate can be fitted\. mixture: The runs have no column mixture"):
        compare({"mixture": Mix()}, runs, holdout="larger")
    with pytest.raises(ValueError, match=r"holdout is 'smaller'; give 'larger', 'mixtures', a number of folds"):
        compare({"chinchilla": chinchilla()}, runs, holdout="smaller")


def test_calibrated_is_the_fit_with_the_errors_of_both_hold_outs(runs):
    law = CANDIDATES["no floor"]
    fitted = calibrated(law, runs, starts=4, replicates=10)
    whole = fit(law, runs, starts=4, replicates=10)
    scores = [compare({"": law}, runs, holdout=how, starts=4, replicates=10)[0] for how in (5, "larger")]
    assert np.array_equal(fitted.theta, whole.theta)
    assert fitted.to_dict() == calibrate(whole, [score.errors for score in scores]).to_dict()
    assert fitted.extrapolation > 0
    same = runs | {name: np.full(18, 1e9) for name in ("model_size", "tokens")}
    assert calibrated(Constant("E"), same, starts=2).extrapolation == 0


def test_a_law_too_large_for_a_part_of_the_runs_is_calibrated_on_what_there_is(runs):
    few = {name: values[::3] for name, values in runs.items()}
    assert calibrated(chinchilla(), few, starts=2).groups == 0
    with pytest.raises(FitError, match="cannot determine"):
        calibrated(chinchilla(), few, holdout="larger", starts=2)


def test_many_targets_are_calibrated_as_one_after_the_other(mixtures):
    both = calibrated({"code": Mix(), "math": Mix()}, mixtures, starts=4, replicates=10, noise={"code": 0.002})
    alone = calibrated(Mix(), mixtures | {"loss": mixtures["loss"][:, 0]}, starts=4, replicates=10, noise=0.002)
    assert both["code"].inside == pytest.approx(alone.inside, rel=1e-6)
    assert both["code"].groups == 40
    assert both["math"].inside != both["code"].inside


def test_intervals_of_a_wrong_law_cover_new_runs(rng):
    """A curved truth is missed inside the runs as well, which their bootstrap does not tell."""
    covered, bare = [], []
    for _ in range(30):
        mixture = rng.dirichlet([1, 1], 50)
        loss = np.exp(0.5 * np.sin(5 * mixture[:, 0]) + 0.002 * rng.standard_normal(50))
        runs = {"mixture": mixture[:40], "loss": loss[:40]}
        fitted = calibrated(Mix(), runs, noise=0.002, starts=2, replicates=30)
        for one, kept in ((fitted, covered), (replace(fitted, inside=0.0), bare)):
            low, high = one.interval({"mixture": mixture[40:]})
            kept.append(np.mean((low <= loss[40:]) & (loss[40:] <= high)))
    assert 0.85 < np.mean(covered) < 0.97
    assert np.mean(bare) < 0.6
