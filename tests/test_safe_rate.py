"""The bound under which runs do not diverge, on runs whose limit is known."""

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.safe_rate import safe_rate


def grid() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Learning rates a factor of 2 apart at three sizes and two lengths; runs break above .01 (N / 1e8)^-.5."""
    size, tokens, lr = (v.ravel() for v in np.meshgrid([1e8, 2e8, 4e8], [1e9, 4e9], 0.001 * 2.0 ** np.arange(7)))
    return {"model_size": size, "tokens": tokens, "peak_lr": lr}, lr > 0.01 * (size / 1e8) ** -0.5


def test_below_every_diverged_run_and_near_the_limit():
    runs, diverged = grid()
    bound = safe_rate(runs, diverged)
    assert (runs["peak_lr"][diverged] > bound(runs)[diverged] * (1 - 1e-9)).all()
    limit = 0.01 * (runs["model_size"] / 1e8) ** -0.5
    assert (bound(runs) > limit / 2).all()
    assert bound.diverged == diverged.sum()


def test_a_larger_model_is_never_given_a_higher_bound():
    runs, diverged = grid()
    larger = {**runs, "model_size": 10 * runs["model_size"]}
    assert (safe_rate(runs, diverged)(larger) <= safe_rate(runs, diverged)(runs)).all()


def test_a_size_that_breaks_early_widens_the_margin():
    runs, diverged = grid()
    early = diverged | ((runs["model_size"] == 2e8) & (runs["peak_lr"] > 0.003))
    assert safe_rate(runs, early).margin > safe_rate(runs, diverged).margin


def test_what_cannot_be_bounded_is_refused():
    runs, diverged = grid()
    with pytest.raises(FitError, match="No run diverged"):
        safe_rate(runs, np.zeros_like(diverged))
    one = diverged & (runs["model_size"] == 1e8) & (runs["tokens"] == 1e9)
    with pytest.raises(FitError, match="of one group"):
        safe_rate(runs, one)
    with pytest.raises(FitError, match="neither model_size nor tokens"):
        safe_rate({"peak_lr": runs["peak_lr"]}, diverged)
