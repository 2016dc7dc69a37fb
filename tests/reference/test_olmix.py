"""127 runs of 24 topics, arXiv:2602.12237: five folds, families of tasks. github.com/allenai/olmix, see the table."""

import numpy as np
import pytest

from benchmarks.tables import olmix
from mixopt.fit.exchange import Exchange
from mixopt.fit.stack import Stack
from mixopt.predictors.log_linear import LogLinear


@pytest.fixture
def columns(reference_table):
    for name, sha256 in olmix.FILES.items():
        reference_table(f"runs/olmix/dclm_{name}.csv", sha256)
    return olmix.read()[0]


def test_the_split_is_that_of_scikit_learn():
    selection = pytest.importorskip("sklearn.model_selection")
    fold = olmix.folds(127)
    for f, (_, held) in enumerate(selection.KFold(5, shuffle=True, random_state=0).split(np.zeros(127))):
        assert np.flatnonzero(fold == f).tolist() == sorted(held)


def test_token_exchange_beats_log_linear_and_trees(columns):
    found = olmix.cross_validated(olmix.by_predictor(Exchange(), intervals=False), columns)
    best = np.maximum(olmix.LOG_LINEAR, olmix.LIGHTGBM)
    assert (found.rank[:3] > best[:3]).all()
    assert (found.rank[:3] >= olmix.REACH[:3]).all()
    assert found.r2[3] >= olmix.REACH_R2


def test_published_log_linear(columns):
    found = olmix.cross_validated(olmix.by_predictor(LogLinear(shapes=("share",)), intervals=False), columns)
    assert found.rank[:3] == pytest.approx(olmix.LOG_LINEAR[:3], abs=0.01)


@pytest.mark.slow
def test_the_stack_reaches_all(columns):
    found = olmix.cross_validated(olmix.by_predictor(Stack()), columns)
    assert (found.rank[:3] >= olmix.REACH[:3]).all()
    assert (found.r2[3:] >= olmix.REACH_R2).all()
    assert ((found.coverage >= 0.8) & (found.coverage <= 0.97)).all()
    assert found.beyond <= 0.5
