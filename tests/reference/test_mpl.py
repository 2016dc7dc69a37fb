"""Curves of other schedules, against Luo et al., 2025, arXiv:2503.12811 and Tissue et al., 2024, arXiv:2408.11029."""

from functools import cache

import numpy as np
import pytest

from benchmarks.tables import mpl
from mixopt.fit.fit import fit
from mixopt.schedules.history import joined


@pytest.fixture(params=["25M", "100M"])
def size(request, reference_table):
    for name, digest in mpl.SHA256.items():
        reference_table(f"runs/mpl/{name}.csv", digest)
    return request.param


def test_released_coefficients_give_the_published_figures(size):
    r2, error = mpl.released(size, {name: mpl.read(size, name) for name in mpl.SCORED})
    assert r2 == pytest.approx(mpl.RELEASED[size][0], abs=6e-5)
    assert error == pytest.approx(mpl.RELEASED[size][1], abs=2e-5)


def test_momentum_law_gives_the_published_figures(size):
    train = joined([mpl.read(size, name) for name in mpl.FITTED])
    (r2, error), _ = mpl.momentum(train, {name: mpl.read(size, name) for name in mpl.SCORED})
    assert r2 == pytest.approx(mpl.MOMENTUM[size][0], abs=6e-5)
    assert error == pytest.approx(mpl.MOMENTUM[size][1], abs=2e-5)


def test_our_fit_errs_less_than_the_released(size):
    table = joined([mpl.read(size, name) for name in mpl.FITTED])
    curves = {name: mpl.read(size, name) for name in mpl.SCORED}
    thinned = {name: values[::3] for name, values in table.items()}
    fitted = fit(mpl.laws()["S_1 of lr^0.7, gain by powers as at 400M"], thinned, norm=mpl.NORM, starts=8)
    r2, error = mpl.figures({name: fitted.predict(rows) for name, rows in curves.items()}, curves)
    assert error <= mpl.REACH[size]
    assert r2 >= mpl.RELEASED[size][0]
    assert fitted.agreement == 1


@cache
def rows():
    return tuple(mpl.rows())


@pytest.mark.slow
def test_the_law_is_chosen_by_what_the_fitted_curves_tell(size):
    for row in rows():
        assert row.reached, row.quantity
        assert row.coverage >= 0.8
        assert row.seconds <= 3
        assert np.isfinite(row.reproduced)


@pytest.mark.slow
def test_intervals_are_not_too_wide(size, request):
    if size == "25M":
        request.applymarker(
            pytest.mark.xfail(reason="98 % of the rows of 25M are inside, to be 97 at most", strict=True)
        )
    for row in rows():
        if row.quantity.startswith(size):
            assert row.coverage <= 0.97
