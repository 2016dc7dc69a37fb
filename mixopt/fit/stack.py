"""Which model? All of them, weighted by how well each predicts runs that it did not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.exchange import READS, Exchange, Exchanged
from mixopt.fit.standing import Standing, replicate_noise, standing, table
from mixopt.predictors.boosted_trees import BoostedTrees
from mixopt.predictors.gaussian_process import GaussianProcess
from mixopt.predictors.log_linear import LogLinear
from mixopt.predictors.predictor import Learned, Predictor, checked, learned_from_dict
from mixopt.predictors.ridge import Ridge
from mixopt.predictors.support import Support
from mixopt.predictors.warp import Range

FOLDS = 5
# Trees need this many runs a corpus: good at 30, far behind at 5 and 8 (Liu et al. 2024; Olmix 2026).
_RUNS_FOR_TREES = 15
# Models with coefficients of their own for each target take time as runs x corpora^2 x targets: about a minute here.
_MOST_WORK = 2e7
# The trees of one target and 512 runs take two seconds, and the folds six times that: half a minute here.
_MOST_TREES = 1_000  # runs x targets
# A power and a factor for each corpus need this many runs a coefficient: worth it at 9 (Liu et al. 2024).
_RUNS_A_COEFFICIENT = 8
_SURE = 1e3  # weight of the row that makes weights sum to one


def default_candidates(columns: Columns, output: str, inputs: tuple[str, ...] = ("mixture",)) -> dict[str, Predictor]:
    """The models that are worth asking about a table of this shape, by name.

    Ridge and the Gaussian process always, since a hundred targets cost them little more than one. Where the table is
    not too large for it (a hundred targets of 24 corpora are not, of 64 they are), the log-linear model, and the law of
    token exchange if losses are positive and it knows every input, also with powers and factors of each corpus
    (`Exchange.full`) where runs are 8 times its coefficients; boosted trees too where there are 15 runs a corpus,
    runs x targets are at most a thousand and scikit-learn is installed.

    >>> runs = {"mixture": np.full((60, 24), 1 / 24), "loss": np.ones((60, 3))}
    >>> list(default_candidates(runs, "loss"))
    ['ridge', 'gaussian_process', 'log_linear', 'token_exchange']
    """
    made, too_long = _candidates(columns, output, inputs)
    return {name: one for name, one in made.items() if name not in too_long}


def _candidates(columns: Columns, output: str, inputs: tuple[str, ...]) -> tuple[dict[str, Predictor], dict[str, str]]:
    """The models that suit a table, and those of them that would take too long on it, by name with the reason."""
    runs, corpora = np.shape(columns["mixture"])
    losses = np.asarray(columns[output]).reshape(runs, -1)
    made: dict[str, Predictor] = {"ridge": Ridge(output, inputs), "gaussian_process": GaussianProcess(output, inputs)}
    made["log_linear"] = LogLinear(output, inputs)
    if (losses > 0).all() and not set(inputs) - set(READS):
        made["token_exchange"] = Exchange(output, inputs)
        if runs >= _RUNS_A_COEFFICIENT * (3 * corpora + len(inputs) + 3):
            made["token_exchange_full"] = Exchange(output, inputs, starts=1, full=True)
    if runs >= _RUNS_FOR_TREES * corpora and find_spec("sklearn"):
        made["boosted_trees"] = BoostedTrees(output, inputs)
    too_long: dict[str, str] = {}
    if (work := runs * corpora**2 * losses.shape[1]) > _MOST_WORK:
        size = f"{runs} runs x {corpora} corpora squared x {losses.shape[1]} targets"
        too_long = dict.fromkeys(list(made)[2:], _too_long(size, work, _MOST_WORK))
    elif (work := losses.size) > _MOST_TREES and "boosted_trees" in made:
        too_long = {"boosted_trees": _too_long(f"{runs} runs x {losses.shape[1]} targets", work, _MOST_TREES)}
    return made, too_long


def _too_long(size: str, work: float, most: float) -> str:
    return (
        f"{size} = {work:,.0f}, and above {most:,.0f} it takes minutes. Name it in candidates to have it all the same."
    )


@dataclass(frozen=True)
class Stack(Predictor):
    r"""An average of models, whose weights are those that predict runs best that no model saw.

    .. math:: L(h) = \sum_c w_c L_c(h), \quad w \ge 0, \; \sum_c w_c = 1

    No model wins everywhere: laws win where runs are few, ridge where corpora are many, trees where runs abound. The
    runs are split into five folds, each predicted by models of the other four; runs of one mixture stay together, and
    so do rows of one `run`. The weights are non-negative least squares on these predictions, for each target or for all
    alike, whichever predicts better; the error of the whole is measured with weights that did not see the fold either.

    Parameters
    ----------
    output : what is predicted; one target [n] or several [n, k]
    inputs : columns read
    candidates : (name, predictor) pairs; those of `default_candidates` if None
    folds : at least 2

    References
    ----------
    Breiman, *Stacked Regressions*, 1996, Machine Learning 24. van der Laan, Polley and Hubbard, *Super Learner*, 2007.

    Examples
    --------
    >>> code = np.linspace(0, 1, 20)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 2 + (0.1 + np.sqrt(code)) ** -0.5}
    >>> learned = Stack().learn(runs)
    >>> learned.predict({"mixture": np.array([[0.36, 0.64]])}).round(2)
    array([3.05])
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)
    candidates: tuple[tuple[str, Predictor], ...] | None = None
    folds: int = FOLDS

    def learn(self, columns: Columns, *, seed: int = 0) -> Stacked:
        """Raises FitError as every predictor, and where no candidate could be learned; `dropped` says why one was."""
        output, single = checked(self, columns)
        asked, dropped = self.candidates, dict[str, str]()
        if asked is None:
            asked, dropped = _candidates(columns, self.output, self.inputs)
        given = {name: np.asarray(columns[name], float) for name in self.inputs} | {self.output: output}
        group = _groups(given, self.inputs, columns.get("run"))
        if not group.any():
            raise FitError(
                "All rows are of one run or one mixture, or tied by both, so none can be held out. Add runs."
            )
        fold = (np.random.default_rng(seed).permutation(group.max() + 1) % self.folds)[group]
        unseen, members = dict[str, Array](), dict[str, Learned]()
        for name, predictor in dict(asked).items():
            if name in dropped:
                continue
            try:
                unseen[name] = _unseen(predictor, given, fold, seed)
                members[name] = predictor.learn(given, seed=seed)
            except (FitError, ImportError) as error:
                unseen.pop(name, None)
                dropped[name] = str(error)
        if not members:
            raise FitError(f"No candidate could be learned: {next(iter(dropped.values()), 'none was given')}")
        stacked, spread = np.stack([unseen[name] for name in members]), Range.of(output).spread
        weights, whole = _weighted(stacked / spread, output / spread, fold)
        disagreement = _disagreement(stacked, weights)
        noise = replicate_noise(output, _groups(given, self.inputs, None))
        everyone = {**{name: unseen[name] for name in members}, "stack": whole * spread}
        said = {name: standing(predicted, output, noise) for name, predicted in everyone.items()}
        return Stacked(
            members, weights, output - whole * spread, disagreement, noise, said, dropped, Range.of(output),
            Support.of(self.inputs, given), single,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stacked(Learned):
    """The models of a stack and their weights.

    Attributes
    ----------
    members : what each candidate learned from all runs, by name
    weights : [c, k], of each candidate for each target
    missed : [n, k], observed minus predicted by the stack, on runs that neither models nor weights had seen
    disagreement : [n, k], sd of the candidates' predictions of these runs, by weight
    noise : [k], sd between runs of one mixture; NaN where none was repeated
    standings : how well each candidate, and the stack, predicted unseen runs
    dropped : why a candidate could not be learned, or would take too long, by name
    """

    members: Mapping[str, Learned]
    weights: Array
    missed: Array
    disagreement: Array
    noise: Array
    standings: Mapping[str, Standing]
    dropped: Mapping[str, str]
    range: Range
    support: Support
    single: bool

    @property
    def freedom(self) -> float:
        return float(self.weights.mean(-1) @ [member.freedom for member in self.members.values()])

    def predict(self, columns: Columns) -> Array:
        return self._shape((self._all(columns) * self.weights[:, None]).sum(0))

    def interval(self, columns: Columns, level: float = 0.9, *, observation: bool = False) -> tuple[Array, Array]:
        """Wide enough for `level` of the unseen runs, and wider where the candidates disagree more than there.

        For the mean of runs the noise between runs of one mixture is taken off, where it is known.
        """
        every = self._all(columns)
        center, mean_square = (every * self.weights[:, None]).sum(0), (self.missed**2).mean(0)
        usual = np.median(self.missed**2, axis=0) + 1e-12 * self.range.spread**2
        strange = np.sort(np.abs(self.missed) / np.sqrt(usual + self.disagreement**2), axis=0)
        rank = min(int(np.ceil((len(strange) + 1) * level)), len(strange)) - 1
        half = strange[rank] * np.sqrt(usual + _disagreement(every, self.weights) ** 2)
        if not observation:
            share = 1 - np.nan_to_num(self.noise) ** 2 / np.maximum(mean_square, 1e-300)
            half = half * np.sqrt(np.maximum(share, np.sqrt(2 / len(strange))))
        return self._shape(center - half), self._shape(center + half)

    def outside(self, columns: Columns) -> Array:
        return self.support.outside(columns)

    def report(self) -> str:
        """Candidates and the stack on unseen runs, as a text table."""
        return table(self.standings, dict(zip(self.members, self.weights.mean(-1).tolist(), strict=True)), self.dropped)

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return {
            "learned": "Stacked",
            "members": {name: member.to_dict() for name, member in self.members.items()},
            "standings": {name: one.to_dict() for name, one in self.standings.items()},
            "dropped": dict(self.dropped),
            "range": self.range.to_dict(),
            "support": self.support.to_dict(),
            "single": self.single,
            **arrays,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Stacked:
        arrays = {name: np.array(data[name], float) for name in _ARRAYS}
        own = {"Exchanged": Exchanged.from_dict}
        members = {name: own.get(one["learned"], learned_from_dict)(one) for name, one in data["members"].items()}
        return cls(
            members=members,
            standings={name: Standing.from_dict(one) for name, one in data["standings"].items()},
            dropped=data["dropped"],
            range=Range.from_dict(data["range"]),
            support=Support.from_dict(data["support"]),
            single=data["single"],
            **arrays,
        )

    def _all(self, columns: Columns) -> Array:
        """What each member predicts, `[c, n, k]`."""
        return np.stack([member.predict(columns) for member in self.members.values()])

    def _shape(self, values: Array) -> Array:
        return values[:, 0] if self.single else values


_ARRAYS = ("weights", "missed", "disagreement", "noise")


def _groups(columns: Columns, inputs: tuple[str, ...], run: Array | None) -> Array:
    """Rows that have to stay together have one number: same inputs, one run, or tied by other rows that are. `[n]`."""
    rows = np.hstack([columns[name].reshape(len(columns[name]), -1) for name in inputs])
    alike = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    if run is None:
        return alike
    own = np.unique(np.asarray(run), return_inverse=True)[1].reshape(-1)
    group = np.arange(len(rows))
    while True:  # the lowest number spreads through runs and mixtures until nothing changes
        before = group
        for tie in (alike, own):
            lowest = np.full(tie.max() + 1, len(rows))
            np.minimum.at(lowest, tie, group)
            group = lowest[tie]
        if np.array_equal(group, before):
            return np.unique(group, return_inverse=True)[1].reshape(-1)


def _unseen(predictor: Predictor, columns: Columns, fold: Array, seed: int) -> Array:
    """What the predictor says of each run when it was learned from the other folds, `[n, k]`."""
    out = np.zeros(np.shape(columns[predictor.output]))
    for f in range(fold.max() + 1):
        at = fold == f
        learned = predictor.learn({name: values[~at] for name, values in columns.items()}, seed=seed)
        out[at] = learned.predict({name: values[at] for name, values in columns.items()})
    return out


def _weighted(unseen: Array, output: Array, fold: Array) -> tuple[Array, Array]:
    """Weights `[c, k]`, and the stack's prediction of each run with weights from the other folds, `[n, k]`."""
    shared, each = (np.zeros(output.shape) for _ in range(2))
    for f in range(fold.max() + 1):
        at = fold == f
        common = _shared(unseen[:, ~at], output[~at])
        own = _each(unseen[:, ~at], output[~at])
        shared[at], each[at] = ((unseen[:, at] * w[:, None]).sum(0) for w in (common, own))
    if ((shared - output) ** 2).mean() <= ((each - output) ** 2).mean():
        return _shared(unseen, output), shared
    return _each(unseen, output), each


def _shared(unseen: Array, output: Array) -> Array:
    one = _nnls(unseen.reshape(len(unseen), -1).T, output.reshape(-1))
    return np.tile(one[:, None], output.shape[1])


def _each(unseen: Array, output: Array) -> Array:
    return np.stack([_nnls(unseen[:, :, k].T, output[:, k]) for k in range(output.shape[1])], -1)


def _nnls(predicted: Array, observed: Array) -> Array:
    """Non-negative weights that sum to one, of least squares."""
    from scipy.optimize import nnls  # takes a second to load, which `import mixopt` need not

    center = observed.mean()
    rows = np.vstack([predicted - center, np.full((1, predicted.shape[1]), _SURE)])
    weights = nnls(rows, np.append(observed - center, _SURE))[0]
    return weights / weights.sum()


def _disagreement(every: Array, weights: Array) -> Array:
    """Sd of the candidates' predictions `[c, n, k]` about their average, by weight, `[n, k]`."""
    center = (every * weights[:, None]).sum(0)
    return np.sqrt((weights[:, None] * (every - center) ** 2).sum(0))
