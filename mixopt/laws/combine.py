"""The whole grammar of laws: `a + b` adds terms, `a >> b` feeds one law's output to the next, `fix` holds coefficients.

Each combination has a structured Jacobian: every part is differentiated by its own coefficients only, and a chain
pushes the tangents of what lies upstream through what lies downstream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Self

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import NUDGE, Law, is_wide


@dataclass(frozen=True, init=False)
class Sum(Law):
    r"""Laws that add: :math:`y = \sum_k y_k`. Written `a + b`; sums inside sums are flattened.

    Raises
    ------
    ValueError
        The laws make different columns, or two share the name of a coefficient.

    Examples
    --------
    A floor of 1.8 nats and .3 nats more at 1B tokens, which fall to .1 at 9B:

    >>> from mixopt.laws.constant import Constant
    >>> from mixopt.laws.power_law import PowerLaw
    >>> law = Constant("E") + PowerLaw("tokens", 1e9, "B", "beta")
    >>> law.names
    ('E', 'B', 'beta')
    >>> law(np.array([1.8, 0.3, 0.5]), {"tokens": np.array([1e9, 9e9])}).round(3)
    array([2.1, 1.9])
    """

    laws: tuple[Law, ...]

    def __init__(self, *laws: Law) -> None:
        flat = tuple(part for law in laws for part in (law.laws if isinstance(law, Sum) else (law,)))
        outputs = sorted({law.output for law in flat})
        if len(outputs) != 1:
            raise ValueError(
                f"A sum needs laws that make one and the same column; these make {', '.join(outputs) or 'none'}. "
                "Feed one law's column to the next with >> instead."
            )
        self._declare(
            laws=flat,
            inputs=tuple(dict.fromkeys(name for law in flat for name in law.inputs)),
            output=outputs[0],
            coefficients=tuple(c for law in flat for c in law.coefficients),
        )
        _refuse_repeated(self)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        first, *rest = (law(part, columns) for law, part in zip(self.laws, _split(theta, self.laws), strict=True))
        for term in rest:
            first = first + term
        return first

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        pairs = [law.jacobian(part, columns) for law, part in zip(self.laws, _split(theta, self.laws), strict=True)]
        value = pairs[0][0]
        for term, _ in pairs[1:]:
            value = value + term
        return value, _side_by_side([block for _, block in pairs], value.shape)

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        if name not in self.inputs:
            return super().partial(theta, columns, name)
        pairs = zip(self.laws, _split(theta, self.laws), strict=True)
        first, *rest = (law.partial(part, columns, name) for law, part in pairs if name in law.inputs)
        for term in rest:
            first = first + term
        return first

    def describe(self, theta: Array) -> str:
        return " + ".join(law.describe(part) for law, part in zip(self.laws, _split(theta, self.laws), strict=True))

    def fix(self, **values: float) -> Law:
        return Sum(*_fix_each(self, values))

    @classmethod
    def _from_fields(cls, values: Mapping[str, Any]) -> Self:
        return cls(*values["laws"])


@dataclass(frozen=True, init=False)
class Chain(Law):
    """Laws in the order in which data flows: each one's output replaces that column for all that follow.

    Written `a >> b`; chains inside chains are flattened, so `(a >> b) >> c` and `a >> (b >> c)` are the same law.

    Raises
    ------
    ValueError
        There is no law, or two share the name of a coefficient.
    """

    laws: tuple[Law, ...]

    def __init__(self, *laws: Law) -> None:
        flat = tuple(part for law in laws for part in (law.laws if isinstance(law, Chain) else (law,)))
        if not flat:
            raise ValueError("A chain needs at least one law.")
        made: set[str] = set()
        needed: list[str] = []
        for law in flat:
            needed += [name for name in law.inputs if name not in made]
            made.add(law.output)
        self._declare(
            laws=flat,
            inputs=tuple(dict.fromkeys(needed)),
            output=flat[-1].output,
            coefficients=tuple(c for law in flat for c in law.coefficients),
        )
        _refuse_repeated(self)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        for law, part in zip(self.laws, _split(theta, self.laws), strict=True):
            columns = {**columns, law.output: law(part, columns)}
        return columns[self.output]

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        tangents: dict[str, Array] = {}
        for law, part in zip(self.laws, _split(theta, self.laws), strict=True):
            value, own = law.jacobian(part, columns)
            # Leading axes are made explicit here, so that a law that ignores theta lines up with one that does not.
            value = np.broadcast_to(value, np.broadcast_shapes(value.shape, (*theta.shape[:-1], *_rows(law, value))))
            through = _push(law, part, columns, tangents, value.shape)
            tangents = {**tangents, law.output: _side_by_side([through, own], value.shape)}
            columns = {**columns, law.output: value}
        return columns[self.output], tangents[self.output]

    def describe(self, theta: Array) -> str:
        return " >> ".join(law.describe(part) for law, part in zip(self.laws, _split(theta, self.laws), strict=True))

    def fix(self, **values: float) -> Law:
        return Chain(*_fix_each(self, values))

    @classmethod
    def _from_fields(cls, values: Mapping[str, Any]) -> Self:
        return cls(*values["laws"])


@dataclass(frozen=True)
class Fixed(Law):
    """A law with some coefficients held. Written `law.fix(R=15.39)`.

    Raises
    ------
    ValueError
        The law has no coefficient of that name, or the value is not finite.

    Examples
    --------
    >>> from mixopt.laws.constant import Constant
    >>> law = Constant("E").fix(E=1.8)
    >>> law.names, law(np.empty(0), {"loss": np.zeros(1)})
    ((), array([1.8]))
    """

    law: Law
    values: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        held = {name: float(value) for name, value in self.values}
        if unknown := sorted(set(held) - set(self.law.names)):
            raise ValueError(
                f"{type(self.law).__name__} has no coefficient {', '.join(unknown)}; "
                f"it has {', '.join(self.law.names) or 'none left'}."
            )
        if wrong := [name for name, value in held.items() if not isfinite(value)]:
            raise ValueError(f"Coefficient {wrong[0]} is held at {held[wrong[0]]}; give a finite number.")
        self._declare(
            values=tuple((name, held[name]) for name in self.law.names if name in held),
            inputs=self.law.inputs,
            output=self.law.output,
            coefficients=tuple(c for c in self.law.coefficients if c.name not in held),
        )

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return self.law(self._fill(theta), columns)

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        if type(self.law).jacobian is Law.jacobian:  # then what is held need not be differentiated
            return super().jacobian(theta, columns)
        value, slopes = self.law.jacobian(self._fill(theta), columns)
        return value, slopes[..., self._free()]

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        return self.law.partial(self._fill(theta), columns, name)

    def describe(self, theta: Array) -> str:
        return self.law.describe(self._fill(theta))

    def fix(self, **values: float) -> Law:
        known = dict(self.values)
        if again := sorted(set(values) & set(known)):
            raise ValueError(
                f"Coefficient {again[0]} is already held at {known[again[0]]:g}; fix the law it came from."
            )
        return self.law.fix(**{**known, **values})

    def to_dict(self) -> dict[str, Any]:
        # The field `law` would take the place of the class name.
        return {"law": "Fixed", "of": self.law.to_dict(), "values": [list(pair) for pair in self.values]}

    @classmethod
    def _from_fields(cls, values: Mapping[str, Any]) -> Self:
        return cls(values["of"], values["values"])

    def _free(self) -> Array:
        held = dict(self.values)
        return np.array([name not in held for name in self.law.names], bool)

    def _fill(self, theta: Array) -> Array:
        held = dict(self.values)
        full = np.empty((*theta.shape[:-1], len(self.law.names)), theta.dtype)
        full[...] = [held.get(name, np.nan) for name in self.law.names]
        full[..., self._free()] = theta
        return full


def _push(law: Law, theta: Array, columns: Columns, tangents: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    """Derivative of a law's output by the upstream coefficients, `[*shape, q]`, given those of its input columns.

    Row columns cost one complex call each (`partial`), and so does a per-corpus column where the law differentiates by
    it by hand. By the complex step that would cost m calls, so the tangents themselves are the nudges then: one call
    with q extra leading rows, whatever the width.
    """
    read = {name: tangent for name, tangent in tangents.items() if name in law.inputs}
    q = max((tangent.shape[-1] for tangent in tangents.values()), default=0)
    if q == 0 or not read:
        return np.zeros((*shape, q))
    if isinstance(law, Sum):
        parts = zip(law.laws, _split(theta, law.laws), strict=True)
        return sum((_push(one, part, columns, tangents, shape) for one, part in parts), start=np.zeros((*shape, q)))
    wide = any(is_wide(name) for name in read)
    if not is_wide(law.output) and (_by_hand(law) if wide else len(read) < q):
        through = (_through(law.partial(theta, columns, name), _pad(read[name], q), name) for name in read)
        return sum(through, start=np.zeros((*shape, q)))
    nudged = {n: columns[n] + 1j * NUDGE * np.moveaxis(_pad(tangent, q), -1, 0) for n, tangent in read.items()}
    out = np.imag(law(theta, {**columns, **nudged})) / NUDGE
    return np.broadcast_to(np.moveaxis(out, 0, -1), (*shape, q))


def _through(partial: Array, tangent: Array, name: str) -> Array:
    """The chain rule at one column: `[*s, n]` times `[*s, n, q]`, summed over corpora where the column is wide."""
    return np.einsum("...m,...mq->...q", partial, tangent) if is_wide(name) else partial[..., None] * tangent


def _by_hand(law: Law) -> bool:
    """Whether a law has derivatives by its columns of its own, faster than the complex step."""
    inner = law.law if isinstance(law, Fixed) else law
    return type(inner).partial is not Law.partial


def _pad(tangent: Array, q: int) -> Array:
    """Zeros for the coefficients of laws further down, which this column does not depend on."""
    missing = q - tangent.shape[-1]
    return np.concatenate([tangent, np.zeros((*tangent.shape[:-1], missing))], axis=-1) if missing else tangent


def _rows(law: Law, value: Array) -> tuple[int, ...]:
    return value.shape[-2:] if is_wide(law.output) else value.shape[-1:]


def _side_by_side(blocks: Sequence[Array], shape: tuple[int, ...]) -> Array:
    return np.concatenate([np.broadcast_to(block, (*shape, block.shape[-1])) for block in blocks], axis=-1)


def _split(theta: Array, laws: Sequence[Law]) -> list[Array]:
    ends = np.cumsum([len(law.coefficients) for law in laws])
    return [theta[..., end - len(law.coefficients) : end] for law, end in zip(laws, ends, strict=True)]


def _fix_each(law: Sum | Chain, values: Mapping[str, float]) -> list[Law]:
    """Holds coefficients part by part, so that a chain stays flat and each part sees the columns it saw before."""
    if unknown := sorted(set(values) - set(law.names)):
        raise ValueError(
            f"{type(law).__name__} has no coefficient {', '.join(unknown)}; it has {', '.join(law.names)}."
        )
    return [part.fix(**{name: values[name] for name in part.names if name in values}) for part in law.laws]


def _refuse_repeated(law: Law) -> None:
    if repeated := sorted(name for name, count in Counter(law.names).items() if count > 1):
        raise ValueError(f"Two laws share the coefficient {', '.join(repeated)}; rename it in one of them.")


def refuse_unread(law: Law) -> None:
    """Raises where a chain makes a column that none of its later laws reads, which then changes nothing.

    A chain under construction may be in that state (`a >> b` before `>> c`), so this is asked of whole laws: by `fit`.
    """
    if isinstance(law, Fixed):
        refuse_unread(law.law)
    if not isinstance(law, Sum | Chain):
        return
    for place, part in enumerate(law.laws):
        refuse_unread(part)
        read = dict.fromkeys(name for later in law.laws[place + 1 :] for name in later.inputs)
        if isinstance(law, Chain) and part is not law.laws[-1] and part.output not in read:
            raise ValueError(
                f"{type(part).__name__} makes {part.output}, which no law after it reads; "
                f"they read {', '.join(read) or 'nothing'}. Put it before one that reads it."
            )
