"""Quantities: the SI prefixes and a day's seconds are the reference; everything else must be refused."""

import math

import pytest

from mixopt.units import parse_quantity, spell


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1e18, "flops", 1e18),
        ("1e18", "flops", 1e18),
        ("1e18 flop", "flops", 1e18),
        ("3 PFLOP", "flops", 3e15),
        ("3PFLOP", "flops", 3e15),
        ("1.5 GFLOPs", "flops", 1.5e9),
        ("2 E", "flops", 2e18),
        ("1 ZFLOP", "flops", 1e21),
        ("1 PFLOP/s-day", "flops", 1e15 * 24 * 60 * 60),
        ("2e9 tokens", "tokens", 2e9),
        ("1 token", "tokens", 1),
        ("12B", "tokens", 12e9),
        ("12G", "tokens", 12e9),
        ("15 T tokens", "tokens", 15e12),
        ("300k", "tokens", 3e5),
        (" 4M tokens ", "tokens", 4e6),
        ("100_000", "tokens", 1e5),
        ("1.3B parameters", "parameters", 1.3e9),
        ("70b", "parameters", None),
        ("3e-3", "number", 3e-3),
        (".5", "number", 0.5),
        (1, "number", 1.0),
    ],
)
def test_reads_numbers_prefixes_and_units(value: object, unit: str, expected: float | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="is not accepted"):
            parse_quantity(value, unit)
    else:
        assert parse_quantity(value, unit) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("unit", ["flops", "tokens", "parameters"])
def test_a_prefix_scales_every_unit_alike(unit: str) -> None:
    steps = [parse_quantity(f"1{prefix}", unit) for prefix in ("", "k", "M", "G", "T", "P", "E", "Z")]
    assert [math.log10(step) for step in steps] == pytest.approx(range(0, 24, 3))
    assert parse_quantity("1B", unit) == parse_quantity("1G", unit)


@pytest.mark.parametrize(
    ("value", "unit", "message"),
    [
        ("3 apples", "flops", r"'3 apples' is not accepted; give a positive number of FLOPs, such as 1e18, 3 PFLOP"),
        ("2e9 tokens", "flops", "'2e9 tokens' is not accepted; give a positive number of FLOPs"),
        ("3 PFLOP", "tokens", "'3 PFLOP' is not accepted; give a number of tokens from 1 up, such as 2e9, 300k, 12B"),
        ("5 tokens", "parameters", "'5 tokens' is not accepted; give a number of parameters"),
        ("3 PFLOP/s", "flops", "'3 PFLOP/s' is not accepted"),
        ("3m", "tokens", "'3m' is not accepted"),
        ("3k", "number", "'3k' is not accepted; give a positive number, such as 0.003"),
        ("1,000", "tokens", "'1,000' is not accepted"),
        ("1__0", "tokens", "'1__0' is not accepted"),
        ("", "tokens", "'' is not accepted"),
        ("k", "tokens", "'k' is not accepted"),
        ("1e999", "flops", "'1e999' is not accepted"),
        ("٣", "tokens", "'٣' is not accepted"),
        ("2024-01-01", "tokens", "'2024-01-01' is not accepted"),
        ("nan", "flops", "'nan' is not accepted"),
        (math.nan, "flops", "nan is not accepted"),
        (math.inf, "tokens", "inf is not accepted"),
        (10**400, "flops", "a number beyond 1e308 is not accepted"),
        (-5, "tokens", "-5 is not accepted"),
        ("-5 tokens", "tokens", "'-5 tokens' is not accepted"),
        (0, "flops", "0 is not accepted; give a positive"),
        (0.5, "tokens", "0.5 is not accepted; give a number of tokens from 1 up"),
        (True, "tokens", "true is not accepted"),
        (None, "tokens", "empty is not accepted"),
        ([1], "tokens", "a list is not accepted"),
        ({}, "tokens", "a mapping is not accepted"),
    ],
)
def test_refuses_with_what_is_accepted(value: object, unit: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_quantity(value, unit)


def test_long_text_is_cut_in_messages() -> None:
    assert len(spell("x" * 1000)) < 70
    assert spell(1 + 2j) == "a complex"
