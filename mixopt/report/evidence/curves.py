"""Loss against what was scaled: runs, the law through them, and the same law further on."""

from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.laws.law import is_wide
from mixopt.report.evidence.evidence import Evidence, spell_range, steps_of
from mixopt.report.figures.canvas import COLORS, SHADE, Drawing, label, ladder_colors, legend, log_counts, target_panels

NAME, TITLE = "curves", "Scaling curves"
_POINTS, _BEYOND, _CORPORA = 60, 10.0, 6
_SETTINGS = ("mixture", "batch_tokens", "peak_lr", "unique_tokens")


def draw(evidence: Evidence) -> Drawing:
    """A panel a target: loss against tokens or size, or where only the mixture varies against single shares."""
    if len(evidence.fitted) < 2:
        return Drawing(NAME, TITLE, "One run makes no curve.")
    axis = _axis(evidence)
    figure, axes = target_panels(len(evidence.targets), 3.5)
    for ax, target in zip(axes, evidence.targets, strict=True):
        _shares(ax, evidence, target) if axis == "share" else _scaling(ax, evidence, target, axis)
        ax.set(title=label(target), ylabel=f"loss [{evidence.unit}]")
    if axis != "share" or len(axes) == 1:  # elsewhere each panel has corpora of its own
        legend(figure, axes)
    if axis == "share":
        caption = (
            "Lines: the loss predicted when one corpus grows from nothing to the largest share that a run gave it and "
            "the others keep their proportions; the corpora that move this target most."
        )
    else:
        caption = (
            "Points are runs; lines the law at the settings of each size's run that is nearest to the median ones, "
            f"bands its {evidence.level:.0%} intervals. In the shaded part there are no runs."
        )
    return Drawing(NAME, TITLE, caption + evidence.shown, "Curves of loss for each target.", figure)


def _axis(evidence: Evidence) -> str:
    columns = evidence.fitted.columns
    varied = [name for name in ("tokens", "model_size") if name in columns and np.ptp(np.log(columns[name])) > 0]
    return varied[0] if varied else "share"


def _scaling(ax: Any, evidence: Evidence, target: str, axis: str) -> None:
    runs, fitted = evidence.fitted.target(target), evidence.selection.fits[target]
    x = runs[axis]
    end = float(x.max()) * _BEYOND
    ax.axvspan(x.max(), end, color=SHADE, lw=0, zorder=0)
    sizes = runs["model_size"] if axis == "tokens" and "model_size" in runs else np.ones(len(x))
    level = steps_of(sizes)
    for step, color in ladder_colors(np.unique(level).tolist()).items():
        mine = np.flatnonzero(level == step)
        words = f"{spell_range(sizes[mine])} model" if np.ptp(level) else None
        ax.plot(x[mine], runs["loss"][mine], "o", color=color, ms=3.5, mew=0, alpha=0.6, label=words)
        like = _typical(runs, mine)
        grid = np.geomspace(x[mine].min(), end, _POINTS)
        _curve(ax, grid, fitted, _moved(runs, like, axis, grid), color, evidence.level)
    log_counts(ax.xaxis, float(x.min()) / 1.2, end)
    ax.set_xlabel("tokens" if axis == "tokens" else "model size [parameters]")


def _typical(runs: dict[str, Array], mine: Array) -> int:
    """Of the runs `mine` the one whose mixture, batch, learning rate and data are nearest to the median of all runs."""
    told = [
        runs[name] if name == "mixture" else np.log(np.maximum(runs[name].reshape(len(runs["loss"]), -1), 1e-6))
        for name in _SETTINGS
        if name in runs
    ]
    if not told:
        return int(mine[0])
    settings = np.hstack(told)
    off = np.nan_to_num(settings - np.nanmedian(settings, axis=0))
    return int(mine[(off[mine] ** 2).sum(-1).argmin()])


def _curve(ax: Any, x: Array, fitted: Any, columns: dict[str, Array], color: str, level: float) -> None:
    ax.plot(x, fitted.predict(columns), color=color, lw=1.2, zorder=3)
    if len(getattr(fitted, "replicates", [0])):
        low, high = fitted.interval(columns, level)
        ax.fill_between(x, low, high, color=color, alpha=0.13, lw=0, zorder=2)


def _moved(runs: dict[str, Array], like: int, axis: str, values: Array) -> dict[str, Array]:
    """The settings of one run, repeated, with another size or number of tokens; what follows from these moves along."""
    columns = {
        name: np.repeat(np.asarray(column)[like : like + 1], len(values), axis=0)
        for name, column in runs.items()
        if np.asarray(column).dtype.kind == "f" or is_wide(name)
    }
    factor = values / columns[axis]
    for name in {"tokens": ("steps", "epochs", "corpus_tokens", "flops"), "model_size": ("flops",)}[axis]:
        if name in columns:
            columns[name] = columns[name] * (factor[:, None] if is_wide(name) else factor)
    return {**columns, axis: values}


def _shares(ax: Any, evidence: Evidence, target: str) -> None:
    runs, fitted = evidence.fitted.target(target), evidence.selection.fits[target]
    center = runs["mixture"].mean(0)
    lines = {i: _line(runs, center, i) for i in range(len(center))}
    said = {i: fitted.predict(columns) for i, (_, columns) in lines.items()}
    for color, i in zip(COLORS, sorted(said, key=lambda i: -np.ptp(said[i]))[:_CORPORA], strict=False):
        ax.plot(lines[i][0], said[i], color=color, lw=1.4, label=label(evidence.fitted.corpora[i]))
    ax.set_xlabel("share of the corpus")
    if len(evidence.targets) > 1:  # each panel has corpora of its own
        ax.legend(loc="best")


def _line(runs: dict[str, Array], center: Array, i: int) -> tuple[Array, dict[str, Array]]:
    share = np.linspace(0, runs["mixture"][:, i].max(), _POINTS)
    rest = np.where(np.arange(len(center)) == i, 0.0, center)
    rest = rest / max(rest.sum(), 1e-12)
    mixture = share[:, None] * (np.arange(len(center)) == i) + (1 - share)[:, None] * rest
    like = {name: np.repeat(values[:1], _POINTS, axis=0) for name, values in runs.items()}
    return share, {**like, "mixture": mixture}
