import csv
import io
import math

import numpy as np
import pytest

from mixopt.emit.tabulated import ROWS, emit, step_tokens
from mixopt.schedules.constant import constant
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import MIXTURE, recipe

TOKENS = 1_048_576_000


def table(text):
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    return {name: np.array([float(row[name]) if name != "corpus" else row[name] for row in rows]) for name in rows[0]}


def test_every_step_has_the_learning_rate_of_the_schedule_to_the_last_digit():
    asked = recipe()
    rows = table(emit(asked)["schedule.csv"])
    assert rows["step"].tolist() == list(range(1000))
    assert (rows["learning_rate"] == asked.learning_rate(np.arange(1000) * 2.0**20)).all()
    assert {name: set(rows[f"share_{name}"]) for name in MIXTURE} == {name: {q} for name, q in MIXTURE.items()}


@pytest.mark.parametrize("batch", [2.0**20, 1e6, 3e6, 2.0**20 + 1])
def test_the_steps_add_up_to_the_tokens(batch):
    rows = table(emit(recipe(batch=constant(batch, TOKENS)))["schedule.csv"])
    assert rows["batch_tokens"].sum() == TOKENS
    assert (rows["batch_tokens"][:-1] == batch).all()
    assert len(rows["step"]) == math.ceil(TOKENS / batch)


def test_a_ramp_switches_at_the_first_step_at_or_after_its_boundary():
    batch = Schedule((Segment(100_000_000, 2.0**20, 2.0**20), Segment(TOKENS - 1e8, 2.0**21, 2.0**21)))
    rows = table(emit(recipe(batch=batch))["schedule.csv"])
    first = int(np.flatnonzero(rows["batch_tokens"] == 2**21)[0])
    assert first == math.ceil(1e8 / 2**20)
    assert rows["tokens"][first] == first * 2**20
    assert rows["batch_tokens"].sum() == TOKENS


def test_a_gradual_ramp_is_followed_step_by_step():
    batch = Schedule((Segment(1000.0, 10.0, 20.0),))
    edges = step_tokens(batch)
    np.testing.assert_allclose(np.diff(edges)[:-1], batch(edges[:-2]), rtol=1e-12)
    assert edges[-1] == 1000


def test_stages_change_the_shares_at_their_boundary():
    stages = [
        {"tokens": TOKENS * 3 // 4, "mixture": MIXTURE},
        {"tokens": TOKENS // 4, "mixture": {"math": 1.0}},
    ]
    files = emit(recipe(stages=stages))
    rows = table(files["schedule.csv"])
    assert (rows["share_math"] == np.where(rows["step"] < 750, 0.15, 1.0)).all()
    assert (rows["share_web"] == np.where(rows["step"] < 750, 0.62, 0.0)).all()
    mixture = table(files["mixture.csv"])
    assert mixture["share"].sum() == pytest.approx(1, abs=1e-15)
    assert mixture["share"].tolist() == pytest.approx([0.465, 0.1725, 0.3625])


def test_a_long_run_is_thinned_but_keeps_its_ends_and_boundaries():
    asked = recipe(batch=constant(2.0**14, TOKENS), sequence_length=1024, learning_rate=wsd(1e-3, TOKENS))
    rows = table(emit(asked)["schedule.csv"])
    assert ROWS <= len(rows["step"]) <= ROWS + 3
    assert {0, 1280, 51200, 63999} <= set(rows["step"])
    assert (rows["learning_rate"] == asked.learning_rate(rows["tokens"])).all()


def test_the_mixture_adds_up_to_the_tokens_and_the_epochs():
    rows = table(emit(recipe())["mixture.csv"])
    assert rows["corpus"].tolist() == ["web", "code", "math"]
    assert rows["tokens"].sum() == TOKENS
    np.testing.assert_allclose(rows["epochs"], rows["tokens"] / [5e9, 1e9, 1e8], rtol=1e-12)


def test_tables_follow_rfc_4180():
    text = emit(recipe(available={'a,"b"': 1e9}, stages=[{"tokens": TOKENS, "mixture": {'a,"b"': 1.0}}]))["mixture.csv"]
    assert text == f'corpus,share,tokens,epochs\r\n"a,""b""",1.0,{TOKENS}.0,{TOKENS / 1e9!r}\r\n'
