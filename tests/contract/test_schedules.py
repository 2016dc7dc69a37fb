"""What every schedule owes: it is data over exactly the tokens asked for, and reaches exactly the peak asked for."""

import json

import numpy as np
import pytest

from mixopt._discover import available, load
from mixopt.schedules.schedule import Schedule

EVERY = pytest.mark.parametrize("name", available("schedules"))


def made(name, *arguments, **options):
    return getattr(load("schedules", name), name)(*arguments, **options)


@EVERY
def test_it_covers_the_tokens_and_reaches_the_peak(name):
    schedule = made(name, 0.3, 1e9 / 3, warmup=0.1)
    values = schedule(np.linspace(0, schedule.tokens, 1001))
    assert schedule.tokens == pytest.approx(1e9 / 3, rel=1e-12)
    assert schedule.peak == 0.3
    assert values.max() == pytest.approx(0.3, rel=1e-2)
    assert values.min() >= 0


@EVERY
def test_it_has_no_jump(name):
    segments = made(name, 0.3, 1e6, warmup=0.1).segments
    assert [part.end for part in segments[:-1]] == [part.start for part in segments[1:]]


@EVERY
def test_warmup_rises_in_a_straight_line_from_zero(name):
    np.testing.assert_allclose(made(name, 2.0, 1000, warmup=0.1)([0, 25, 50, 100]), [0, 0.5, 1, 2], rtol=1e-12)


@EVERY
def test_without_warmup_it_starts_at_the_peak(name):
    assert made(name, 2.0, 1000, warmup=0.0)(0) == 2.0


@EVERY
def test_warmup_may_be_all_there_is(name):
    options = {"decay": 0.0} if name == "wsd" else {}
    assert made(name, 2.0, 1000, warmup=1.0, **options).segments == (
        made("constant", 2.0, 1000, warmup=1.0).segments[0],
    )


@EVERY
def test_scaling_the_tokens_stretches_it(name):
    share = np.linspace(0, 1, 101)
    np.testing.assert_allclose(made(name, 2.0, 1e3)(share * 1e3), made(name, 2.0, 1e12)(share * 1e12), atol=1e-12)


@EVERY
def test_it_survives_json(name):
    schedule = made(name, 1 / 3, 1e12 / 7)
    assert Schedule.from_list(json.loads(json.dumps(schedule.to_list()))) == schedule


@EVERY
@pytest.mark.parametrize("warmup", [-0.1, 1.1, float("nan")])
def test_it_refuses_a_warmup_that_is_no_share(name, warmup):
    with pytest.raises(ValueError, match=r"warmup is .*; it is a share and must lie between 0 and 1"):
        made(name, 1.0, 100, warmup=warmup)


@EVERY
@pytest.mark.parametrize("tokens", [0, -1, float("inf")])
def test_it_refuses_to_last_no_time_or_for_ever(name, tokens):
    with pytest.raises(ValueError, match=r"tokens is .*; it must be finite and above 0"):
        made(name, 1.0, tokens)
