"""Overtrained models predicted from five small ones, against the errors that Gadre et al. print (arXiv:2403.08540)."""

import numpy as np
import pytest

from benchmarks.tables.gadre_overtraining import PUBLISHED, SHA256, TABLE, by_published_protocol, read, rows


@pytest.fixture
def path(reference_table):
    return reference_table(TABLE, SHA256)


def test_the_published_errors_follow_from_the_published_protocol(path):
    assert by_published_protocol(read(path)) == pytest.approx(list(PUBLISHED.values()), abs=5e-4)


def test_nothing_large_is_seen(path):
    split = read(path)
    assert split.small["model_size"].max() < 5e8
    assert (~split.held_out).sum() == 5
    # The two take 390 and 280 times the compute of the largest run fitted.
    compute = split.small["model_size"] * split.small["tokens"]
    assert (split.large["model_size"] * split.large["tokens"] / compute[~split.held_out].max() > 250).all()


def test_errors_are_as_small_as_asked(path):
    found = {row.quantity: row for row in rows()}
    assert all(row.reached for row in found.values())
    assert found["% error, mean"].ours < np.mean(list(PUBLISHED.values()))
    assert found["% error, mean"].coverage == 1.0
