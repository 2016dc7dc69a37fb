"""Every law found, and every law ready to fit, keeps the contract; and the contract catches what breaks it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from mixopt._discover import available, load
from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.ready import candidates
from mixopt.testing import (
    CHECKS,
    Check,
    check_broadcasting,
    check_coefficient_derivatives,
    check_column_derivatives,
    check_declaration,
    check_finite,
    check_json,
    check_law,
    check_monotone,
    check_recovery,
    simulated_columns,
)

CORPORA = ("web", "code", "math")
READY = candidates(
    CORPORA, tokens_unit=1e8, size_unit=1e7, batch_unit=1e5, rates={"web": 1.0, "code": 4.0, "math": 0.3}
)
LAWS = {f"{name}-{i}": law for name in available("laws") for i, law in enumerate(load("laws", name).examples())}
LAWS |= {f"ready-{name}": law for name, law in READY.items()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
def test_law(law: Law, check: Check):
    rng = np.random.default_rng(0)
    check(law, simulated_columns(law.inputs, 12, len(CORPORA), rng), rng)


BOX = Coefficient("B", 0.1, 10.0, log=True)


@dataclass(frozen=True)
class Formula(Law):
    """A law of tokens with one coefficient, whose body is given: for breaking the contract in one place."""

    body: Callable[[Array, Columns], Array]
    box: Coefficient = BOX

    inputs = ("tokens",)
    output = "loss"
    decreasing = ("tokens",)

    def __post_init__(self) -> None:
        self._declare(coefficients=(self.box,))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return self.body(theta, columns)


@dataclass(frozen=True)
class WrongJacobian(PowerLaw):
    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        value, slopes = Law.jacobian(self, theta, columns)
        return value, slopes * (1 + 1e-6)


def good(theta: Array, columns: Columns) -> Array:
    return theta[..., :1] / np.log(columns["tokens"])


BROKEN: dict[str, tuple[Law, Check, str]] = {
    "absolute value of a coefficient": (
        Formula(lambda theta, columns: np.abs(theta[..., :1]) / np.log(columns["tokens"])),
        check_coefficient_derivatives,
        "by B differs from central differences",
    ),
    "absolute value of a column": (
        Formula(lambda theta, columns: theta[..., :1] / np.log(np.abs(columns["tokens"]))),
        check_column_derivatives,
        "by tokens differs from central differences",
    ),
    "one axis of theta only": (
        Formula(lambda theta, columns: theta[0] / np.log(columns["tokens"])),
        check_broadcasting,
        r"theta\[\.\.\., i : i \+ 1\]",
    ),
    "an average over the starts": (
        Formula(lambda theta, columns: good(theta, columns) + 0 * theta[..., :1].mean() + theta[..., :1].max() * 1e-9),
        check_broadcasting,
        "mixes up the leading axes",
    ),
    "infinite at an end of the box": (
        Formula(lambda theta, columns: good(theta, columns) / np.log(theta[..., :1] / 0.1)),
        check_finite,
        "divide by zero",
    ),
    "not a number at an end of the box": (
        Formula(lambda theta, columns: np.where(np.real(theta[..., :1]) < 0.11, np.nan, good(theta, columns))),
        check_finite,
        "is not finite",
    ),
    "rises where it says it falls": (
        Formula(lambda theta, columns: theta[..., :1] * np.log(columns["tokens"])),
        check_monotone,
        "is not decreasing in tokens",
    ),
    "a box that cannot be searched": (
        Formula(good, Coefficient("B", 1e-6, 1e6, log=True)),
        check_declaration,
        r"spans 27\.6",
    ),
    "a prior outside its box": (
        Formula(good, Coefficient("B", 0.1, 10.0, log=True, prior=(10.0, 1.0))),
        check_declaration,
        "lies outside its box",
    ),
    "a Jacobian of its own that is wrong": (
        WrongJacobian("tokens", 1e8, "B", "beta"),
        check_coefficient_derivatives,
        "differs from the complex step of the whole",
    ),
    "columns that no fit can tell apart from noise": (
        Formula(lambda theta, columns: np.cos(np.real(theta[..., :1]) * 1e3 * columns["tokens"] / 1e7) + 2),
        check_recovery,
        "fitted to its own runs is off by",
    ),
}


@pytest.mark.parametrize(("law", "check", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_the_kit_catches_a_broken_law(law: Law, check: Check, words: str):
    rng = np.random.default_rng(0)
    with pytest.raises(AssertionError, match=words):
        check(law, simulated_columns(law.inputs, 12, 3, rng), rng)


@pytest.mark.parametrize("check", [check for check in CHECKS if check is not check_json], ids=lambda c: c.__name__)
def test_the_kit_passes_the_same_law_unbroken(check: Check):
    law, rng = Formula(good), np.random.default_rng(0)
    check(law, simulated_columns(law.inputs, 12, 3, rng), rng)


def test_a_direction_asked_for_is_checked():
    law = PowerLaw("tokens", 1e8, "B", "beta")
    check_law(law, decreasing=["tokens"])
    with pytest.raises(AssertionError, match="PowerLaw is not increasing in tokens"):
        check_law(law, increasing=["tokens"])


def test_a_column_of_ones_own_must_be_given():
    law = PowerLaw("humidity", 1.0, "A", "alpha")
    with pytest.raises(ValueError, match=r"No values can be drawn for humidity, only for .*Give `columns` instead"):
        check_law(law)
