"""fit: oracles by linear algebra and simulation, null directions, the bootstrap, and what is refused."""

import json
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.bootstrap import redraw, resample, step_from
from mixopt.fit.fit import Fit, fit
from mixopt.fit.levenberg_marquardt import Box
from mixopt.fit.norms import Huber, Square
from mixopt.laws.chinchilla import BESIROGLU, chinchilla, from_paper
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import Repetition
from mixopt.laws.token_exchange import TokenExchange

TRUTH = from_paper(BESIROGLU)


@dataclass(frozen=True)
class LogLinear(Law):
    """log loss = sum_i w_i x_i: linear in search coordinates, so that least squares is its exact oracle."""

    names_: tuple[str, ...]
    priors: tuple[tuple[float, float] | None, ...] = ()
    box: float = 9.0
    inputs = ("mixture",)
    output = "loss"

    def __post_init__(self):
        priors = self.priors or (None,) * len(self.names_)
        pairs = zip(self.names_, priors, strict=True)
        self._declare(coefficients=tuple(Coefficient(n, -self.box, self.box, prior=p) for n, p in pairs))

    def __call__(self, theta, columns):
        return np.exp((theta[..., None, :] * columns["mixture"]).sum(-1))


@dataclass(frozen=True)
class Softened(Law):
    """c + exp(k + sum_i t_i h_i): on the simplex, k and a shift of all t are one and the same."""

    corpora: tuple[str, ...]
    inputs = ("mixture",)
    output = "loss"

    def __post_init__(self):
        t = tuple(Coefficient(f"t[{corpus}]", -4.0, 3.0) for corpus in self.corpora)
        self._declare(coefficients=(Coefficient("k", -4.0, 3.0), *t))

    def __call__(self, theta, columns):
        return 2 + np.exp(theta[..., :1] + (theta[..., None, 1:] * columns["mixture"]).sum(-1))


def chinchilla_runs(rng, n=60, noise=0.004):
    size = np.exp(rng.uniform(np.log(5e7), np.log(1e10), n))
    columns = {"model_size": size, "tokens": size * np.exp(rng.uniform(np.log(3), np.log(100), n))}
    exact = chinchilla()(np.array([TRUTH[name] for name in chinchilla().names]), columns)
    return columns | {"loss": exact * np.exp(noise * rng.standard_normal(n))}


def linear_runs(rng, n=40, p=3, noise=0.01):
    x = rng.standard_normal((n, p))
    return {"mixture": x, "loss": np.exp(x @ np.array([0.5, -0.2, 1.0])[:p] + noise * rng.standard_normal(n))}


def test_square_is_ordinary_least_squares_of_the_log(rng):
    runs = linear_runs(rng)
    fitted = fit(LogLinear(("a", "b", "c")), runs, norm=Square(0.01), starts=4)
    exact, rest, *_ = np.linalg.lstsq(runs["mixture"], np.log(runs["loss"]), rcond=None)
    assert np.allclose(fitted.theta, exact, atol=1e-8)
    assert fitted.objective == pytest.approx(rest[0] / 2 / 0.01**2, rel=1e-8)
    assert fitted.log_loss_objective == pytest.approx(rest[0] / 2, rel=1e-8)
    assert fitted.noise == pytest.approx(0.01, rel=0.5)
    assert fitted.agreement == 1


def test_priors_give_the_exact_gaussian_posterior_mode(rng):
    """With the norm's scale the sd of the noise: (X'X/s2 + P) u = X'y/s2 + P c."""
    runs, noise = linear_runs(rng, n=5), 0.01
    law = LogLinear(("a", "b", "c"), ((1.0, 0.005), None, (0.0, 0.02)))
    fitted = fit(law, runs, norm=Square(noise), starts=4)
    x, y = runs["mixture"], np.log(runs["loss"])
    precision = np.diag([0.005**-2, 0, 0.02**-2])
    exact = np.linalg.solve(x.T @ x / noise**2 + precision, x.T @ y / noise**2 + precision @ [1.0, 0, 0])
    assert np.allclose(fitted.theta, exact, atol=1e-7)


def test_priors_alone_decide_what_no_run_shows(rng):
    runs = {"mixture": np.array([[1.0, 0, 0]]), "loss": np.array([1.0])}
    fitted = fit(LogLinear(("a", "b", "c"), (None, (0.7, 0.1), (-2.0, 1.0))), runs, starts=3)
    assert np.allclose(fitted.theta, [0, 0.7, -2], atol=1e-8)
    assert fitted.null_directions == ()


def test_a_law_recovers_itself_from_exact_runs(rng):
    fitted = fit(chinchilla(), chinchilla_runs(rng, noise=0.0), starts=16)
    assert np.allclose(fitted.theta, [TRUTH[name] for name in fitted.law.names], rtol=1e-5)
    assert fitted.agreement >= 0.9


def test_predictions_do_not_depend_on_the_order_of_the_runs(rng):
    runs = chinchilla_runs(rng)
    order = rng.permutation(60)
    there, again = (
        fit(chinchilla(), columns, starts=4) for columns in (runs, {name: v[order] for name, v in runs.items()})
    )
    assert np.allclose(there.predict(runs), again.predict(runs), rtol=1e-6)


def test_a_fitted_law_has_no_coefficients_left(rng):
    runs = chinchilla_runs(rng)
    fitted = fit(chinchilla(), runs, starts=2)
    held = fitted.law_at()
    assert held.coefficients == ()
    assert np.allclose(held(np.empty(0), runs), fitted.predict(runs), rtol=1e-14)
    again = fit(held, runs, replicates=3)
    assert again.objective == pytest.approx(fitted.objective, rel=1e-12)
    assert again.agreement == 1
    assert again.null_directions == ()


def test_a_common_shift_is_named_not_hidden(rng):
    corpora = ("web", "code", "math")
    law, h = Softened(corpora), rng.dirichlet(np.ones(3), 40)
    runs = {"mixture": h, "loss": law(np.array([0.1, -1.0, 0.2, 0.4]), {"mixture": h})}
    fitted = fit(law, runs, starts=4)
    (words,) = fitted.null_directions
    assert "k, t[web], t[code], t[math] are determined only up to a trade: k up, t[web] down by 1.00 times" in words
    assert fit(law.fix(k=0.0), runs, starts=4).null_directions == ()
    assert np.allclose(fit(law.fix(k=0.1), runs, starts=4).theta, [-1.0, 0.2, 0.4], atol=1e-6)


def test_equal_shifts_of_like_coefficients_are_called_a_common_shift(rng):
    x = rng.standard_normal(30)
    runs = {"mixture": np.stack([x, -x], 1), "loss": np.exp(x)}
    assert fit(LogLinear(("t[web]", "t[code]")), runs, starts=3).null_directions == (
        "t[web], t[code] are determined only up to a common shift",
    )


def test_runs_that_never_vary_leave_null_directions_rather_than_an_error(rng):
    """All of one size: its exponent has no effect at one unit, and its scale is a part of E."""
    runs = chinchilla_runs(rng) | {"model_size": np.full(60, 1e9)}
    fitted = fit(chinchilla(), runs, starts=8)
    assert any("alpha is not determined: it has no effect" in words for words in fitted.null_directions)
    trades = [words for words in fitted.null_directions if "trade" in words]
    assert len(trades) == 1
    assert trades[0].startswith(("E, A are determined only up to a trade: E up, A down", "A, E"))
    assert trades[0].endswith("(in log)")
    assert np.isfinite(fitted.predict(runs)).all()
    assert "! alpha is not determined" in fitted.report()


def test_intervals_of_a_linear_law_are_those_of_theory(rng):
    """Bootstrap sd of each coefficient against the textbook sd, sigma sqrt((X'X)^-1)."""
    runs = linear_runs(rng, n=200)
    fitted = fit(LogLinear(("a", "b", "c")), runs, norm=Square(0.01), starts=1, replicates=600)
    theory = 0.01 * np.sqrt(np.diag(np.linalg.inv(runs["mixture"].T @ runs["mixture"])))
    assert np.allclose(fitted.replicates.std(0), theory, rtol=0.25)
    low, high = fitted.interval(runs, 0.9)
    assert ((low < fitted.predict(runs)) & (fitted.predict(runs) < high)).all()
    x = runs["mixture"]
    sd = np.sqrt(np.einsum("np,pq,nq->n", x, np.linalg.inv(x.T @ x), x)) * 0.01
    assert np.median(np.log(high / low) / (2 * 1.645 * sd)) == pytest.approx(1, abs=0.2)


def test_replicates_are_spread_as_the_exact_gaussian_posterior(rng):
    """b has few informative runs and c none at all: a fixed center would make c certain and b too sure."""
    runs = linear_runs(rng, n=80)
    runs["mixture"] = runs["mixture"] * [1, 0.1, 0]
    runs["loss"] = np.exp(runs["mixture"] @ [0.5, -0.2, 0] + 0.01 * rng.standard_normal(80))
    law = LogLinear(("a", "b", "c"), (None, (-0.2, 0.01), (1.0, 0.3)))
    fitted = fit(law, runs, norm=Square(0.01), starts=2, replicates=800)
    x = runs["mixture"]
    exact = np.sqrt(np.diag(np.linalg.inv(x.T @ x / 0.01**2 + np.diag([0, 0.01**-2, 0.3**-2]))))
    assert np.allclose(fitted.replicates.std(0), exact, rtol=0.15)


def test_targets_err_together_in_the_coefficients_that_they_share():
    kappa, other = Coefficient("kappa", 0, 1, prior=(0.47, 0.1)), Coefficient("g", 0, 1, prior=(0.6, 0.2))
    alone, second = redraw([kappa], 50, seed=3), redraw([other, kappa], 50, seed=3)
    assert np.array_equal(alone[:, 0], second[:, 1])
    assert abs(np.corrcoef(second.T)[0, 1]) < 0.5
    assert not np.array_equal(alone, redraw([kappa], 50, seed=4))


def test_priors_are_as_uncertain_as_they_say():
    """Truths drawn from their priors: estimates miss them by one sd of the replicates, also where no run tells."""
    law = LogLinear(("a", "b", "c"), ((0.5, 0.2), (0.0, 0.02), (1.0, 0.3)))
    missed = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        truth = rng.normal([0.5, 0.0, 1.0], [0.2, 0.02, 0.3])
        x = rng.standard_normal((30, 3)) * [1, 0.1, 0]
        runs = {"mixture": x, "loss": np.exp(x @ truth + 0.01 * rng.standard_normal(30))}
        fitted = fit(law, runs, norm=Square(0.01), starts=1, replicates=40, seed=seed)
        missed.append((fitted.theta - truth) / fitted.replicates.std(0))
    assert np.allclose(np.sqrt(np.mean(np.square(missed), axis=0)), 1, atol=0.2)


def test_an_observation_is_less_certain_than_the_mean(rng):
    runs = chinchilla_runs(rng)
    fitted = fit(chinchilla(), runs, starts=2, replicates=50)
    mean, single = fitted.interval(runs), fitted.interval(runs, observation=True)
    half = np.log(single[1] / fitted.predict(runs))
    assert (half >= 1.6448 * fitted.noise).all()
    assert (single[0] < mean[0]).all()


def test_extrapolation_widens_only_beyond_the_largest_run(rng):
    runs = chinchilla_runs(rng)
    fitted = fit(chinchilla(), runs, starts=2, replicates=50)
    data = json.loads(json.dumps(fitted.to_dict())) | {"extrapolation": 0.02, "reach": 2.0}
    wider = Fit.from_dict(data)
    flops = 6 * runs["model_size"] * runs["tokens"]
    top = int(flops.argmax())
    far = {name: runs[name][[top]] * np.exp(2.0) for name in ("model_size", "tokens")}
    assert wider.overshoot(far) == pytest.approx(4.0)
    assert np.array_equal(wider.interval(runs), fitted.interval(runs))
    low, high = fitted.interval(far)
    added = np.log(wider.interval(far)[1] / fitted.predict(far)) ** 2 - np.log(high / fitted.predict(far)) ** 2
    assert np.sqrt(added) == pytest.approx(1.6449 * 0.02 * 4.0 / 2.0, rel=1e-3)
    assert wider.interval(far)[0] < low


def test_size_is_judged_by_what_the_law_reads(rng):
    """A law of tokens alone is beyond its runs when the tokens are, whatever the model's size."""
    runs = chinchilla_runs(rng)
    fitted = fit(Constant("E") + PowerLaw("tokens", 1e9, "B", "beta"), runs, starts=2)
    far = {"tokens": runs["tokens"].max() * np.array([0.1, np.e]), "model_size": np.array([1e15, 1e15])}
    assert np.allclose(fitted.overshoot(far), [0, 1])
    assert np.array_equal(fit(LogLinear(("a", "b", "c")), linear_runs(rng)).overshoot(linear_runs(rng)), np.zeros(40))


def test_more_passes_and_longer_schedules_are_beyond_the_runs_too(rng):
    runs = {"tokens": np.geomspace(1e8, 1e9, 12), "mixture": np.ones((12, 1)), "unique_tokens": np.full((12, 1), 5e8)}
    law = Repetition((2.7, 0.7)) >> (Constant("E") + PowerLaw("tokens", 1e9, "B", "beta"))
    fitted = fit(law, runs | {"loss": 2 + (runs["tokens"] / 1e9) ** -0.5}, starts=2)
    scarce = {name: values[-1:] for name, values in runs.items()} | {"unique_tokens": np.full((1, 1), 5e8 / np.e)}
    assert fitted.overshoot(scarce) == pytest.approx(1)
    assert fitted.overshoot({**scarce, "tokens": scarce["tokens"] / 1e3}) == pytest.approx(0)
    knots = {"step_knots": np.geomspace(1e3, 1e4, 12)[:, None] * [0, 1], "lr_knots": np.full((12, 2), 1e-3)}
    long = {name: values[-1:] * [[np.e if name == "step_knots" else 1]] for name, values in knots.items()}
    law = LearningRateSum() >> (Constant("E") + PowerLaw("lr_sum", 1.0, "A", "alpha"))
    assert fit(law, knots | {"loss": np.linspace(3, 2, 12)}, starts=2).overshoot(long) == pytest.approx(1)


def test_what_replicates_leave_unexplained_is_there_inside_the_runs_too(rng):
    """3 % inside; a factor of e^4 in compute beyond, where e^2 cost 2 %, adds 4: 5 % in quadrature."""
    runs = chinchilla_runs(rng)
    fitted = replace(fit(chinchilla(), runs, starts=2), inside=0.03, groups=9, extrapolation=0.02, reach=2.0)
    top = int((runs["model_size"] * runs["tokens"]).argmax())
    rows = {name: runs[name][[top, top]] * [1, np.exp(2.0)] for name in ("model_size", "tokens")}
    assert fitted.unexplained(rows) == pytest.approx([0.03, 0.05])


def test_a_fit_written_before_errors_inside_were_kept_is_read(rng):
    fitted = fit(chinchilla(), chinchilla_runs(rng), starts=2)
    older = {name: value for name, value in fitted.to_dict().items() if name not in ("inside", "groups")}
    assert Fit.from_dict(older).to_dict() == fitted.to_dict()


def test_replicates_pair_up_across_targets_and_keep_runs_whole():
    run = np.array(["a", "a", "b", "c", "c", "c"])
    counts = resample(run, 200, seed=3)
    assert np.array_equal(counts, resample(np.array([7, 7, 2, 9, 9, 9]), 200, seed=3))
    assert np.array_equal(counts[:, 0], counts[:, 1])
    assert np.array_equal(counts[:, 3], counts[:, 5])
    assert (counts[:, [0, 2, 3]].sum(1) == 3).all()
    assert not np.array_equal(counts, resample(run, 200, seed=4))


def test_correlated_rows_widen_the_intervals(rng):
    """Ten checkpoints that share their run's luck tell no more than one."""
    x = np.ones((200, 1))
    luck = np.repeat(0.01 * rng.standard_normal(20), 10)
    runs = {"mixture": x, "loss": np.exp(luck), "run": np.repeat(np.arange(20), 10)}
    law = LogLinear(("a",))
    by_run = fit(law, runs, norm=Square(0.01), starts=1, replicates=300).replicates.std()
    by_row = fit(law, runs, norm=Square(0.01), starts=1, replicates=300, run=np.arange(200)).replicates.std()
    assert by_run / by_row == pytest.approx(np.sqrt(10), rel=0.3)


def test_the_same_seed_gives_the_same_fit(rng):
    runs = chinchilla_runs(rng)
    one, two = (fit(chinchilla(), runs, starts=3, replicates=5, seed=8) for _ in range(2))
    assert np.array_equal(one.theta, two.theta)
    assert np.array_equal(one.replicates, two.replicates)


def test_json_returns_an_equal_fit(rng):
    runs = chinchilla_runs(rng)
    fitted = fit(chinchilla().fix(E=1.8172), runs, starts=3, replicates=5, norm=Huber(0.002))
    again = Fit.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert again.law == fitted.law
    assert again.norm == fitted.norm
    assert again.to_dict() == fitted.to_dict()
    assert np.array_equal(again.samples(runs), fitted.samples(runs))
    assert again.report() == fitted.report()


def test_report_shows_values_intervals_priors_and_bounds(rng):
    runs = linear_runs(rng)
    law = LogLinear(("a", "b", "c"), (None, (-0.2, 0.5), None), box=0.7)
    text = fit(law, runs, starts=3, replicates=20).report()
    lines = text.splitlines()
    assert lines[0].split() == ["coefficient", "value", "90%", "interval", "prior", "its", "part", "box"]
    assert "-0.2 +- 0.5" in lines[2]
    assert lines[3].split()[1] == "0.7"
    assert lines[3].endswith("at its end")
    assert "! c ended at the end of its box, 0.7: these runs do not show what it stands for." in text
    assert "40 rows, noise" in text


def test_few_agreeing_starts_are_a_caution(rng):
    fitted = fit(chinchilla(), chinchilla_runs(rng), starts=2)
    lonely = Fit.from_dict(fitted.to_dict() | {"agreement": 0.05})
    assert lonely.cautions()[0].startswith("5% of the starts agree on the best objective. Fit with more starts")
    assert fitted.cautions() == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": None}, r"no column tokens; this law reads model_size, tokens and makes loss\. Add the column"),
        ({"loss": np.ones((9, 2))}, r"loss has shape \[9, 2\]; a fit needs one number per run\. Take one target"),
        (
            {"loss": np.array([3.0] * 4 + [-1.0] + [3.0] * 4)},
            r"Column loss row 4 is -1\.0; it must be a positive number",
        ),
        ({"loss": np.array([3.0] * 8 + [np.nan])}, r"Column loss row 8 is nan; it must be a positive number\. Leave"),
        ({"tokens": np.array([np.inf] + [1e9] * 8)}, r"Column tokens row 0 is inf; it must be finite"),
        ({"tokens": np.ones(4)}, r"Column tokens has 4 rows and the output 9; every row is one run"),
    ],
)
def test_refuses_columns(rng, change, message):
    columns = {name: v for name, v in (chinchilla_runs(rng, 9) | change).items() if v is not None}
    with pytest.raises(FitError, match=message):
        fit(chinchilla(), columns)


def test_refuses_what_cannot_be_fitted(rng):
    runs = chinchilla_runs(rng, 4)
    with pytest.raises(FitError, match=r"4 runs cannot determine 5 coefficients \(E, A, alpha, B, beta\)\. Add runs"):
        fit(chinchilla(), runs)
    with pytest.raises(FitError, match=r"Constant makes loss, which no law after it reads"):
        fit(Constant("E") >> PowerLaw("tokens", 1e9, "B", "beta"), runs)
    with pytest.raises(ValueError, match=r"starts and replicates must be at least 0; got -1 and 0"):
        fit(chinchilla(), runs, starts=-1)

    @dataclass(frozen=True)
    class Negative(Law):
        inputs = ()
        output = "loss"
        coefficients = (Coefficient("E", -2, -1),)

        def __call__(self, theta, columns):
            return theta[..., :1]

    with pytest.raises(
        FitError, match=r"None of 65 starts gives a positive, finite loss for every row\. Check the units"
    ):
        fit(Negative(), runs)


def test_refuses_samples_without_replicates_and_foreign_versions(rng):
    runs = chinchilla_runs(rng, 9)
    fitted = fit(chinchilla(), runs, starts=1)
    with pytest.raises(FitError, match=r"no bootstrap replicates\. Fit again with replicates=200"):
        fitted.interval(runs)
    with pytest.raises(ValueError, match=r"level is the share of intervals that cover, between 0 and 1; got 90"):
        fitted.interval(runs, 90)
    with pytest.raises(ValueError, match=r"This fit has version 0; this mixopt reads 1\. Fit again"):
        Fit.from_dict(fitted.to_dict() | {"version": 0})


def test_refuses_an_interval_where_a_loss_would_be_negative(rng):
    @dataclass(frozen=True)
    class Line(Law):
        inputs = ("tokens",)
        output = "loss"
        coefficients = (Coefficient("a", 0.1, 9.0), Coefficient("b", 0.1, 1.0))

        def __call__(self, theta, columns):
            return theta[..., :1] - theta[..., 1:] * columns["tokens"]

    tokens = np.linspace(0, 1, 9)
    fitted = fit(Line(), {"tokens": tokens, "loss": 3 - 0.5 * tokens}, starts=2, replicates=3)
    with pytest.raises(FitError, match=r"no positive loss for row 1: the row is too far from the runs for this law"):
        fitted.interval({"tokens": np.array([1.0, 100.0])})


@pytest.mark.slow
@pytest.mark.parametrize("n", [15, 60, 240])
def test_intervals_cover_what_they_say(n):
    """90 % intervals of coefficients, and of a run a hundred times larger, over 100 simulated tables."""
    far = {"model_size": np.array([1e9, 70e9]), "tokens": np.array([2e10, 1.4e12])}
    truth = np.array([TRUTH[name] for name in chinchilla().names])
    exact = chinchilla()(truth, far)
    covered = []
    for seed in range(100):
        runs = chinchilla_runs(np.random.default_rng(seed), n)
        fitted = fit(chinchilla(), runs, starts=3, replicates=100, norm=Huber(0.004))
        low, high = np.quantile(fitted.replicates, [0.05, 0.95], axis=0)
        below, above = fitted.interval(far)
        covered.append([*((low <= truth) & (truth <= high)), *((below <= exact) & (exact <= above))])
    rates = np.mean(covered, axis=0)
    assert 0.8 <= rates.min()
    assert rates.max() <= 0.97


def test_a_weight_of_two_is_two_rows_alike(rng):
    """Weights 1 and 2, relative to their mean, against rows written twice; a prior sees the same number of runs."""
    runs, twice = linear_runs(rng), np.arange(40) % 2 == 0
    both = {name: np.concatenate([values, values[twice]]) for name, values in runs.items()}
    law, weight = LogLinear(("a", "b", "c")), np.where(twice, 2.0, 1.0)
    one = fit(law, runs, norm=Huber(0.005), starts=2, weight=7 * weight)
    other = fit(law, both, norm=Huber(0.005), starts=2)
    assert np.allclose(one.theta, other.theta, atol=1e-7)
    assert one.objective * weight.mean() == pytest.approx(other.objective, rel=1e-7)


def test_weights_are_those_of_generalized_least_squares(rng):
    """Noise of two sizes: weighted by 1 / variance, estimates and their replicates have the textbook's spread."""
    x, sd = rng.standard_normal((300, 2)), np.where(np.arange(300) % 2, 0.002, 0.04)
    y = x @ [0.5, -0.2] + sd * rng.standard_normal(300)
    weight = sd**-2.0
    fitted = fit(LogLinear(("a", "b")), {"mixture": x, "loss": np.exp(y)}, norm=Square(0.01), weight=weight, starts=2,
                 replicates=400)  # fmt: skip
    information = x.T @ (weight[:, None] * x)
    assert np.allclose(fitted.theta, np.linalg.solve(information, x.T @ (weight * y)), atol=1e-8)
    assert np.allclose(fitted.replicates.std(0), np.sqrt(np.diag(np.linalg.inv(information))), rtol=0.2)
    assert fitted.noise == pytest.approx(np.sqrt(1 / weight.mean()), rel=0.15)  # that of a run of the mean weight


def test_refuses_weights(rng):
    runs = linear_runs(rng)
    with pytest.raises(FitError, match=r"weight has shape \[3\] and the table 40 rows"):
        fit(LogLinear(("a", "b", "c")), runs, weight=np.ones(3))
    with pytest.raises(FitError, match=r"Column weight row 0 is 0\.0; it must be a positive number"):
        fit(LogLinear(("a", "b", "c")), runs, weight=np.arange(40.0))


def test_the_part_of_a_prior_is_the_variance_it_leaves(rng):
    """A Gaussian posterior: its variance over the prior's, and what remains of three is what runs determine."""
    runs = linear_runs(rng)
    runs["mixture"] = runs["mixture"] * [1, 0.05, 0]
    runs["loss"] = np.exp(runs["mixture"] @ [0.5, -0.2, 0] + 0.01 * rng.standard_normal(40))
    fitted = fit(LogLinear(("a", "b", "c"), (None, (-0.2, 0.03), (1.0, 0.3))), runs, norm=Square(0.01), starts=2)
    x, precision = runs["mixture"], np.diag([0, 0.03**-2, 0.3**-2])
    posterior = np.linalg.inv(x.T @ x / 0.01**2 + precision)
    assert np.allclose(fitted.prior_shares, np.diag(posterior @ precision), atol=1e-8)
    assert fitted.prior_shares[2] == pytest.approx(1)
    assert fitted.widening == pytest.approx(np.sqrt(40 / (40 - 3 + fitted.prior_shares.sum())))
    assert "100%" in fitted.report().splitlines()[3]


def test_weak_directions_are_named_apart_from_null_ones(rng):
    """Two columns a thousandth apart under noise of .01 in 40 runs: their difference is known to 1.6."""
    runs = linear_runs(rng)
    runs["mixture"][:, 1] = runs["mixture"][:, 0] + 0.001 * rng.standard_normal(40)
    runs["loss"] = np.exp(runs["mixture"] @ [0.5, -0.2, 1.0] + 0.01 * rng.standard_normal(40))
    fitted = fit(LogLinear(("a", "b", "c")), runs, norm=Square(0.01), starts=8)
    assert fitted.null_directions == ()
    assert fitted.weak_directions == (
        "a, b are hardly determined, only their trade: a up, b down by 1.00 times as much changes little",
    )
    assert fitted.cautions() == ()  # in many a good fit some direction is weak: the report tells
    assert fitted.weak_directions[0] in fitted.report()
    assert fitted.to_dict()["weak_directions"] == list(fitted.weak_directions)
    assert fit(LogLinear(("a", "b", "c")), linear_runs(rng), norm=Square(0.01), starts=2).weak_directions == ()


def test_one_step_is_the_refit_of_a_linear_law(rng):
    """Weighted least squares with redrawn priors is linear: Newton's first step from the optimum ends there."""
    runs, counts = linear_runs(rng), rng.multinomial(40, np.full(40, 1 / 40), size=5)
    x, y, precision = runs["mixture"], np.log(runs["loss"]) / 0.01, np.array([0, 25.0, 4.0])
    box = Box(np.full(3, -9.0), np.full(3, 9.0), np.zeros(3), precision)
    u, centers = np.linalg.solve(x.T @ x / 1e-4 + np.diag(precision), x.T @ y / 0.01), rng.standard_normal((5, 3))
    found = step_from(u, x @ u / 0.01 - y, x / 0.01, box, Square(0.01), counts, centers)
    for k in range(5):
        normal = (x.T * counts[k]) @ x / 1e-4 + np.diag(precision)
        assert np.allclose(found[k], np.linalg.solve(normal, (x.T * counts[k]) @ y / 0.01 + precision * centers[k]))


def test_replicates_of_a_wide_law_are_spread_as_full_refits(rng, monkeypatch):
    """A few steps a replicate against refits to the last digit, on the same draws: predictions and their sd."""
    corpora = tuple(f"c{i}" for i in range(12))
    law, h = Constant("E") + TokenExchange(corpora, 1.0), rng.dirichlet(np.ones(12), 160)
    truth = np.concatenate([[2.0], np.exp(0.5 * rng.standard_normal(12)), [0.6, 0.05, 0.4, 0.6]])
    runs = {"corpus_tokens": h, "loss": law(truth, {"corpus_tokens": h}) * np.exp(0.003 * rng.standard_normal(160))}
    new, samples = {"corpus_tokens": rng.dirichlet(np.ones(12), 50)}, []
    for wide in (10**9, 0):
        monkeypatch.setattr(sys.modules["mixopt.fit.optimum"], "_WIDE", wide)
        samples.append(np.log(fit(law, runs, norm=Huber(0.003), starts=4, replicates=100).samples(new)))
    exact, near = samples
    assert near.std(0) == pytest.approx(exact.std(0), rel=0.15)
    assert np.median(np.abs(near - exact) / exact.std(0)) < 0.1


def test_memory_grows_with_the_runs_not_with_their_square(rng):
    """A matrix of runs by runs would take 20 GB here."""
    x = rng.standard_normal((50_000, 2))
    runs = {"mixture": x, "loss": np.exp(x @ [0.5, -0.2])}
    assert np.allclose(fit(LogLinear(("a", "b")), runs, norm=Square(0.01), starts=1).theta, [0.5, -0.2])
