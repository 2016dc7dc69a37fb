"""What a predictor is: it learns a column from other columns, as a law does, but its coefficients mean nothing.

    learned = Ridge().learn(runs.columns)
    learned.predict(columns)

A predictor is a frozen dataclass of settings; learning leaves it untouched and returns a `Learned`. All targets are
learned at once: where `columns[output]` is [n, k], so is what is predicted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, cast

import numpy as np

from mixopt._discover import available, load
from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.laws.law import is_wide


class Predictor(ABC):
    """Settings of a model that is not a law. Subclasses are frozen dataclasses.

    Attributes
    ----------
    inputs : the columns that it reads
    output : the column that it predicts, of one target [n] or of several [n, k]
    """

    inputs: tuple[str, ...]
    output: str

    @abstractmethod
    def learn(self, columns: Columns, *, seed: int = 0) -> Learned:
        """What these runs teach.

        Parameters
        ----------
        columns : the inputs, and the output [n] or [n, k]
        seed : of whatever is drawn; the same runs and seed give the same predictions

        Raises
        ------
        FitError
            A column is missing, or has a row that is not finite.
        """

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data: the class name and the fields. `predictor_from_dict` reads them back."""
        written = {field.name: _plain(getattr(self, field.name)) for field in fields(cast(Any, self))}
        return {"predictor": type(self).__name__, **written}


class Learned(ABC):
    """A predictor after it saw runs. Learning twice gives two of these.

    Predictions are finite everywhere on the simplex, and never leave the range of the losses seen by more than a part
    of it: a model that is asked beyond its runs should be wrong by little, and say so by `outside`.
    """

    @abstractmethod
    def predict(self, columns: Columns) -> Array:
        """The output of each row, `[n]`, or `[n, k]` where it learned k targets."""

    @abstractmethod
    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        """Lower and upper end, shaped as the prediction, for the mean of runs like these.

        With `observation=True` the noise of one run is added, for where a single new run may land.
        """

    @property
    @abstractmethod
    def freedom(self) -> float:
        """How many numbers it was effectively free to choose for a target."""

    @abstractmethod
    def outside(self, columns: Columns) -> Array:
        """Which rows are farther from the runs learned than these are from one another, `[n]`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything learned as plain data, for JSON, under the class name. `learned_from_dict` reads it back."""

    @classmethod
    @abstractmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Learned:
        """What `to_dict` wrote."""


def predictor_from_dict(data: Mapping[str, Any]) -> Predictor:
    """The predictor that `Predictor.to_dict` wrote, found by its class name among those installed."""
    cls = _named(Predictor, data.get("predictor"))
    return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in data.items() if name != "predictor"})


def learned_from_dict(data: Mapping[str, Any]) -> Learned:
    """What `Learned.to_dict` wrote, found by its class name among the predictors installed.

    Raises
    ------
    ValueError
        No predictor of that name is installed.
    """
    return _named(Learned, data.get("learned")).from_dict(data)


def checked(predictor: Predictor, columns: Columns) -> tuple[Array, bool]:
    """The output as `[n, k]`, and whether it was one target `[n]`; refuses what cannot be learned.

    Raises
    ------
    FitError
        As `Predictor.learn` says.
    """
    if missing := [name for name in (*predictor.inputs, predictor.output) if name not in columns]:
        raise FitError(
            f"The runs have no column {', '.join(missing)}; {type(predictor).__name__} reads "
            f"{', '.join(predictor.inputs)} and learns {predictor.output}. Add the column, or leave it out of inputs."
        )
    output = np.asarray(columns[predictor.output], float)
    if output.ndim not in (1, 2) or len(output) < 3:
        raise FitError(
            f"{predictor.output} has shape {list(output.shape)}; give [runs] or [runs, targets] of 3 runs or more."
        )
    for name in (*predictor.inputs, predictor.output):
        values = np.asarray(columns[name], float)
        if len(values) != len(output) or (is_wide(name) and values.ndim != 2):
            raise FitError(
                f"Column {name} has shape {list(values.shape)} and the output {len(output)} rows; every row is one run."
            )
        if not np.isfinite(values).all():
            place = np.argwhere(~np.isfinite(values))[0]
            raise FitError(
                f"Column {name} row {place[0]} is {values[tuple(place)]}; it must be finite. Leave the row out "
                "(diverged runs are kept in the table, not learned from)."
            )
    return output.reshape(len(output), -1), output.ndim == 1


@cache
def _classes() -> dict[str, type]:
    modules = [load("predictors", name) for name in available("predictors")]
    return {cls.__name__: cls for module in modules for cls in vars(module).values() if isinstance(cls, type)}


def _named(kind: type, name: Any) -> Any:
    known = {key: cls for key, cls in _classes().items() if issubclass(cls, kind) and cls is not kind}
    if name not in known:
        raise ValueError(
            f"There is no {kind.__name__.lower()} named {name!r}; there are {', '.join(sorted(known))}. "
            "Install the package that adds it by an entry point in the group mixopt.predictors."
        )
    return known[name]


def _plain(value: Any) -> Any:
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value
