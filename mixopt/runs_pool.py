"""One table of several: runs of other sizes, lengths, schedules and bucketings, brought to the same corpora.

How is said in YAML:

    sources:
      first:                                  # what the call names the table
        corpora:
          pile_cc: web                        # renamed; two with one name are merged, their shares add
          arxiv: papers
          stackexchange: {code: 0.3, web: 0.7}  # split in a stated ratio
        targets: {pile_cc: web, dm_mathematics: null}   # renamed; null leaves it out
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from mixopt.columns import COLUMNS, Array
from mixopt.errors import RunsError, StudyError
from mixopt.runs import Runs
from mixopt.runs_complete import remarks
from mixopt.runs_entry import suggest
from mixopt.runs_gate import PASSES
from mixopt.study_errors import spell_errors
from mixopt.study_sections import Section
from mixopt.study_yaml import read_document

_TOLERANCE = 1e-9
# A run whose size or length is not known cannot be pooled with runs of other sizes and lengths.
_TOLD = ("model_size", "tokens")
_USUAL = {"proxy": "transformer"}


def _named(given: object) -> object:
    """One name takes the whole of a corpus."""
    return {given: 1.0} if isinstance(given, str) else given


def _split(ratio: dict[str, float]) -> dict[str, float]:
    if not ratio or min(ratio.values()) < 0 or abs(sum(ratio.values()) - 1) > _TOLERANCE:
        given = ", ".join(f"{name}: {part:g}" for name, part in ratio.items())
        raise ValueError(f"{{{given}}} is not accepted; give parts that are not negative and sum to 1")
    return ratio


_Parts = Annotated[dict[str, float], BeforeValidator(_named), AfterValidator(_split)]


class PoolSource(Section):
    """What one table's corpora and targets are called in the pool; those left out keep their names."""

    corpora: dict[str, _Parts] = Field(default_factory=dict, description="New name of a corpus, or the parts it has.")
    targets: dict[str, str | None] = Field(default_factory=dict, description="New name of a target; null: left out.")


class PoolMap(Section):
    """How tables are brought together."""

    sources: dict[str, PoolSource] = Field(default_factory=dict, description="Each table by its name in the call.")

    @classmethod
    def of(cls, given: "PoolMap | Mapping[str, Any] | str | Path | None") -> "PoolMap":
        """From a YAML file, plain values, or nothing.

        Raises
        ------
        RunsError
            A key is not known (the nearest is named), or a ratio does not sum to 1.
        """
        if given is None:
            return cls()
        if isinstance(given, PoolMap):
            return given
        if isinstance(given, Mapping):
            try:
                return cls.model_validate(dict(given))
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"])) or "the mapping"
                raise RunsError(f"{place}: {first['msg'].removeprefix('Value error, ')}.") from None
        if not Path(given).is_file():
            raise RunsError(f"{given} is not there; give a YAML file that says how tables are brought together.")
        try:
            document = read_document(Path(given))
            values = document.values
        except StudyError as error:
            raise RunsError(str(error)) from None
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise RunsError(spell_errors(error, document, cls)) from None


def pool(tables: Mapping[str, Runs], mapping: PoolMap | Mapping[str, Any] | str | Path | None = None) -> Runs:
    """One table of several, each row's shares summing to what they did; run ids are `table/run`.

    Targets are those that every table measured. A column that a table does not have is unknown (NaN) for its runs;
    this, and what was left out, is in `notes`.

    Parameters
    ----------
    tables : by the name that `mapping` has for them
    mapping : renames, merges and splits, as values or as a YAML file

    Raises
    ------
    RunsError
        The mapping names what no table has, no target is common, losses are in different units or of different
        tokenizers, or some tables tell model_size or tokens and others do not.

    Examples
    --------
    >>> def table(corpus, target):
    ...     return Runs.from_records([corpus], [target], [
    ...         {"run": "a", "tokens": 1e6, "mixture": {corpus: 1.0}, "loss": {target: 3.0}}])
    >>> both = pool({"x": table("web", "web"), "y": table("cc", "cc")}, {"sources": {"y": {
    ...     "corpora": {"cc": {"web": 0.75, "code": 0.25}}, "targets": {"cc": "web"}}}})
    >>> both.corpora, both["mixture"].tolist(), both["run"].tolist()
    (('web', 'code'), [[1.0, 0.0], [0.75, 0.25]], ['x/a', 'y/a'])
    """
    if not tables:
        raise RunsError("no table was given to pool.")
    how = PoolMap.of(mapping)
    _refuse_unknown("sources", how.sources, list(tables))
    renamed = {name: _renamed(name, runs, how.sources.get(name, PoolSource())) for name, runs in tables.items()}
    unit, targets = _common(renamed)
    corpora = tuple(dict.fromkeys(name for runs in renamed.values() for name in runs.corpora))
    columns, notes = _stacked(renamed, corpora, targets)
    notes += _left_out(renamed, targets) + remarks(columns, corpora, unit)
    notes = [f"{name}: {note}" for name, runs in renamed.items() for note in runs.notes] + notes
    return Runs(corpora, targets, columns, " + ".join(tables), unit, tuple(dict.fromkeys(notes)))


def _common(tables: Mapping[str, Runs]) -> tuple[str, tuple[str, ...]]:
    """The unit that all losses are in, and the targets that every table measured."""
    first = next(iter(tables.values()))
    if any(runs.loss_unit != first.loss_unit for runs in tables.values()):
        told = ", ".join(f"{name} in {runs.loss_unit}" for name, runs in tables.items())
        raise RunsError(f"losses are given in different units ({told}); bring them to one, e.g. in_bits_per_byte().")
    measured = [set(runs.targets) for runs in tables.values()]
    targets = tuple(name for name in first.targets if all(name in one for one in measured))
    if not targets:
        told = "; ".join(f"{name}: {', '.join(runs.targets[:6])}" for name, runs in tables.items())
        raise RunsError(f"no target was measured by every table ({told}); rename those that are the same.")
    return first.loss_unit, targets


def _renamed(name: str, runs: Runs, how: PoolSource) -> Runs:
    """One table with its corpora and targets as the pool calls them."""
    _refuse_unknown(f"sources.{name}.corpora", how.corpora, runs.corpora)
    _refuse_unknown(f"sources.{name}.targets", how.targets, runs.targets)
    parts = {old: how.corpora.get(old, {old: 1.0}) for old in runs.corpora}
    corpora = tuple(dict.fromkeys(new for part in parts.values() for new in part))
    weights = np.array([[part.get(new, 0.0) for new in corpora] for part in parts.values()])
    kept = [target for target in runs.targets if how.targets.get(target, target) is not None]
    targets = tuple(how.targets.get(target) or target for target in kept)
    if len(set(targets)) < len(targets):
        twice = next(target for target in targets if targets.count(target) > 1)
        raise RunsError(f"sources.{name}.targets calls two targets {twice!r}; losses do not add, leave one out (null).")
    at = [runs.targets.index(target) for target in kept]
    columns = {key: (values[:, at] if COLUMNS[key].shape == "nk" else values) for key, values in runs.columns.items()}
    if corpora != runs.corpora or how.corpora:
        columns |= _rebucketed(columns, weights)
    columns["run"] = np.array([f"{name}/{run}" for run in columns["run"].tolist()])
    return Runs(corpora, targets, columns, name, runs.loss_unit, runs.notes)


def _rebucketed(columns: Mapping[str, Array], weights: Array) -> dict[str, Array]:
    """Per-corpus columns under `weights` [old, new]: shares and tokens are shared out and add; passes follow."""
    made = {"mixture": columns["mixture"] @ weights}
    if "corpus_tokens" in columns:
        made["corpus_tokens"] = columns["corpus_tokens"] @ weights
    if "unique_tokens" in columns:
        made["unique_tokens"] = columns["unique_tokens"] @ weights
    for name in [name for name in PASSES if name in columns]:
        made[name] = np.full(made["mixture"].shape, np.nan)
        if "unique_tokens" in made:
            made[name] = (columns[name] * columns["unique_tokens"]) @ weights / made["unique_tokens"]
    return made


def _stacked(
    tables: Mapping[str, Runs], corpora: Sequence[str], targets: Sequence[str]
) -> tuple[dict[str, Array], list[str]]:
    names = [name for name in COLUMNS if any(name in runs.columns for runs in tables.values())]
    columns: dict[str, Array] = {}
    notes: list[str] = []
    for name in names:
        lacking = [source for source, runs in tables.items() if name not in runs.columns]
        if lacking and name in _TOLD:
            raise RunsError(
                f"{', '.join(lacking)} tells no {name}, which others do; give it as a constant when reading, e.g. "
                f"{name}: 1e9, or pool without it."
            )
        if lacking and not COLUMNS[name].text:
            notes.append(f"{name} is not known for the runs of {', '.join(lacking)}.")
        labels = {"nm": corpora, "nk": targets}.get(COLUMNS[name].shape)
        columns[name] = np.concatenate([_placed(name, runs, labels) for runs in tables.values()])
    return columns, notes


def _placed(name: str, runs: Runs, labels: Sequence[str] | None) -> Array:
    """A column with the corpora or targets of the pool: a corpus that a table does not have has no share."""
    if name not in runs.columns:
        if COLUMNS[name].text:
            return np.full(len(runs), _USUAL.get(name, "non_embedding" if name == "size_counts" else ""))
        return np.full(len(runs) if labels is None else (len(runs), len(labels)), np.nan)
    if labels is None:
        return runs[name]
    placed = np.full((len(runs), len(labels)), 0.0 if name in ("mixture", "corpus_tokens", *PASSES) else np.nan)
    for at, label in enumerate(runs.labels(name)):
        if label in labels:
            placed[:, labels.index(label)] = runs[name][:, at]
    return placed


def _left_out(tables: Mapping[str, Runs], targets: Sequence[str]) -> list[str]:
    out = {source: [name for name in runs.targets if name not in targets] for source, runs in tables.items()}
    return [
        f"Targets of {source} that others did not measure are left out: {', '.join(names[:6])}"
        + (f" and {len(names) - 6} more." if len(names) > 6 else ".")
        for source, names in out.items()
        if names
    ]


def _refuse_unknown(place: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    if strange := [name for name in given if name not in known]:
        raise RunsError(f"{place} has no {strange[0]!r}; {suggest(strange[0], known)}")
