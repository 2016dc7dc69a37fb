"""What repeated tokens are worth, against the figures of Muennighoff et al., 2023, arXiv:2305.16264."""

import numpy as np
import pytest

from benchmarks.tables.datablations import (
    PUBLISHED,
    SHA256,
    TABLE,
    epochs,
    nearest_optimum,
    published_law,
    r2,
    read,
    rows,
)
from mixopt.fit.fit import fit


@pytest.fixture
def runs(reference_table):
    return read(reference_table(TABLE, SHA256))


def by_hand(runs, R_D, R_N):
    """The law of the paper's notebook, written out with its printed constants."""
    a, b, e, alpha = 6.255414, 7.3049974, 0.6254804, 0.3526596
    size, tokens, unique = runs["model_size"], runs["tokens"], runs["unique_tokens"][:, 0]
    G = (np.exp(a) / np.exp(b)) ** (1 / (2 * alpha))
    suits = np.minimum(G * G * unique, size)
    tokens = unique + unique * R_D * (1 - np.exp(-(tokens / unique - 1) / R_D))
    size = suits + suits * R_N * (1 - np.exp(-(size / suits - 1) / R_N))
    return np.exp(e) + np.exp(a) * size**-alpha + np.exp(b) * tokens**-alpha


def test_the_law_is_the_one_written_out(runs):
    ours = published_law().fix(**PUBLISHED)(np.empty(0), runs)
    assert ours == pytest.approx(by_hand(runs, PUBLISHED["R"], PUBLISHED["R_N"]), rel=1e-6)


def test_published_R2_and_the_optimum_it_belongs_to(runs):
    assert r2(by_hand(runs, PUBLISHED["R"], PUBLISHED["R_N"]), runs["loss"]) == pytest.approx(0.7722, abs=5e-5)
    found = nearest_optimum(runs)
    assert found["R"] == pytest.approx(15.388, rel=2e-3)
    assert found["R_N"] == pytest.approx(5.310, rel=2e-3)


def test_a_lower_optimum_lies_elsewhere_in_a_flat_objective(runs):
    law = published_law()
    fitted, there = fit(law, runs), fit(law.fix(**PUBLISHED), runs)
    assert fitted.objective < there.objective < 1.002 * fitted.objective
    assert there.objective > fit(law.fix(R=47.0, R_N=2.33), runs).objective


def test_the_splits_hold_out_what_they_say(runs):
    assert (epochs(runs) > 4).sum() == 125


def test_every_figure_asked_for_is_reached(runs):
    found = {row.quantity: row for row in rows()}
    assert all(row.reached for row in found.values())
    assert found["the same, without decay"].reproduced == pytest.approx(0.4452, abs=5e-5)
