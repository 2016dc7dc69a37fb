"""What short runs lack."""

import numpy as np
import pytest

from mixopt.laws.power_law import PowerLaw
from mixopt.laws.undertraining import Undertraining


def test_without_kappa_T_it_is_a_power_of_tokens():
    columns = {"tokens": np.geomspace(1e8, 1e10, 5), "model_size": np.geomspace(1e6, 1e8, 5)}
    power = PowerLaw("tokens", 1e9, "T", "tau")(np.array([0.3, 0.7]), columns)
    assert Undertraining(1e9, 1e7)(np.array([0.3, 0.7, 0.0]), columns) == pytest.approx(power, rel=1e-12)


def test_the_gap_between_two_sizes_grows_along_a_run():
    """With a term in size alone beside it the gap would be the same everywhere."""
    law = PowerLaw("model_size", 1e8, "A", "alpha") + Undertraining(1e10, 1e8)
    tokens = np.array([2e9, 4e9, 8e9, 2e10])
    small, large = (
        law(np.array([0.6, 0.35, 0.1, 1.2, 0.15]), {"tokens": tokens, "model_size": np.full(4, n)})
        for n in (1.22e8, 3.1e8)
    )
    assert (np.diff(small - large) > 0).all()
