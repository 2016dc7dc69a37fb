"""From a table in which only the mixture varies to an average of models, and how it did on mixtures unseen."""

from collections.abc import Mapping

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.cautions import cautions
from mixopt.fit.selection import Candidate, HeldOut, OneTarget, Selection
from mixopt.fit.stack import Stack, Stacked
from mixopt.runs import Runs


def averaged(runs: Runs, full: Runs, weights: Mapping[str, float], seed: int) -> Selection:
    """All models of the mixture, averaged by how well each predicts mixtures that it did not see."""
    names = list(weights)
    loss = np.stack([full.target(name)["loss"] for name in names], 1)
    learned = Stack().learn({"mixture": full["mixture"], "loss": loss, "run": full["run"]}, seed=seed)
    noise = dict(zip(names, (learned.noise / loss.mean(0)).tolist(), strict=True))
    fits = {name: OneTarget(learned, place) for place, name in enumerate(names)}
    return Selection(
        law="stack",
        fits=fits,
        candidates=_members(learned, loss, np.array(list(weights.values()))),
        held_out=_unseen(learned, full, names, loss),
        noise=noise,
        agreement={},
        warnings=(
            *cautions(runs.of("transformer"), {}, noise),
            *(f"The candidate {name} was left out: {why}" for name, why in learned.dropped.items()),
        ),
    )


def _unseen(learned: Stacked, full: Runs, names: list[str], loss: Array) -> HeldOut:
    """What the stack said of each run with models and weights from other folds; the interval is that of all folds."""
    columns: Columns = {"mixture": full["mixture"]}
    said = loss - learned.missed
    low, high = learned.interval(columns, observation=True)
    shift = said - learned.predict(columns)
    tables = {"observed": loss, "predicted": said, "lower": low + shift, "upper": high + shift}
    by_name = {
        key: {name: tuple(values[:, place].tolist()) for place, name in enumerate(names)}
        for key, values in tables.items()
    }
    words = "every mixture once, in 5 folds"
    return HeldOut(words, tuple(range(len(full))), tuple(full["run"].astype(str).tolist()), **by_name)


def _members(learned: Stacked, loss: Array, weights: Array) -> tuple[Candidate, ...]:
    """A row a model, best first; the error is relative to the mean loss of each target."""
    share, scale = weights / weights.sum(), loss.mean(0)
    freedom = {name: member.freedom for name, member in learned.members.items()} | {"stack": learned.freedom}
    rows = {name: (one.rmse / scale) for name, one in learned.standings.items()}
    squared = {name: float(share @ row**2) for name, row in rows.items()}
    best = min(squared.values())
    return tuple(
        Candidate(
            name=name,
            coefficients=freedom[name],
            rmse=squared[name] ** 0.5,
            bias=float("nan"),
            rank=float(share @ learned.standings[name].rank),
            behind=squared[name] - best,
            behind_se=float("nan"),
            targets={},
            regret=float(share @ learned.standings[name].regret),
            optimism=float(share @ learned.standings[name].optimism),
        )
        for name in sorted(squared, key=squared.__getitem__)
    )
