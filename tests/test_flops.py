"""The budget's law against the compute that its authors state."""

import numpy as np
import pytest

from mixopt.cost.flops import Flops, training_flops

# Hoffmann et al. 2022, table 3: parameters, FLOPs, tokens of compute-optimal models (approach 1), three digits.
HOFFMANN_TABLE_3 = [(400e6, 1.92e19, 8.0e9), (1e9, 1.21e20, 20.2e9), (10e9, 1.23e22, 205.1e9), (67e9, 5.76e23, 1.5e12)]


@pytest.mark.parametrize(("model_size", "flops", "tokens"), HOFFMANN_TABLE_3)
def test_published_budgets(model_size, flops, tokens):
    # The table rounds sizes and tokens to two digits: 1.5T alone may be off by 3 %.
    assert training_flops(model_size, tokens) == pytest.approx(flops, rel=0.05)


def test_law_and_function_agree_and_the_law_is_differentiable():
    columns = {"model_size": np.array([1e8, 70e9]), "tokens": np.array([2e9, 1.4e12])}
    law = Flops()
    assert law(np.zeros(0), columns) == pytest.approx([training_flops(1e8, 2e9), training_flops(70e9, 1.4e12)])
    assert law.partial(np.zeros(0), columns, "tokens") == pytest.approx(6 * columns["model_size"])
    assert law.output == "flops"
    assert law.coefficients == ()
