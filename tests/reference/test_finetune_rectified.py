"""Fine-tuning of thirty models on FLAN, against the deviation that Lin et al. print (2024, arXiv:2402.02314)."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from benchmarks.tables.finetune_rectified import PUBLISHED, SHA256, TABLE, deviations, fit_models, laws, read, rows


@pytest.fixture
def table(reference_table):
    return read(reference_table(TABLE, SHA256))


def test_thirty_models_and_fourteen_doublings(table):
    models, examples, loss = table
    assert loss.shape == (14, 30)
    assert len(models) == 30
    assert np.diff(np.log2(examples)) == pytest.approx(np.ones(13))


def test_deviation_is_no_larger_than_published(table):
    fit_row, ahead = rows()
    assert fit_row.reached
    assert fit_row.ours <= PUBLISHED
    assert ahead.ours < 0.05


def test_a_fit_is_the_one_that_scipy_finds(table):
    models, examples, loss = table
    place = models.index("google/mt5-large")

    def residuals(theta):
        e, b, d, beta = theta
        return np.log(np.exp(b) / (np.exp(d) + examples**beta) + np.exp(e)) - np.log(loss[:, place])

    tries = [least_squares(residuals, [0.0, d + 1, d, beta]) for d in (1, 3, 6) for beta in (0.2, 0.5)]
    theirs = np.sqrt((min(tries, key=lambda found: found.cost).fun ** 2).mean())
    ours = deviations(fit_models(laws()["rectified"], models, examples, loss), examples, loss)[place]
    assert ours == pytest.approx(theirs, rel=1e-3)
