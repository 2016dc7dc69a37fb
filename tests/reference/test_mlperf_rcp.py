"""Samples to a target over seeds, from MLPerf's reference convergence points: see `benchmarks.tables.mlperf_rcp`."""

import numpy as np
import pytest

from benchmarks.tables import mlperf_rcp as table


@pytest.fixture
def path(reference_table):
    return reference_table(table.TABLE, table.SHA256)


@pytest.mark.parametrize(("benchmark_name", "batches"), [("bert", 13), ("llama31_8b", 5)])
def test_seeds_and_coverage(path, benchmark_name, batches):
    runs = table.read(path, benchmark_name)
    sizes, seeds = np.unique(runs["batch_tokens"], return_counts=True)
    assert len(sizes) == batches
    assert seeds.min() >= 20
    assert table.seed_spread(runs) == pytest.approx(0.05, abs=0.01)
    assert 0.8 <= table.coverage(runs) <= 0.97


@pytest.mark.parametrize("benchmark_name", ["bert", "llama31_8b"])
def test_critical_batch_lies_where_tokens_double(path, benchmark_name):
    """The law's critical batch against the table itself: where the mean over seeds is twice that of the least."""
    runs = table.read(path, benchmark_name)
    sizes = np.unique(runs["batch_tokens"])
    mean = np.array([runs["tokens"][runs["batch_tokens"] == size].mean() for size in sizes])
    fitted = table.fitted_to(runs)
    low, high = fitted.coefficient_intervals()[:, 1]
    doubled = float(np.exp(np.interp(np.log(2 * fitted.theta[0]), np.log(mean), np.log(sizes))))
    assert low <= doubled <= high
    assert high / low < 2
