"""Critical batches of Zhang et al., 2024, arXiv:2410.21676: see `benchmarks.tables.critical_batch_size`."""

import numpy as np
import pytest

from benchmarks.tables import critical_batch_size as table


@pytest.fixture
def runs(reference_table):
    return table.read(reference_table(table.TABLE, table.SHA256))


def test_published_critical_batches(runs):
    for size, found in table.by_size(runs).items():
        assert found == pytest.approx(table.PUBLISHED[size], rel=0.03)


def test_published_power_of_the_size(runs):
    fitted, law = table.jointly(runs)
    ours, low, high = table.exponent(fitted, law, np.array(list(table.PUBLISHED)))
    assert low < table.EXPONENT < high
    assert ours == pytest.approx(table.EXPONENT, abs=0.05)


def test_batch_sizes_not_seen(runs):
    assert table.coverage(runs) >= 0.8
