"""The law of Kaplan et al. against its formula as printed."""

import numpy as np
import pytest

from mixopt.laws.kaplan import KAPLAN, Kaplan, from_paper, to_paper


def test_is_the_formula_of_the_paper():
    size, tokens = np.array([1e6, 1e8, 1.5e9]), np.array([2e10, 1e9, 2e8])
    Nc, Dc, aN, aD = (KAPLAN[name] for name in ("Nc", "Dc", "aN", "aD"))
    expected = ((Nc / size) ** (aN / aD) + Dc / tokens) ** aD
    law = Kaplan(size_unit=1e7, tokens_unit=1e8)
    theta = np.array([from_paper(KAPLAN, size_unit=1e7, tokens_unit=1e8)[name] for name in law.names])
    assert law(theta, {"model_size": size, "tokens": tokens}) == pytest.approx(expected, rel=1e-12)


def test_published_values_are_those_of_the_paper_at_our_units():
    assert dict(Kaplan.published) == pytest.approx(from_paper(KAPLAN), rel=1e-4)
    assert to_paper(from_paper(KAPLAN)) == pytest.approx(dict(KAPLAN), rel=1e-9)


def test_one_shortfall_rules_where_the_other_is_small():
    """Unlimited data leave the power law of size, and the other way round."""
    law, theta = Kaplan(), np.array([2.0, 3.0, 0.08, 0.1])
    limits = {"model_size": np.array([1e9, 1e300]), "tokens": np.array([1e300, 1e9])}
    assert law(theta, limits) == pytest.approx([2.0, 3.0])


def test_is_described_as_in_the_paper():
    law = Kaplan()
    theta = np.array([from_paper(KAPLAN)[name] for name in law.names])
    assert law.describe(theta) == "[(6.4e+13/model_size)^(0.076/0.103) + 1.8e+13/tokens]^0.103"
