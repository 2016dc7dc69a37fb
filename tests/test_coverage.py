"""Intervals cover what they say, on simulated tables; `benchmarks/coverage.py` prints it for all kinds of laws."""

from functools import cache

import numpy as np
import pytest

from benchmarks.coverage import LAWS, covered

NAMES = ["Chinchilla", "token exchange"]


@cache
def found(name: str):
    return covered(LAWS[name], 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ninety_percent_intervals_cover_ninety_percent(name: str):
    assert 0.85 <= found(name).predictions.mean() <= 0.95
    assert found(name).coefficients.mean() >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_coefficient_is_too_sure(name: str, request: pytest.FixtureRequest):
    if name == "token exchange":
        reason = "E errs 1.21 of its standard deviations, root mean square, to be 1.2 at most"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    assert np.sqrt((found(name).z ** 2).mean(0)).max() <= 1.2
