"""What a token of each corpus is worth to each target."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.laws.combine import Chain, Fixed, Sum
from mixopt.laws.law import Law
from mixopt.laws.token_exchange import TokenExchange
from mixopt.report.figures.canvas import INK, Drawing, label, panels
from mixopt.report.numbers import listed, plain
from mixopt.report.outcome import Outcome

_NAME, _TITLE = "exchange", "What a token is worth"


@dataclass(frozen=True, eq=False)
class Worth:
    """Tokens of the corpus `unit` that a token of each corpus [m] is worth to a target, and ends of its interval."""

    unit: str
    rates: Array
    ends: tuple[Array, Array] | None

    def spell(self, i: int, corpus: str) -> str:
        """The rate of corpus `i` with its interval."""
        if self.ends is None or corpus == self.unit:
            return plain(self.rates[i], 2)
        low, high = (plain(end[i], 2) for end in self.ends)
        return f"{plain(self.rates[i], 2)} ({low} to {high})"


def draw(outcome: Outcome) -> Drawing:
    """A heat table: corpora down, targets across."""
    found = {target: worth(outcome, target) for target in outcome.targets}
    known = {target: value for target, value in found.items() if value is not None}
    if len(known) < len(found):
        law = outcome.selection.law
        return Drawing(_NAME, _TITLE, f"The chosen law, {law}, exchanges no tokens, so there are no rates to show.")
    figure, axes = panels(1, 1, 2.2 + 2.3 * len(known), 1.0 + 0.4 * len(outcome.corpora))
    _heat(axes[0, 0], outcome, known)
    return Drawing(
        _NAME,
        _TITLE,
        "How many tokens of the corpus in the column's head one token of the row's corpus is worth, in brackets the "
        f"{outcome.level} interval. Rates compare corpora taken alone; in a mixture the first tokens of a "
        "corpus teach more than later ones, where the law has diminishing returns.",
        "; ".join(_sentence(outcome, target, value) for target, value in known.items()),
        figure,
        _table(outcome, known),
    )


def worth(outcome: Outcome, target: str) -> Worth | None:
    """Rates in tokens of the target's own corpus, or of the most valuable one where it has none."""
    rates = exchange_rates(outcome.fits[target])
    if rates is None:
        return None
    own = outcome.study.targets[target].corpus
    unit = outcome.corpora.index(own) if own in outcome.corpora else int(rates[0].argmax())
    relative, level = rates / rates[:, unit : unit + 1], outcome.plan.level
    ends = np.quantile(relative[1:], [(1 - level) / 2, (1 + level) / 2], axis=0) if len(rates) > 1 else None
    return Worth(outcome.corpora[unit], relative[0], None if ends is None else (ends[0], ends[1]))


def exchange_rates(fitted: Fit) -> Array | None:
    """[1 + s, m], what a token of each corpus is worth, by the fit and by its replicates; None for another law."""
    law = _exchange(fitted.law)
    names = [] if law is None else law.names[: len(law.corpora)]
    if law is None or any(name not in fitted.law.names for name in names):
        return None
    thetas = np.vstack([fitted.theta, *fitted.replicates])
    return law.exchange_rates(thetas[:, [fitted.law.names.index(name) for name in names]])


def _exchange(law: Law) -> TokenExchange | None:
    """The exchange inside a law."""
    if isinstance(law, TokenExchange):
        return law
    parts = law.laws if isinstance(law, Sum | Chain) else (law.law,) if isinstance(law, Fixed) else ()
    return next((found for part in parts if (found := _exchange(part)) is not None), None)


def _heat(ax: Any, outcome: Outcome, known: dict[str, Worth]) -> None:
    tens = np.log10(np.stack([value.rates for value in known.values()], -1))
    ax.pcolormesh(tens, cmap="BrBG", vmin=-2, vmax=2, edgecolors="white", lw=1.5)
    for k, value in enumerate(known.values()):
        for i, corpus in enumerate(outcome.corpora):
            color = "white" if abs(tens[i, k]) > 1.1 else INK
            ax.text(k + 0.5, i + 0.5, value.spell(i, corpus), ha="center", va="center", size=8, color=color)
    heads = [f"{label(target, 22)}\n(in {label(value.unit, 22)})" for target, value in known.items()]
    ax.set_xticks(np.arange(len(known)) + 0.5, heads)
    ax.set_yticks(np.arange(len(outcome.corpora)) + 0.5, [label(name) for name in outcome.corpora])
    ax.invert_yaxis()
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)


def _sentence(outcome: Outcome, target: str, value: Worth) -> str:
    rates = [f"{value.spell(i, name)} for {name}" for i, name in enumerate(outcome.corpora) if name != value.unit]
    return f"To {target} a token is worth, in tokens of {value.unit}: {listed(rates) if rates else '1'}"


def _table(outcome: Outcome, known: dict[str, Worth]) -> list[list[str]]:
    head = ["corpus", *(f"{target}, in tokens of {value.unit}" for target, value in known.items())]
    rows = [[name, *(value.spell(i, name) for value in known.values())] for i, name in enumerate(outcome.corpora)]
    return [head, *rows]
