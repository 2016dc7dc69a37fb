"""Laws of the learning rate's history against their sums step by step, and what they must do by their meaning."""

import numpy as np
import pytest

from mixopt.laws.annealing_gain import AnnealingGain, momentum_law
from mixopt.laws.cooldown_noise import CooldownNoise
from mixopt.laws.lr_sum import LearningRateSum
from mixopt.laws.power_annealing_gain import LUO, PowerAnnealingGain, from_paper, multi_power_law
from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.history import cut, history, joined
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd

PEAK, STEPS = 3e-4, 12_000
DROP = Schedule(
    (Segment(1000, 0.0, PEAK), Segment(5000, PEAK, PEAK, "constant"), Segment(6000, 9e-5, 9e-5, "constant"))
)
SCHEDULES = {
    "constant": constant(PEAK, STEPS, warmup=0.1),
    "cosine": cosine(PEAK, STEPS, warmup=0.1, final=0.1),
    "wsd": wsd(PEAK, STEPS, warmup=0.1, decay=0.2, shape="sqrt"),
    "linear": wsd(PEAK, STEPS, warmup=0.1, decay=0.3),
    "drop": DROP,
}
AT = np.array([1500, 5000, 5999, 6000, 6001, 6010, 7000, 10_000, 11_990, 12_000])
every = pytest.mark.parametrize("name", SCHEDULES)


def lr_of(name: str) -> np.ndarray:
    return SCHEDULES[name](np.arange(STEPS + 1))


def rows_of(name: str) -> dict[str, np.ndarray]:
    return history(SCHEDULES[name], AT.astype(float), batch_tokens=1.0)


@every
def test_multi_power_law_is_its_sum_over_steps(name):
    paper, lr = LUO["100M"], lr_of(name)
    come, expected = np.cumsum(lr), []
    for t in AT:
        k = np.arange(1, t + 1)
        # A rate of 0, the last of a decay to 0, has no distance and an infinite power; the limit of its gain is 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.nan_to_num(lr[k] ** -paper["gamma"] * (come[t] - come[k - 1]), posinf=0.0)
        gains = (lr[k - 1] - lr[k]) * (1 - (1 + paper["C"] * reached) ** -paper["beta"])
        expected.append(paper["L0"] + paper["A"] * come[t] ** -paper["alpha"] - paper["B"] * gains.sum())
    held = multi_power_law(lr_unit=PEAK).fix(**from_paper(paper, lr_unit=PEAK))
    np.testing.assert_allclose(held(np.empty(0), rows_of(name)), expected, atol=1e-4, rtol=0)


@every
def test_annealing_gain_is_its_sum_over_steps(name):
    """The paper's double sum, C S2, as a recursion: S2 grows by the momentum, which decays by lambda a step."""
    lr, memory, gain = lr_of(name), 500.0, 0.1
    momentum, s2, expected = 0.0, 0.0, {}
    for t in range(1, STEPS + 1):
        momentum = (1 - 1 / memory) * momentum + lr[t - 1] - lr[t]
        s2 += momentum
        expected[t] = -gain / PEAK / memory * s2
    ours = AnnealingGain(PEAK)(np.array([gain, memory]), rows_of(name))
    np.testing.assert_allclose(ours, [expected[t] for t in AT], atol=1e-4, rtol=0)


@every
@pytest.mark.parametrize("power", [1.0, 0.7])
def test_lr_sum_is_the_sum(name, power):
    come = PEAK * np.cumsum((lr_of(name) / PEAK) ** power)
    ours = LearningRateSum(power, PEAK)(np.empty(0), rows_of(name))
    np.testing.assert_allclose(ours, come[AT], rtol=1e-3)


@pytest.mark.parametrize("name", ["constant", "cosine", "linear"])
def test_bound_is_its_double_sum(name):
    """Tails of the learning rate and of its square, each step by itself; the last row only."""
    lr = lr_of(name)[1:-1]
    s, q = np.cumsum(lr[::-1])[::-1], np.cumsum(lr[::-1] ** 2)[::-1]
    expected = (q[0] / s[0] + (lr[:-1] / s[1:] * q[:-1] / s[:-1]).sum()) / 2
    found = CooldownNoise(PEAK).bound({key: values[-1:] for key, values in rows_of(name).items()})
    assert PEAK * found[0] == pytest.approx(expected, rel=0.02)


def test_a_row_knows_nothing_of_what_follows():
    """Two schedules that part at step 6000 give the same columns before."""
    one, other = (history(SCHEDULES[name], np.array([4000.0]), batch_tokens=1.0) for name in ("linear", "constant"))
    law = multi_power_law(lr_unit=PEAK).fix(**from_paper(LUO["25M"], lr_unit=PEAK))
    assert law(np.empty(0), one) == pytest.approx(law(np.empty(0), other), abs=1e-12)


def test_constant_rates_gain_nothing_but_for_the_warmup():
    flat = history(constant(PEAK, STEPS, warmup=0.0), AT.astype(float), batch_tokens=1.0)
    for law, theta in ((AnnealingGain(PEAK), [0.1, 500.0]), (PowerAnnealingGain(PEAK), [0.1, 1.0, 0.6, 0.6])):
        assert law(np.array(theta), flat) == pytest.approx(np.zeros(len(AT)), abs=1e-15)


def test_histories_of_several_runs_are_joined_by_repeating_the_last_knot():
    both = joined([rows_of("constant"), rows_of("cosine")])
    law = momentum_law(lr_unit=PEAK)
    theta = np.array([2.5, 1.0, 0.5, 0.1, 500.0])
    apart = np.concatenate([law(theta, rows_of("constant")), law(theta, rows_of("cosine"))])
    np.testing.assert_allclose(law(theta, both), apart, rtol=1e-14)


def test_history_counts_steps_along_a_batch_ramp():
    """1000 tokens at 10 and 1000 at 20 a step: 150 steps, and the learning rate by tokens."""
    batch = Schedule((Segment(1000.0, 10.0, 10.0, "constant"), Segment(1000.0, 20.0, 20.0, "constant")))
    rows = history(Schedule((Segment(2000.0, 1.0, 0.0),)), np.array([1500.0, 2000.0]), batch_tokens=batch)
    assert rows["steps"].tolist() == [125.0, 150.0]
    areas = (np.diff(rows["step_knots"]) * (rows["lr_knots"][:, 1:] + rows["lr_knots"][:, :-1]) / 2).sum(-1)
    assert areas == pytest.approx([75 + 25 * 0.375, 75 + 50 * 0.25])


def test_history_names_what_it_cannot_use():
    ramp = Schedule((Segment(1000.0, 10.0, 20.0),))
    with pytest.raises(ValueError, match="constant stretches"):
        history(constant(1.0, 1000.0, warmup=0.0), np.array([500.0]), batch_tokens=ramp)
    with pytest.raises(ValueError, match="step 50 of the log follows step 100"):
        cut(np.array([0.0, 100.0, 50.0]), np.ones(3), np.array([20.0]))
    with pytest.raises(ValueError, match="known from step 0 to 100; asked at 200"):
        cut(np.array([0.0, 100.0]), np.ones(2), np.array([200.0]))
