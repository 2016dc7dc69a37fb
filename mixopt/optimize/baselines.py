"""What one would do without a plan: the usual mixtures, at the plan's size, tokens, batch and learning rate."""

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.constraints import largest_violation
from mixopt.optimize.objective import weighted_losses
from mixopt.optimize.plan import Baseline
from mixopt.optimize.problem import Problem
from mixopt.optimize.starts import natural, share_room, uniform, unimax
from mixopt.optimize.uncertainty import Spread

# Hand-made shares: a baseline may exceed a constraint by this much and still count as allowed.
ALLOWED = 1e-6


def usual_choices(problem: Problem, x: Array) -> dict[str, Array]:
    """Mixtures that need no plan, by name: natural, uniform, unimax, and the best single corpus that is allowed.

    natural is in proportion to the tokens available; unimax as equal as the epoch caps allow (Chung et al. 2023);
    `only <corpus>` is there where some corpus alone lasts for the plan's tokens.
    """
    tokens, m = problem.scalar(x, "tokens"), len(problem.corpora)
    found = {"natural": natural(problem), "uniform": uniform(problem), "unimax": unimax(problem, tokens)}
    lower, upper = share_room(problem, tokens)
    (alone,) = np.nonzero((upper >= 1) & (lower.sum() == lower))  # no other corpus has a share to keep
    rows = np.concatenate([np.eye(m)[alone], np.tile(x[m:], (len(alone), 1))], axis=1)
    losses = np.where(np.isfinite(values := weighted_losses(problem, rows)), values, np.inf)
    if len(alone) and np.isfinite(losses).any():
        best = int(alone[losses.argmin()])
        found[f"only {problem.corpora[best]}"] = np.eye(m)[best]
    return found


def judge(problem: Problem, rows: Array, names: tuple[str, ...], spread: Spread) -> dict[str, Baseline]:
    """Each baseline beside the plan: row 0 of `rows` [1 + b, d] is the plan, row i + 1 has the name i."""
    weighted = problem.target_weights @ spread.losses
    epochs = problem.columns(rows)["epochs"]
    return {
        name: Baseline(
            mixture=dict(zip(problem.corpora, rows[i, : len(problem.corpora)].tolist(), strict=True)),
            epochs=dict(zip(problem.corpora, epochs[i].tolist(), strict=True)),
            feasible=largest_violation(problem, rows[i]) <= ALLOWED,
            loss=float(weighted[i]),
            interval=spread.weighted(i),
            difference=float(weighted[i] - weighted[0]),
            difference_interval=spread.difference(i, 0),
            plan_better=spread.chance_above(i, 0),
        )
        for i, name in enumerate(names, start=1)
    }
