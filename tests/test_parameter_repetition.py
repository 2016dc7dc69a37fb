"""Effective parameters: what is compute-optimal counts in full, what lies beyond ever less."""

import numpy as np
import pytest

from mixopt.laws.chinchilla import HOFFMANN, chinchilla, from_paper
from mixopt.laws.parameter_repetition import MUENNIGHOFF, ParameterRepetition, suiting
from mixopt.laws.repetition import Repetition


def runs(size, tokens, unique):
    rows = len(size)
    return {
        "model_size": np.array(size),
        "tokens": np.array(tokens),
        "mixture": np.ones((rows, 1)),
        "unique_tokens": np.full((rows, 1), unique),
    }


@pytest.mark.parametrize("paper", [MUENNIGHOFF, HOFFMANN], ids=["one exponent", "two exponents"])
def test_the_suiting_size_minimizes_the_loss_at_its_compute(paper):
    """A grid over sizes at the compute of that size and these tokens: no other size does better."""
    tokens, suits = 3e9, suiting(paper)
    size = suits["size"] * (tokens / suits["tokens_unit"]) ** suits["power"]
    sizes = size * np.geomspace(0.1, 10, 2001)
    theta = np.array([from_paper(paper)[name] for name in chinchilla().names])
    loss = chinchilla()(theta, {"model_size": sizes, "tokens": size * tokens / sizes})
    assert sizes[loss.argmin()] == pytest.approx(size, rel=3e-3)


def test_what_fits_counts_in_full_and_the_rest_is_bounded():
    law = ParameterRepetition(size=5e7, tokens_unit=1e9)
    found = law(np.array([5.0]), runs([1e6, 5e7, 5.1e7, 1e15], [4e9] * 4, 1e9))
    assert found[:2] == pytest.approx([1e6, 5e7])
    assert found[2] == pytest.approx(5.1e7, rel=1e-3)
    assert found[3] == pytest.approx(5e7 * 6)


def test_tokens_never_read_do_not_make_room():
    law, R = ParameterRepetition(), np.array([5.0])
    plenty, enough = (law(R, runs([1e10], [2e9], unique)) for unique in (1e13, 2e9))
    assert plenty == pytest.approx(enough)


def test_stands_before_the_repetition_of_tokens():
    """The other way round it would take effective tokens for unique ones."""
    law = ParameterRepetition() >> Repetition() >> chinchilla()
    assert law.names[:2] == ("R_N", "R")
    theta = np.array([5.31, 15.39, 1.87, 0.35, 0.35, 0.9, 0.35])
    run = runs([1e9, 1e9], [1e9, 8e9], 1e9)
    size = ParameterRepetition()(theta[:1], run)
    tokens = Repetition()(theta[1:2], run)
    assert law(theta, run) == pytest.approx(chinchilla()(theta[2:], {"model_size": size, "tokens": tokens}))


def test_the_suiting_size_grows_by_its_power():
    """16 units of tokens suit 16^1.5 = 64 times the size; as much again counts R (1 - e^(-1 / R))."""
    law = ParameterRepetition(size=5e7, tokens_unit=1e9, power=1.5)
    found = law(np.array([5.0]), runs([6.4e9, 3.2e9], [4e10] * 2, 1.6e10))
    assert found == pytest.approx([3.2e9 * (1 + 5 * (1 - np.exp(-0.2))), 3.2e9])
