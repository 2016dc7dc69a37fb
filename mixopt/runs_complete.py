"""What a table leaves out and follows from the rest, filled in and said; and what its reader has to know of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixopt.columns import COLUMNS, Array
from mixopt.errors import RunsError
from mixopt.runs_gate import BITS, NATS, ROUNDED, SUM_TOLERANCE

_SETTINGS = ("proxy", "schedule", "model_size", "mixture", "batch_tokens", "peak_lr", "unique_tokens", "seed")
_COMPARED = 20_000
"""Rows in which copies are looked for."""
_OUTCOMES = ("run", "seed", "loss", "bits_per_byte", "seconds")
_SEEDS_APART = 0.1
"""Losses of one setting lie closer than this, whatever the seed, unless something else was changed."""


@dataclass(frozen=True)
class Asked:
    """What the mapping asks for beyond columns. `states` are statuses of processes, which say nothing of the loss."""

    renormalize: bool = False
    loss_unit: str | None = None
    states: bool = False


def complete(
    columns: dict[str, Array], corpora: Sequence[str], targets: Sequence[str], source: str, asked: Asked
) -> tuple[dict[str, Array], str, list[str]]:
    """The columns with all that a table of runs needs, the unit of its losses, and what was done.

    Raises
    ------
    RunsError
        There is no row, or what is there contradicts itself.
    """
    notes: list[str] = []
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        raise RunsError(f"{source} has no row; give a row a run.")
    made = dict(columns)
    unit = _loss(made, source, asked)
    if numbered := "run" not in made:
        made["run"] = np.arange(1, rows + 1).astype(str)
        notes.append("The table names no runs; its rows are numbered.")
    elif (blank := np.flatnonzero(made["run"] == "")).size:
        raise RunsError(f"{source} row {blank[0] + 1} names no run; give each row a run, or no column of runs.")
    if "mixture" not in made:
        made["mixture"] = np.ones((rows, 1))
        notes.append(f"The table tells no mixture; its runs are taken as on one corpus, called {corpora[0]}.")
    notes += _tokens(made)
    notes += _rounded(made, asked)
    notes += _status(made, source, targets, asked)
    _refuse_swapped(made, source)
    if numbered and _evenly_spaced(made):
        notes.append(
            "Rows that differ in tokens alone lie evenly apart, as the checkpoints of one run do; if they are, say "
            "which rows are of one run, e.g. run: {same: [model_size, mixture]}."
        )
    ordered = {name: made[name] for name in COLUMNS if name in made}
    return ordered, unit, notes + remarks(ordered, corpora, unit)


def remarks(columns: dict[str, Array], corpora: Sequence[str], unit: str) -> list[str]:
    """What a reader has to know of the runs before believing laws fitted to them."""
    said: list[str] = []
    status, run, mixture = columns["status"], columns["run"], columns["mixture"]
    if diverged := int((status == "diverged").sum()):
        said.append(f"{_rows(diverged)} of {len(run)} {_belong(diverged)} diverged runs, kept and not fitted.")
    if (unfinished := run[status == "unfinished"]).size:
        said.append(
            f"{_rows(len(unfinished))} of {len(run)} {_belong(len(unfinished))} unfinished runs, not fitted: "
            f"{_some(unfinished)}."
        )
    said += _partly_told(columns)
    if (count := len(np.unique(run))) < len(run):
        said.append(
            f"{len(run)} rows are of {count} runs. Mid-run checkpoints are not short runs: unless the schedule is "
            "constant, the learning rate of the earlier ones had not decayed, so their losses are too high."
        )
    elif len(run) <= _COMPARED and (twins := _twins(columns)):
        said.append(f"Rows {twins[0] + 1} and {twins[1] + 1} are the same but for their names; one may be a copy.")
    if len(run) <= _COMPARED and (pair := _unexplained(columns)):
        one, other, apart = pair
        said.append(
            f"Rows {one + 1} and {other + 1} have the same settings and losses {apart:.0%} apart, more than seeds do. "
            "What differs is in a column that is not read: map it, or give each kind of run a table."
        )
    if len(corpora) > 1:
        unused = [name for name, most in zip(corpora, np.nanmax(mixture, 0, initial=0), strict=True) if most == 0]
        if unused:
            said.append(f"No run used {_some(np.array(unused))}; what it is worth cannot be known.")
        if len(run) > 1 and np.ptp(mixture, axis=0).max() == 0:
            said.append("All runs have one mixture; what another would do cannot be known.")
    if unit == BITS:
        said.append("Losses are in bits per byte.")
    return said


def _loss(made: dict[str, Array], source: str, asked: Asked) -> str:
    """One loss in one unit: bits per byte where only these were measured, or were asked for."""
    if asked.loss_unit == BITS and "bits_per_byte" not in made:
        raise RunsError(f"{source} was to be read in bits/byte and has no bits_per_byte; say which columns these are.")
    if asked.loss_unit == NATS and "loss" not in made:
        raise RunsError(f"{source} was to be read in nats/token and has no loss; say which columns these are.")
    if "loss" not in made and "bits_per_byte" not in made:
        raise RunsError(f"{source} has neither loss nor bits_per_byte; a run needs one for each target.")
    if "loss" not in made or asked.loss_unit == BITS:
        made["loss"] = made["bits_per_byte"]
        return BITS
    return NATS


def _tokens(made: dict[str, Array]) -> list[str]:
    """Tokens from steps or compute, by what these words mean."""
    if "tokens" in made:
        return []
    if "steps" in made and "batch_tokens" in made:
        made["tokens"] = made["steps"] * made["batch_tokens"]
        return ["tokens = steps * batch_tokens."]
    if "flops" in made and "model_size" in made:
        made["tokens"] = made["flops"] / (6 * made["model_size"])
        return ["tokens = flops / (6 * model_size)."]
    return ["The table tells no tokens; a law that reads them will ask for them."]


def _rounded(made: dict[str, Array], asked: Asked) -> list[str]:
    if not asked.renormalize:
        return []
    total = made["mixture"].sum(-1)
    off = np.abs(total - 1)
    rounded = (off <= ROUNDED) & (off > SUM_TOLERANCE)  # what sums to neither is left, and refused
    if not rounded.any():
        return []
    made["mixture"] = made["mixture"] / np.where(rounded, total, 1)[:, None]
    worst = total[np.argmax(np.where(rounded, off, 0))]
    return [
        f"The shares of {int(rounded.sum())} of {len(total)} rows were rounded and divided by their sum; "
        f"the largest correction was of {worst:.6g} to 1."
    ]


def _status(made: dict[str, Array], source: str, targets: Sequence[str], asked: Asked) -> list[str]:
    """Runs are finished where their loss is good, unless the table knows better."""
    if "status" in made and not asked.states:
        return []
    rows = len(made["run"])
    status = made.get("status", np.full(rows, "finished")).astype("<U10")
    loss, missing = made["loss"], np.isnan(made["loss"])
    if len(never := np.flatnonzero(missing.all(0))) and not missing.all():
        raise RunsError(f"{source} has no loss of {targets[never[0]]} in any row; leave that column out.")
    bad = (~missing & ~COLUMNS["loss"].accepts(loss)).any(-1) | missing.all(-1)
    if "initial_loss" in made:
        bad |= (loss > made["initial_loss"][:, None]).any(-1)
    ended = status == "finished"
    notes: list[str] = []
    if (lost := ended & bad).any():
        status[lost] = "diverged"
        notes.append(
            f"{_rows(int(lost.sum()))} with a loss that is missing, infinite, not positive or above the "
            f"initial one: marked diverged ({_some(made['run'][lost])})."
        )
    if (partly := ended & ~bad & missing.any(-1)).any():
        status[partly] = "unfinished"
        rare = [targets[int(at)] for at in np.flatnonzero(missing[partly].any(0))]
        notes.append(
            f"{_rows(int(partly.sum()))} without the loss of {_some(np.array(rare))}: marked unfinished; "
            "leave these targets out of the mapping to fit the others to them."
        )
    made["status"] = status
    return notes


def _refuse_swapped(made: dict[str, Array], source: str) -> None:
    """A run cannot see more unique tokens than it is trained on, and a corpus that is never used up has one size."""
    if "tokens" not in made or "unique_tokens" not in made:
        return
    tokens, unique = made["tokens"], made["unique_tokens"].sum(-1)
    known = np.isfinite(tokens) & np.isfinite(unique)
    if "epochs" in made and _fits_swapped(made, known):
        row = int(np.flatnonzero(known)[0])
    else:
        never = (tokens <= unique)[known].all() and (tokens < 0.999 * unique)[known].any()
        matched = made.get("epoch_matched", np.zeros(len(tokens)))
        same = [
            len(set(unique[group].tolist())) > 1
            for group in _groups(made, known & ~(matched > 0))
            if known[group].all()
        ]
        if not (never and any(same)):
            return
        row = int(np.flatnonzero(known & (tokens < 0.999 * unique))[0])
    raise RunsError(
        f"{source} row {row + 1} (run {made['run'][row]}): tokens is {tokens[row]:g}, less than its unique_tokens "
        f"{unique[row]:g}; they look swapped, for tokens counts repeats and no run here has any. Swap them, or leave "
        "unique_tokens out."
    )


def _fits_swapped(made: dict[str, Array], known: Array) -> bool:
    """Whether passes over the corpora come out right only with tokens and unique_tokens exchanged."""
    if made["mixture"].shape[1] > 1 or not known.any():
        return False
    tokens, unique = made["tokens"][known], made["unique_tokens"][known, 0]
    epochs = made["epochs"][known, 0]
    right = np.isclose(epochs * unique, tokens, rtol=0.02).mean()
    return bool(np.isclose(epochs * tokens, unique, rtol=0.02).mean() > max(right, 0.5))


def _groups(made: dict[str, Array], rows: Array) -> list[Array]:
    """Rows that a corpus's size should be the same in: all of a single corpus, else of one mixture and length."""
    if made["mixture"].shape[1] == 1:
        return [np.flatnonzero(rows)] if rows.any() else []
    keys = np.column_stack([made["tokens"], made["mixture"]])[rows]
    group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    places = np.flatnonzero(rows)
    return [places[group == one] for one in range(group.max(initial=-1) + 1)] if len(keys) < 10_000 else []


def _evenly_spaced(columns: dict[str, Array]) -> bool:
    """Whether five rows or more with the same settings have tokens at equal distances."""
    rows = len(columns["run"])
    told = [columns[name].reshape(rows, -1).astype(str) for name in _SETTINGS if name in columns]
    if "tokens" not in columns or rows > _COMPARED or not told:
        return False
    group = np.unique(np.hstack(told), axis=0, return_inverse=True)[1].reshape(-1)
    most = np.sort(columns["tokens"][group == np.bincount(group).argmax()])
    steps = np.diff(most)
    return len(most) >= 5 and bool(np.median(steps) > 0 and (np.abs(steps / np.median(steps) - 1) < 0.02).mean() > 0.8)


def _twins(columns: dict[str, Array]) -> tuple[int, int] | None:
    """Two rows that are the same in every column but `run` and `seed`."""
    seen: dict[bytes, int] = {}
    told = [values for name, values in columns.items() if name not in ("run", "seed")]
    for row in range(len(columns["run"])):
        key = b"|".join(values[row].tobytes() if values.ndim > 1 else str(values[row]).encode() for values in told)
        if key in seen:
            return seen[key], row
        seen[key] = row
    return None


def _partly_told(columns: dict[str, Array]) -> list[str]:
    """Settings that some transformer runs tell and others do not: laws need them of all."""
    mine = columns["status"] == "finished"
    if "proxy" in columns:
        mine = mine & (columns["proxy"] == "transformer")
    said: list[str] = []
    for name in (name for name in _SETTINGS if name in columns and not COLUMNS[name].text and name != "seed"):
        unknown = mine & ~np.isfinite(columns[name].reshape(len(mine), -1)).all(-1)
        if 0 < unknown.sum() < mine.sum():
            said.append(
                f"{name} is not known in {int(unknown.sum())} of {int(mine.sum())} rows "
                f"({_some(columns['run'][unknown])}), and no law reads a column with holes: fill it in, or leave these "
                "rows out."
            )
    return said


def _unexplained(columns: dict[str, Array]) -> tuple[int, int, float] | None:
    """Two finished rows whose settings are the same and whose losses are furthest apart, where that is no noise."""
    fitted = (columns["status"] == "finished") & COLUMNS["loss"].accepts(columns["loss"]).all(-1)
    log_loss = np.log(np.where(fitted[:, None], columns["loss"], 1))
    told = [values for name, values in columns.items() if name not in _OUTCOMES]
    groups: dict[bytes, list[int]] = {}
    for row in np.flatnonzero(fitted).tolist():
        key = b"|".join(values[row].tobytes() if values.ndim > 1 else str(values[row]).encode() for values in told)
        groups.setdefault(key, []).append(row)
    found: list[tuple[int, int, float]] = []
    for group in groups.values():
        target = int(np.ptp(log_loss[group], axis=0).argmax())
        low, high = (
            group[int(place)] for place in (log_loss[group, target].argmin(), log_loss[group, target].argmax())
        )
        found.append((min(low, high), max(low, high), float(np.expm1(log_loss[high, target] - log_loss[low, target]))))
    furthest = max(found, key=lambda pair: pair[2], default=None)
    return furthest if furthest and furthest[2] > _SEEDS_APART else None


def _belong(count: int) -> str:
    return "belongs to" if count == 1 else "belong to"


def _rows(count: int) -> str:
    return f"{count} row" + ("" if count == 1 else "s")


def _some(names: Array) -> str:
    listed = list(dict.fromkeys(names.tolist()))
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
