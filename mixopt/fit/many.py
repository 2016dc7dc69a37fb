"""Many targets at once: laws of one structure are fitted to all of them in one batch."""

from collections.abc import Mapping, Sequence

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.errors import FitError
from mixopt.fit.fit import DEFAULT_NORM, Fit, to_fit
from mixopt.fit.gate import check, grouping
from mixopt.fit.norms import Norm
from mixopt.fit.optimum import Problem, optima
from mixopt.fit.search import space_of
from mixopt.laws.law import Law
from mixopt.runs import Runs

_PROBES = 4


def fit_targets(
    law: Law | Mapping[str, Law],
    table: Runs | Columns,
    *,
    targets: Sequence[str] | None = None,
    norm: Norm | Mapping[str, Norm] = DEFAULT_NORM,
    starts: int = 64,
    seed: int = 0,
    replicates: int = 0,
    run: Array | None = None,
    weight: Array | None = None,
) -> dict[str, Fit]:
    """A fit for every target, equal to `fit` of one after the other and faster: their starts share each step.

    Targets whose laws compute the same function are solved together, also where boxes, priors and norms differ; those
    whose laws do not, such as exchange laws around different known rates, make further batches.

    Parameters
    ----------
    law : one law for all targets, or one each by name
    table : finished runs; or columns in which the laws' output is [n, k], a column a target
    targets : names of the k columns; those of the runs if None. With runs, which of their targets to fit
    norm : one norm for all targets, or one each by name
    starts, seed, replicates, run, weight : as in `fit`; replicate i of every target saw the same runs

    Raises
    ------
    FitError
        A target is unknown, or as `fit` says, with the name of the target.

    Examples
    --------
    Code is learned twice as fast as prose (exponents .6 and .3):

    >>> from mixopt.laws.power_law import PowerLaw
    >>> tokens = np.geomspace(1e8, 1e10, 8)
    >>> loss = np.stack([2 * (tokens / 1e9) ** -0.6, 3 * (tokens / 1e9) ** -0.3], 1)
    >>> table = {"tokens": tokens, "loss": loss}
    >>> fits = fit_targets(PowerLaw("tokens", 1e9, "B", "beta"), table, targets=["code", "prose"], starts=4)
    >>> {name: fitted.theta.round(6).tolist() for name, fitted in fits.items()}
    {'code': [2.0, 0.6], 'prose': [3.0, 0.3]}
    """
    columns, seen = _split(law, table, targets)
    laws = {name: law if isinstance(law, Law) else law[name] for name in seen}
    norms = {name: norm[name] if isinstance(norm, Mapping) else norm for name in seen}
    for name, one in laws.items():
        _check(name, one, {**columns, one.output: seen[name]}, starts, replicates)
    run, weight = grouping(columns, len(next(iter(seen.values()))), run, weight)
    problems = {name: Problem(name, laws[name], np.log(seen[name]), norms[name]) for name in seen}
    fits: dict[str, Fit] = {}
    for group in _groups(problems, columns):
        options = {"starts": starts, "seed": seed, "replicates": replicates}
        found = optima([problems[name] for name in group], columns, run=run, weight=weight, **options)
        fits |= {name: to_fit(problems[name], one, columns, run) for name, one in zip(group, found, strict=True)}
    return {name: fits[name] for name in seen}


def _split(
    law: Law | Mapping[str, Law], table: Runs | Columns, targets: Sequence[str] | None
) -> tuple[Columns, dict[str, Array]]:
    """The inputs, and the output `[n]` of each target by name."""
    laws = [law] if isinstance(law, Law) else list(law.values())
    if not laws or len({one.output for one in laws}) != 1:
        raise ValueError("Give one law, or laws by target that all make the same column.")
    output = laws[0].output
    if isinstance(table, Runs):
        wanted = tuple(targets or (table.targets if isinstance(law, Law) else law))
        if unknown := [name for name in wanted if name not in table.targets]:
            raise FitError(f"No run measured target {unknown[0]!r}; measured: {', '.join(table.targets)}.")
        seen = {name: table[output][:, table.targets.index(name)] for name in wanted}
        return {name: values for name, values in table.columns.items() if name != output}, seen
    values = np.asarray(table[output], float)
    names = tuple(targets or (() if isinstance(law, Law) else law))
    if values.ndim != 2 or values.shape[1] != len(names):
        raise FitError(
            f"{output} has shape {list(values.shape)} and {len(names)} targets are named; give it as [runs, targets] "
            "and name each target."
        )
    return {name: column for name, column in table.items() if name != output}, dict(zip(names, values.T, strict=True))


def _check(name: str, law: Law, columns: Columns, starts: int, replicates: int) -> None:
    try:
        check(law, columns, starts, replicates)
    except FitError as error:
        raise FitError(f"Target {name}: {error}") from error


def _groups(problems: Mapping[str, Problem], columns: Columns) -> list[list[str]]:
    """Names of problems that can share a batch: same kind of norm, same coefficients, same function of them."""
    groups: list[list[str]] = []
    for name, problem in problems.items():
        home = next((group for group in groups if _alike(problems[group[0]], problem, columns)), None)
        if home is None:
            groups.append([name])
        else:
            home.append(name)
    return groups


def _alike(one: Problem, other: Problem, columns: Columns) -> bool:
    """Whether two laws give the same numbers wherever it is tried: on all runs, at coefficients all over the box."""
    if type(one.norm) is not type(other.norm) or one.law.names != other.law.names:
        return False
    if [c.log for c in one.law.coefficients] != [c.log for c in other.law.coefficients]:
        return False
    if one.law == other.law:
        return True
    space = space_of(one.law.coefficients)
    theta = space.to_theta(space.starts(_PROBES, np.random.default_rng(0)))
    with np.errstate(all="ignore"):
        return bool(np.array_equal(one.law(theta, columns), other.law(theta, columns), equal_nan=True))
