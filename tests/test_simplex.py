"""Designs on the capped simplex."""

import numpy as np
import pytest
from scipy.optimize import linprog

from mixopt.errors import InfeasibleError
from mixopt.sweep.design import allot
from mixopt.sweep.simplex import cap, fill, vertices


def boxes(rng, m):
    upper = np.minimum(1, rng.random(m) * 3 / m + 1.2 / m)
    return 0.5 * rng.random(m) / m, upper


@pytest.mark.parametrize("m", [2, 3, 8, 40])
def test_capped_mixtures_are_feasible_and_proportional_inside(rng, m):
    lower, upper = boxes(rng, m)
    shares = rng.dirichlet(np.full(m, 0.3), 200)
    mixture = cap(shares, lower, upper)
    np.testing.assert_allclose(mixture.sum(-1), 1, atol=1e-12)
    assert (mixture >= lower - 1e-12).all()
    assert (mixture <= upper + 1e-12).all()
    inside = (mixture > lower + 1e-9) & (mixture < upper - 1e-9) & (shares > 1e-5)
    for row, share, free in zip(mixture, shares, inside, strict=True):
        if free.sum() > 1:
            np.testing.assert_allclose(np.ptp(np.log(row[free] / share[free])), 0, atol=1e-6)


def test_capping_is_the_closest_mixture_in_relative_entropy(rng):
    """Clipped scaling is the projection onto the box and the simplex in Kullback-Leibler divergence (Bregman)."""
    lower, upper = boxes(rng, 5)
    share = rng.dirichlet(np.ones(5))
    nearest = cap(share, lower, upper)
    divergence = lambda h: (h * np.log(h / share)).sum(-1)  # noqa: E731
    others = cap(rng.dirichlet(np.ones(5), 2000), lower, upper)
    others = np.vstack([others, 0.99 * nearest + 0.01 * others])
    assert divergence(nearest) <= divergence(others[others.min(-1) > 0]).min() + 1e-12


def test_a_mixture_within_bounds_is_left_alone(rng):
    mixture = rng.dirichlet(np.ones(6))
    np.testing.assert_allclose(cap(mixture, np.zeros(6), np.ones(6)), mixture, atol=1e-12)


def test_impossible_bounds_are_named():
    with pytest.raises(InfeasibleError, match=r"totals from 0 to 0\.9; shares must sum to 1.*Raise the upper bounds"):
        cap(np.ones(3), np.zeros(3), np.full(3, 0.3))
    with pytest.raises(InfeasibleError, match=r"totals from 1\.2"):
        cap(np.ones(3), np.full(3, 0.4), np.ones(3))


def test_vertices_reach_as_far_as_a_linear_program_can(rng):
    lower, upper = boxes(rng, 6)
    corners = vertices(lower, upper, center=np.full(6, 1 / 6))
    for corpus, corner in enumerate(corners):
        best = linprog(-np.eye(6)[corpus], A_eq=np.ones((1, 6)), b_eq=[1], bounds=list(zip(lower, upper, strict=True)))
        assert corner[corpus] == pytest.approx(-best.fun, abs=1e-9)


def test_vertices_of_the_whole_simplex_are_single_corpora():
    np.testing.assert_allclose(vertices(np.zeros(4), np.ones(4), center=np.full(4, 0.25)), np.eye(4), atol=1e-5)


def test_filling_covers_better_than_random_points(rng):
    """The largest hole (distance of a random mixture to the nearest design point) is smaller than with chance."""
    lower, upper, center = np.zeros(4), np.ones(4), np.full(4, 0.25)
    probes = rng.dirichlet(np.ones(4), 4000)
    hole = lambda points: np.linalg.norm(probes[:, None] - points[None], axis=-1).min(1).mean()  # noqa: E731
    ours = np.mean([hole(fill(32, lower, upper, center=center, seed=s)[::2]) for s in range(5)])
    chance = np.mean([hole(rng.dirichlet(np.ones(4), 16)) for _ in range(20)])
    assert ours < chance


def test_filling_is_the_same_for_the_same_seed():
    box = np.zeros(3), np.ones(3)
    first, again, other = (fill(9, *box, center=np.full(3, 1 / 3), seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_cheap_levels_get_more_runs():
    assert allot(30, np.array([1.0, 4.0, 16.0])) == [18, 8, 4]
