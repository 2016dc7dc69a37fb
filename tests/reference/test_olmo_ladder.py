"""A 1B model predicted from a ladder of smaller ones (Bhagia et al., 2024, arXiv:2412.04403)."""

import numpy as np
import pytest

from benchmarks.tables.olmo_ladder import SHA256, TABLE, read, rows


@pytest.fixture
def path(reference_table):
    return reference_table(TABLE, SHA256)


def test_end_points_are_read(path):
    """Four sizes at five multiples of 20 tokens a parameter, one of them run twice."""
    runs = read(path)
    assert len(runs["tokens"]) == 24
    assert runs["tokens"] / runs["model_size"] == pytest.approx(20 * runs["multiplier"], rel=0.01)
    assert len(np.unique(runs["model_size"])) == 4


def test_errors_and_intervals_are_as_asked(path):
    found = list(rows())
    assert all(row.reached for row in found)
    assert sum("val_loss" in row.quantity for row in found) == 11
