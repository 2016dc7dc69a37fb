"""Influence of runs: against refits without them, textbook deletion formulas, and a published table."""

import numpy as np
import pytest

from mixopt.fit.fit import fit
from mixopt.fit.influence import influence
from mixopt.fit.norms import Huber, Square
from mixopt.laws.chinchilla import chinchilla
from tests.reference.test_chinchilla import SHA256, TABLE, read
from tests.test_fit import LogLinear, chinchilla_runs, linear_runs


def test_leaving_one_out_of_a_linear_law_is_the_deletion_formula(rng):
    """beta - beta_(i) = (X'X)^-1 x_i r_i / (1 - h_i) (Belsley, Kuh and Welsch, 1980, eq. 2.1)."""
    runs = linear_runs(rng)
    found = influence(fit(LogLinear(("a", "b", "c")), runs, norm=Square(0.01), starts=2), runs)
    x, y = runs["mixture"], np.log(runs["loss"])
    inverse = np.linalg.inv(x.T @ x)
    whole = inverse @ x.T @ y
    leverage = np.einsum("np,pq,nq->n", x, inverse, x)
    moved = (x @ inverse) * ((y - x @ whole) / (1 - leverage))[:, None]
    assert np.allclose(found.without, (whole - moved)[found.run], atol=1e-7)


def test_it_is_what_a_fit_without_the_run_gives(rng):
    runs = chinchilla_runs(rng) | {"run": np.arange(60) // 2}
    found = influence(fit(chinchilla(), runs, norm=Huber(0.004), starts=8), runs)
    for k in (0, 1, 20):
        kept = runs["run"] != found.run[k]
        alone = fit(chinchilla(), {name: v[kept] for name, v in runs.items()}, norm=Huber(0.004), starts=8)
        assert np.allclose(found.without[k], alone.theta, rtol=1e-4)


def test_of_many_runs_those_that_matter_are_found(rng):
    runs = chinchilla_runs(rng, 900)
    wrong = np.argsort(runs["tokens"] / runs["model_size"])[:3]
    runs["loss"][wrong] *= 1.1
    found = influence(fit(chinchilla(), runs, norm=Huber(0.004), starts=4), runs)
    assert len(found.run) == 300
    assert set(found.run[found.outlier]) == set(wrong)
    assert set(found.group) <= {str(i) for i in wrong}


def test_a_group_of_planted_faults_is_told_from_one(rng):
    """Four large runs that stopped early lose 6 % more; one of them alone, or a single other fault, is no group."""
    runs = chinchilla_runs(rng, 120)
    large = np.argsort(-runs["model_size"] * runs["tokens"])[:4]
    runs["loss"][large] *= 1.06
    found = influence(fit(chinchilla(), runs, norm=Huber(0.004), starts=4), runs)
    assert set(found.group) == {str(i) for i in large}
    clean = chinchilla_runs(rng, 120)
    clean["loss"][7] *= 1.2
    alone = influence(fit(chinchilla(), clean, norm=Huber(0.004), starts=4), clean)
    assert alone.group == ("7",)
    assert alone.words()[0].startswith("Without run 7, ")
    assert "in common" not in alone.words()[0]


def test_the_five_shortest_runs_of_a_published_table_are_named(reference_table):
    """Besiroglu et al., 2024, drop the five with the fewest tokens a parameter; with them beta is .09 higher."""
    runs = read(reference_table(TABLE, SHA256), dropped=0)
    fitted = fit(chinchilla(), runs, starts=16)
    found = influence(fitted, runs)
    shortest = np.argsort(runs["tokens"] / runs["model_size"])[:5]
    assert set(found.group) == {str(i) for i in shortest}
    beta = found.names.index("beta")
    assert found.without_group[beta] == pytest.approx(0.366, abs=0.003)
    assert fitted.theta[beta] == pytest.approx(0.453, abs=0.003)
    assert set(found.run[:1].astype(str)) <= set(found.group)
    joint, outliers = found.words()
    assert "without run 0 alone, which moves the fit most" in joint
    assert joint.startswith("Without runs 0, 1, 2, ")
    assert "beta is 0.36" in joint
    assert "lie over 4 times the noise" in outliers
