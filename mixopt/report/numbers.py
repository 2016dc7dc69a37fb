"""Numbers as people read them: three significant digits, and prefixes for counts."""

import math
from collections.abc import Sequence

_PREFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(value: float | None, figures: int = 3) -> str:
    """Significant digits, three of them; powers of ten only where zeros would have to be counted.

    >>> plain(2.1097), plain(0.010588), plain(9.77e-11), plain(1234.5), plain(0), plain(None)
    ('2.11', '0.0106', '9.77×10⁻¹¹', '1230', '0', 'not known')
    """
    if value is None or math.isnan(value):
        return "not known"
    if value == 0 or math.isinf(value):
        return {0.0: "0"}.get(value, "∞" if value > 0 else "-∞")
    digits, exponent = f"{value:.{figures - 1}e}".split("e")
    if -4 <= int(exponent) < 4:
        rounded = float(f"{digits}e{exponent}")
        return f"{rounded:.{max(figures - 1 - int(exponent), 0)}f}"
    return f"{digits}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def count(value: float | None) -> str:
    """A number of tokens, parameters or runs, with k, M, B or T.

    >>> count(2_537_472), count(197_032), count(999_900), count(64), count(70e9)
    ('2.54M', '197k', '1M', '64', '70B')
    """
    if value is None or not math.isfinite(value):
        return plain(value)
    rounded = float(f"{value:.2e}")
    for size, prefix in _PREFIXES:
        if abs(rounded) >= size:
            return f"{rounded / size:.3g}{prefix}"
    return f"{rounded:.3g}" if rounded == 0 or abs(rounded) >= 1 else plain(value)


def percent(share: float) -> str:
    """A share of one, in percent.

    >>> percent(0.58991), percent(0.0312), percent(4e-6), percent(0.0), percent(1.0)
    ('59.0 %', '3.1 %', '<0.1 %', '0', '100 %')
    """
    if share == 0 or share == 1:
        return "100 %" if share else "0"
    return "<0.1 %" if 0 < share < 5e-4 else f"{share:.1%}".replace("100.0", "100").replace("%", " %")


def interval(ends: Sequence[float] | None) -> str:
    """The two ends of an interval.

    >>> interval((2.0557, 2.248)), interval(None)
    ('2.06 to 2.25', 'not known')
    """
    return "not known" if ends is None else f"{plain(ends[0])} to {plain(ends[1])}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["web", "code", "math"]), listed(["web"])
    ('web, code and math', 'web')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
