"""The solver on problems whose answer is known in closed form. NIST's certified values are in reference/."""

import numpy as np
import pytest

from mixopt.fit.levenberg_marquardt import Box, Observed, levenberg_marquardt
from mixopt.fit.norms import Huber, Square, norm_from_dict, norm_to_dict


class Linear:
    """z = X u - y."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def value(self, u):
        return u @ self.x.T - self.y

    def slopes(self, u):
        return self.value(u), np.broadcast_to(self.x, (len(u), *self.x.shape))


@pytest.fixture
def line(rng):
    x = rng.standard_normal((40, 3))
    return x, x @ np.array([1.0, -2.0, 0.5]) + 0.3 * rng.standard_normal(40)


def box(p=3, reach=100.0):
    return Box.of(np.full(p, -reach), np.full(p, reach))


def test_square_is_least_squares(line, rng):
    found = levenberg_marquardt(Linear(*line), rng.uniform(-50, 50, (6, 3)), box(), Square(1.0))
    exact = np.linalg.lstsq(*line, rcond=None)[0]
    assert np.allclose(found.u, exact, atol=1e-6)


def test_counts_are_repeated_rows(line):
    x, y = line
    counts = np.arange(40) % 4
    found = levenberg_marquardt(Linear(x, y), np.zeros((1, 3)), box(), Huber(1.0), counts=counts[None])
    repeated = levenberg_marquardt(
        Linear(np.repeat(x, counts, 0), np.repeat(y, counts)), np.zeros((1, 3)), box(), Huber(1.0)
    )
    assert np.allclose(found.u, repeated.u, atol=1e-6)
    assert found.objective == pytest.approx(repeated.objective, rel=1e-9)


def test_huber_is_stationary_and_shrugs_off_outliers(line):
    """The optimum of a convex norm is where the clipped residuals are orthogonal to the slopes."""
    x, y = line
    y = y + np.where(np.arange(40) < 3, 1e3, 0)
    found = levenberg_marquardt(Linear(x, y), np.full((2, 3), [[40.0], [-40.0]]), box(), Huber(1.0))
    z = found.u @ x.T - y
    assert np.abs(np.clip(z, -1, 1) @ x).max() < 1e-3
    assert np.allclose(found.u, [1, -2, 0.5], atol=0.3)


def test_bounds_are_kept_and_optimal_by_kkt(line):
    """The unconstrained optimum lies outside: gradients point outwards at bounds and vanish inside."""
    x, y = line
    tight = Box.of(np.array([-0.5, -0.5, -0.5]), np.array([0.5, 0.5, 5.0]))
    u = levenberg_marquardt(Linear(x, y), np.zeros((1, 3)), tight, Square(1.0)).u[0]
    gradient = (x @ u - y) @ x
    assert u[0] == 0.5
    assert gradient[0] < 0
    assert u[1] == -0.5
    assert gradient[1] > 0
    assert abs(gradient[2]) < 1e-6


def test_priors_are_a_ridge(line):
    x, y = line
    center, sd = np.array([3.0, 0.0, 0.0]), np.array([0.1, np.inf, 2.0])
    held = Box(np.full(3, -9.0), np.full(3, 9.0), center, sd**-2.0)
    u = levenberg_marquardt(Linear(x, y), np.zeros((1, 3)), held, Square(1.0)).u[0]
    precision = np.diag(sd**-2.0)
    exact = np.linalg.solve(x.T @ x + precision, x.T @ y + precision @ center)
    assert np.allclose(u, exact, atol=1e-7)


def test_rows_do_not_mix(line, rng):
    """Each start alone ends where it ends among others."""
    starts = rng.uniform(-50, 50, (5, 3))
    together = levenberg_marquardt(Linear(*line), starts, box(), Huber(0.1))
    for k in range(5):
        alone = levenberg_marquardt(Linear(*line), starts[k : k + 1], box(), Huber(0.1))
        assert np.allclose(alone.u[0], together.u[k], atol=1e-9)
        assert alone.steps[0] == together.steps[k]


def test_a_start_without_a_value_is_reported_as_infinite():
    class Log:
        def value(self, u):
            return np.log(u)

        def slopes(self, u):
            return np.log(u), 1 / u[..., None]

    found = levenberg_marquardt(Log(), np.array([[-1.0], [3.0]]), box(1), Square(1.0))
    assert found.objective[0] == np.inf
    assert found.u[1, 0] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("norm", [Huber(1.0), Square(1.0)])
def test_weight_and_curvature_are_derivatives_of_rho(norm):
    z, h = np.array([-3.0, -0.7, 0.2, 0.9, 5.0]), 1e-5
    slope = (norm.rho(z + h) - norm.rho(z - h)) / (2 * h)
    assert np.allclose(norm.weight(z) * z, slope, atol=1e-9)
    bend = (norm.rho(z + h) - 2 * norm.rho(z) + norm.rho(z - h)) / h**2
    assert np.allclose(norm.curvature(z), bend, atol=1e-4)
    assert norm_from_dict(norm_to_dict(norm)) == norm


def test_norms_refuse():
    with pytest.raises(ValueError, match=r"scale is a positive number of log loss, e\.g\. 1e-3; got 0"):
        Huber(0)
    with pytest.raises(ValueError, match=r"There is no norm 'L1'; there are Huber, Square"):
        norm_from_dict({"norm": "L1", "scale": 1})


def test_rows_enter_as_others_are_done_and_differ_in_what_they_are_fitted_to(line, rng):
    """Three targets, two boxes, two draws of weights, four rows at a time: each row is the problem that it says."""
    x, y = line
    values, scale = np.stack([y, 2 * y, y + 1]), np.array([1.0, 0.5, 2.0])
    target, draw = np.arange(12) % 3, np.arange(12) // 6
    counts = rng.uniform(0.5, 2, (2, 40))
    upper = np.where(draw[:, None] == 0, 0.3, 9.0) * np.ones(3)
    free = np.zeros((12, 3))
    bounds, observed = Box(np.full((12, 3), -9.0), upper, free, free), Observed(values, scale, target)
    starts = rng.uniform(-9, 0, (12, 3))
    found = levenberg_marquardt(
        Linear(x, 0.0), starts, bounds, Huber(1.0), counts=counts, draw=draw, observed=observed, capacity=4
    )
    for i in range(12):
        k = target[i]
        one = Linear(x / scale[k], values[k] / scale[k])
        tight = Box.of(np.full(3, -9.0), upper[i])
        alone = levenberg_marquardt(one, starts[i : i + 1], tight, Huber(1.0), counts=counts[draw[i]][None])
        assert np.allclose(found.u[i], alone.u[0], atol=1e-6)
        assert found.objective[i] == pytest.approx(alone.objective[0], rel=1e-8)


def test_a_bent_valley_takes_few_steps():
    """Rosenbrock's valley, a hundred times as steep: followed along its bend."""

    class Valley:
        def value(self, u):
            return np.stack([1000 * (u[:, 1] - u[:, 0] ** 2), 1 - u[:, 0]], -1)

        def slopes(self, u):
            x, one = u[:, 0], np.ones(len(u))
            return self.value(u), np.stack([np.stack([-2000 * x, 1000 * one], -1), np.stack([-one, 0 * one], -1)], 1)

    found = levenberg_marquardt(Valley(), np.array([[-1.2, 1.0]]), box(2, 5.0), Square(1.0))
    assert np.allclose(found.u, 1, atol=1e-5)
    assert found.steps[0] <= 110  # half of what it takes without
