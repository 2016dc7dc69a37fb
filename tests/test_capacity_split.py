"""The split of capacity against a general solver, a closed form, and the implicit function theorem by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mixopt.laws.capacity_split import CapacitySplit

CORPORA = ("web", "code", "math")
C, B = np.array([0.5, 1.5, 0.2]), np.array([0.3, 0.6, 1.1])
REST = np.array([0.2, 0.4, 1.0])
THETA = np.concatenate([C, B, REST])
LAW = CapacitySplit(CORPORA, "code", tokens_unit=1e9, size_unit=1e8)


def runs(h: list[float], size: float) -> dict[str, np.ndarray]:
    return {"mixture": np.array([h]), "model_size": np.array([size]), "tokens": np.array([2e9])}


@pytest.mark.parametrize(("h", "size"), [([0.5, 0.3, 0.2], 3e8), ([0.05, 0.9, 0.05], 1e7), ([0.34, 0.33, 0.33], 5e10)])
def test_no_other_split_has_a_lower_average_loss(h, size):
    """SLSQP over log capacity, which knows nothing of the multiplier."""
    units = size / 1e8
    found = minimize(
        lambda u: float((np.array(h) * C * np.exp(-B * u)).sum()),
        np.full(3, np.log(units / 3)),
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda u: np.log(np.exp(u).sum() / units)},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    x = LAW.capacity(THETA, runs(h, size))[0]
    assert x.sum() == pytest.approx(size, rel=1e-12)
    assert np.log(x / 1e8) == pytest.approx(found.x, abs=2e-4)
    assert (np.array(h) * C * (x / 1e8) ** -B).sum() <= found.fun * (1 + 1e-9)


def test_corpora_with_one_exponent_share_in_closed_form():
    h = np.array([0.5, 0.3, 0.2])
    theta = np.concatenate([C, np.full(3, 0.5), REST])
    asked = (h * C) ** (1 / 1.5)
    assert LAW.capacity(theta, runs(h.tolist(), 3e8))[0] == pytest.approx(3e8 * asked / asked.sum(), rel=1e-12)


def test_derivative_of_the_split_is_that_of_the_implicit_function_theorem():
    """d log x_i / d log N = r_i / sum_j p_j r_j with r = 1 / (1 + b) and p the shares of capacity."""
    at = runs([0.5, 0.3, 0.2], 3e8)
    x, r = LAW.capacity(THETA, at)[0] / 3e8, 1 / (1 + B)
    elasticity = r[1] / (x * r).sum()
    log_x = np.log(LAW.capacity(THETA, at)[0, 1] / 1e8)
    by_size = -C[1] * B[1] * np.exp(-B[1] * log_x) * elasticity / 3e8
    assert LAW.partial(THETA, at, "model_size")[0] == pytest.approx(by_size, rel=1e-10)


def test_a_corpus_is_crowded_out_by_a_dearer_one():
    """The loss on code rises with what there is to gain from math, whose own coefficients it shows in no other way."""
    theta = THETA.copy()
    theta[2] *= 10
    assert LAW(theta, runs([0.4, 0.3, 0.3], 1e8)) > LAW(THETA, runs([0.4, 0.3, 0.3], 1e8))


def test_target_must_be_a_corpus():
    with pytest.raises(ValueError, match="target is 'law'; give one of the corpora: web, code, math"):
        CapacitySplit(CORPORA, "law", 1e9, 1e8)
