"""What every emitter owes: a pure function from a recipe to files, or an EmitError that says what to do."""

import csv
import io
from pathlib import PurePosixPath

import pytest
import yaml

from mixopt._discover import available, load
from mixopt.errors import EmitError
from mixopt.schedules.cosine import cosine
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import MIXTURE, recipe

EVERY = pytest.mark.parametrize("name", available("emit"))
TOKENS = 1_048_576_000

RECIPES = {
    "wsd": {},
    "cosine": {"learning_rate": cosine(3e-4, TOKENS)},
    "sqrt decay": {"learning_rate": wsd(3e-4, TOKENS, shape="sqrt")},
    "two decays": {"learning_rate": Schedule(tuple(Segment(TOKENS / 2, top, top / 2) for top in (4e-4, 2e-4)))},
    "batch ramp": {"batch": Schedule(tuple(Segment(TOKENS / 2, size, size) for size in (2.0**19, 2.0**20)))},
    "stages": {
        "stages": [
            {"tokens": TOKENS // 2, "mixture": MIXTURE},
            {"tokens": TOKENS // 2, "mixture": {"math": 1.0}},
        ]
    },
}


def numbers(content):
    """Every number in nested plain values."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [number for part in content for number in numbers(part)]
    return [content] if isinstance(content, int | float) else []


@EVERY
def test_the_default_schedule_emits_everywhere(name):
    files = load("emit", name).emit(recipe())
    assert files
    for path, text in files.items():
        assert not PurePosixPath(path).is_absolute()
        assert ".." not in PurePosixPath(path).parts
        assert text.endswith("\n")


@EVERY
def test_the_same_recipe_gives_the_same_files(name):
    assert load("emit", name).emit(recipe()) == load("emit", name).emit(recipe())


@EVERY
@pytest.mark.parametrize("kind", RECIPES)
def test_it_emits_or_says_what_to_do_instead(name, kind):
    refusal = ""
    try:
        files = load("emit", name).emit(recipe(**RECIPES[kind]))
    except EmitError as error:
        files, refusal = {}, str(error)
    if name == "tabulated":
        assert files
    assert bool(files) != (name in refusal and "Emit it with 'tabulated' instead." in refusal)


@EVERY
def test_yaml_opens_with_its_origin_and_holds_no_number_as_text(name):
    for path, text in load("emit", name).emit(recipe()).items():
        if path.endswith(".yaml"):
            assert text.startswith("# Written by mixopt 0.1.0 for ")
            assert "study 'three-corpora'" in text.splitlines()[0]
            assert "# Warning: two of 64 runs diverged\n" in text
            content = yaml.safe_load(text)
            assert all(not _numeric(part) for part in _texts(content))


@EVERY
def test_every_share_above_zero_is_there_in_full_and_no_other(name):
    mixture = {"web": 2 / 3, "code": 1 / 3, "math": 0.0}
    files = load("emit", name).emit(recipe(stages=[{"tokens": TOKENS, "mixture": mixture}]))
    found = [number for path, text in files.items() for number in numbers(_parsed(path, text))]
    assert 2 / 3 in found
    assert 1 / 3 in found
    if name != "tabulated":
        assert not any("math" in text for text in files.values())


def _parsed(path, text):
    if path.endswith(".yaml"):
        return yaml.safe_load(text)
    if path.endswith(".csv"):
        return [[float(cell) for cell in row if _numeric(cell)] for row in csv.reader(io.StringIO(text))]
    return []


def _numeric(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _texts(content):
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [text for part in content for text in _texts(part)]
    return [content] if isinstance(content, str) else []
