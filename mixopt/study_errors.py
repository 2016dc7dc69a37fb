"""Turns what pydantic found wrong with a file into one sentence: file, line, key, value given, what is accepted."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from .study_yaml import Document, Location, spell_location
from .units import spell

# What is accepted where pydantic's own words would speak of its types.
_ACCEPTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "tuple_type": "a list, such as [1, 2]",
    "finite_number": "a finite number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number from {ge:g} up",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number up to {le:g}",
    "string_too_short": "text that is not empty",
    "too_short": "at least {min_length}",
    "too_long": "at most {max_length}",
}


def spell_errors(error: ValidationError, document: Document, model: type[BaseModel]) -> str:
    """The first problem in the file's order as one sentence, and how many more there are.

    What is missing comes last, for a misspelled key explains it.
    """
    problems = [problem for found in error.errors() for problem in _problems(found, document, model)]
    (_, line, sentence), more = min(problems, key=lambda problem: problem[:2]), len(problems) - 1
    return f"{document.path}:{line}: {sentence}." + (f" ({more} more after this.)" if more else "")


def suggest(given: str, known: list[str]) -> str:
    """What to write instead of an unknown name: the nearest known one, or all of them.

    >>> suggest("curpora", ["budget", "corpora"]), suggest("zzz", ["budget", "corpora"])
    ("did you mean 'corpora'?", 'it has budget, corpora')
    """
    nearest = get_close_matches(given, known, n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(known)}"


def _problems(found: Mapping[str, Any], document: Document, model: type[BaseModel]) -> Iterator[tuple[bool, int, str]]:
    """Whether something is missing, the line, and the sentence."""
    context = found.get("ctx", {})
    if "problems" in context:
        for location, text in context["problems"]:
            yield False, document.line(location), f"{spell_location(location)}: {text}"
    else:
        location = tuple(step for step in found["loc"] if step != "[key]")
        yield found["type"] == "missing", document.line(location), _sentence(found, location, model)


def _sentence(found: Mapping[str, Any], location: Location, model: type[BaseModel]) -> str:
    kind, context = found["type"], found.get("ctx", {})
    parent, key = spell_location(location[:-1]), str(location[-1]) if location else ""
    if kind == "extra_forbidden":
        return f"{parent} has no key {key!r}; {suggest(key, list(_model_at(model, location[:-1]).model_fields))}"
    if kind == "missing":
        field = _model_at(model, location[:-1]).model_fields[key]
        return f"{parent} lacks {key!r}: {str(field.description).rstrip('.')}"
    if kind == "value_error":
        return f"{spell_location(location)}: {context['error']}"
    if kind in ("too_short", "too_long"):
        accepted = _ACCEPTED[kind].format(**context)
        return f"{spell_location(location)} has {context['actual_length']} entries; give {accepted}"
    accepted = _ACCEPTED[kind].format(**context) if kind in _ACCEPTED else found["msg"]
    return f"{spell_location(location)}: {spell(found['input'])} is not accepted; give {accepted}"


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """The section of the model that `location` points into; a mapping's values are all of one kind."""
    kind: Any = model
    for step in location:
        kind = kind.model_fields[step].annotation if hasattr(kind, "model_fields") else get_args(kind)[1]
    return kind
