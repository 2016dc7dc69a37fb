"""Predictors against oracles: scikit-learn, linear programs, leaving runs out one by one, and scipy's minimizer."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from mixopt.errors import FitError
from mixopt.fit.ranks import spearman
from mixopt.predictors.exponential import Exponentials, exponential, exponentials, leverage
from mixopt.predictors.gaussian_process import GaussianProcess
from mixopt.predictors.kernels import Gram, Kernel, Scale
from mixopt.predictors.log_linear import LogLinear
from mixopt.predictors.predictor import learned_from_dict
from mixopt.predictors.ridge import Ridge
from mixopt.predictors.support import Support, moved
from mixopt.predictors.warp import Range, Warp


def sparse(rows: int, corpora: int, rng: np.random.Generator) -> np.ndarray:
    """Mixtures of one to four corpora."""
    shares = np.zeros((rows, corpora))
    for row in shares:
        used = rng.choice(corpora, rng.integers(1, 5), replace=False)
        row[used] = rng.dirichlet(np.ones(len(used)))
    return shares


def made(shares: np.ndarray, targets: int = 2) -> np.ndarray:
    """Losses that fall as a power of what all corpora are worth together."""
    worth = np.exp(np.random.default_rng(1).normal(0, 1, (shares.shape[1], targets)))
    return 1 + (0.1 + np.sqrt(shares) @ worth) ** -0.5


@pytest.fixture
def runs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shares = sparse(60, 8, rng)
    loss = made(shares)
    return {"mixture": shares, "loss": loss + 0.01 * loss.std(0) * rng.standard_normal(loss.shape)}


def fixed(learned, runs: dict[str, np.ndarray], target: int) -> tuple[Gram, np.ndarray, float, np.ndarray]:
    """The Gram matrix, strength and warped losses that a kernel model chose for a target."""
    choice = learned.choice
    kernel = learned.kernels[choice.kernel[target]]
    gram = Gram.of(kernel, learned.scale.features(kernel, runs))
    warped = Warp(learned.range, choice.depth).forth(runs["loss"])[:, target]
    return gram, gram.between(gram.at), float(choice.strength[target]), warped - warped.mean()


@pytest.mark.parametrize("predictor", [Ridge(), GaussianProcess()])
def test_errors_of_left_out_runs_are_those_of_leaving_them_out(predictor, runs):
    """In closed form and by 60 fits of 59 runs, at the kernel, strength and floor that were chosen."""
    learned = predictor.learn(runs)
    for target in range(2):
        _, matrix, strength, y = fixed(learned, runs, target)
        inverse = np.linalg.inv(matrix + strength * np.eye(60))
        closed = (inverse @ y) / np.diag(inverse)
        for out in range(0, 60, 7):
            kept = np.delete(np.arange(60), out)
            dual = np.linalg.solve(matrix[np.ix_(kept, kept)] + strength * np.eye(59), y[kept])
            missed = y[out] - matrix[out, kept] @ dual
            assert closed[out] == pytest.approx(missed, rel=1e-6, abs=1e-9)
            expected = missed * np.sqrt(inverse[out, out])
            assert learned.choice.strange[out, target] == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_gaussian_process_is_that_of_scikit_learn(runs, rng):
    """Mean and sd of scikit-learn's regressor with the same kernel, noise and warped losses."""
    gp = pytest.importorskip("sklearn.gaussian_process")
    learned = GaussianProcess().learn(runs)
    new = {"mixture": sparse(20, 8, rng)}
    warp = Warp(learned.range, learned.choice.depth)
    for target in range(2):
        gram, _, strength, y = fixed(learned, runs, target)
        kernel = gp.kernels.Matern(gram.length, "fixed", nu=1.5) + gp.kernels.ConstantKernel(1.0, "fixed")
        theirs = gp.GaussianProcessRegressor(kernel, alpha=strength, optimizer=None).fit(gram.at, y)
        features = learned.scale.features(learned.kernels[learned.choice.kernel[target]], new)
        mean, sd = theirs.predict(features, return_std=True)
        ours = learned.predict(new)[:, target]
        back = warp.back(np.tile((mean + learned.choice.mean[target])[:, None], 2))[:, target]
        assert ours == pytest.approx(back, rel=1e-6)
        assert learned._sd(new, False)[:, target] == pytest.approx(sd, rel=1e-4, abs=1e-6)


def test_roots_beat_shares(rng):
    """What the Hellinger distance is for: a little of the right corpus. scikit-learn's ridge on shares ranks worse."""
    linear = pytest.importorskip("sklearn.linear_model")
    shares, new = sparse(80, 20, rng), sparse(200, 20, rng)
    runs = {"mixture": shares, "loss": made(shares)}
    raw = linear.RidgeCV(10.0 ** np.arange(-5, 3)).fit(shares, runs["loss"]).predict(new)
    for predictor in (Ridge(), GaussianProcess()):
        said = predictor.learn(runs).predict({"mixture": new})
        for k in range(2):
            truth = made(new)[:, k]
            assert spearman(said[:, k], truth) > spearman(raw[:, k], truth) + 0.05


def test_exponentials_reach_the_minimum_that_scipy_finds(rng):
    features = sparse(40, 5, rng) - 0.2
    y = np.exp(features @ np.array([[1.0, -1, 0.5, 0, 2], [0, 1, -2, 1, 0]]).T).T / 5 + 0.01 * rng.random((2, 40))
    strength = np.array([1e-2, 1e-1])
    found = exponentials(features, y, strength)
    for theta, target, pull in zip(found.theta, y, strength, strict=True):

        def objective(u, target=target, pull=pull) -> float:
            missed = u[0] + np.exp(u[1] + features @ u[2:]) - target
            return float((missed**2).sum() + pull * (u[2:] ** 2).sum())

        ends = [minimize(objective, rng.normal(0, 0.5, 7), method="BFGS").fun for _ in range(4)]
        assert objective(theta) <= min(ends) * (1 + 1e-3)


def test_leverage_is_the_variance_of_predictions_over_noise(rng):
    """Refits to 400 draws of noise spread as far as the leverage says, at a small penalty."""
    features = rng.normal(0, 1, (50, 3))
    clean = 0.2 + np.exp(-1 + features @ np.array([0.3, -0.2, 0.1]))
    new, noise = rng.normal(0, 1, (5, 3)), 0.01
    fitted = exponentials(
        features, np.tile(clean, (400, 1)) + noise * rng.standard_normal((400, 50)), np.full(400, 1e-9)
    )
    spread = exponential(fitted.theta, new).std(0) / noise
    one = Exponentials(fitted.theta[:1], fitted.inverse[:1])
    assert spread == pytest.approx(np.sqrt(leverage(one, new)[0]), rel=0.2)


def test_few_runs_of_many_corpora_do_not_explode(rng):
    """64 runs of 22 corpora: the unpenalized law predicts astronomical losses at corners; ours stay near those seen."""
    shares = sparse(64, 22, rng)
    loss = made(shares) + 0.02 * rng.standard_normal((64, 2))
    runs, corners = {"mixture": shares, "loss": loss}, {"mixture": np.eye(22)}
    spread = np.ptp(loss, axis=0)
    for predictor in (LogLinear(), Ridge(), GaussianProcess()):
        said = predictor.learn(runs).predict(corners)
        assert (np.abs(said - loss.mean(0)) < 1.5 * spread).all()
    new = sparse(200, 22, rng)
    said = LogLinear().learn(runs).predict({"mixture": new})
    assert 1 - ((said - made(new)) ** 2).sum() / ((made(new) - made(new).mean(0)) ** 2).sum() > 0.7


def test_many_targets_are_learned_together(rng):
    """Of more than sixteen targets sixteen choose the shape and the penalty of all; the fits are each target's own."""
    shares, new = sparse(60, 6, rng), sparse(50, 6, rng)
    learned = LogLinear().learn({"mixture": shares, "loss": made(shares, 20)})
    assert len(set(learned.shape)) == 1
    truth, said = made(new, 20), learned.predict({"mixture": new})
    assert min(spearman(said[:, k], truth[:, k]) for k in range(20)) > 0.95


def test_share_to_move_is_that_of_a_linear_program(rng):
    """The smallest share, by HiGHS; ours is an upper bound, and close."""
    points, rows = sparse(15, 5, rng), rng.dirichlet(np.full(5, 0.4), 25)
    ours = moved(rows, points)
    for row, share in zip(rows, ours, strict=True):
        n, m = points.shape
        # Weights of the points, then what is above and below: half their sum is the share to move.
        cost = np.concatenate([np.zeros(n), np.full(2 * m, 0.5)])
        equal = np.vstack([np.hstack([points.T, -np.eye(m), np.eye(m)]), np.r_[np.ones(n), np.zeros(2 * m)]])
        least = linprog(cost, A_eq=equal, b_eq=np.append(row, 1.0), method="highs").fun
        assert share >= least - 3e-3
        assert share <= 1.25 * least + 0.012


def test_outside_is_where_no_run_was_near(rng):
    inside = np.hstack([rng.dirichlet(np.full(4, 2.0), 80), np.zeros((80, 1))])
    support = Support.of(("mixture", "tokens"), {"mixture": inside, "tokens": np.geomspace(1e8, 1e9, 80)})
    asked = {"mixture": np.array([[0.25] * 4 + [0.0], [0.0] * 4 + [1.0], [0.25] * 4 + [0.0]])}
    assert support.outside({**asked, "tokens": np.array([5e8, 5e8, 5e9])}).tolist() == [False, True, True]
    assert support.beyond(asked)[1] == pytest.approx(1.0)
    again = Support.from_dict(support.to_dict())
    assert np.array_equal(again.beyond(asked), support.beyond(asked))


def test_range_keeps_the_order_and_the_slope():
    seen = Range(np.array([1.0]), np.array([2.0]))
    values = np.linspace(-5, 8, 400)[:, None]
    kept = seen.inside(values)
    assert (np.diff(kept[(values > -2) & (values < 5)]) > 0).all()
    assert kept.min() >= 0.5
    assert kept.max() <= 2.5
    step = 1e-6
    ends = np.array([[1 - step], [1.0], [2.0], [2 + step]])
    assert np.diff(seen.inside(ends)[:, 0])[[0, 2]] == pytest.approx([step, step], rel=1e-4)


def test_warp_and_back():
    warp = Warp(Range.of(np.array([[2.0, 5.0], [3.0, 9.0]])), np.array([0.1, 2.0]))
    inside = np.array([[2.2, 5.0], [3.0, 8.0]])
    assert warp.back(warp.forth(inside)) == pytest.approx(inside)


def test_a_column_that_never_changed_is_not_extrapolated(rng):
    shares = sparse(20, 4, rng)
    columns = {"mixture": shares, "tokens": np.full(20, 1e9), "loss": made(shares)[:, 0]}
    learned = Ridge(inputs=("mixture", "tokens")).learn(columns)
    more = {**columns, "tokens": np.full(20, 1e12)}
    assert np.array_equal(learned.predict(more), learned.predict(columns))
    assert learned.outside(more).all()


def test_losses_need_not_be_positive(rng):
    shares = sparse(30, 4, rng)
    runs = {"mixture": shares, "bits_per_byte": made(shares) - 2}
    for predictor in (Ridge("bits_per_byte"), GaussianProcess("bits_per_byte"), LogLinear("bits_per_byte")):
        said = predictor.learn(runs).predict(runs)
        assert spearman(said[:, 0], runs["bits_per_byte"][:, 0]) > 0.95


def test_features_of_a_share():
    """log(1 + h / .01) / log(101): 0 at none, 1 at all."""
    columns = {"mixture": np.array([[0.25, 0.75], [0.0, 1.0]])}
    scale = Scale.of(("mixture",), columns)
    features = scale.features(Kernel(("share", "root", "log")), columns)
    assert features[1].tolist() == [0, 1, 0, 1, 0, 1]
    assert features[0] == pytest.approx(
        [0.25, 0.75, 0.5, np.sqrt(0.75), np.log(26) / np.log(101), np.log(76) / np.log(101)]
    )


def test_errors_name_what_is_wrong(runs):
    with pytest.raises(FitError, match=r"loss has shape \[2, 2\]; give \[runs\]"):
        Ridge().learn({name: values[:2] for name, values in runs.items()})
    with pytest.raises(FitError, match=r"Column mixture has shape \[59, 8\] and the output 60 rows"):
        Ridge().learn({**runs, "mixture": runs["mixture"][:59]})
    with pytest.raises(ValueError, match="There is no learned named 'Oracle'; there are"):
        learned_from_dict({"learned": "Oracle"})


def test_trees_need_ten_runs(runs):
    pytest.importorskip("sklearn")
    from mixopt.predictors.boosted_trees import BoostedTrees

    with pytest.raises(FitError, match="8 runs are too few for boosted trees; give 10"):
        BoostedTrees().learn({name: values[:8] for name, values in runs.items()})
