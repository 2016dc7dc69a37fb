"""One exponent for size and tokens, against the form in compute and tokens per parameter of Gadre et al."""

import numpy as np
import pytest

from mixopt.laws.constant import Constant
from mixopt.laws.tied_exponent import GADRE, TiedExponent, from_paper, to_paper


def test_is_the_formula_of_the_paper():
    size, tokens = np.array([1e7, 4e8, 7e9]), np.array([2e8, 1e11, 1.4e11])
    ratio, compute, eta = tokens / size, 6 * size * tokens, GADRE["eta"]
    expected = GADRE["E"] + (GADRE["a"] * ratio**eta + GADRE["b"] * ratio**-eta) * compute**-eta
    law = Constant("E") + TiedExponent(size_unit=1e8, tokens_unit=2e9)
    theta = np.array([from_paper(GADRE, size_unit=1e8, tokens_unit=2e9)[name] for name in law.names])
    assert law(theta, {"model_size": size, "tokens": tokens}) == pytest.approx(expected, rel=1e-12)


def test_published_values_are_those_of_the_paper_at_our_units():
    assert dict(TiedExponent.published) == pytest.approx(
        {k: from_paper(GADRE)[k] for k in "A B alpha".split()}, rel=1e-3
    )
    assert to_paper(from_paper(GADRE)) == pytest.approx(dict(GADRE), rel=1e-12)


def test_overtraining_moves_the_line_of_compute_but_does_not_tilt_it():
    law, theta = TiedExponent(), np.array([0.6, 1.0, 0.27])
    size = np.array([1e8, 1e9, 1e10])
    slopes = [np.diff(np.log(law(theta, {"model_size": size, "tokens": m * size}))) for m in (20, 640)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-12)
