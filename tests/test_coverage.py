"""Intervals cover what they say, on simulated tables; `benchmarks/coverage.py` prints it for all kinds of laws."""

import numpy as np
import pytest

from benchmarks.coverage import LAWS, covered


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Chinchilla", "token exchange"])
def test_ninety_percent_intervals_cover_ninety_percent(name: str):
    found = covered(LAWS[name], 200)
    assert 0.85 <= found.predictions.mean() <= 0.95
    assert found.coefficients.mean() >= 0.85
    assert np.sqrt((found.z**2).mean(0)).max() <= 1.3  # 1.21 is the worst of 8 of token exchange
