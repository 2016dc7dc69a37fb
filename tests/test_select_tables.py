"""The choice on tables that vary one thing alone: what is compared follows from the table, and luck is no law."""

import json
from pathlib import Path

import numpy as np
import pytest

from mixopt.files import write_json
from mixopt.fit.select import select
from mixopt.fit.selection import Selection
from mixopt.runs import Runs


def sizes(loss) -> Runs:
    size, tokens = (one.ravel() for one in np.meshgrid(np.geomspace(1e7, 1e9, 5), np.geomspace(1e9, 1e11, 5)))
    columns = {"model_size": size, "tokens": tokens, "loss": loss(size, tokens)[:, None], "mixture": np.ones((25, 1))}
    run = np.array([f"r{i}" for i in range(25)])
    return Runs(("all",), ("exam",), {**columns, "run": run, "status": np.full(25, "finished")})


def mixtures(rng: np.random.Generator) -> Runs:
    """40 mixtures of three corpora whose worth to the exam is 1, 4 and .2, with diminishing returns; noise .1 %."""
    h = rng.dirichlet(np.full(3, 0.7), 40)
    loss = (2 + (0.1 + (h**0.6) @ [1.0, 4.0, 0.2]) ** -0.7) * np.exp(0.001 * rng.standard_normal(40))
    columns = {"mixture": h, "loss": loss[:, None], "run": np.array([f"r{i}" for i in range(40)])}
    return Runs(("web", "code", "talk"), ("exam",), {**columns, "status": np.full(40, "finished")})


def test_losses_that_nothing_explains_are_left_to_their_mean(rng: np.random.Generator):
    """Noise of 5 % and no effect of size or tokens: a law that is no better than the mean must not be announced."""
    found = select(sizes(lambda size, tokens: 3 * np.exp(0.05 * rng.standard_normal(25))), replicates=20)
    assert found.law == "mean"
    assert "No candidate predicts rows held out better than the mean" in found.verdict()


def test_a_law_of_size_and_tokens_beats_the_mean_where_there_is_one(rng: np.random.Generator):
    def loss(size, tokens):
        exact = 1.8 + 0.36 * (size / 1e9) ** -0.35 + 1.06 * (tokens / 1e9) ** -0.37
        return exact * np.exp(0.002 * rng.standard_normal(25))

    found = select(sizes(loss), replicates=20)
    order = [candidate.name for candidate in found.candidates]
    assert set(order) == {"mean", "chinchilla", "tied_exponent", "kaplan_floor"}
    assert order[-1] == "mean" != found.law
    assert all(np.isnan(candidate.regret) for candidate in found.candidates)  # no mixture to choose


def test_mixtures_alone_are_learned_by_the_stack_which_is_read_back(rng: np.random.Generator, tmp_path: Path):
    runs = mixtures(rng)
    found = select(runs)
    assert found.law == "stack"
    new = {"mixture": np.array([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]])}
    truth = 2 + (0.1 + (new["mixture"] ** 0.6) @ [1.0, 4.0, 0.2]) ** -0.7
    assert found.fits["exam"].predict(new) == pytest.approx(truth, rel=0.01)
    text = write_json(tmp_path / "fit.json", found.to_dict()).read_text(encoding="utf-8")
    assert "NaN" not in text
    read = Selection.from_dict(json.loads(text))
    np.testing.assert_allclose(read.fits["exam"].predict(new), found.fits["exam"].predict(new), rtol=1e-12)
    assert np.isnan(read.noise["exam"])
    with pytest.raises(ValueError, match=r"stack is not a law, so it has no coefficients\. Select with for_plan=True"):
        _ = found.laws


def test_too_few_runs_are_refused_in_a_sentence():
    few = sizes(lambda size, tokens: 3 + tokens**0 / size).where(np.arange(25) < 3)
    with pytest.raises(ValueError, match=r"has 3 finished runs; 4 are needed to hold some out\. Add runs"):
        select(few)
