"""Outcome: all that a study found, and the views of it that tables and figures share."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixopt.columns import Array
from mixopt.fit.fit import Fit
from mixopt.fit.selection import Selection
from mixopt.optimize.plan import Plan
from mixopt.recipe import Recipe
from mixopt.runs import Runs
from mixopt.study import Study

_SAME_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Outcome:
    """A study, its runs, the laws fitted to them, the plan and its recipe.

    `available` are the tokens of each corpus that the recipe's run has.
    """

    study: Study
    runs: Runs
    selection: Selection
    plan: Plan
    recipe: Recipe
    available: Mapping[str, float]

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the corpora, in the order that the laws know."""
        return self.runs.corpora

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets that were planned for."""
        return tuple(self.plan.targets)

    @property
    def fits(self) -> Mapping[str, Fit]:
        """The chosen law, fitted to each target."""
        return self.selection.laws

    @cached_property
    def unique(self) -> Array:
        """[m], tokens of each corpus that the plan's run has."""
        return np.array([self.available[name] for name in self.corpora], dtype=float)

    @cached_property
    def mixture(self) -> Array:
        """[m], the plan's mixture."""
        return np.array([self.used(name) for name in self.corpora])

    def used(self, corpus: str) -> float:
        """Share of a corpus in the plan; 0 where it comes to less than one token."""
        share = self.plan.chosen.mixture[corpus]
        return share if share * self.tokens >= 1 else 0.0

    @cached_property
    def natural(self) -> Array:
        """[m], shares in proportion to the tokens available, as the plan was compared with."""
        found = self.plan.baselines.get("natural")
        return self.unique / self.unique.sum() if found is None else self.shares(found.mixture)

    @cached_property
    def caps(self) -> Array:
        """[m], the largest share of each corpus that the study's bounds and epoch caps allow at the plan's tokens."""
        bounds, epochs = self.study.share_bounds(), self.study.epoch_caps()
        upper = np.array([bounds[name][1] for name in self.corpora])
        return np.minimum(upper, np.array([epochs[name] for name in self.corpora]) * self.unique / self.tokens)

    @property
    def level(self) -> str:
        """Coverage of the intervals, e.g. 90 %."""
        return f"{100 * self.plan.level:.0f} %"

    @property
    def tokens(self) -> float:
        """Tokens of the plan's run."""
        return self.plan.chosen.tokens

    def shares(self, mixture: Mapping[str, float]) -> Array:
        """[m], a mixture in the order of `corpora`."""
        return np.array([mixture.get(name, 0.0) for name in self.corpora])

    @cached_property
    def trained(self) -> Runs:
        """The transformer runs that finished: what the laws are fitted to."""
        return self.runs.of("transformer").finished()

    @cached_property
    def usual(self) -> Array:
        """[n] of `trained`: whether a run has the batch size and learning rate that most runs have."""
        return most_frequent(np.stack([self.trained["batch_tokens"], self.trained["peak_lr"]], -1))

    @cached_property
    def reference(self) -> Array:
        """[n] of `trained`: whether a run has the mixture that most runs have; the natural one in a designed sweep."""
        return most_frequent(self.trained["mixture"].round(9))

    @cached_property
    def reference_name(self) -> str:
        """What to call the mixture of `reference`."""
        mixture = self.trained["mixture"][self.reference][0]
        return "natural mixture" if np.abs(mixture - self.natural).max() < _SAME_SHARE else "most frequent mixture"

    @cached_property
    def epoch_matched(self) -> bool:
        """Whether most proxies repeated corpora as often as the run they stand for."""
        flag = self.trained.columns.get("epoch_matched", np.zeros(1))
        return bool(np.mean(flag) > 0.5)

    @cached_property
    def largest_flops(self) -> float:
        """FLOPs of the largest run that the laws are fitted to."""
        return float((6 * self.trained["model_size"] * self.trained["tokens"]).max())

    @cached_property
    def sweep_flops(self) -> float:
        """FLOPs of all transformer runs, those that diverged too."""
        runs = self.runs.of("transformer")
        return float(np.nansum(6 * runs["model_size"] * runs["tokens"]))

    def at_plan(self, mixtures: Array, tokens: Array | None = None) -> dict[str, Array]:
        """Law columns of mixtures [n, m] at the plan's size, batch and learning rate; `tokens` [n] default to its own.

        Where proxies were epoch-matched, fewer tokens come with fewer unique ones: corpora repeat as in the plan.
        """
        tokens = np.full(len(mixtures), self.tokens) if tokens is None else tokens
        part = tokens[:, None] / self.tokens if self.epoch_matched else np.ones((len(tokens), 1))
        chosen = self.plan.chosen
        scalars = {"model_size": chosen.model_size, "batch_tokens": chosen.batch_tokens, "peak_lr": chosen.peak_lr}
        return law_columns(mixtures, tokens, self.unique * part, scalars)

    def like(self, run: Runs, tokens: Array, peak_lr: Array | None = None) -> dict[str, Array]:
        """Law columns of a run, the first of `run`, were it `tokens` [n] long or trained at `peak_lr` [n]."""
        part = tokens[:, None] / run["tokens"][0] if self.epoch_matched else np.ones((len(tokens), 1))
        unique = run.columns["unique_tokens"][0] if "unique_tokens" in run.columns else self.unique
        scalars = {name: float(run[name][0]) for name in ("model_size", "batch_tokens", "peak_lr")}
        columns = law_columns(np.tile(run["mixture"][0], (len(tokens), 1)), tokens, unique * part, scalars)
        return columns if peak_lr is None else {**columns, "peak_lr": peak_lr}


def law_columns(
    mixtures: Array, tokens: Array, unique_tokens: Array, scalars: Mapping[str, float | None]
) -> dict[str, Array]:
    """Columns that laws read, from mixtures [n, m], tokens [n], unique tokens [n, m] and one value of each scalar."""
    columns = {name: np.full(len(tokens), value) for name, value in scalars.items() if value is not None}
    columns |= {"mixture": mixtures, "tokens": tokens, "unique_tokens": unique_tokens}
    columns["epochs"] = mixtures * tokens[:, None] / unique_tokens
    if "batch_tokens" in columns:
        columns["steps"] = tokens / columns["batch_tokens"]
    if "model_size" in columns:
        columns["flops"] = 6 * columns["model_size"] * tokens
    return columns


def most_frequent(rows: Array) -> Array:
    """Mask [n] of the rows [n, c] that are equal to the most frequent one.

    >>> most_frequent(np.array([[1, 2], [3, 4], [3, 4]])).tolist()
    [False, True, True]
    """
    _, kind, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    return kind.reshape(-1) == counts.argmax()


def band(fitted: Fit, columns: Mapping[str, Array], level: float) -> tuple[Array, Array] | None:
    """Ends [n] of the interval of a law's prediction; None where the fit has no replicates."""
    return fitted.interval(columns, level) if len(fitted.replicates) else None
