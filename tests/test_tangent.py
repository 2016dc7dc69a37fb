"""The bootstrap of one step: exact where the law is a straight line in log loss, close to refitting where it bends."""

import json

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.fit import Fit, fit
from mixopt.fit.norms import Huber, Square
from mixopt.fit.tangent import TangentFit, tangent
from mixopt.laws.constant import Constant
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.token_exchange import TokenExchange


@pytest.fixture
def straight(rng: np.random.Generator) -> tuple[PowerLaw, dict[str, np.ndarray]]:
    tokens = np.geomspace(1e8, 1e10, 40)
    law = PowerLaw("tokens", 1e9, "B", "beta", prior=(0.4, 0.1))
    return law, {"tokens": tokens, "loss": 2 * (tokens / 1e9) ** -0.5 * np.exp(0.01 * rng.standard_normal(40))}


def test_one_step_is_the_refit_where_the_law_is_straight(straight):
    law, runs = straight
    refitted = fit(law, runs, norm=Square(0.01), starts=4, replicates=50)
    one_step = tangent(refitted, runs, replicates=50)
    assert np.allclose(one_step.replicates, refitted.replicates, rtol=1e-5)
    ahead = {"tokens": np.array([1e9, 1e12])}
    assert np.allclose(one_step.interval(ahead), refitted.interval(ahead), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 0.01, 0.1])
def test_close_to_refitting_whatever_the_norms_scale(straight, scale):
    """A Huber norm far finer than the noise has no curvature at nearly all residuals, which must not widen."""
    law, runs = straight
    refitted = fit(law, runs, norm=Huber(scale), starts=4, replicates=200)
    ends = (found.interval({"tokens": np.geomspace(1e8, 1e11, 7)}) for found in (refitted, tangent(refitted, runs)))
    theirs, ours = (np.log(upper / lower) for lower, upper in ends)
    assert 0.8 < np.median(ours / theirs) < 1.3


def test_close_to_refitting_where_the_law_bends(rng: np.random.Generator):
    corpora = ("web", "code", "books", "math")
    law = Constant("E") + TokenExchange(corpora, 1e9, shared_g=False)
    runs, others = ({"corpus_tokens": 1e9 * rng.dirichlet(np.full(4, 0.7), rows)} for rows in (120, 60))
    theta = np.array([1.5, 0.2, 5.0, 0.5, 1.0, 0.7, 0.5, 0.6, 0.8, 0.1, 1.0, 0.5])
    runs["loss"] = law(theta, runs) * np.exp(0.01 * rng.standard_normal(120))
    refitted = fit(law, runs, norm=Huber(0.01), starts=4, replicates=100)
    one_step = tangent(refitted, runs, replicates=100)
    ratio = np.log(one_step.samples(others)).std(0) / np.log(refitted.samples(others)).std(0)
    assert 0.8 < np.median(ratio) < 1.3
    assert np.allclose(one_step.predict(others), refitted.predict(others))


def test_survives_json_and_is_not_read_as_a_refit(straight):
    law, runs = straight
    found = tangent(fit(law, runs, starts=4), runs, replicates=20)
    written = json.loads(json.dumps(found.to_dict()))
    ahead = {"tokens": np.array([1e12])}
    assert np.allclose(TangentFit.from_dict(written).samples(ahead), found.samples(ahead), rtol=1e-9)
    with pytest.raises(TypeError, match="tangent"):
        Fit.from_dict(written)


def test_needs_a_draw(straight):
    law, runs = straight
    with pytest.raises(FitError, match="at least 1; got 0"):
        tangent(fit(law, runs, starts=1), runs, replicates=0)
