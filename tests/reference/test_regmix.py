"""RegMix (arXiv:2407.01492): the order of held-out mixtures, at the size fitted and at 60 times that size."""

import numpy as np
import pytest

from benchmarks.tables import regmix


@pytest.fixture
def tables(reference_table):
    for part in regmix.FILES.values():
        for name, sha256 in part:
            reference_table(f"runs/regmix/{name}.csv", sha256)
    return {part: regmix.read(part)[0] for part in regmix.FILES}


@pytest.fixture
def names(tables):
    return regmix.read("fitted")[1:]


def test_rounded_shares_are_renormalized_and_files_joined_by_index(tables):
    for table in tables.values():
        assert np.allclose(table["mixture"].sum(-1), 1, atol=1e-12)
    assert (tables["1M"]["mixture"] == tables["60M"]["mixture"]).all()
    assert [len(table["loss"]) for table in tables.values()] == [512, 256, 256]


def scores(tables, names, law: str):
    columns, (corpora, targets) = tables["fitted"], names
    fits = regmix.fitted(*regmix.laws(corpora)[law], columns, targets)
    guess = {part: np.stack([found.predict(tables[part]) for found in fits.values()], -1) for part in ("1M", "60M")}
    ranks = [regmix.ranks(guess[part], tables[part]["loss"]) for part in guess]
    return *ranks, regmix.rmse(guess["1M"], tables["1M"]["loss"]), regmix.coverage(fits, tables["1M"])


def test_the_published_mixing_law(tables, names):
    small, large, _, _ = scores(tables, names, "mixing law")
    assert small == pytest.approx(0.973, abs=0.003)
    assert large == pytest.approx(0.968, abs=0.003)


def test_token_exchange_beats_boosted_trees(tables, names):
    """The published LightGBM has .990, .984 and .094, stopped early on the rows that it is scored on."""
    small, large, rmse, coverage = scores(tables, names, "token exchange")
    assert small >= 0.993
    assert large >= 0.989
    assert rmse <= 0.080
    assert 0.80 <= coverage <= 0.97


def test_constant_rates(tables, names):
    small, large, rmse, _ = scores(tables, names, "token exchange, constant rates")
    assert (small, large) == pytest.approx((0.982, 0.976), abs=0.001)
    assert rmse == pytest.approx(0.118, abs=0.001)


@pytest.mark.slow
def test_the_stack_does_as_well_as_the_law(tables):
    learned = regmix.stacked(tables["fitted"])
    assert regmix.ranks(learned.predict(tables["1M"]), tables["1M"]["loss"]) >= 0.993
    assert regmix.ranks(learned.predict(tables["60M"]), tables["60M"]["loss"]) >= 0.989


@pytest.mark.slow
def test_boosted_trees(tables):
    pytest.importorskip("sklearn")
    predict = regmix.boosted(tables["fitted"])
    assert regmix.ranks(predict(tables["1M"]), tables["1M"]["loss"]) >= 0.987
    assert regmix.ranks(predict(tables["60M"]), tables["60M"]["loss"]) >= 0.981


@pytest.mark.slow
def test_held_out_mixtures_of_the_fitted_runs_choose_the_law(tables, names):
    corpora, targets = names
    assert regmix.chosen(tables["fitted"], corpora, targets) == "token exchange"
