"""Batch size and learning rate: the surface, the design that finds its optimum, and groups left out."""

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.fit import fit
from mixopt.fit.left_out import leave_out, near_best
from mixopt.fit.norms import Square
from mixopt.laws.constant import Constant
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.to_target import ToTarget, overhead_batch
from mixopt.laws.tuning import TuningPenalty
from mixopt.sweep.staggered import staggered
from mixopt.testing import draw_theta

LAW = TuningPenalty(3e8, 2e10, 4e5)


def at(lr, batch, tokens=2e10, size=3e8):
    lr, batch = np.broadcast_arrays(np.asarray(lr, float), batch)
    return {
        "peak_lr": lr,
        "batch_tokens": np.array(batch, float),
        "tokens": np.full(lr.shape, tokens),
        "model_size": np.full(lr.shape, size),
    }


def test_zero_at_the_optimum_and_convex_in_logs(rng):
    theta = draw_theta(LAW, rng, 50)
    lr, batch = LAW.log_optimum(theta, at([1e-3], 4e5))
    step = rng.normal(size=(50, 2))
    values = []
    for t in (-1.0, 0.0, 1.0):
        run = at(np.exp(lr + t * step[:, :1]), np.exp(batch + t * step[:, 1:]))
        values.append(LAW(theta, run))
    low, middle, high = values
    assert np.abs(middle).max() <= 1e-9
    assert (low + high >= -1e-12).all()
    assert (low >= -1e-12).all()
    assert (high >= -1e-12).all()


def test_too_high_a_rate_costs_more_than_too_low(rng):
    """By the same factor, whatever the coefficients: e^u - u exceeds e^-u + u."""
    theta = draw_theta(LAW, rng, 50)
    lr, batch = LAW.log_optimum(theta, at([1e-3], 4e5))
    low, high = (LAW(theta, at(np.exp(lr + t), np.exp(batch))) for t in (-1.0, 1.0))
    assert (high >= low).all()


def test_optimum_of_a_size_not_run_from_twelve_runs_of_four(rng):
    theta = np.array([2e-3, -0.6, 0.24, 4e5, -0.1, 0.56, 0.17, 0.1, 0.34, 0.53, 0.007, 0.9, 0.033, 0.91, 0.12])
    cells = [(size, tokens) for size in (1e8, 2e8) for tokens in (5e9, 2e10)]
    lr, batch = (v.ravel() for v in np.meshgrid(2.0 ** np.arange(-12, -5), 2.0 ** np.arange(15, 23)))
    grids = [at(lr, batch, tokens, size) for size, tokens in cells]
    grid = {name: np.concatenate([one[name] for one in grids]) for name in LAW.inputs}
    cell = np.repeat(np.arange(4), len(lr))
    rows = staggered(grid, cell, 12, names=("peak_lr", "batch_tokens"))
    assert np.bincount(cell[rows]).tolist() == [12] * 4
    some = {name: values[rows] for name, values in grid.items()}
    some["loss"] = (2 + 0.3 * (some["tokens"] / 2e10) ** -0.3 + LAW(theta, some)) * np.exp(
        rng.normal(0, 5e-4, len(rows))
    )
    law = Constant("E") + PowerLaw("tokens", 2e10, "B", "beta") + LAW
    fitted = fit(law, some, norm=Square(1e-3), starts=4, weight=near_best(some["loss"], cell[rows], 0.02))
    one = at([1e-3], 4e5, 2e10, 4e8)
    for found, true in zip(LAW.log_optimum(fitted.theta[3:], one), LAW.log_optimum(theta, one), strict=True):
        assert found == pytest.approx(true, abs=0.4)


def test_a_design_takes_each_row_once_and_other_rows_in_each_cell():
    lr, batch = (v.ravel() for v in np.meshgrid(2.0 ** np.arange(12), 2.0 ** np.arange(10)))
    grid = {"peak_lr": np.tile(lr, 2), "batch_tokens": np.tile(batch, 2)}
    rows = staggered(grid, np.repeat([0, 1], 120), 12, names=("peak_lr", "batch_tokens"))
    assert len(set(rows.tolist())) == 24
    assert len(set((rows[:12] % 120).tolist()) & set((rows[12:] % 120).tolist())) <= 4
    # Evenly: no setting but the outermost is further than three octaves from one that is run.
    settings = np.log2(np.stack([lr, batch], 1))
    inside = (settings >= 1).all(1) & (settings[:, 0] <= 10) & (settings[:, 1] <= 8)
    away = settings[inside, None] - settings[rows[:12]][None]
    assert np.sqrt((away**2).sum(-1)).min(1).max() <= 3
    everything = staggered(grid, np.repeat([0, 1], 120), 500, names=("peak_lr", "batch_tokens"))
    assert everything.tolist() == list(range(240))


def test_groups_left_out_are_predicted_without_themselves():
    tokens = np.repeat(np.geomspace(1e8, 1e10, 5), 2)
    runs = {"tokens": tokens, "loss": 2 + 0.3 * (tokens / 1e9) ** -0.5}
    law = Constant("E") + PowerLaw("tokens", 1e9, "B", "beta")
    spoiled = {**runs, "loss": np.where(tokens == tokens[0], 9.0, runs["loss"])}
    left = leave_out(law, spoiled, tokens, starts=8)
    assert left.predicted[:2] == pytest.approx(runs["loss"][:2], rel=1e-4)
    with pytest.raises(FitError, match="one group"):
        leave_out(law, runs, np.zeros(10))


def test_a_margin_covers_a_group_not_seen(rng):
    """Errors of groups drawn alike: the margin of 11 groups covers about 90 % of the rows of a twelfth."""
    tokens = np.repeat(np.geomspace(1e8, 1e10, 11), 6)
    runs = {"tokens": tokens, "loss": 2 + 0.3 * (tokens / 1e9) ** -0.5}
    left = leave_out(Constant("E") + PowerLaw("tokens", 1e9, "B", "beta"), runs, tokens, starts=2)
    covered = []
    for _ in range(300):
        errors = (rng.normal(size=(12, 1)) + 0.5 * rng.normal(size=(12, 6))).ravel()
        object.__setattr__(left, "errors", errors[:66])
        covered.append((np.abs(errors[66:]) <= left.margin()).mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.03)


def test_steps_and_tokens_to_a_target_are_one_law():
    theta, batch = np.array([2e9, 4e5]), {"batch_tokens": np.geomspace(1e4, 1e7, 7)}
    tokens, steps = (ToTarget(counts, 1e9, 1e6)(theta, batch) for counts in ("tokens", "steps"))
    assert steps * batch["batch_tokens"] == pytest.approx(tokens)
    assert (tokens / 2e9 - 1) * (steps / (2e9 / 4e5) - 1) == pytest.approx(np.ones(7))
    with pytest.raises(ValueError, match="tokens or steps"):
        ToTarget("epochs")


def test_overhead_is_what_it_says():
    law, critical = ToTarget("tokens", 1e9, 1e6), 3e5
    batch = overhead_batch(np.array(critical), 1e4, 0.2)
    more, less = law(np.array([1e9, critical]), {"batch_tokens": np.array([float(batch), 1e4])})
    assert more / less == pytest.approx(1.2)
