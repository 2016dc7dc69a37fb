"""Finds what a folder offers by its file names, and what installed packages add to it; nothing is registered.

`mixopt/emit/olmo_core.py` is the emitter named `olmo_core`. An installed package adds one by an entry point in
the group `mixopt.emit`. Modules are imported when asked for, so a heavy one costs nothing until used.
"""

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

# Files that hold a folder's noun rather than one of its kinds.
_NOUNS: dict[str, frozenset[str]] = {
    "schedules": frozenset({"schedule", "history"}),
    "proxy": frozenset({"face", "data", "model", "shape"}),
    "execute": frozenset({"store"}),
    "emit": frozenset({"face", "write"}),
    "predictors": frozenset({"predictor", "exponential", "kernels", "smooth", "support", "warp"}),
    "importers": frozenset({"table"}),
    "laws": frozenset({"law", "combine", "ready", "plausible"}),
}


def available(folder: str) -> tuple[str, ...]:
    """Names that `load(folder, name)` accepts.

    >>> "wsd" in available("schedules")
    True
    """
    here = Path(__file__).parent / folder
    own = {path.stem for path in here.glob("[!_]*.py")} - _NOUNS.get(folder, frozenset())
    return tuple(sorted(own | {point.name for point in _added(folder)}))


@cache
def load(folder: str, name: str) -> ModuleType:
    """The module `name` of `folder`, imported now.

    Raises
    ------
    ValueError
        Nothing of that name is there; the message lists what is.
    """
    if name not in available(folder):
        raise ValueError(f"mixopt.{folder} has no {name!r}; it has {', '.join(available(folder))}.")
    for point in _added(folder):
        if point.name == name:
            return point.load()
    return import_module(f"mixopt.{folder}.{name}")


def _added(folder: str) -> Iterable:  # type: ignore[type-arg]
    return entry_points(group=f"mixopt.{folder}")
