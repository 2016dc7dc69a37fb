"""Writes what an emitter returns."""

from pathlib import Path

from .._discover import load
from ..files import write_text
from ..recipe import Recipe


def write(recipe: Recipe, name: str, folder: str | Path) -> tuple[Path, ...]:
    """Write the files of the emitter `name` into `folder`, each whole or not at all; their paths.

    All texts are made before the first is written, so a recipe that the stack cannot express leaves no file behind.

    Raises
    ------
    ValueError
        No emitter has this name.
    EmitError
        The stack cannot express the recipe.
    """
    files = load("emit", name).emit(recipe)
    return tuple(write_text(Path(folder) / path, text) for path, text in files.items())
