"""The cheap fidelity: what many n-gram runs say of mixtures, and how far a transformer agrees.

An n-gram model trained on a mixture takes a fraction of a second, so it can try many. Its ranking is *checked*, not
believed: its exchange rates enter a transformer's law as the centers of a prior, from which the fit may move as far as
the transformer's own runs ask, and that law competes with others that know nothing of the screen.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.fit import Fit, fit
from mixopt.fit.norms import Huber
from mixopt.fit.ranks import spearman
from mixopt.laws.constant import Constant
from mixopt.laws.token_exchange import TokenExchange
from mixopt.runs import Runs

_NOISE = 3e-3
_STARTS = 8
_DISTINCT = 0.15


@dataclass(frozen=True)
class Agreement:
    """How one target's n-gram and transformer losses rank the mixtures that both tried.

    `rank` is Spearman's correlation over `mixtures` mixtures at the most frequent transformer setting, `interval` its
    90 % bootstrap interval. `regret` is how much worse, in nats per token, the screen's best mixture of these was for
    the transformer than the transformer's own best.
    """

    mixtures: int
    rank: float
    interval: tuple[float, float]
    regret: float

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Agreement":
        """Inverse of `dataclasses.asdict`, also after a round trip through JSON."""
        return cls(data["mixtures"], data["rank"], (data["interval"][0], data["interval"][1]), data["regret"])


def fit_screen(runs: Runs, *, seed: int = 0) -> dict[str, Fit]:
    """An exchange law for each target from the n-gram runs, which share their number of tokens."""
    return {target: _fit_target(runs, target, seed) for target in runs.targets}


def rates(fits: Mapping[str, Fit]) -> dict[str, dict[str, float]]:
    """What a token of each corpus is worth to each target, up to a factor: the screen's word on mixtures."""
    return {target: _exchange(fitted) for target, fitted in fits.items()}


def favorites(fits: Mapping[str, Fit], weights: Mapping[str, float], tokens: Array, pool: Array, count: int) -> Array:
    """The `count` mixtures of `pool` [q, m] that the screen likes best, each of them different from the others.

    Parameters
    ----------
    weights : of each target in what is minimized
    tokens : [q, m], tokens of each corpus in a run on each mixture

    Two mixtures are different when .15 of the tokens or more would have to change places.
    """
    loss = np.zeros(len(pool))
    for target, fitted in fits.items():
        loss += weights[target] * fitted.predict({"corpus_tokens": tokens})
    chosen: list[Array] = []
    for mixture in pool[np.argsort(loss)]:
        if all(np.abs(mixture - other).sum() / 2 >= _DISTINCT for other in chosen):
            chosen.append(mixture)
        if len(chosen) == count:
            break
    return np.array(chosen).reshape(-1, pool.shape[1])


def agreement(runs: Runs, *, replicates: int = 1000, seed: int = 0) -> dict[str, Agreement]:
    """How the screen's ranking compares with the transformer's, by target; empty with under 4 shared mixtures."""
    screen, full = runs.of("ngram").finished(), _most_frequent(runs.of("transformer").finished())
    pairs = _shared(screen["mixture"], full["mixture"])
    if len(pairs) < 4:
        return {}
    rng = np.random.default_rng(seed)
    return {
        target: _compare(screen["loss"][pairs[:, 0], k], full["loss"][pairs[:, 1], k], rng, replicates)
        for k, target in enumerate(runs.targets)
    }


def _fit_target(runs: Runs, target: str, seed: int) -> Fit:
    law = Constant("E", lower=0.05) + TokenExchange(runs.corpora, unit=float(np.median(runs["tokens"])))
    return fit(law, _columns(runs, target), norm=Huber(_NOISE), starts=_STARTS, seed=seed)


def _columns(runs: Runs, target: str) -> Columns:
    # An n-gram run never repeats text: what it saw of a corpus is its passes, at most one, times the unique tokens.
    return {**runs.target(target), "corpus_tokens": runs["epochs"] * runs["unique_tokens"]}


def _exchange(fitted: Fit) -> dict[str, float]:
    return {
        name[2:-1]: float(rate)
        for name, rate in zip(fitted.law.names, fitted.theta, strict=True)
        if name.startswith("m[")
    }


def _most_frequent(runs: Runs) -> Runs:
    """The runs, first seed only, at the size, tokens, batch and learning rate that most mixtures were run at."""
    if not len(runs):
        return runs
    settings = np.stack([runs[name] for name in ("model_size", "tokens", "batch_tokens", "peak_lr")], -1)
    _, kind, counts = np.unique(settings, axis=0, return_inverse=True, return_counts=True)
    usual = kind.reshape(-1) == counts.argmax()
    return runs.where(usual & (runs["seed"] == runs["seed"].min()) if "seed" in runs.columns else usual)


def _shared(first: Array, second: Array) -> Array:
    """Pairs of rows [p, 2] of two tables of mixtures that hold the same mixture."""
    same = np.abs(first[:, None] - second[None]).max(-1) < 1e-9
    return np.argwhere(same)


def _compare(screen: Array, full: Array, rng: np.random.Generator, replicates: int) -> Agreement:
    draws = rng.integers(len(screen), size=(replicates, len(screen)))
    correlations = [spearman(screen[d], full[d]) for d in draws]
    low, high = np.nanquantile(correlations, [0.05, 0.95])
    return Agreement(
        mixtures=len(screen),
        rank=spearman(screen, full),
        interval=(float(low), float(high)),
        regret=float(full[screen.argmin()] - full.min()),
    )
