"""Learning rate and batch size on the grids of Li et al., 2025, arXiv:2503.04715: see `benchmarks.tables.steplaw`."""

import numpy as np
import pytest

from benchmarks.tables import steplaw as table


@pytest.fixture
def runs(reference_table):
    return table.read(reference_table(table.TABLE, table.SHA256))


def test_twelve_grids_and_a_gap_between_finished_and_diverged(runs):
    assert len(runs["loss"]) == 1404
    assert len(np.unique(runs["cell"])) == 12
    assert not ((runs["excess"] > 0.6) & (runs["excess"] < 1.7)).any()
    assert (runs["excess"] > 1).sum() == 135


def test_published_law(runs):
    found = table.published_regret(runs)
    assert found.max() == pytest.approx(0.31, abs=0.005)
    assert found.mean() == pytest.approx(0.096, abs=0.02)


def test_optimum_from_twelve_runs_a_cell(runs):
    some = table.designed(runs)
    assert np.bincount(some["cell"]).max() <= 12
    found = table.designed_regret(runs, *table.from_design(some))
    assert found.mean() <= 0.07
    assert found.max() <= 0.25


def test_a_design_does_not_see_losses(runs):
    shuffled = {**runs, "loss": np.random.default_rng(0).permutation(runs["loss"])}
    assert (table.designed(shuffled)["peak_lr"] == table.designed(runs)["peak_lr"]).all()


def test_safe_rate_lies_under_every_diverged_run_of_a_cell_not_seen(runs):
    over, diverged = table.safety(runs)
    assert (over[diverged] > 0).all()
    # Safe, but of use: the best of each cell and most good runs are allowed.
    near = runs["excess"] <= 0.05 * (runs["loss"] - runs["excess"])
    assert (over[runs["excess"] == 0] < 0).all()
    assert (over[near] > 0).mean() <= 0.05


@pytest.mark.slow
def test_surface_of_a_cell_not_seen(runs):
    left, error = table.surface(runs)
    seen = left.predicted - error
    assert np.abs(error).mean() <= 0.01
    assert 1 - (error**2).sum() / ((seen - seen.mean()) ** 2).sum() >= 0.98
    assert table.random_split(runs, splits=2) <= 0.0077


@pytest.mark.slow
def test_intervals_of_cells_not_seen(runs):
    some = table.designed(runs)
    _, coverage = table.from_design_surface(runs, some, table.from_design(some)[0])
    assert 0.8 <= coverage <= 0.97


@pytest.mark.slow
def test_three_terms_are_further_off(runs):
    errors = table.batches(runs)
    assert errors["tied_exponent + tuning"] < errors["three_term"] < 0.02
