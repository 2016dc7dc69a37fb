"""Whether any recipe satisfies the constraints, answered before solving, with numbers that would make it so."""

import math

import numpy as np

from mixopt.cost.flops import training_flops
from mixopt.errors import InfeasibleError
from mixopt.optimize.problem import Problem
from mixopt.sweep.simplex import most_tokens

# Relative: room for rounding in numbers that a person computed by hand.
TOLERANCE = 1e-9


def token_limit(problem: Problem) -> float:
    """Most tokens that the epoch caps and share bounds of a problem allow."""
    return most_tokens(problem.cap_tokens, problem.share_bounds)


def check_feasible(problem: Problem) -> None:
    """Passes silently when some recipe satisfies every constraint.

    Raises
    ------
    InfeasibleError
        None does. The message gives the numbers that contradict each other, and those that would do.
    """
    _check_shares(problem)
    _check_budget(problem)
    _check_floors(problem)
    _check_tokens(problem)
    if problem.spend:
        _check_spending(problem)


def _check_shares(problem: Problem) -> None:
    lower, upper = problem.share_bounds.sum(axis=0)
    if lower > 1 + TOLERANCE:
        raise InfeasibleError(
            f"The lower share bounds sum to {lower:.4g}; they must sum to at most 1. "
            f"Multiply them by {_down(1 / lower)}, or lower some."
        )
    if upper < 1 - TOLERANCE:
        raise InfeasibleError(
            f"The upper share bounds sum to {upper:.4g}; they must sum to at least 1. "
            f"Multiply them by {_up(1 / upper)}, or raise some."
        )


def _check_budget(problem: Problem) -> None:
    model_size, tokens = problem.bounds("model_size")[0], problem.bounds("tokens")[0]
    least, budget = training_flops(model_size, tokens), problem.budget_flops
    if least > budget * (1 + TOLERANCE):
        raise InfeasibleError(
            f"{_least(problem, 'model_size')} and {_least(problem, 'tokens')} need {number(least)} FLOPs; "
            f"the budget is {number(budget)}. Raise flops to {_up(least)}, or lower "
            f"{_bound(problem, 'model_size', 'lower')} to {_down(budget / 6 / tokens)} or "
            f"{_bound(problem, 'tokens', 'lower')} to {_down(budget / 6 / model_size)}."
        )


def _check_floors(problem: Problem) -> None:
    tokens = problem.bounds("tokens")[0]
    floors = problem.share_bounds[:, 0]
    for i, corpus in enumerate(problem.corpora):
        cap, epochs = problem.cap_tokens[i], problem.max_epochs[i]
        if floors[i] * tokens > cap * (1 + TOLERANCE):
            raise InfeasibleError(
                f"{epochs:.4g} epochs of {corpus} give {number(cap)} tokens; a share of at least {floors[i]:.4g} of "
                f"{number(tokens)} tokens needs {number(floors[i] * tokens)}. Raise max_epochs of {corpus} to "
                f"{_up(epochs * floors[i] * tokens / cap)}, or lower its share bound to {_down(cap / tokens)} or "
                f"{_bound(problem, 'tokens', 'lower')} to {_down(cap / floors[i])}."
            )


def _check_tokens(problem: Problem) -> None:
    tokens, limit = problem.bounds("tokens")[0], token_limit(problem)
    if tokens > limit * (1 + TOLERANCE):
        raise InfeasibleError(
            f"{_supply(problem, limit)}; tokens must be {'at least ' * ('tokens' in problem.choose)}{number(tokens)}. "
            f"{_more_epochs(problem, tokens / limit)}, or lower {_bound(problem, 'tokens', 'lower')} to {_down(limit)}."
        )


def _check_spending(problem: Problem) -> None:
    (_, model_size), (_, tokens) = problem.bounds("model_size"), problem.bounds("tokens")
    needed = problem.budget_flops / 6 / model_size
    limit = token_limit(problem)
    if needed > limit * (1 + TOLERANCE) and limit <= tokens:
        raise InfeasibleError(
            f"{_supply(problem, limit)}; the budget needs at least {number(needed)}. "
            f"{_more_epochs(problem, needed / limit)}, or lower flops to {_down(training_flops(model_size, limit))}."
        )
    if needed > tokens * (1 + TOLERANCE):
        most = training_flops(model_size, tokens)
        raise InfeasibleError(
            f"The most that model_size {number(model_size)} and tokens {number(tokens)} can use is {number(most)} "
            f"FLOPs; the budget of {number(problem.budget_flops)} is to be spent whole. Lower flops to {_down(most)}, "
            f"raise a bound, or set spend=False."
        )


def _supply(problem: Problem, limit: float) -> str:
    epochs = problem.max_epochs
    subject = f"{epochs[0]:.4g} epochs" if np.ptp(epochs) == 0 else "The epoch caps"
    whole = limit >= problem.cap_tokens.sum() * (1 - TOLERANCE)
    return f"{subject} of all corpora{'' if whole else ', within their share bounds,'} give {number(limit)} tokens"


def _more_epochs(problem: Problem, factor: float) -> str:
    epochs = problem.max_epochs
    if np.ptp(epochs) == 0:
        return f"Raise max_epochs to {_up(epochs[0] * factor)}"
    return f"Multiply every max_epochs by {_up(factor)}"


def _least(problem: Problem, scalar: str) -> str:
    return f"{scalar} {'of at least ' * (scalar in problem.choose)}{number(problem.bounds(scalar)[0])}"


def _bound(problem: Problem, scalar: str, side: str) -> str:
    return f"the {side} bound of {scalar}" if scalar in problem.choose else scalar


def number(value: float) -> str:
    """Two significant digits, as a person writes them.

    >>> number(2.13e11), number(9.6), number(0.25)
    ('2.1e11', '9.6', '0.25')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _rounded(value: float, direction: int) -> str:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    steps = value / unit
    whole = math.ceil(steps - TOLERANCE) if direction > 0 else math.floor(steps + TOLERANCE)
    return number(whole * unit)


def _up(value: float) -> str:
    """Two digits, not below `value`, so that what a message suggests suffices."""
    return _rounded(value, +1)


def _down(value: float) -> str:
    return _rounded(value, -1)
