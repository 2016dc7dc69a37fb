"""Where the search starts: named mixtures and random ones, all moved into the feasible set."""

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.feasible import token_limit
from mixopt.optimize.objective import target_losses
from mixopt.optimize.problem import Problem


def project(point: Array, lower: Array, upper: Array) -> Array:
    r"""Nearest mixture to `point` [m] whose shares lie in [lower, upper].

    The solution is `clip(point - t, lower, upper)` for the t at which it sums to 1; the sum is piecewise linear in t,
    so t is found exactly between two of its kinks.

    >>> project(np.array([0.9, 0.3, 0.3]), np.zeros(3), np.array([0.5, 1.0, 1.0])).round(3)
    array([0.5 , 0.25, 0.25])
    """
    kinks = np.sort(np.concatenate([point - upper, point - lower]))
    sums = np.clip(point - kinks[:, None], lower, upper).sum(axis=1)  # falls from sum(upper) to sum(lower)
    shift = np.interp(-1.0, -sums, kinks)
    return np.clip(point - shift, lower, upper)


def natural(problem: Problem) -> Array:
    """[m], shares in proportion to the unique tokens of each corpus."""
    return problem.unique_tokens / problem.unique_tokens.sum()


def uniform(problem: Problem) -> Array:
    """[m], equal shares."""
    return np.full(len(problem.corpora), 1 / len(problem.corpora))


def unimax(problem: Problem, tokens: float) -> Array:
    """[m], shares as equal as epoch caps and share bounds allow at `tokens` (Chung et al. 2023, arXiv:2304.09151)."""
    lower, upper = share_room(problem, tokens)
    # Filling every corpus to one level, or to its cap, is the projection of equal shares of any height.
    return project(uniform(problem), lower, upper)


def share_room(problem: Problem, tokens: float) -> tuple[Array, Array]:
    """[m] and [m]: the least and largest share of each corpus at `tokens`, from its bounds and its epoch cap."""
    lower, upper = problem.share_bounds.T
    return lower, np.maximum(np.minimum(upper, problem.cap_tokens / tokens), lower)


def token_range(problem: Problem) -> tuple[float, float]:
    """Fewest and most tokens of any feasible decision."""
    low, high = problem.bounds("tokens")
    affordable = problem.budget_flops / 6 / problem.bounds("model_size")[0]
    return low, max(low, min(high, token_limit(problem), affordable))


def start_points(problem: Problem, count: int, rng: np.random.Generator) -> Array:
    """[count, d] feasible decisions: natural, uniform, UniMax, the best near-vertex of each target, then random ones.

    The first ones take the middle of each range (in log); the random ones draw it too.
    """
    middle = _middle(problem)
    tokens = problem.scalar(middle, "tokens")
    mixtures = [natural(problem), uniform(problem), unimax(problem, tokens), *_vertices(problem, middle)][:count]
    m, scalars = len(problem.corpora), len(problem.scalars)
    extra = count - len(mixtures)
    mixtures += list(rng.dirichlet(np.ones(m), size=extra))
    position = np.concatenate([np.full((count - extra, scalars), 0.5), rng.uniform(size=(extra, scalars))])
    return np.stack([_feasible(problem, h, p) for h, p in zip(mixtures, position, strict=True)])


def _middle(problem: Problem) -> Array:
    return _feasible(problem, uniform(problem), np.full(len(problem.scalars), 0.5))


def _vertices(problem: Problem, middle: Array) -> list[Array]:
    """For each target, the corpus that serves it best when it is 60 % of the mixture; each corpus once."""
    m = len(problem.corpora)
    pulled = 0.6 * np.eye(m) + 0.4 * natural(problem)
    rows = np.concatenate([pulled, np.tile(middle[m:], (m, 1))], axis=1)
    best = dict.fromkeys(target_losses(problem, rows).argmin(axis=1).tolist())
    return [pulled[i] for i in best]


def _feasible(problem: Problem, mixture: Array, position: Array) -> Array:
    """The decision nearest to a mixture, with each scalar at a position in [0, 1] of its feasible range, in log."""
    m = len(mixture)
    span = dict(zip(problem.scalars, zip(problem.lower[m:], problem.upper[m:], strict=True), strict=True))
    fewest, most = token_range(problem)
    if "tokens" in span:
        floor = problem.budget_flops / 6 / problem.bounds("model_size")[1]  # fewer leave budget unspent
        span["tokens"] = (np.log(min(max(fewest, floor), most)), np.log(most))
    place = dict(zip(problem.scalars, position.tolist(), strict=True))
    value = {name: low + (high - low) * place[name] for name, (low, high) in span.items()}
    tokens = float(np.exp(value["tokens"])) if "tokens" in value else problem.given["tokens"]
    if "model_size" in span:  # the largest that the budget pays for
        low, high = span["model_size"]
        value["model_size"] = np.clip(np.log(problem.budget_flops / 6 / tokens), low, high)
    shares = project(mixture, *share_room(problem, tokens))
    return np.concatenate([shares, [value[name] for name in problem.scalars]])
