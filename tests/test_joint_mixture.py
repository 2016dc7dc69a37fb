"""The joint law against its formula, and against the power law that it is for one corpus."""

import numpy as np
import pytest

from mixopt.laws.joint_mixture import JointMixture, joint
from mixopt.laws.power_law import PowerLaw


def test_one_corpus_is_a_power_law():
    columns = {"mixture": np.ones((4, 1)), "model_size": np.geomspace(1e7, 1e9, 4)}
    power = PowerLaw("model_size", 1e8, "A", "alpha")(np.array([0.5**1.5, 0.35]), columns)
    law = JointMixture(("web",), "model_size", 1e8)
    assert law(np.array([0.5, 1.5, 0.35]), columns) == pytest.approx(power, rel=1e-12)


def test_formula(rng):
    h, n, d = rng.dirichlet([3.0, 3.0], 10), np.geomspace(1e7, 1e9, 10), np.geomspace(1e9, 1e11, 10)
    theta = np.array([1.5, 1.0, 3.0, 0.8, 0.9, 0.4, 0.7, 1.2, 0.35, 0.2, 0.6, -0.5, 0.4])
    mixture = 1 / (1.0 * h[:, 0] ** 0.8 + 3.0 * h[:, 1] ** 0.9)
    size = (h @ [0.4, 0.7]) ** 1.2 * (n / 1e8) ** -0.35
    tokens = (h @ [0.2, 0.6]) ** -0.5 * (d / 1e10) ** -0.4
    law = joint(["web", "code"], tokens_unit=1e10, size_unit=1e8)
    found = law(theta, {"mixture": h, "model_size": n, "tokens": d})
    assert found == pytest.approx(1.5 + mixture + size + tokens, rel=1e-4)


def test_the_best_mixture_moves_with_size():
    """Where a corpus that the target needs is hard for small models, small models want less of it."""
    law = joint(["web", "code"], tokens_unit=1e10, size_unit=1e8)
    theta = np.array([1.5, 1.0, 1.2, 0.5, 0.5, 0.2, 0.9, 1.0, 0.35, 0.1, 0.1, 1.0, 0.4])
    share = np.linspace(0.01, 0.99, 99)
    small, large = (
        law(
            theta,
            {"mixture": np.stack([1 - share, share], 1), "model_size": np.full(99, n), "tokens": np.full(99, 1e10)},
        )
        for n in (1e7, 1e10)
    )
    assert share[small.argmin()] < share[large.argmin()]
