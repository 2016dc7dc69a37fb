r"""Steps in shares: what the mixture does, by splitting it again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.predictors.predictor import Learned, Predictor, checked, predictor_from_dict
from mixopt.predictors.support import Support
from mixopt.predictors.warp import Range

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

_FOLDS = 5


@dataclass(frozen=True)
class BoostedTrees(Predictor):
    r"""Gradient-boosted regression trees, a bag of five for each target.

    .. math:: L = \frac{1}{5} \sum_{f=1}^{5} \sum_{t=1}^{T} \eta \, \mathrm{tree}_{f,t}(h)

    Each tree corrects those before it. Bag f is grown without the f-th fifth of the runs, and the number of trees T is
    the one at which the five predict the fifths that they did not see best, so no run is kept back for stopping and
    none that is predicted later is looked at. Trees know neither smoothness nor direction and need many runs for each
    corpus: with 512 runs of 17 corpora they are good, with 127 of 24 they are far behind the laws.

    Parameters
    ----------
    output : what is predicted; one target [n] or several [n, k]
    inputs : columns read
    trees, rate, leaves : the most trees, how much of each correction is made, leaves of a tree
    least : runs in a leaf

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`

    References
    ----------
    Liu et al., *RegMix: Data Mixture as Regression*, 2024, arXiv:2407.01492.

    Examples
    --------
    >>> import numpy as np
    >>> code = np.linspace(0, 1, 40)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 3 - np.sqrt(code)}
    >>> learned = BoostedTrees(trees=100).learn(runs)
    >>> learned.predict({"mixture": np.array([[0.5, 0.5]])}).round(1)
    array([2.3])
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)
    trees: int = 400
    rate: float = 0.05
    leaves: int = 15
    least: int = 5

    def learn(self, columns: Columns, *, seed: int = 0) -> Bags:
        """Raises FitError as every predictor, also with fewer than ten runs; ImportError without scikit-learn."""
        output, single = checked(self, columns)
        if len(output) < 2 * _FOLDS:
            raise FitError(f"{len(output)} runs are too few for boosted trees; give {2 * _FOLDS}, or learn with Ridge.")
        x, fold = _features(self, columns), np.random.default_rng(seed).permutation(len(output)) % _FOLDS
        bags, count, unseen = [], np.ones(output.shape[1], int), np.zeros(output.shape)
        for k in range(output.shape[1]):
            bags.append([self._grow(x[fold != f], output[fold != f, k], seed) for f in range(_FOLDS)])
            staged = np.zeros((self.trees, len(output)))
            for f, model in enumerate(bags[k]):
                staged[:, fold == f] = list(model.staged_predict(x[fold == f]))
            count[k] = int(((staged - output[:, k]) ** 2).mean(1).argmin()) + 1
            unseen[:, k] = staged[count[k] - 1]
        runs = {name: np.asarray(columns[name], float) for name in (*self.inputs, self.output)}
        return Bags(self, runs, seed, bags, count, output - unseen, Support.of(self.inputs, columns), single)

    def _grow(self, x: Array, y: Array, seed: int) -> HistGradientBoostingRegressor:
        try:
            from sklearn.ensemble import HistGradientBoostingRegressor
        except ImportError as error:
            raise ImportError("Boosted trees need scikit-learn; pip install 'mixopt[learn]'.") from error
        settings: dict[str, Any] = {"max_iter": self.trees, "learning_rate": self.rate, "max_leaf_nodes": self.leaves}
        settings |= {"min_samples_leaf": self.least, "early_stopping": False, "random_state": seed}
        return HistGradientBoostingRegressor(**settings).fit(x, y)


@dataclass(frozen=True, eq=False)
class Bags(Learned):
    """Five boosted models a target, how many trees of them count, and how wrong each was on the runs it had not seen.

    As plain data it is the runs and the seed, from which it is grown again: the same trees with the same scikit-learn.
    """

    predictor: BoostedTrees
    runs: Columns
    seed: int
    bags: Sequence[Sequence[HistGradientBoostingRegressor]]
    count: Array
    missed: Array
    support: Support
    single: bool

    @property
    def freedom(self) -> float:
        """Leaves of the trees that count, at most half as many as runs."""
        return float(np.minimum(self.count * self.predictor.leaves, len(self.missed) / 2).mean())

    def predict(self, columns: Columns) -> Array:
        return self._shape(self._mean(columns))

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        """From the errors on unseen runs, which contain the noise of one run: `observation` changes nothing."""
        center, missed = self._mean(columns), np.sort(np.abs(self.missed), axis=0)
        half = missed[min(int(np.ceil((len(missed) + 1) * level)), len(missed)) - 1]
        return self._shape(center - half), self._shape(center + half)

    def outside(self, columns: Columns) -> Array:
        return self.support.outside(columns)

    def to_dict(self) -> dict[str, Any]:
        runs = {name: values.tolist() for name, values in self.runs.items()}
        return {"learned": "Bags", "predictor": self.predictor.to_dict(), "runs": runs, "seed": self.seed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bags:
        runs = {name: np.array(values, float) for name, values in data["runs"].items()}
        predictor = predictor_from_dict(data["predictor"])
        assert isinstance(predictor, BoostedTrees)
        return predictor.learn(runs, seed=int(data["seed"]))

    def _mean(self, columns: Columns) -> Array:
        x = _features(self.predictor, columns)
        grown = [
            np.mean([next(islice(model.staged_predict(x), count - 1, None)) for model in bag], axis=0)
            for bag, count in zip(self.bags, self.count.tolist(), strict=True)
        ]
        output = self.runs[self.predictor.output].reshape(len(self.missed), -1)
        return Range.of(output).inside(np.stack(grown, -1))

    def _shape(self, values: Array) -> Array:
        return values[:, 0] if self.single else values


def _features(predictor: BoostedTrees, columns: Columns) -> Array:
    blocks = [np.asarray(columns[name], float) for name in predictor.inputs]
    return np.hstack([block.reshape(len(block), -1) for block in blocks])


def examples() -> tuple[Predictor, ...]:
    return (BoostedTrees(trees=60), BoostedTrees(inputs=("mixture", "tokens"), trees=60))
