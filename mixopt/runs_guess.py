"""A guess at which column of a table means what, to be confirmed by a person; nothing here is ever applied."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import numpy as np

from mixopt.columns import COLUMNS, Array
from mixopt.errors import RunsError
from mixopt.importers.table import Table, join, open_table
from mixopt.runs_columns import ColumnMap
from mixopt.runs_entry import Entry, parse
from mixopt.runs_gate import ROUNDED, SUM_TOLERANCE

_ROWS = 200
_PREFIX = re.compile(r"^(config|summary|params|metrics|hparams)[./]")
_CUT = re.compile(r"[_/.\- ]")
# What people call the columns, the surest name first; whole names, case and the signs between words aside.
_CALLED: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "runid", "id", "expname", "experiment", "runname", "name", "index"),
    "status": ("status", "state"),
    "model_size": (
        "paramsnoembed", "nonembeddingparams", "nonembedding", "nonembparams", "nnonemb", "modelsize", "N", "params",
        "nparams", "numparams", "parameters", "size",
    ),
    "tokens": ("tokens", "ntokens", "numtokens", "traintokens", "totaltokens", "tokensseen", "dtokens", "D"),
    "unique_tokens": ("uniquetokens", "U"),
    "epochs": ("epochs", "epoch"),
    "batch_tokens": (
        "batchtokens", "batchsizetokens", "tokensperstep", "tokensperbatch", "bs", "batchsize", "globalbatchseqs",
        "globalbatchsize", "batch",
    ),
    "peak_lr": ("peaklr", "maxlr", "lr", "learningrate"),
    "steps": ("steps", "nsteps", "numsteps", "trainsteps", "maxsteps", "iterations", "iters"),
    "flops": ("flops", "flop", "trainingflops", "trainingflop", "totalflops"),
    "seed": ("seed", "randomseed"),
    "schedule": ("schedule", "lrschedule", "lrscheduler", "scheduler"),
    "tokenizer": ("tokenizer",),
    "initial_loss": ("initialloss",),
}  # fmt: skip
_IN_SEQUENCES = ("bs", "batchsize", "globalbatchseqs", "globalbatchsize", "batch")
_LOSS = re.compile(r"(?i)loss|nll|cross_?entropy|bpb|bits_?per_?byte")
_BITS = re.compile(r"(?i)bpb|bits_?per_?byte")
_NO_LOSS = re.compile(r"(?i)(^|[_/. ])(train|training|lo|hi|std|sem|err|min|max|initial)([_/. ]|$)|__(min|max)$")
_MEAN = re.compile(r"(?i)(^|[_/. ])(mean|avg|average)([_/. ]|$)")  # of the other losses


@dataclass(frozen=True)
class Guess:
    """A mapping to check, and what could not be decided from names and values."""

    columns: ColumnMap
    questions: tuple[str, ...]
    source: str

    def to_yaml(self) -> str:
        """The file to check, save and give back as the mapping of columns; questions are comments."""
        if not self.columns.entries:
            return f"# The columns of {self.source} need no mapping.\n"
        head = [f"# A guess at what the columns of {self.source} mean: check every line, and save it."]
        return "\n".join([*head, *(f"# ? {question}" for question in self.questions), self.columns.to_yaml()]) + "\n"


def guess(path: str | Path | Sequence[str | Path]) -> Guess:
    """What the columns of a table, or of several to be joined, might mean, from their names and first values.

    Raises
    ------
    RunsError
        A table cannot be opened, or several share no column with the ids of runs.
    """
    paths = [path] if isinstance(path, str | Path) else list(path)
    table = open_table(paths[0]) if len(paths) == 1 else _joined([open_table(one, layouts=False) for one in paths])
    try:
        ColumnMap().over(table.meaning).resolve(table, strict=not table.meaning)
        return Guess(ColumnMap(), (), table.source)
    except RunsError:
        return guess_columns(table)


def _joined(tables: Sequence[Table]) -> Table:
    shared = [name for name in tables[0].names if all(name in table.names for table in tables)]
    found = sorted((_CALLED["run"].index(_plain(name)), name) for name in shared if _plain(name) in _CALLED["run"])
    if not found:
        raise RunsError(
            f"{' and '.join(table.source for table in tables)} share no column that looks like the ids of runs; rows "
            "are joined by these. Give both one, e.g. run."
        )
    return join(tables, found[0][1])


def _plain(name: str) -> str:
    """The letters of a name; a single one as it is, for N is a size and n often a count of something else."""
    bare = _PREFIX.sub("", name)
    return bare if len(bare) == 1 else re.sub(r"[^a-z0-9]", "", bare.lower())


def guess_columns(table: Table) -> Guess:
    """The same of a table that is open."""
    values = table.load(dict.fromkeys(table.names), _ROWS)
    numeric = {name: column for name, column in values.items() if column.dtype.kind == "f" and not _blank(column)}
    entries: dict[str, Entry] = {key: parse(key, value, key) for key, value in table.meaning.items() if key in COLUMNS}
    questions: list[str] = []
    renormalize = False
    if shares := _mixture(numeric, table.names):
        entries["mixture"] = shares[0]
        questions += shares[1]
        renormalize = any("rounded" in one for one in shares[1])
        numeric = {name: column for name, column in numeric.items() if name not in shares[2]}
    losses, asked = _losses(numeric, table.names)
    entries |= losses
    questions += asked
    for column, called in _CALLED.items():
        one = len(shares[2]) == 1 if shares else True
        if column not in entries and (one or column not in ("unique_tokens", "epochs")):
            found, asked = _scalar(column, called, values if COLUMNS[column].text else numeric)
            entries |= found
            questions += asked
    if sequence := _sequence(entries, numeric):
        batch = entries["batch_tokens"].sources
        questions = [one for one in questions if not one.startswith(f"{batch[0]} may count sequences")]
        if sequence > 1:
            entries["batch_tokens"] = Entry(batch, sequence)
            questions.append(f"{batch[0]} counts sequences of {sequence:g} tokens, by tokens and steps; is it so?")
    ordered = {name: entries[name] for name in COLUMNS if name in entries}
    return Guess(ColumnMap(ordered, renormalize=renormalize or None, source="guess"), tuple(questions), table.source)


def _scalar(column: str, called: Sequence[str], values: Mapping[str, Array]) -> tuple[dict[str, Entry], list[str]]:
    plain = {name: _plain(name) for name in values}
    found = sorted((called.index(word), name) for name, word in plain.items() if word in called)
    if column == "run":  # every row is of a run
        found = [(place, name) for place, name in found if (values[name] != "").all()]
    if not found:
        return {}, []
    name, others = found[0][1], [other for _, other in found[1:]]
    asked = [f"{column} is {name}, or is it {' or '.join(others)}?"] if others else []
    if column == "model_size":
        bare = bool(re.search("no(n|t)?emb", plain[name]))
        if not bare:
            asked.append(f"does {name} count the embeddings? Then {{from: {name}, counts: all}}, else non_embedding.")
        return {column: Entry((name,), counts="non_embedding" if bare else "")}, asked
    if column == "batch_tokens" and plain[name] in _IN_SEQUENCES:
        asked.append(f"{name} may count sequences: {{from: {name}, times: <tokens of a sequence>}}.")
    if column == "status":
        words = ", ".join(sorted({str(word) for word in values[name]})[:8])
        asked.append(f"{name} says {words}: give each as finished, diverged or unfinished, under values.")
    return {column: Entry((name,))}, asked


def _sequence(entries: Mapping[str, Entry], numeric: Mapping[str, Array]) -> float | None:
    """Tokens in what a batch counts, where tokens are so many times steps times its size in every row."""
    named = [entries[name].sources[0] for name in ("tokens", "steps", "batch_tokens") if name in entries]
    if len(named) < 3:
        return None
    tokens, steps, batch = (numeric[name] for name in named)
    known = np.isfinite(tokens) & (steps * batch > 0)
    ratio = tokens[known] / (steps * batch)[known]
    if not len(ratio) or not np.allclose(ratio, round(np.median(ratio)), rtol=0.01):
        return None
    return float(round(np.median(ratio)))


def _mixture(numeric: Mapping[str, Array], names: Sequence[str]) -> tuple[Entry, list[str], set[str]] | None:
    """Columns between 0 and 1 (or 100) that sum to that in every row: the most of them that one pattern means."""
    for whole in (1.0, 100.0):
        top = whole * (1 + ROUNDED)
        shares = [name for name, column in numeric.items() if column.min() >= 0 and column.max() <= top]
        families = [one for one in _families(shares) if _off(one, numeric, whole) <= ROUNDED]
        if not families:
            continue
        best = max(families, key=len)
        asked = [f"the shares in {best[0]} and {len(best) - 1} other columns sum to {whole:g}; are these the mixture?"]
        if _off(best, numeric, whole) > SUM_TOLERANCE:
            asked.append("the shares were rounded: renormalize divides them by their sum.")
        entry = _pattern(best, names)
        return Entry(entry.sources, 1 / whole, without=entry.without), asked, set(best)
    return None


def _off(family: Sequence[str], numeric: Mapping[str, Array], whole: float) -> float:
    """How far the sums are from `whole` at most, as a share of it; infinite where a value is missing."""
    off = np.abs(np.sum([numeric[name] for name in family], axis=0) / whole - 1).max()
    return float(off) if np.isfinite(off) else np.inf


def _losses(numeric: Mapping[str, Array], names: Sequence[str]) -> tuple[dict[str, Entry], list[str]]:
    found = [name for name in numeric if _LOSS.search(name) and not _NO_LOSS.search(_PREFIX.sub("", name))]
    found = [name for name in found if not _MEAN.search(name)] or found
    entries: dict[str, Entry] = {}
    asked: list[str] = []
    for column, bits in (("loss", False), ("bits_per_byte", True)):
        mine = [name for name in found if bool(_BITS.search(name)) is bits]
        families = [one for one in _families(mine) if len(one) > 1 and _shared(one)]
        best = max(families, key=len, default=mine[:1])
        if best:
            entries[column] = _pattern(best, names)
        if left := [name for name in mine if name not in best]:
            asked.append(f"{column} is read from {best[0]}; or is it {', '.join(left[:4])}?")
    if "loss" in entries:
        asked.append("are the losses in nats per token? If they are in bits per byte, call them bits_per_byte.")
    if not entries:
        asked.append("no column is called a loss; add loss: {<target>: <column>}.")
    return entries, asked


def _shared(family: Sequence[str]) -> bool:
    """Whether what the names share says that they are losses."""
    before, after = _ends(family)
    return bool(_LOSS.search(before + " " + after))


def _families(names: Sequence[str]) -> list[list[str]]:
    """Names that begin or end alike, up to a sign between words; and all of them."""
    found: dict[str, list[str]] = {}
    for name in names:
        for cut in _CUT.finditer(name):
            found.setdefault(name[: cut.end()] + "*", []).append(name)
            found.setdefault("*" + name[cut.start() :], []).append(name)
    return [family for family in [*found.values(), list(names)] if len(family) > 1]


def _ends(family: Sequence[str]) -> tuple[str, str]:
    before = _begin(family)
    after = _begin([name[::-1] for name in family])[::-1]
    cut = [match.end() for match in _CUT.finditer(before)]
    start = [match.start() for match in _CUT.finditer(after)]
    return before[: cut[-1]] if cut else "", after[start[0] :] if start else ""


def _begin(names: Sequence[str]) -> str:
    """The letters that all names begin with."""
    same = [letters[0] for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))]
    return "".join(same)


def _pattern(family: Sequence[str], names: Sequence[str]) -> Entry:
    """A pattern that means these columns and no others, or their list."""
    if len(family) == 1:
        return Entry(tuple(family))
    (before, after), mine = _ends(family), set(family)
    if not before and not after:
        return Entry(tuple(family))
    others = [
        name
        for name in names
        if name.startswith(before) and name.endswith(after) and len(name) > len(before) + len(after)
        if name not in mine
    ]
    groups = dict.fromkeys(_group(name, before) for name in others)
    broad = [one for one in groups if not any(name.startswith(one.rstrip("*")) for name in family)]
    exact = [name for name in others if _group(name, before) not in broad]
    return Entry((f"{before}*{after}",), without=(*broad, *exact))


def _group(name: str, before: str) -> str:
    """The pattern of a name's next word: loss_lo_* of loss_lo_c4."""
    cut = _CUT.search(name, len(before))
    return name[: cut.end()] + "*" if cut else name


def _blank(column: Array) -> bool:
    return bool(np.isnan(column).all())
