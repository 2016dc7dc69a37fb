import json

import numpy as np
import pytest

from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.linear import linear
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd


@pytest.mark.parametrize(
    ("shape", "value", "area"),
    [  # halfway value, and area, of a decay from 1 to 0 over one token, by hand
        ("linear", 0.5, 1 / 2),
        ("cosine", 0.5, 1 / 2),
        ("sqrt", 1 - np.sqrt(0.5), 1 / 3),
    ],
)
def test_a_decay_has_the_value_and_area_of_its_formula(shape, value, area):
    decay = Schedule((Segment(1.0, 1.0, 0.0, shape),))
    assert decay(0.5) == pytest.approx(value, rel=1e-14)
    assert np.trapezoid(decay(np.linspace(0, 1, 100_001)), dx=1e-5) == pytest.approx(area, rel=1e-6)


def test_cosine_follows_its_formula_at_every_token():
    tokens = np.linspace(100, 1000, 37)
    expected = 3e-4 * (0.1 + 0.9 * (1 + np.cos(np.pi * (tokens - 100) / 900)) / 2)
    np.testing.assert_allclose(cosine(3e-4, 1000, warmup=0.1, final=0.1)(tokens), expected, rtol=1e-13)


def test_the_area_of_wsd_is_that_of_two_triangles_and_a_rectangle():
    schedule = wsd(3e-4, 1e9, warmup=0.1, decay=0.3)
    tokens = np.linspace(0, 1e9, 10_001)
    assert np.trapezoid(schedule(tokens), tokens) == pytest.approx(3e-4 * 1e9 * (0.05 + 0.6 + 0.15), rel=1e-9)


def test_linear_is_wsd_without_a_plateau():
    tokens = np.linspace(0, 1000, 101)
    both = linear(1.0, 1000, warmup=0.1, final=0.2), wsd(1.0, 1000, warmup=0.1, decay=0.9, final=0.2)
    np.testing.assert_allclose(both[0](tokens), both[1](tokens), rtol=1e-14)


def test_a_batch_ramp_takes_the_later_value_at_its_boundary():
    ramp = Schedule((Segment(0.1, 1.0, 1.0, "constant"), Segment(0.2, 2.0, 2.0, "constant"), Segment(0.7, 4.0, 4.0)))
    # 0.1 + 0.2 is 0.30000000000000004: a step that arrives there by another sum has arrived.
    assert ramp([0.0, 0.1, 0.3, 1.0]).tolist() == [1.0, 2.0, 4.0, 4.0]


def test_a_schedule_keeps_the_shape_of_what_it_is_asked():
    schedule = constant(5.0, 10)
    assert schedule(3).shape == ()
    assert schedule(np.zeros((2, 3))).shape == (2, 3)
    assert schedule(np.array([])).shape == (0,)


def test_plain_segments_survive_json_to_the_last_digit():
    schedule = wsd(0.1 + 0.2, 1e11 / 3, shape="sqrt", final=1 / 7)
    assert Schedule.from_list(json.loads(json.dumps(schedule.to_list()))) == schedule


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0, 0.0, "step"), "shape is 'step'; it must be one of constant, linear, cosine, sqrt"),
        ((0.0, 1.0, 0.0), "has 0.0 tokens; give a finite number above 0"),
        ((float("nan"), 1.0, 0.0), "has nan tokens"),
        ((float("inf"), 1.0, 0.0), "has inf tokens"),
        ((1.0, -1.0, 0.0), "start is -1.0; it must be finite and at least 0"),
        ((1.0, 1.0, float("inf")), "end is inf; it must be finite"),
        ((1.0, 1.0, 0.5, "constant"), "goes from 1.0 to 0.5; make both equal, or choose another shape"),
    ],
)
def test_a_segment_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        Segment(*arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wsd(1.0, 100, warmup=0.5, decay=0.6), r"warmup 0.5 and decay 0.6 add up to 1.1; .* at most 1"),
        (lambda: wsd(1.0, 100, warmup=-0.1), "warmup is -0.1; it is a share and must lie between 0 and 1"),
        (lambda: wsd(1.0, 100, final=1.5), "final is 1.5; it is a share"),
        (lambda: wsd(0.0, 100), "peak is 0.0; it must be finite and above 0"),
        (lambda: cosine(1.0, 100, warmup=1.5), "warmup is 1.5; it is a share"),
        (lambda: linear(1.0, -5), "tokens is -5; it must be finite and above 0"),
        (lambda: constant(float("nan"), 5), "peak is nan; it must be finite"),
        (lambda: Schedule(()), "no segments; give at least one"),
        (lambda: constant(1.0, 100)([-1, 5]), "covers 0 to 100 tokens; asked at -1 to 5"),
        (lambda: constant(1.0, 100)(101), "covers 0 to 100 tokens; asked at 101"),
        (lambda: constant(1.0, 100)(float("nan")), "asked at nan"),
        (lambda: Schedule.from_list([{"tokens": 1, "start": 1, "stop": 1}]), "segment 1 is .*; it must have numbers"),
        (lambda: Schedule.from_list([{"tokens": "1e9", "start": 1, "end": 1}]), "segment 1 is .*; it must have"),
    ],
)
def test_schedules_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
