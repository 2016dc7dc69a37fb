"""Every predictor found keeps the contract: finite and sane everywhere, same seed same answer, plain data."""

import json

import numpy as np
import pytest

from mixopt._discover import available, load
from mixopt.columns import Array
from mixopt.errors import FitError
from mixopt.fit.ranks import spearman
from mixopt.predictors.predictor import Learned, Predictor, learned_from_dict, predictor_from_dict
from mixopt.testing import simulated_columns

pytest.importorskip("sklearn", reason="boosted trees need the extra 'learn'")

CORPORA = 4
WORTH = np.array([[3.0, 0.0], [0.0, 2.5], [1.0, 0.0], [0.2, 1.0]])
PREDICTORS = {
    f"{name}-{i}": one for name in available("predictors") for i, one in enumerate(load("predictors", name).examples())
}


def runs(predictor: Predictor, seed: int = 0, rows: int = 30) -> dict[str, Array]:
    """Runs whose two losses fall with roots of shares, and with tokens and size where these are read."""
    rng = np.random.default_rng(seed)
    columns = simulated_columns(predictor.inputs, rows, CORPORA, rng)
    scalars = [np.log(columns[name] / 1e7)[:, None] for name in predictor.inputs if name != "mixture"]
    loss = 2 + np.exp(-np.sqrt(columns["mixture"]) @ WORTH - 0.1 * sum(scalars, np.zeros((rows, 1))))
    return {**columns, predictor.output: loss + 0.005 * rng.standard_normal(loss.shape)}


def anywhere(predictor: Predictor, seed: int = 1) -> dict[str, Array]:
    """Rows all over the simplex, its corners included, and a thousand times more of everything else."""
    rng = np.random.default_rng(seed)
    shares = np.concatenate([np.eye(CORPORA), rng.dirichlet(np.full(CORPORA, 0.3), 40)])
    columns = simulated_columns(predictor.inputs, len(shares), CORPORA, rng)
    return {name: 1e3 * values for name, values in columns.items()} | {"mixture": shares}


@pytest.fixture(scope="module", params=PREDICTORS.values(), ids=PREDICTORS.keys())
def predictor(request: pytest.FixtureRequest) -> Predictor:
    return request.param


@pytest.fixture(scope="module")
def learned(predictor: Predictor) -> Learned:
    return predictor.learn(runs(predictor))


def test_finite_and_inside_the_range_of_losses(predictor: Predictor, learned: Learned):
    seen = runs(predictor)[predictor.output]
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        predicted = learned.predict(anywhere(predictor))
    spread = np.ptp(seen, axis=0)
    assert predicted.shape == (CORPORA + 40, 2)
    assert (predicted >= seen.min(0) - spread).all()
    assert (predicted <= seen.max(0) + spread).all()


def test_interval_contains_the_prediction(predictor: Predictor, learned: Learned):
    rows = anywhere(predictor)
    predicted = learned.predict(rows)
    widths: list[Array] = []
    for level, observation in ((0.5, False), (0.9, False), (0.9, True)):
        lower, upper = learned.interval(rows, level, observation=observation)
        assert np.isfinite([lower, upper]).all()
        assert (lower <= predicted).all()
        assert (predicted <= upper).all()
        widths.append(upper - lower)
    assert (widths[0] <= widths[1]).all()
    assert (widths[1] <= widths[2]).all()


def test_orders_new_runs(predictor: Predictor, learned: Learned):
    new = runs(predictor, seed=3, rows=60)
    rank = [spearman(learned.predict(new)[:, k], new[predictor.output][:, k]) for k in range(2)]
    assert min(rank) > 0.7


def test_intervals_cover(predictor: Predictor, learned: Learned):
    new = runs(predictor, seed=3, rows=60)
    lower, upper = learned.interval(new, 0.9, observation=True)
    assert ((lower <= new[predictor.output]) & (new[predictor.output] <= upper)).mean() > 0.7


def test_same_seed_same_answer_and_one_target_is_a_vector(predictor: Predictor, learned: Learned):
    rows, table = anywhere(predictor), runs(predictor)
    assert np.array_equal(predictor.learn(table).predict(rows), learned.predict(rows))
    single = predictor.learn({**table, predictor.output: table[predictor.output][:, 0]})
    assert single.predict(rows).shape == (CORPORA + 40,)
    assert single.interval(rows)[0].shape == (CORPORA + 40,)
    assert single.predict(rows) == pytest.approx(learned.predict(rows)[:, 0], rel=1e-6)


def test_freedom_and_outside(predictor: Predictor, learned: Learned):
    assert 0 < learned.freedom <= 30
    assert not learned.outside(runs(predictor)).any()
    if predictor.inputs != ("mixture",):
        assert learned.outside(anywhere(predictor)).all()


def test_plain_data(predictor: Predictor, learned: Learned):
    assert predictor_from_dict(json.loads(json.dumps(predictor.to_dict()))) == predictor
    again = learned_from_dict(json.loads(json.dumps(learned.to_dict())))
    rows = anywhere(predictor)
    assert np.array_equal(again.predict(rows), learned.predict(rows))
    assert np.allclose(again.interval(rows), learned.interval(rows), rtol=1e-12)


def test_what_cannot_be_learned_is_named(predictor: Predictor):
    table = runs(predictor)
    with pytest.raises(FitError, match=f"no column {predictor.inputs[0]}"):
        predictor.learn({name: values for name, values in table.items() if name != predictor.inputs[0]})
    broken = {**table, predictor.output: np.where(np.arange(30)[:, None] == 4, np.nan, table[predictor.output])}
    with pytest.raises(FitError, match=f"Column {predictor.output} row 4 is nan"):
        predictor.learn(broken)
