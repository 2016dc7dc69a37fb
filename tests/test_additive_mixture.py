"""The additive law against its formula, and against what it implies."""

import numpy as np
import pytest

from mixopt.laws.additive_mixture import AdditiveMixture, additive


def test_formula(rng):
    h = rng.dirichlet([3.0, 3.0, 3.0], 20)
    C, gamma = np.array([0.5, 2.0, 4.0]), np.array([0.6, 0.8, 1.2])
    law = AdditiveMixture(("web", "code", "math"))
    exact = 1 / (C * h**gamma).sum(-1)
    # The floor takes f^gamma = 1e-6^.6 = 2.5e-4 off each term.
    assert law(np.concatenate([C, gamma]), {"mixture": h}) == pytest.approx(exact, rel=2e-3)


def test_every_size_has_the_same_best_mixture():
    law = additive(["web", "code"], tokens_unit=1e9, size_unit=1e8)
    theta = np.array([1.5, 1.0, 3.0, 0.5, 0.7, 0.5, 0.35, 0.4, 0.4])
    share = np.linspace(0.01, 0.99, 99)
    best = [
        law(theta, {"mixture": np.stack([share, 1 - share], 1), "model_size": np.full(99, n), "tokens": np.full(99, d)})
        for n, d in [(1e7, 1e8), (1e9, 1e12)]
    ]
    assert best[0].argmin() == best[1].argmin()
