"""How well a model predicted runs that it had not seen: order, size of errors, and what choosing by it would cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.fit.ranks import optimism, regret_at_1, spearman


@dataclass(frozen=True, eq=False)
class Standing:
    """Figures of one candidate on unseen runs, an entry a target: `[k]`.

    Attributes
    ----------
    rank : Spearman correlation of predicted and observed
    r2 : share of the variance explained
    rmse : root mean square error, in units of the output
    regret, optimism : of the run predicted best (`ranks.regret_at_1`, `ranks.optimism`)
    ceiling : the r2 that a perfect model would have, given the noise between runs of one mixture; NaN if unknown
    """

    rank: Array
    r2: Array
    rmse: Array
    regret: Array
    optimism: Array
    ceiling: Array

    def to_dict(self) -> dict[str, Any]:
        return {name: values.tolist() for name, values in vars(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Standing:
        return cls(**{name: np.array(values, float) for name, values in data.items()})


def standing(predicted: Array, observed: Array, noise: Array) -> Standing:
    """That of predictions `[n, k]`, with the sd between runs of one mixture, `[k]`.

    A model that orders three runs rightly and promises .1 more than comes:

    >>> seen = np.array([[3.0], [2.0], [2.5]])
    >>> one = standing(seen - 0.1, seen, np.array([np.nan]))
    >>> one.rank, one.regret, one.optimism.round(2)
    (array([1.]), array([0.]), array([0.1]))
    """
    missed, variance = observed - predicted, np.maximum(observed.var(0), 1e-300)

    def each(figure: Callable[[Array, Array], float]) -> Array:
        return np.array([figure(*pair) for pair in zip(predicted.T, observed.T, strict=True)])

    return Standing(
        rank=each(spearman),
        r2=1 - (missed**2).mean(0) / variance,
        rmse=np.sqrt((missed**2).mean(0)),
        regret=each(regret_at_1),
        optimism=each(optimism),
        ceiling=1 - noise**2 / variance,
    )


def replicate_noise(output: Array, group: Array) -> Array:
    """Sd of `output` [n, k] within rows of one group, pooled, `[k]`; NaN where no group has two rows.

    >>> replicate_noise(np.array([[1.0], [1.2], [5.0]]), np.array([0, 0, 1])).round(3)
    array([0.141])
    """
    count = np.bincount(group)
    freedom = len(group) - len(count)
    if freedom < 1:
        return np.full(output.shape[1], np.nan)
    means = np.stack([np.bincount(group, column) / count for column in output.T], -1)
    return np.sqrt(((output - means[group]) ** 2).sum(0) / freedom)


def table(standings: Mapping[str, Standing], weights: Mapping[str, float], dropped: Mapping[str, str]) -> str:
    """A line a candidate: its mean weight, and its figures averaged over targets."""
    heads = ("rank", "r2", "rmse", "regret", "optimism")
    lines = [f"{'on unseen runs':18}{'weight':>8}" + "".join(f"{head:>10}" for head in heads)]
    for name, one in standings.items():
        weight = f"{weights[name]:8.2f}" if name in weights else f"{'':8}"
        lines.append(f"{name:18}{weight}" + "".join(f"{np.mean(getattr(one, head)):10.4f}" for head in heads))
    ceiling = np.mean(next(iter(standings.values())).ceiling)
    if np.isfinite(ceiling):
        lines.append(f"Noise between runs of one mixture leaves an r2 of {ceiling:.4f} at best.")
    lines += [f"{name} was left out: {reason}" for name, reason in dropped.items()]
    return "\n".join(lines)
