"""Whatever a folder holds does what the folder promises; a new file is tested here before it has a test."""

import inspect
from collections.abc import Callable

import pytest

from mixopt._discover import available, load
from mixopt.laws.law import Law
from mixopt.schedules.schedule import Schedule

# The function of each folder, and the arguments that it is called with.
PROMISES = {
    "emit": ("emit", ("recipe",)),
    "execute": ("execute", ("sweep", "folder")),
    "importers": ("read", ("path",)),
    "proxy": ("train", ("settings", "data")),
}
FOUND = [(folder, name) for folder in PROMISES for name in available(folder)]


def positional(function: Callable[..., object]) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter for parameter in inspect.signature(function).parameters.values() if parameter.kind in kinds]


@pytest.mark.parametrize("folder", ["schedules", "emit", "execute", "importers", "proxy", "laws"])
def test_no_folder_is_empty(folder: str):
    assert available(folder)


@pytest.mark.parametrize(("folder", "name"), FOUND, ids=lambda value: str(value))
def test_the_promised_function_is_there(folder: str, name: str):
    promised, arguments = PROMISES[folder]
    function = getattr(load(folder, name), promised, None)
    assert callable(function), f"mixopt/{folder}/{name}.py has no function {promised}"
    given = positional(function)
    assert len(given) >= len(arguments)
    optional = [parameter for parameter in inspect.signature(function).parameters.values()][len(arguments) :]
    assert all(
        parameter.default is not inspect.Parameter.empty or parameter.kind is inspect.Parameter.VAR_KEYWORD
        for parameter in optional
    ), f"{promised} of mixopt/{folder}/{name}.py needs more than {arguments}"
    assert inspect.getdoc(function), f"{promised} of mixopt/{folder}/{name}.py says nothing of itself"


@pytest.mark.parametrize("name", available("proxy"))
def test_every_proxy_takes_the_same_options(name: str):
    options = inspect.signature(load("proxy", name).train).parameters
    assert {"sequence_length", "device", "progress"} <= set(options)


@pytest.mark.parametrize("name", available("schedules"))
def test_a_schedule_is_named_as_its_file_and_spends_its_tokens(name: str):
    schedule = getattr(load("schedules", name), name)(3e-4, 1e9)
    assert isinstance(schedule, Schedule)
    assert schedule.tokens == pytest.approx(1e9)
    assert schedule.peak == pytest.approx(3e-4)


@pytest.mark.parametrize("name", available("laws"))
def test_a_file_of_laws_gives_examples_of_them(name: str):
    examples = load("laws", name).examples()
    assert examples
    assert all(isinstance(law, Law) for law in examples)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"mixopt\.schedules has no 'wds'; it has .*wsd"):
        load("schedules", "wds")
