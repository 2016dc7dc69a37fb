"""What a law is: named columns in, one named column out, and derivatives by the complex step.

A law is a frozen dataclass whose body is one plain numpy expression. Its fields are what it was built with (units,
names, corpora), so laws compare equal, hash, and travel through JSON; its coefficients come from outside as `theta`.

The body must be complex-analytic, because derivatives are the imaginary part of one call with a nudge of 1e-30:
compare `np.real(x)`, use `np.where`, write powers as `exp(-alpha * log(x / unit))`; no `abs`, `max`, `sort` and no
`logaddexp`. `relu`, `softplus` and `logsumexp` below are safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from math import isfinite
from typing import Any, ClassVar, Self, cast

import numpy as np

from mixopt._discover import available, load
from mixopt.columns import COLUMNS, Array, Columns

# Nothing is subtracted in a complex step, so nothing cancels and the nudge needs no tuning.
NUDGE = 1e-30


@dataclass(frozen=True)
class Coefficient:
    """One number of a law: its name, the box in which it is searched, and what is believed of it beforehand.

    `log=True` searches the logarithm, for numbers that are positive and may be wrong by a factor.
    `prior` is `(center, sd)` of a Gaussian in search coordinates (of the logarithm where `log`); None is no prior.
    """

    name: str
    lower: float
    upper: float
    log: bool = False
    prior: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.lower) and isfinite(self.upper) and self.lower < self.upper):
            raise ValueError(
                f"Coefficient {self.name} has the box [{self.lower:g}, {self.upper:g}]; "
                "both ends must be finite, the lower one below the upper."
            )
        if self.log and self.lower <= 0:
            raise ValueError(
                f"Coefficient {self.name} is searched in log but its box starts at {self.lower:g}. "
                "Raise the lower end above 0, or set log=False."
            )
        if self.prior is not None and not self.prior[1] > 0:
            raise ValueError(f"Coefficient {self.name} has a prior with sd {self.prior[1]:g}; it must be positive.")


class Law(ABC):
    """A formula from named columns to one named column.

    Subclasses are frozen dataclasses. They give `inputs`, `output` and `coefficients` as class attributes where these
    are always the same, or by `_declare` in `__post_init__` where they depend on the fields.

    Attributes
    ----------
    inputs : the columns that the law reads
    output : the column that it makes; a law whose output is one of its inputs replaces that input (`a >> b`)
    coefficients : what is fitted, in the order of `theta`
    published : published values by coefficient name, at the law's default units; may be empty
    reference : where the formula comes from
    """

    inputs: tuple[str, ...]
    output: str
    coefficients: tuple[Coefficient, ...]
    published: ClassVar[Mapping[str, float]] = {}
    reference: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, theta: Array, columns: Columns) -> Array:
        """The output of each row.

        Parameters
        ----------
        theta : [*s, p], coefficients; leading axes are starts, replicates or nudges
        columns : each [n] or [n, m]; they may carry leading axes that broadcast against those of `theta`

        Returns
        -------
        [*s, n]; [*s, n, m] where the output is a per-corpus column. A law that reads no column may give [*s, 1].
        """

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        """Output and its derivative by each coefficient: `[*s, n]` and `[*s, n, p]`, from one complex call."""
        p = theta.shape[-1]
        if p == 0:
            value = self(theta, columns)
            return value, np.zeros((*value.shape, 0))
        nudges = 1j * NUDGE * np.eye(p).reshape(p, *(1,) * (theta.ndim - 1), p)
        out = self(theta + nudges, columns)
        return np.real(out[0]), np.moveaxis(np.imag(out), 0, -1) / NUDGE

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        """Derivative of each row's output by that row's `columns[name]`, from one complex call.

        `[*s, n]`; by a per-corpus column a last axis m is added. Zero where the law does not read the column.
        """
        column = np.asarray(columns[name])
        if not is_wide(name):
            return np.imag(self(theta, {**columns, name: column + 1j * NUDGE})) / NUDGE
        column = np.atleast_2d(column)
        m = column.shape[-1]
        lead = max(theta.ndim - 1, column.ndim - 2)
        nudges = 1j * NUDGE * np.eye(m).reshape(m, *(1,) * (lead + 1), m)
        return np.moveaxis(np.imag(self(theta, {**columns, name: column + nudges})), 0, -1) / NUDGE

    def describe(self, theta: Array) -> str:
        """The law with its numbers, as a person would write it; laws override this with the paper's form."""
        return ", ".join(f"{c.name}={value:.4g}" for c, value in zip(self.coefficients, theta, strict=True))

    def __add__(self, other: Law) -> Law:
        """`a + b`: the sum of two laws that make the same column."""
        from mixopt.laws.combine import Sum

        return Sum(self, other)

    def __rshift__(self, other: Law) -> Law:
        """`a >> b`: what `a` makes replaces the column of that name that `b` reads."""
        from mixopt.laws.combine import Chain

        return Chain(self, other)

    def fix(self, **values: float) -> Law:
        """The law with these coefficients held; with none left it is a fitted law.

        Names that are not identifiers are given as `law.fix(**{"t[web]": -1.2})`.
        """
        from mixopt.laws.combine import Fixed

        return Fixed(self, tuple(values.items())) if values else self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients, in the order of `theta`."""
        return tuple(c.name for c in self.coefficients)

    def to_dict(self) -> dict[str, Any]:
        """The law as plain data: its class name and its fields. `law_from_dict` reads it back."""
        written = {f.name: _to_plain(getattr(self, f.name)) for f in fields(cast(Any, self)) if f.init}
        return {"law": type(self).__name__, **written}

    @classmethod
    def _from_fields(cls, values: Mapping[str, Any]) -> Self:
        return cls(**values)

    def _declare(self, **attributes: Any) -> None:
        """Sets what follows from the fields (`inputs`, `output`, `coefficients`); for `__post_init__` only."""
        for name, value in attributes.items():
            object.__setattr__(self, name, value)


def law_from_dict(data: Mapping[str, Any]) -> Law:
    """The law that `to_dict` wrote, found by its class name among the laws installed.

    Raises
    ------
    ValueError
        No law of that name is installed.
    """
    name, known = data.get("law"), _classes()
    if name not in known:
        raise ValueError(
            f"There is no law named {name!r}; there are {', '.join(sorted(known))}. "
            "Install the package that adds it by an entry point in the group mixopt.laws."
        )
    values = {key: _from_plain(value) for key, value in data.items() if key != "law"}
    return known[name]._from_fields(values)  # pyright: ignore[reportPrivateUsage]


@cache
def _classes() -> dict[str, type[Law]]:
    from mixopt.laws import combine

    modules = (combine, *(load("laws", name) for name in available("laws")))
    found = (value for module in modules for value in vars(module).values() if isinstance(value, type))
    return {cls.__name__: cls for cls in found if issubclass(cls, Law) and cls is not Law}


def _to_plain(value: Any) -> Any:
    if isinstance(value, Law):
        return value.to_dict()
    if isinstance(value, Coefficient):
        return {"coefficient": _to_plain(asdict(value))}
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_to_plain(item) for item in cast(tuple[Any, ...], value)]
    return value.item() if isinstance(value, np.generic) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_from_plain(item) for item in cast(list[Any], value))
    if not isinstance(value, dict):
        return value
    entries = cast(dict[str, Any], value)
    if "law" in entries:
        return law_from_dict(entries)
    if "coefficient" in entries:
        return Coefficient(**{key: _from_plain(item) for key, item in entries["coefficient"].items()})
    return {key: _from_plain(item) for key, item in entries.items()}


def is_wide(name: str) -> bool:
    """Whether a column has several entries a run: one per corpus `[n, m]`, or one per knot of a schedule `[n, q]`.

    >>> is_wide("mixture"), is_wide("tokens")
    (True, False)
    """
    return name in COLUMNS and COLUMNS[name].shape in ("nm", "nq")


def relu(x: Array) -> Array:
    """x where it is positive, else 0; complex-safe.

    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    return np.where(np.real(x) > 0, x, 0)


def softplus(x: Array) -> Array:
    """log(1 + e^x) without overflow; complex-safe.

    >>> softplus(np.array([-1000.0, 0.0, 1000.0])).round(4)
    array([0.000e+00, 6.931e-01, 1.000e+03])
    """
    return relu(x) + np.log1p(np.exp(np.where(np.real(x) > 0, -x, x)))


def logsumexp(x: Array, axis: int = -1) -> Array:
    """log of the sum of e^x along an axis, without overflow; complex-safe.

    >>> float(logsumexp(np.array([1000.0, 1000.0])).round(4))
    1000.6931
    """
    top = np.real(x).max(axis=axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=axis)) + np.squeeze(top, axis=axis)
