"""Averaged coefficients against their formula, and against Chinchilla for one corpus."""

import numpy as np
import pytest

from mixopt.laws.averaged_coefficients import AveragedCoefficients, averaged
from mixopt.laws.chinchilla import chinchilla


def test_one_corpus_without_the_joint_term_is_chinchilla():
    """E of Chinchilla is the loss at one unit less A and B."""
    columns = {
        "mixture": np.ones((6, 1)),
        "model_size": np.geomspace(1e7, 1e9, 6),
        "tokens": np.geomspace(1e8, 1e11, 6),
    }
    law = AveragedCoefficients(("web",), tokens_unit=1e9, size_unit=1e8)
    found = law(np.array([1.8 + 0.6 + 0.9, 0.6, 0.9, 1e-30, 0.35, 0.37, 0.0, 1.0]), columns)
    theta = np.array([1.8, 0.6, 0.35, 0.9, 0.37])
    assert found == pytest.approx(chinchilla(size_unit=1e8, tokens_unit=1e9)(theta, columns), rel=1e-12)


def test_at_one_unit_the_loss_is_an_average_by_share(rng):
    h = rng.dirichlet([1.0, 1.0], 5)
    columns = {"mixture": h, "model_size": np.full(5, 1e8), "tokens": np.full(5, 1e9)}
    law = AveragedCoefficients(("web", "code"), tokens_unit=1e9, size_unit=1e8)
    theta = np.array([2.9, 1.9, 2.0, 1.0, 1.0, 1.0, 0.1, 0.3, 0.155, 0.146, 0.014, 1.06])
    assert law(theta, columns) == pytest.approx(h @ [3.0, 2.2], rel=1e-12)


def test_names_do_not_collide_with_the_mixture_law():
    names = averaged(["web", "code"], tokens_unit=1e9, size_unit=1e8).names
    assert len(set(names)) == len(names) == 4 + 8 + 4
