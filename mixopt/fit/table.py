"""A fit as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixopt.laws.law import Coefficient

if TYPE_CHECKING:
    from mixopt.fit.fit import Fit


def table(fitted: Fit, level: float) -> str:
    """Coefficients, their intervals and priors, the law in numbers, and what to be careful of."""
    heads = ("coefficient", "value", f"{level:.0%} interval", "prior", "its part", "box")
    rows = [heads, *_rows(fitted, level)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [
        "",
        f"{fitted.law.output} = {fitted.law.describe(fitted.theta)}",
        f"{fitted.n} rows, noise {fitted.noise:.2%} of {fitted.law.output}, objective {fitted.objective:.6g}; "
        f"{fitted.agreement:.0%} of the starts agree",
        *(f"! {words}" for words in fitted.cautions()),
        *(f"! {words}. Add runs that tell more, or a prior." for words in fitted.weak_directions),
    ]
    return "\n".join(lines)


def _rows(fitted: Fit, level: float) -> list[tuple[str, ...]]:
    places = np.where(fitted.at_bound(), "at its end", "inside")
    ends = [""] * len(fitted.theta)
    if len(fitted.replicates):
        low, high = fitted.coefficient_intervals(level)
        ends = [f"{a:.4g} to {b:.4g}" for a, b in zip(low, high, strict=True)]
    return [
        (c.name, f"{fitted.theta[i]:.4g}", ends[i], _prior(c), _part(fitted, i), places[i])
        for i, c in enumerate(fitted.law.coefficients)
    ]


def _part(fitted: Fit, i: int) -> str:
    """How far the value rests on its prior."""
    if fitted.law.coefficients[i].prior is None or not len(fitted.prior_shares):
        return ""
    return f"{fitted.prior_shares[i]:.0%}"


def _prior(coefficient: Coefficient) -> str:
    if coefficient.prior is None:
        return "none"
    center, sd = coefficient.prior
    return f"{np.exp(center):.4g} x/ {np.exp(sd):.3g}" if coefficient.log else f"{center:.4g} +- {sd:.3g}"
