"""The solver against closed forms, other solvers, random search and the optimality conditions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mixopt.columns import Array, Columns
from mixopt.cost.flops import training_flops
from mixopt.laws.chinchilla import BESIROGLU, HOFFMANN, chinchilla, from_paper
from mixopt.laws.law import Coefficient, Law
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.ready import candidates
from mixopt.optimize.constraints import largest_violation
from mixopt.optimize.kkt import certify
from mixopt.optimize.known import Known
from mixopt.optimize.objective import gradient, hessian, target_losses, weighted_losses
from mixopt.optimize.polish import polish
from mixopt.optimize.problem import Problem, Target
from mixopt.optimize.slsqp import slsqp
from mixopt.optimize.starts import project, start_points, unimax

KINDS = ("mixing_law", "token_exchange_constant", "token_exchange")


@dataclass(frozen=True)
class LogShares(Law):
    """-sum_i a_i log h_i: least at shares in proportion to a."""

    m: int
    inputs = ("mixture",)
    output = "loss"

    def __post_init__(self) -> None:
        self._declare(coefficients=tuple(Coefficient(f"a{i}", 0.0, 1.0) for i in range(self.m)))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return -(theta[..., None, :] * np.log(columns["mixture"])).sum(-1)


def chinchilla_fit(paper=BESIROGLU) -> Known:
    return Known(chinchilla(), np.array(list(from_paper(paper).values())))


def one_corpus(paper, flops, **changes) -> Problem:
    values = {
        "corpora": ("web",),
        "targets": (Target("web", 1.0, chinchilla_fit(paper)),),
        "unique_tokens": np.array([1e15]),
        "max_epochs": 1.0,
        "budget_flops": flops,
        "choose": {"model_size": (1e6, 1e13), "tokens": (1e7, 1e14)},
    }
    return Problem(**(values | changes))


def log_shares(a, **changes) -> Problem:
    """Additive in log: Chinchilla without the mixture, plus the shares' own term; 6 N D = C fixed by N and D."""
    m = len(a)
    law = chinchilla() + LogShares(m)
    fit = Known(law, np.array([*from_paper(BESIROGLU).values(), *a]))
    values = {
        "corpora": tuple(f"c{i}" for i in range(m)),
        "targets": (Target("all", 1.0, fit),),
        "unique_tokens": np.full(m, 1e12),
        "max_epochs": np.inf,
        "budget_flops": 6e20,
        "choose": {},
        "given": {"model_size": 1e9, "tokens": 1e11},
    }
    return Problem(**(values | changes))


def plausible(law: Law, rng) -> Array:
    """Coefficients drawn from the priors, or from the middle of the box."""
    drawn = []
    for c in law.coefficients:
        low, high = (np.log(c.lower), np.log(c.upper)) if c.log else (c.lower, c.upper)
        value = np.clip(rng.normal(*c.prior), low, high) if c.prior else low + (high - low) * rng.uniform(0.35, 0.65)
        drawn.append(np.exp(value) if c.log else value)
    return np.array(drawn)


def full_problem(kind: str, rng, m: int = 5, k: int = 3, **changes) -> Problem:
    corpora = tuple(f"c{i}" for i in range(m))
    law = candidates(corpora, tokens_unit=1e9, size_unit=1e8, batch_unit=1e5)[kind]
    values = {
        "corpora": corpora,
        "targets": tuple(Target(f"t{j}", rng.uniform(0.5, 2), Known(law, plausible(law, rng))) for j in range(k)),
        "unique_tokens": np.exp(rng.normal(np.log(4e9), 1.5, m)),
        "max_epochs": 4.0,
        "budget_flops": 5e19,
        "choose": {
            "model_size": (1e7, 1e10),
            "tokens": (1e8, 1e12),
            "batch_tokens": (1e4, 1e7),
            "peak_lr": (1e-5, 1e-1),
        },
    }
    return Problem(**(values | changes))


def decision(problem: Problem, plan) -> Array:
    return np.array([*plan.chosen.mixture.values(), *(np.log(getattr(plan.chosen, n)) for n in problem.scalars)])


def random_feasible(problem: Problem, n: int, rng) -> Array:
    """Feasible decisions, most of them on the budget; none made by the code under test."""
    m, rows = len(problem.corpora), []
    while sum(map(len, rows)) < n:
        mixture = rng.dirichlet(np.full(m, rng.choice([0.3, 1.0, 5.0])), size=4 * n)
        x = np.concatenate(
            [mixture, rng.uniform(problem.lower[m:], problem.upper[m:], (4 * n, problem.lower.size - m))], 1
        )
        columns = problem.columns(x)
        spent = np.log(columns["flops"] / problem.budget_flops)
        if "model_size" in problem.choose:
            x[:, problem.place("model_size")] -= spent
        keep = (
            (x >= problem.lower).all(1) & (x <= problem.upper).all(1) & (columns["epochs"] <= problem.max_epochs).all(1)
        )
        rows.append(x[keep])
    return np.concatenate(rows)[:n]


@pytest.mark.parametrize("paper", [HOFFMANN, BESIROGLU], ids=["hoffmann", "besiroglu"])
@pytest.mark.parametrize("flops", [1e19, 5.88e23])
def test_compute_optimal_size_is_the_closed_form(paper, flops):
    # Hoffmann et al. 2022, equation 4.
    A, alpha, B, beta = (paper[name] for name in ("A", "alpha", "B", "beta"))
    G = (alpha * A / (beta * B)) ** (1 / (alpha + beta))
    plan = slsqp(one_corpus(paper, flops))
    assert plan.chosen.model_size == pytest.approx(G * (flops / 6) ** (beta / (alpha + beta)), rel=1e-5)
    assert plan.chosen.tokens == pytest.approx((flops / 6) ** (alpha / (alpha + beta)) / G, rel=1e-5)
    assert plan.flops == pytest.approx(flops, rel=1e-9)
    assert plan.kkt_residual < 1e-8
    assert plan.agreement == 1.0


def test_multiplier_of_the_budget_is_the_derivative_of_the_closed_form():
    # At the optimum alpha A N^-alpha = beta B D^-beta, and either is (a + b) / ab times what both together lose.
    problem = one_corpus(HOFFMANN, 1e21)
    plan = slsqp(problem)
    excess = plan.loss - HOFFMANN["E"]
    alpha, beta = HOFFMANN["alpha"], HOFFMANN["beta"]
    assert plan.multipliers["flops"] == pytest.approx(-excess * alpha * beta / (alpha + beta), rel=1e-6)
    assert set(plan.multipliers) == {"flops"}


def test_additive_law_has_shares_in_proportion():
    a = np.array([0.5, 0.3, 0.15, 0.05])
    plan = slsqp(log_shares(a))
    assert list(plan.chosen.mixture.values()) == pytest.approx(a / a.sum(), rel=1e-6)
    assert plan.kkt_residual < 1e-8


def test_active_epoch_caps_are_met_exactly_and_the_rest_stays_in_proportion():
    a = np.array([0.5, 0.3, 0.15, 0.05])
    plan = slsqp(log_shares(a, unique_tokens=np.array([5e9, 1e12, 1e12, 1e12]), max_epochs=4.0))
    assert plan.epochs["c0"] == pytest.approx(4.0, rel=1e-9)
    assert list(plan.chosen.mixture.values()) == pytest.approx([0.2, 0.48, 0.24, 0.08], rel=1e-6)
    # The Lagrangian of the capped problem: d L / d log cap = h (mu - a / h), with mu = sum of free a / free share.
    assert plan.multipliers["max_epochs[c0]"] == pytest.approx(0.2 * (0.5 / 0.8) - 0.5, rel=1e-6)
    assert "10 % more epochs of c0 lowers the loss by 0.036 nats per token." in plan.sensitivities()


def test_share_bounds_hold_and_their_multipliers_are_the_slopes():
    a = np.array([0.5, 0.3, 0.15, 0.05])
    bounds = np.array([[0, 0.4], [0, 1], [0, 1], [0.1, 1]])
    problem = log_shares(a, share_bounds=bounds)
    plan = slsqp(problem)
    assert list(plan.chosen.mixture.values()) == pytest.approx(
        [0.4, 0.5 * 0.3 / 0.45, 0.5 * 0.15 / 0.45, 0.1], rel=1e-6
    )
    assert plan.multipliers["share_upper[c0]"] == pytest.approx(0.45 / 0.5 - 0.5 / 0.4, rel=1e-6)
    assert plan.multipliers["share_lower[c3]"] == pytest.approx(0.45 / 0.5 - 0.05 / 0.1, rel=1e-6)
    first, second = plan.sensitivities()
    assert first == "A lower bound of c3's share smaller by 0.01 lowers the loss by 0.004 nats per token."
    assert second == "An upper bound of c0's share larger by 0.01 lowers the loss by 0.0035 nats per token."


def test_mixing_law_against_an_exhaustive_grid():
    t = np.array([[0.5, -1.5, -0.2], [-1.0, 0.3, -0.6]])
    law = MixingLaw(("a", "b", "c"))
    problem = log_shares(
        np.ones(3), corpora=("a", "b", "c"), targets=tuple(Target(f"t{j}", 1.0, Known(law, t[j])) for j in range(2))
    )
    plan = slsqp(problem)
    steps = np.linspace(0, 1, 1001)
    a, b = (grid.ravel() for grid in np.meshgrid(steps, steps))
    grid = np.stack([a, b, 1 - a - b], axis=1)[a + b <= 1]
    losses = np.exp(grid @ t.T).mean(axis=1)
    assert losses.min() - 1e-5 < plan.loss <= losses.min()
    assert list(plan.chosen.mixture.values()) == pytest.approx(grid[losses.argmin()], abs=2e-3)


def test_a_general_solver_finds_nothing_better(rng):
    from scipy.optimize import Bounds, LinearConstraint, minimize

    problem = full_problem("token_exchange", rng, m=3, k=2, max_epochs=np.inf)
    plan = slsqp(problem)
    rows = np.array([[1.0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 0, 0]])
    spend = np.log(problem.budget_flops / 6)
    other = minimize(
        lambda x: float(weighted_losses(problem, x[None])[0]),
        start_points(problem, 1, rng)[0],
        jac=lambda x: gradient(problem, x)[1],
        hess=lambda x: hessian(problem, x),
        method="trust-constr",
        bounds=Bounds(problem.lower, problem.upper, keep_feasible=True),
        constraints=LinearConstraint(rows, [1, -np.inf], [1, spend]),
        options={"gtol": 1e-9, "maxiter": 500},
    )
    assert plan.loss == pytest.approx(other.fun, abs=1e-6)
    assert plan.loss <= other.fun + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_no_random_decision_is_better(kind, rng):
    problem = full_problem(kind, rng)
    plan = slsqp(problem)
    assert weighted_losses(problem, random_feasible(problem, 20_000, rng)).min() > plan.loss


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draw", range(5))
def test_plans_of_random_problems_are_feasible_and_optimal(kind, draw):
    rng = np.random.default_rng(draw)
    m = int(rng.integers(2, 8))
    lower = rng.uniform(0, 0.5 / m, m) * (rng.uniform(size=m) < 0.3)
    problem = full_problem(kind, rng, m=m, share_bounds=np.stack([lower, np.full(m, 0.9)], axis=1))
    plan = slsqp(problem, starts=6)
    x = decision(problem, plan)
    assert largest_violation(problem, x) < 1e-9
    assert plan.flops <= problem.budget_flops * (1 + 1e-9)
    assert all(plan.epochs[c] <= e * (1 + 1e-9) for c, e in zip(problem.corpora, problem.max_epochs, strict=True))
    assert sum(plan.chosen.mixture.values()) == pytest.approx(1, abs=1e-12)
    assert plan.kkt_residual < 1e-7
    assert all(b.difference > -1e-9 for b in plan.baselines.values() if b.feasible)
    losses = problem.target_weights @ target_losses(problem, x[None])
    assert plan.loss == pytest.approx(float(losses[0]), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_multipliers_are_what_a_larger_budget_and_cap_bring(kind):
    rng = np.random.default_rng(3)
    problem = full_problem(kind, rng, unique_tokens=np.full(5, 2e9), max_epochs=1.2)
    plan = slsqp(problem)
    capped = [name for name in plan.multipliers if name.startswith("max_epochs")]
    assert capped, "the problem is meant to have an active cap"
    h = 1e-4

    def slope(change):
        return (slsqp(change(h), starts=6).loss - slsqp(change(-h), starts=6).loss) / (2 * h)

    def more_flops(s):
        return replace(problem, budget_flops=problem.budget_flops * np.exp(s))

    assert plan.multipliers.get("flops", 0.0) == pytest.approx(slope(more_flops), rel=1e-3, abs=1e-6)
    place = problem.corpora.index(capped[0].partition("[")[2][:-1])

    def more_epochs(s):
        return replace(problem, max_epochs=problem.max_epochs * np.exp(s * (np.arange(5) == place)))

    assert plan.multipliers[capped[0]] == pytest.approx(slope(more_epochs), rel=1e-3, abs=1e-6)
    assert plan.multipliers[capped[0]] < 0


def test_gradient_and_hessian_against_differences(rng):
    problem = full_problem("token_exchange", rng)
    x = start_points(problem, 3, rng)[2]
    _, slope = gradient(problem, x)
    steps = 1e-6 * np.eye(len(x))
    values = weighted_losses(problem, np.concatenate([x + steps, x - steps])).reshape(2, -1)
    assert slope == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-8)
    slopes = np.array([gradient(problem, x + step)[1] - gradient(problem, x - step)[1] for step in steps]) / 2e-6
    assert hessian(problem, x) == pytest.approx(slopes, rel=1e-3, abs=1e-5)


def test_certificate_refuses_what_is_not_optimal_or_not_feasible(rng):
    problem = full_problem("mixing_law", rng)
    best = decision(problem, slsqp(problem))
    for start in start_points(problem, 5, rng):
        assert certify(problem, start).residual > 1e-2
    moved = best.copy()
    moved[problem.place("tokens")] += 0.05
    assert certify(problem, moved).residual >= certify(problem, moved).violation > 0.04
    # At a maximum the gradient also vanishes into the constraints, but with multipliers of the wrong sign.
    flipped = replace(
        problem,
        targets=tuple(replace(t, fit=Known(MixingLaw(problem.corpora), np.arange(5.0))) for t in problem.targets),
        choose={},
        given={"model_size": 1e8, "tokens": 1e9},
    )
    assert certify(flipped, np.array([0, 0, 0, 0, 1.0])).residual > 0.1
    assert certify(flipped, np.array([1.0, 0, 0, 0, 0])).residual < 1e-12


def test_an_unused_corpus_is_exactly_zero():
    unused = []
    for draw in range(12):
        problem = full_problem("token_exchange_constant", np.random.default_rng(draw), m=6)
        unused += [share for share in slsqp(problem, starts=4).chosen.mixture.values() if share < 1e-9]
    assert unused == [0.0] * len(unused)
    assert len(unused) > 10


@pytest.mark.parametrize("draw", range(3))
def test_polish_converges_quadratically_also_along_a_cap(draw):
    rng = np.random.default_rng(draw)
    problem = full_problem("mixing_law", rng, unique_tokens=np.full(5, 2e9), max_epochs=1.2)
    plan = slsqp(problem)
    assert any(name.startswith("max_epochs") for name in plan.multipliers)
    best = decision(problem, plan)
    near = best + np.concatenate([np.zeros(5), 1e-3 * rng.normal(size=4)])
    x, certificate = polish(problem, near, iterations=2)
    assert certificate.residual < 1e-9 < certify(problem, near).residual
    assert x == pytest.approx(best, abs=1e-6)


def test_starts_are_feasible_and_begin_with_the_named_mixtures(rng):
    problem = full_problem("mixing_law", rng, share_bounds=np.array([[0.05, 0.6]] * 5))
    points = start_points(problem, 20, rng)
    assert max(largest_violation(problem, x) for x in points) < 1e-9
    tokens = problem.scalar(points[0], "tokens")
    natural = problem.unique_tokens / problem.unique_tokens.sum()
    assert np.linalg.norm(points[0][:5] - natural) <= min(np.linalg.norm(x[:5] - natural) for x in points) + 1e-12
    assert points[2][:5] == pytest.approx(unimax(problem, tokens))


def test_unimax_fills_to_one_level_or_to_the_cap():
    # Chung et al. 2023: corpora below the level give all that the cap allows, the others share the rest alike.
    problem = log_shares(np.ones(4), unique_tokens=np.array([1e9, 4e9, 1e12, 1e12]), max_epochs=4.0)
    assert unimax(problem, 1e11) == pytest.approx([0.04, 0.16, 0.4, 0.4])


def test_projection_is_the_nearest_point(rng):
    from scipy.optimize import minimize

    for _ in range(10):
        point, lower = rng.normal(size=4), rng.uniform(0, 0.2, 4)
        upper = lower + rng.uniform(0.2, 0.6, 4)
        near = project(point, lower, upper)
        assert near.sum() == pytest.approx(1)
        oracle = minimize(
            lambda h, p=point: ((h - p) ** 2).sum(),
            np.full(4, 0.25),
            method="SLSQP",
            bounds=np.stack([lower, upper], 1),
            constraints={"type": "eq", "fun": lambda h: h.sum() - 1},
            options={"ftol": 1e-12},
        )
        assert near == pytest.approx(oracle.x, abs=1e-6)


def test_same_seed_same_plan(rng):
    problem = full_problem("token_exchange", rng)
    assert slsqp(problem, seed=1).to_dict() == slsqp(problem, seed=1).to_dict()


@dataclass(frozen=True)
class TooLarge(Law):
    """A loss that grows with model size above 1e9: a law that would rather leave budget unspent."""

    inputs = ("model_size", "tokens")
    output = "loss"
    coefficients = ()

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return 2 + np.log(columns["model_size"] / 1e9) ** 2 - 0.1 * np.log(columns["tokens"] / 1e9)


@pytest.mark.parametrize("spend", [False, True])
def test_spending_is_an_equality(spend):
    target = Target("web", 1.0, Known(TooLarge(), np.zeros(0)))
    problem = one_corpus(HOFFMANN, 1e21, targets=(target,), spend=spend, unique_tokens=np.array([1e10]))
    plan = slsqp(problem)
    model_size = 1e21 / 6 / 1e10 if spend else 1e9
    assert plan.chosen.model_size == pytest.approx(model_size, rel=1e-6)
    assert plan.flops == pytest.approx(training_flops(model_size, 1e10), rel=1e-6)
    if spend:  # more budget would have to be wasted on size: d L / d log C = 2 log(N / 1e9)
        assert plan.multipliers["flops"] == pytest.approx(2 * np.log(model_size / 1e9), rel=1e-5)
        with_less = slsqp(replace(problem, budget_flops=0.999e21))
        assert with_less.loss < plan.loss
    assert plan.kkt_residual < 1e-12


def test_without_the_equality_exhausted_data_leave_size_to_grow():
    plan = slsqp(one_corpus(HOFFMANN, 1e21, unique_tokens=np.array([1e10])))
    assert plan.flops == pytest.approx(1e21, rel=1e-9)
    assert plan.chosen.tokens == pytest.approx(1e10, rel=1e-9)
    assert plan.kkt_residual < 1e-7


def test_laws_that_cannot_be_evaluated_are_refused():
    broken = log_shares(np.array([np.nan, 1.0]))
    with pytest.raises(ValueError, match=r"No start has a finite loss: .* narrow the bounds under choose\."):
        slsqp(broken)
