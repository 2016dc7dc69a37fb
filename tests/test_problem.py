"""Problems: what they refuse, how decisions become columns, and what is infeasible and how to mend it."""

from dataclasses import replace

import numpy as np
import pytest

from mixopt.cost.flops import Flops
from mixopt.errors import InfeasibleError
from mixopt.laws.chinchilla import BESIROGLU, chinchilla, from_paper
from mixopt.laws.constant import Constant
from mixopt.laws.critical_batch import CriticalBatch
from mixopt.laws.mixing_law import MixingLaw
from mixopt.optimize.feasible import check_feasible, number, token_limit
from mixopt.optimize.known import Known
from mixopt.optimize.problem import Problem, Target
from mixopt.optimize.slsqp import slsqp
from mixopt.sweep.simplex import most_tokens

CORPORA = ("web", "code", "math")
LAW = chinchilla() + MixingLaw(CORPORA)
FIT = Known(LAW, np.array([*from_paper(BESIROGLU).values(), -1.0, -2.0, -0.5]))


def problem(**changes) -> Problem:
    values = {
        "corpora": CORPORA,
        "targets": (Target("all", 1.0, FIT),),
        "unique_tokens": np.array([3e10, 2e10, 2.5e9]),
        "max_epochs": 4.0,
        "budget_flops": 1e21,
        "choose": {"model_size": (1e7, 1e10), "tokens": (1e8, 1e13)},
    }
    return Problem(**(values | changes))


def test_columns_of_decisions():
    batch = CriticalBatch("tokens", 1e9) >> chinchilla()
    fit = Known(batch, np.array([1e6, 0.3, *from_paper(BESIROGLU).values()]))
    asked = problem(
        targets=(Target("all", 2.0, fit),),
        choose={"batch_tokens": (1e4, 1e7), "model_size": (1e7, 1e10)},
        given={"tokens": 6e10},
    )
    assert asked.scalars == ("model_size", "batch_tokens")
    columns = asked.columns(np.array([0.5, 0.25, 0.25, np.log(1e9), np.log(1e6)]))
    assert columns["model_size"] == pytest.approx([1e9])
    assert columns["tokens"].tolist() == [6e10]
    assert columns["epochs"] == pytest.approx(np.array([[1.0, 0.75, 6.0]]))
    assert columns["flops"] == pytest.approx(Flops()(np.zeros(0), columns))
    assert columns["steps"] == pytest.approx([6e4])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpora": ("web", "web", "math")}, r"The corpus 'web' is listed more than once; names must differ\."),
        ({"targets": ()}, r"needs at least one target; this one has none"),
        (
            {"targets": (Target("a", 0.0, FIT),)},
            r"Target a has the weight 0; it must be positive\. Leave the target out",
        ),
        ({"unique_tokens": np.array([1e9, 1e9])}, r"unique_tokens has the shape \(2,\); 3 corpora .* need \(3,\)"),
        ({"unique_tokens": np.array([1e9, 0.0, 1e9])}, r"Corpus code has 0 unique_tokens; it must be positive"),
        ({"max_epochs": np.array([1.0, 4.0, 0.0])}, r"Corpus math has max_epochs 0; .* Bound its share by \(0, 0\)"),
        (
            {"share_bounds": np.array([[0, 1], [0.5, 0.2], [0, 1]])},
            r"Corpus code has the share bounds \(0\.5, 0\.2\); 0 <=",
        ),
        ({"budget_flops": np.inf}, r"budget_flops is inf; it must be positive and finite"),
        ({"choose": {"model_size": (1e7, 1e9)}}, r"tokens is needed for the budget; bound it under choose or fix it"),
        (
            {"choose": {"model_size": (1e9, 1e7), "tokens": (1e8, 1e9)}},
            r"choose bounds model_size by \(1e\+09, 1e\+07\)",
        ),
        ({"choose": {"depth": (2, 4)}}, r"choose has 'depth'; only model_size, tokens, .* Put it under given"),
        ({"given": {"tokens": 1e9}}, r"tokens is under choose and under given; keep one"),
        ({"given": {"batch_tokens": -1.0}}, r"given has batch_tokens = -1; it must be finite and positive"),
        (
            {"targets": (Target("a", 1.0, Known(Flops(), np.zeros(0))),)},
            r"law of target a gives flops; .* must give loss",
        ),
        (
            {"choose": {"model_size": (1e7, 1e9), "tokens": (1e8, 1e9), "peak_lr": (1e-4, 1e-2)}},
            r"peak_lr cannot be chosen: no target's law reads it, so any value is as good as another",
        ),
        (
            {"targets": (Target("a", 1.0, Known(CriticalBatch("tokens", 1e9) >> chinchilla(), np.ones(7))),)},
            r"The law of target a reads batch_tokens, which is neither chosen nor given\. Add it under choose or given",
        ),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        problem(**changes)


def test_most_tokens_against_a_linear_program(rng):
    from scipy.optimize import linprog

    for _ in range(40):
        m = int(rng.integers(1, 7))
        caps, lower = np.exp(rng.normal(size=m)), rng.uniform(0, 1 / m, m) * (rng.uniform(size=m) < 0.5)
        upper = np.minimum(1, lower + rng.uniform(size=m))
        upper[0] = max(upper[0], min(1.0, 1.01 - upper[1:].sum()))
        if upper.sum() < 1:
            continue
        ones, eye = np.ones((m, m)), np.eye(m)
        rows = np.concatenate([lower[:, None] * ones - eye, eye - upper[:, None] * ones])
        oracle = linprog(
            -np.ones(m), A_ub=rows, b_ub=np.zeros(2 * m), bounds=[(0, cap) for cap in caps], method="highs"
        )
        assert most_tokens(caps, np.stack([lower, upper], axis=1)) == pytest.approx(-oracle.fun, rel=1e-6)


def test_without_caps_tokens_have_no_limit():
    assert token_limit(problem(max_epochs=np.inf)) == np.inf


def given(**scalars):
    return {"choose": {k: v for k, v in scalars.items() if isinstance(v, tuple)}} | {
        "given": {k: v for k, v in scalars.items() if not isinstance(v, tuple)}
    }


BOUND = np.array([[0.0, 1.0]] * 3)
FLOOR = np.array([[0.0, 1.0], [0.0, 1.0], [0.3, 1.0]])
INFEASIBLE = [
    (
        {"spend": True, **given(model_size=(1e7, 1e21 / 6 / 5e11), tokens=(1e8, 1e13))},
        r"^4 epochs of all corpora give 2\.1e11 tokens; the budget needs at least 5\.0e11\. "
        r"Raise max_epochs to 9\.6, or lower flops to 4\.2e20\.$",
        [{"max_epochs": 9.6}, {"budget_flops": 4.2e20}],
    ),
    (
        {"spend": True, **given(model_size=1e9, tokens=(1e8, 5e10))},
        r"The most that model_size 1\.0e9 and tokens 5\.0e10 can use is 3\.0e20 FLOPs; the budget of 1\.0e21 is to be "
        r"spent whole\. Lower flops to 3\.0e20",
        [{"budget_flops": 3.0e20}, {"spend": False}, given(model_size=1e9, tokens=(1e8, 2e11))],
    ),
    (
        given(model_size=(1e7, 1e9), tokens=(5e11, 1e13)),
        r"4 epochs of all corpora give 2\.1e11 tokens; tokens must be at least 5\.0e11\. "
        r"Raise max_epochs to 9\.6, or lower the lower bound of tokens to 2\.1e11\.",
        [{"max_epochs": 9.6}, given(model_size=(1e7, 1e9), tokens=(2.1e11, 1e13))],
    ),
    (
        {"max_epochs": np.array([4.0, 2.0, 4.0]), **given(model_size=(1e7, 1e9), tokens=3e11)},
        r"The epoch caps of all corpora give 1\.7e11 tokens; tokens must be 3\.0e11\. "
        r"Multiply every max_epochs by 1\.8, or lower tokens to 1\.7e11\.",
        [{"max_epochs": 1.8 * np.array([4.0, 2.0, 4.0])}, given(model_size=(1e7, 1e9), tokens=1.7e11)],
    ),
    (
        {"share_bounds": np.array([[0, 0.4], [0, 0.4], [0, 1.0]]), **given(model_size=(1e7, 1e9), tokens=1e11)},
        r"4 epochs of all corpora, within their share bounds, give 5\.0e10 tokens; tokens must be 1\.0e11",
        [{"max_epochs": 8.0}, given(model_size=(1e7, 1e9), tokens=5e10)],
    ),
    (
        {"share_bounds": FLOOR, **given(model_size=(1e7, 1e9), tokens=1e11)},
        r"4 epochs of math give 1\.0e10 tokens; a share of at least 0\.3 of 1\.0e11 tokens needs 3\.0e10\. Raise "
        r"max_epochs of math to 12, or lower its share bound to 0\.1 or tokens to 3\.3e10\.",
        [
            {"max_epochs": np.array([4.0, 4.0, 12.0])},
            {"share_bounds": FLOOR * [1 / 3, 1.0]},
            given(model_size=(1e7, 1e9), tokens=3.3e10),
        ],
    ),
    (
        given(model_size=(1e10, 1e11), tokens=1e11),
        r"model_size of at least 1\.0e10 and tokens 1\.0e11 need 6\.0e21 FLOPs; the budget is 1\.0e21\. "
        r"Raise flops to 6\.0e21, or lower the lower bound of model_size to 1\.6e9 or tokens to 1\.6e10\.",
        [
            {"budget_flops": 6.0e21},
            given(model_size=(1.6e9, 1e11), tokens=1e11),
            given(model_size=(1e10, 1e11), tokens=1.6e10),
        ],
    ),
    (
        {"share_bounds": BOUND * 0.3},
        r"The upper share bounds sum to 0\.9; they must sum to at least 1\. Multiply them by 1\.2, or raise some\.",
        [{"share_bounds": BOUND * 0.3 * 1.2}],
    ),
    (
        {"share_bounds": np.array([[0.5, 1.0]] * 3)},
        r"The lower share bounds sum to 1\.5; they must sum to at most 1\. Multiply them by 0\.66, or lower some\.",
        [{"share_bounds": np.array([[0.5 * 0.66, 1.0]] * 3), "max_epochs": 10.0}],
    ),
]


@pytest.mark.parametrize(("changes", "message", "remedies"), INFEASIBLE)
def test_infeasible_problems_say_what_would_do(changes, message, remedies):
    asked = problem(**changes)
    with pytest.raises(InfeasibleError, match=message):
        slsqp(asked)
    for remedy in remedies:
        mended = replace(asked, **remedy)
        check_feasible(mended)
        assert slsqp(mended, starts=4).kkt_residual < 1e-6


def test_number_reads_as_a_person_writes():
    assert [number(v) for v in (0.0, 0.012, 9.6, 120.0, 2.1e11, 3e-5)] == [
        "0",
        "0.012",
        "9.6",
        "120",
        "2.1e11",
        "3.0e-5",
    ]


def test_law_of_one_column_less_is_broadcast():
    flat = Known(Constant(), np.array([2.0]), replicates=np.array([[1.9], [2.1]]))
    columns = {"tokens": np.ones(3)}
    assert flat.predict(columns).tolist() == [2.0, 2.0, 2.0]
    assert flat.samples(columns).tolist() == [[1.9] * 3, [2.1] * 3]
