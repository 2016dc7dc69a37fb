"""Is a decision optimal? The first-order conditions, checked from the problem alone, whatever solver found it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array
from mixopt.optimize.constraints import inequalities, largest_violation, sum_slope
from mixopt.optimize.objective import gradient
from mixopt.optimize.problem import Problem


@dataclass(frozen=True)
class Certificate:
    """Residual of the first-order conditions, and the multiplier of each inequality (of the scaled constraint)."""

    residual: float
    stationarity: float
    violation: float
    multipliers: Mapping[str, float]


def certify(problem: Problem, x: Array) -> Certificate:
    r"""Karush-Kuhn-Tucker residual of the decision `x`.

    .. math:: \min_{\lambda \ge 0,\, \mu}\; \left\| \begin{matrix} \nabla L + \mu \nabla c_0 + \sum_j \lambda_j
              \nabla c_j \\ \lambda_j c_j \end{matrix} \right\| \Big/ \left\| \nabla L \right\|

    The multipliers are those of a non-negative least-squares problem that weighs the gradient left over together with
    complementarity, so no tolerance decides which constraints are active. The residual is the larger of this ratio
    and the largest violation of a constraint; `inf` where the gradient is not finite. The gradient is by share and by
    log of the scalars, so 1e-6 reads: moving on could change the loss by a millionth of what the gradient promises.
    """
    from scipy.optimize import nnls

    _, slope = gradient(problem, x)
    violation = largest_violation(problem, x)
    rows = inequalities(problem, x)
    if not np.isfinite(slope).all():
        return Certificate(np.inf, np.inf, violation, dict.fromkeys(rows.names, 0.0))
    slack = np.maximum(-rows.values, 0)
    free = [sum_slope(problem)] + [rows.slopes[0]] * (problem.spend and "flops" in rows.names)
    normals = np.concatenate([rows.slopes, -np.array(free), np.array(free)])
    scale = float(np.linalg.norm(slope)) or 1.0
    system = np.concatenate([normals.T, np.pad(np.diag(slack), ((0, 0), (0, 2 * len(free))))])
    found, stationarity = nnls(system, np.concatenate([-slope / scale, np.zeros(len(slack))]))
    multipliers = found[: len(slack)] * scale
    if len(free) == 2:  # the budget is an equality: its multiplier may have either sign
        multipliers[0] += (found[-1] - found[-3]) * scale
    return Certificate(
        max(float(stationarity), violation),
        float(stationarity),
        violation,
        dict(zip(rows.names, multipliers.tolist(), strict=True)),
    )


def sensitivities(problem: Problem, x: Array, certificate: Certificate) -> dict[str, float]:
    """Derivative of the best loss by each constraint that matters, by the envelope theorem.

    By the logarithm of `flops`, of `max_epochs[corpus]` and of the bounds of scalars (`tokens_upper`, ...); by the
    share itself for `share_lower[corpus]` and `share_upper[corpus]`. Constraints that do not hold the plan back are
    left out.
    """
    tokens, size = problem.scalar(x, "tokens"), float(np.linalg.norm(gradient(problem, x)[1]))
    room = dict(zip(problem.corpora, (problem.cap_tokens / tokens).tolist(), strict=True))
    found: dict[str, float] = {}
    for name, multiplier in certificate.multipliers.items():
        if abs(multiplier) <= 1e-6 * size:
            continue
        kind, _, rest = name.partition("[")
        by = room[rest[:-1]] if kind == "max_epochs" else -1.0 if kind.endswith("_lower") else 1.0
        found[name] = -multiplier * by
    return found
