"""Data mixing laws (arXiv:2403.16952): from small models to a larger one, and across mixtures."""

from functools import cache

import numpy as np
import pytest

from benchmarks.tables import mixinglaws


@pytest.fixture
def runs(reference_table):
    for name, sha256 in (mixinglaws.TABLE, mixinglaws.WEIGHTS):
        reference_table(f"runs/mixinglaws/{name}", sha256)
    return mixinglaws.read


@cache
def nested(experiment):
    (row,) = mixinglaws._nested_rows(experiment, mixinglaws.CORPORA[experiment])
    return row


def test_the_published_size_law(runs):
    assert mixinglaws.mape(*mixinglaws.size_law(runs("RedPajama")[0])) == pytest.approx(1.14, abs=0.005)


def test_bimix_knows_no_other_corpus(runs):
    """Across mixtures of the same steps a law of the own share alone explains less than one of all shares."""
    columns = mixinglaws.of_groups(*runs("5Mix"))
    last = mixinglaws.kept(columns, columns["steps"] == mixinglaws.LAST)
    held = mixinglaws.draws(last)[0]
    seen, unseen = mixinglaws.kept(last, ~held), mixinglaws.kept(last, held)
    law = mixinglaws.across_mixtures(tuple(mixinglaws.GROUPS))["exchange with size"]
    options = {"targets": tuple(mixinglaws.GROUPS), "norm": mixinglaws.NOISE, "starts": 2}
    ours = mixinglaws.predicted(mixinglaws.fit_targets(law, seen, **options), unseen)
    assert mixinglaws.r_squared(ours, unseen["loss"]) >= 0.996 > mixinglaws._bimix(columns, unseen)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", mixinglaws.CORPORA)
def test_one_joint_law_from_three_sizes_to_a_fourth(runs, experiment):
    assert nested(experiment).ours <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("experiment", mixinglaws.CORPORA)
def test_intervals_of_the_fourth_size_cover(runs, experiment, request):
    if experiment == "RedPajama":
        request.applymarker(pytest.mark.xfail(reason="79 % of the rows are inside, to be 80 at least", strict=True))
    assert nested(experiment).coverage >= 0.8


@pytest.mark.slow
def test_across_mixtures(runs):
    *_, ours = mixinglaws._mixture_rows()
    assert ours.ours >= 0.996


def test_six_of_26_mixtures_are_held_out(runs):
    columns = runs("5Mix")[0]
    held = mixinglaws.draws(mixinglaws.kept(columns, columns["steps"] == mixinglaws.LAST))
    assert [int(mask.sum()) for mask in held] == [24] * 5
    assert not np.array_equal(held[0], held[1])
