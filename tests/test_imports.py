"""The package reads from left to right, and its front door is light."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mixopt

PACKAGE = Path(mixopt.__file__).parent

# A module may import what stands on its own line or above it.
LAYERS = (
    {"errors", "columns", "_discover", "units", "files"},
    {"study", "study_sections", "study_values", "study_yaml", "study_errors", "corpora", "documents"},
    {"sampling"},
    {"sweep"},
    {"proxy"},
    {"execute"},
    {"runs", "runs_columns", "runs_entry", "runs_complete", "runs_gate", "runs_guess", "runs_pool", "importers"},
    {"laws"},
    {"predictors"},
    {"fit"},
    {"schedules"},
    {"cost"},
    {"optimize"},
    {"recipe"},
    {"emit"},
    {"report"},
    {"testing", "assemble"},
    {"pipeline"},
    {"console", "console_fit"},
    {"cli"},
    {"__init__", "__main__"},
)
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
FIRST = LAYERS[0]
# A run is read wherever it was made, and a proxy follows a learning-rate schedule: both modules import next to nothing.
ALLOWED = {("execute", "runs"), ("proxy", "schedules")}
NARROW = {"runs": FIRST | {"importers", "runs_columns", "runs_complete", "runs_gate"}, "schedules": FIRST}

HEAVY = ("torch", "pandas", "matplotlib", "datasets", "scipy.optimize", "sklearn", "tokenizers", "pyarrow")


def imports_of(source: str, folder: str = "mixopt") -> Iterator[tuple[int, str]]:
    """Line and part of mixopt of every import of a module in `folder`, inside functions too, unless for types alone."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder.split(".")[: folder.count(".") + 2 - node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"mixopt.{alias.name}" for alias in node.names] if module == "mixopt" else [module]
        for name in names:
            head, _, rest = name.partition(".")
            if head == "mixopt":
                yield node.lineno, rest.partition(".")[0] or "__init__"


def faults(part: str, source: str, folder: str = "mixopt") -> list[str]:
    """Imports of a module of `part` that run against the arrows."""
    found: list[str] = []
    for line, other in imports_of(source, folder):
        # A name of the front door, such as a version, counts as the front door itself.
        other = other if other in RANK else "__init__"
        allowed = other == part or (part, other) in ALLOWED or RANK[other] <= RANK[part]
        if part in NARROW and other != part:
            allowed = other in NARROW[part]
        if not allowed:
            found.append(f"line {line}: {part} imports {other}")
    return found


MODULES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def test_every_module_has_a_place():
    parts = {part_of(path) for path in MODULES}
    assert parts - set(RANK) == set(), "put the new part of the package into LAYERS"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_from_left_to_right(path: Path):
    folder = ".".join(path.relative_to(PACKAGE.parent).parent.parts)
    assert faults(part_of(path), path.read_text(), folder) == []


@pytest.mark.parametrize(
    ("part", "source", "fault"),
    [
        ("laws", "from mixopt.fit.fit import fit", "line 1: laws imports fit"),
        ("laws", "def late():\n    import mixopt.fit.fit", "line 2: laws imports fit"),
        ("laws", "from mixopt import fit", "line 1: laws imports fit"),
        ("laws", "from mixopt import Fit", "line 1: laws imports __init__"),
        ("runs", "from mixopt.study import Study", "line 1: runs imports study"),
        ("schedules", "from mixopt.laws.law import Law", "line 1: schedules imports laws"),
        ("sweep", "import mixopt.runs", "line 1: sweep imports runs"),
    ],
)
def test_an_arrow_backwards_is_found(part: str, source: str, fault: str):
    assert faults(part, source) == [fault]


@pytest.mark.parametrize(
    "source", ["from ..fit.fit import fit", "from .. import fit", "def late():\n    from ..fit import x"]
)
def test_a_relative_import_is_followed(source: str):
    assert [fault.partition(": ")[2] for fault in faults("laws", source, "mixopt.laws")] == ["laws imports fit"]
    assert faults("laws", "from .law import Law\nfrom ..columns import Array", "mixopt.laws") == []


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("laws", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mixopt.fit.fit import Fit"),
        ("execute", "from mixopt.runs import Runs"),
        ("proxy", "from mixopt.schedules.wsd import wsd"),
        ("cli", "from mixopt.study import Study"),
        ("errors", "import numpy as np"),
    ],
)
def test_an_arrow_forwards_is_not(part: str, source: str):
    assert faults(part, source) == []


def test_the_front_door_is_light():
    code = (
        "import sys, time; import mixopt; "
        f"print(time.process_time(), *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    # Threads of a linear-algebra library would count as processor time without doing anything for the import.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    seconds: list[float] = []
    for _ in range(2):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        spent, *heavy = out.stdout.split()
        assert heavy == []
        seconds.append(float(spent))
    assert min(seconds) < 0.5
