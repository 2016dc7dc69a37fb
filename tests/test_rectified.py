"""The rectified law of fine-tuning against its formula as printed, and its two ends."""

import numpy as np
import pytest

from mixopt.laws.rectified import Rectified, to_paper


def test_is_the_formula_of_the_paper():
    ours = {"A": 0.8, "known": 3e4, "beta": 0.4}
    paper = to_paper(ours, unit=1e5)
    tokens = np.geomspace(1e2, 1e7, 6)
    law = Rectified("tokens", 1e5)
    expected = paper["B"] / (paper["D_l"] + tokens ** paper["beta"])
    assert law(np.array(list(ours.values())), {"tokens": tokens}) == pytest.approx(expected, rel=1e-12)


def test_flat_before_what_is_known_and_a_power_law_after():
    law, theta = Rectified("tokens", 1e6), np.array([1.0, 1e6, 0.5])
    tokens = np.array([1e-3, 1e-2, 1e6, 1e15, 4e15])
    found = law(theta, {"tokens": tokens})
    assert found[:3] == pytest.approx([2.0, 2.0, 1.0], rel=1e-3)
    assert found[4] / found[3] == pytest.approx(0.5, rel=1e-3)


def test_the_scale_is_the_loss_at_one_unit_whatever_was_known():
    for known in (1e3, 1e6, 1e8):
        assert Rectified()(np.array([0.7, known, 0.4]), {"tokens": np.array([1e6])}) == pytest.approx(0.7)
