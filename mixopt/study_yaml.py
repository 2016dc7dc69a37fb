"""A YAML file as plain values that remember their lines, read more strictly than YAML 1.1 would.

`no`, `2024-01-01`, `12:30` and `010` stay what they look like (text, text, text, ten), `1e18` is a number, a key given
twice is an error, and tags are refused, so nothing in the file can run code.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from .errors import StudyError

Location = tuple[str | int, ...]

_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_INTEGER = re.compile(r"(?=.{1,24}$)[-+]?\d+(_\d+)*", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)


class _Loader(yaml.SafeLoader):
    """Composes nodes only; every scalar is text until `_plain` has looked at it."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (the name and kind that PyYAML reads)


@dataclass(frozen=True)
class Document:
    """A YAML file: its values and the line of each."""

    path: Path
    root: yaml.MappingNode

    @cached_property
    def values(self) -> dict[str, Any]:
        """The file as dicts, lists, text, numbers, booleans and None."""
        values = self._value(self.root, (), {})
        assert isinstance(values, dict)
        return values

    def line(self, location: Location) -> int:
        """Line, from 1, of the key or item at `location`, or of the closest one around it that exists."""
        node: yaml.Node = self.root
        mark = node.start_mark
        for step in location:
            child = _child(node, step)
            if child is None:
                break
            mark, node = child
        return mark.line + 1

    def _value(self, node: yaml.Node, location: Location, seen: dict[int, Any]) -> Any:
        """Values of a node; `seen` holds those of aliased nodes, None for one that is still being read."""
        place = f"{self.path}:{node.start_mark.line + 1}: "
        if id(node) in seen:
            if seen[id(node)] is None:
                raise StudyError(f"{place}{spell_location(location)} contains itself; write its values out.")
            return seen[id(node)]
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag[18:] not in ("str", "seq", "map"):
            raise StudyError(f"{place}{spell_location(location)} has the tag {node.tag}; write it without a tag.")
        if isinstance(node, yaml.ScalarNode):
            return _plain(node.value) if node.style is None else node.value
        seen[id(node)] = None
        if isinstance(node, yaml.SequenceNode):
            seen[id(node)] = [self._value(child, (*location, i), seen) for i, child in enumerate(node.value)]
        else:
            items = self._unique_keys(node, location)
            seen[id(node)] = {key: self._value(child, (*location, key), seen) for key, child in items.items()}
        return seen[id(node)]

    def _unique_keys(self, node: yaml.Node, location: Location) -> dict[str, yaml.Node]:
        lines: dict[str, int] = {}
        children: dict[str, yaml.Node] = {}
        for key, child in node.value:
            line, where = key.start_mark.line + 1, spell_location(location)
            if not isinstance(key, yaml.ScalarNode):
                raise StudyError(f"{self.path}:{line}: a key in {where} is a list or a mapping; give a name.")
            if key.value in lines:
                raise StudyError(
                    f"{self.path}:{line}: {where} has {key.value!r} twice, in lines {lines[key.value]} and {line}; "
                    "rename or remove one."
                )
            lines[key.value], children[key.value] = line, child
        return children


def read_document(path: Path) -> Document:
    """Parse the YAML file at `path`.

    Raises
    ------
    StudyError
        No such file, not readable as UTF-8 YAML, empty, or not a mapping; the message has the file and the line.
    """
    text = _read_text(path)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise StudyError(_spell_yaml_error(path, text.splitlines(), error)) from error
    except yaml.YAMLError as error:
        raise StudyError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    except RecursionError:
        raise StudyError(f"{path} is nested too deeply to be a study.") from None
    if root is None:
        raise StudyError(f"{path} is empty; `mixopt init` writes a study to start from.")
    if not isinstance(root, yaml.MappingNode):
        found = "text" if isinstance(root, yaml.ScalarNode) else "a list"
        raise StudyError(
            f"{path}:{root.start_mark.line + 1}: the file holds {found}; "
            "give keys and values, such as 'name: quickstart'."
        )
    return Document(path, root)


def spell_location(location: Sequence[str | int]) -> str:
    """A place in the file as a person writes it.

    >>> spell_location(("corpora", "web", "files", 0))
    'corpora.web.files[0]'
    """
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).lstrip(".") or "the file"


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise StudyError(f"{path} does not exist; `mixopt init` writes a study to start from.") from None
    except IsADirectoryError:
        raise StudyError(f"{path} is a folder; give the study file in it.") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror}.") from error


def _spell_yaml_error(path: Path, lines: Sequence[str], error: yaml.MarkedYAMLError) -> str:
    marks = [mark.line for mark in (error.problem_mark, error.context_mark) if mark is not None]
    # What is opened and never closed is a problem of the end of the file; where it was opened says more.
    number = next((line for line in marks if line < len(lines)), 0)
    shown = lines[number].rstrip() if lines else ""
    remedy = " Indent with spaces, not tabs." if "\\t" in (error.problem or "") else ""
    return f"{path}:{number + 1}: not YAML, {error.problem or error.context}; the line is {shown!r}.{remedy}"


def _plain(text: str) -> Any:
    """What an unquoted scalar means."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.lower().replace(".", "")) if _INFINITE.fullmatch(text) else text


def _child(node: yaml.Node, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    """Where the entry `step` of a mapping or list starts, and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == step:
                return key.start_mark, child
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        child = node.value[step]
        return child.start_mark, child
    return None
