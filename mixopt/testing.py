"""The contract of a law, as code: a law of one's own is checked by the same suite as those shipped.

    from mixopt.testing import check_law

    def test_my_law():
        check_law(MyLaw())

A check that fails raises AssertionError and says what was found where. Laws are evaluated on columns drawn by
`simulated_columns`; a law that reads a column outside the vocabulary is given its own.
"""

import json
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.fit.fit import fit
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law, is_wide, law_from_dict
from mixopt.laws.mixing_law import MixingLaw
from mixopt.laws.power_law import PowerLaw

LARGEST_BOX = 14.0  # search coordinates; the solver's damping expects coordinates of order one
_ROWS = 12
_STEP = 1e-5  # of central differences, in search coordinates and in log of columns
_TOLERANCE = 1e-6

Check = Callable[[Law, Columns, np.random.Generator], None]


def check_law(
    law: Law,
    *,
    columns: Columns | None = None,
    corpora: int = 3,
    decreasing: Sequence[str] = (),
    increasing: Sequence[str] = (),
    seed: int = 0,
) -> None:
    """Runs every check of `CHECKS` on a law.

    Parameters
    ----------
    columns : where to evaluate it, all positive; drawn from the vocabulary if None
    corpora : m of the columns drawn
    decreasing, increasing : columns in which the output never rises, or never falls, besides those that the law
        itself declares by attributes of these names

    Raises
    ------
    AssertionError
        The law breaks the contract.

    Examples
    --------
    >>> from mixopt.laws.power_law import PowerLaw
    >>> check_law(PowerLaw("tokens", 1e8, "B", "beta"), decreasing=["tokens"])
    """
    rng = np.random.default_rng(seed)
    for check in CHECKS:
        given = simulated_columns(law.inputs, _ROWS, corpora, rng) if columns is None else columns
        check(law, given, rng)
    given = simulated_columns(law.inputs, _ROWS, corpora, rng) if columns is None else columns
    _check_direction(law, given, rng, decreasing, -1)
    _check_direction(law, given, rng, increasing, 1)


def check_declaration(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """Names are unique, boxes span at most 14 in search coordinates, priors lie inside them."""
    assert len(set(law.names)) == len(law.names), f"{_name(law)} repeats a coefficient: {', '.join(law.names)}."
    for coefficient, lower, upper in zip(law.coefficients, *_ends(law), strict=True):
        assert upper - lower <= LARGEST_BOX, (
            f"The box of {coefficient.name} spans {upper - lower:.1f} in search coordinates; at most {LARGEST_BOX:g} "
            "can be searched. Narrow it, or choose a unit at which the coefficient is of order one."
        )
        if coefficient.prior is not None:
            assert lower <= coefficient.prior[0] <= upper, f"The prior of {coefficient.name} lies outside its box."


def check_broadcasting(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """Leading axes of theta, and of columns, give what a loop over them gives."""
    theta = draw_theta(law, rng, 6).reshape(2, 3, -1)
    wholes = [law(theta, columns)]
    parts = [np.array([[law(theta[i, j], columns) for j in range(3)] for i in range(2)])]
    if law.inputs:
        factors = 1 + 0.1 * np.arange(2)
        stacked = {name: np.stack([columns[name] * f for f in factors]) for name in law.inputs}
        wholes.append(law(theta[:, 0], stacked))
        singly = [law(theta[i, 0], {name: stacked[name][i] for name in law.inputs}) for i in range(2)]
        parts.append(np.array(singly))
    for whole, expected in zip(wholes, parts, strict=True):
        assert whole.shape == expected.shape, (
            f"{_name(law)} gives shape {whole.shape} for stacked theta or columns, a loop {expected.shape}; "
            "index coefficients as theta[..., i : i + 1]."
        )
        assert np.allclose(whole, expected, rtol=1e-12, atol=0), f"{_name(law)} mixes up the leading axes of theta."


def check_coefficient_derivatives(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """The complex step in each coefficient equals central differences: the body is complex-analytic."""
    theta = draw_theta(law, rng, 5)
    value, slopes = law.jacobian(theta, columns)
    plain = Law.jacobian(law, theta, columns)[1]
    for i, coefficient in enumerate(law.coefficients):
        up, down = theta.copy(), theta.copy()
        if coefficient.log:
            up[:, i], down[:, i] = theta[:, i] * np.exp(_STEP), theta[:, i] * np.exp(-_STEP)
        else:
            up[:, i], down[:, i] = theta[:, i] + _STEP, theta[:, i] - _STEP
        stretch = theta[:, i] if coefficient.log else np.ones(len(theta))
        ours = plain[..., i] * stretch.reshape(-1, *(1,) * (value.ndim - 1))
        _compare(ours, (law(up, columns) - law(down, columns)) / (2 * _STEP), value, law, coefficient.name)
    scale = np.abs(plain).max(initial=1.0)
    assert np.abs(slopes - plain).max(initial=0.0) <= 1e-10 * scale, (
        f"The Jacobian of {_name(law)} differs from the complex step of the whole; check the law's own `jacobian`."
    )


def check_column_derivatives(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """The complex step in each column, entry by entry, equals central differences."""
    theta = draw_theta(law, rng, 5)
    value = law(theta, columns)
    for name in law.inputs:
        entries = columns[name].shape[-1] if is_wide(name) else 1
        partial = law.partial(theta, columns, name)
        for j in range(entries):
            shape = np.zeros(entries) if is_wide(name) else np.ones(1)
            shape[j] = 1
            up, down = ({**columns, name: columns[name] * np.exp(sign * _STEP * shape)} for sign in (1, -1))
            x = columns[name][..., j] if is_wide(name) else columns[name]
            ours = (partial[..., j] if is_wide(name) else partial) * (x[..., None] if is_wide(law.output) else x)
            _compare(ours, (law(theta, up) - law(theta, down)) / (2 * _STEP), value, law, name)


def check_finite(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """Output and all derivatives are finite on the whole box, corners included, also where shares are 0."""
    theta = np.concatenate([_corners(law, rng), draw_theta(law, rng, 20)])
    for given in (columns, _with_zeros(columns)):
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                found = [*law.jacobian(theta, given), *(law.partial(theta, given, name) for name in law.inputs)]
        except FloatingPointError as error:
            raise AssertionError(f"{_name(law)} on its box, zero shares included: {error}.") from error
        assert all(np.isfinite(part).all() for part in found), (
            f"{_name(law)} or a derivative of it is not finite somewhere on its box, zero shares included."
        )


def check_json(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """The law survives JSON: equal, and equal in value."""
    again = law_from_dict(json.loads(json.dumps(law.to_dict())))
    assert again == law, f"{_name(law)} comes back from JSON as {again}."
    theta = draw_theta(law, rng, 3)
    assert np.array_equal(again(theta, columns), law(theta, columns)), f"{_name(law)} computes otherwise after JSON."


def check_monotone(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """The output never rises in the columns the law calls `decreasing`, never falls in those it calls `increasing`."""
    _check_direction(law, columns, rng, getattr(law, "decreasing", ()), -1)
    _check_direction(law, columns, rng, getattr(law, "increasing", ()), 1)


def check_recovery(law: Law, columns: Columns, rng: np.random.Generator) -> None:
    """Fitted to runs that it made itself, with noise of .1 %, the law predicts other runs to .3 % (root mean square).

    Predictions are compared, not coefficients, of which some may be open. A term of the loss is fitted on top of
    1 nat, and a law of tokens through the loss that these lead to, as both would be used.
    """
    corpora = max((columns[name].shape[-1] for name in law.inputs if is_wide(name)), default=1)
    whole = _as_used(law, corpora)
    runs, others = (simulated_columns(whole.inputs, 40 + 8 * len(law.names), corpora, rng) for _ in range(2))
    truth, rows = draw_truth(law, rng), len(next(iter(runs.values())))
    exact = np.broadcast_to(whole(truth, runs), rows)
    observed = exact * np.exp(1e-3 * rng.standard_normal(rows))
    found = fit(whole, {**runs, whole.output: observed}, starts=8, seed=0)
    error = np.log(found.predict(others) / whole(truth, others))
    off = np.sqrt((error**2).mean())
    assert off <= 3e-3, (
        f"{_name(law)} fitted to its own runs is off by {off:.2%} on others; the truth was {law.describe(truth)}."
    )


CHECKS: tuple[Check, ...] = (
    check_declaration,
    check_broadcasting,
    check_coefficient_derivatives,
    check_column_derivatives,
    check_finite,
    check_json,
    check_monotone,
    check_recovery,
)


def simulated_columns(names: Sequence[str], rows: int, corpora: int, rng: np.random.Generator) -> dict[str, Array]:
    """Runs as a sweep would hold them, all positive: `names`, of shape [rows] or [rows, corpora].

    Corpora hold .05 to 5 times what a run sees of them, so some repeat and some do not.

    >>> simulated_columns(["mixture"], 4, 3, np.random.default_rng(0))["mixture"].sum(-1)
    array([1., 1., 1., 1.])
    """
    tokens, model_size = _log_uniform(rng, 1e7, 1e9, rows), _log_uniform(rng, 1e6, 1e8, rows)
    batch_tokens = _log_uniform(rng, 1e4, 1e6, rows)
    mixture = rng.dirichlet(np.full(corpora, 2.0), rows) * 0.97 + 0.03 / corpora
    seen = tokens[:, None] * mixture
    unique = seen / _log_uniform(rng, 0.2, 20, (rows, corpora))
    peak_lr, steps = _log_uniform(rng, 3e-4, 3e-2, rows), tokens / batch_tokens
    made = {
        "tokens": tokens,
        "model_size": model_size,
        "batch_tokens": batch_tokens,
        "peak_lr": peak_lr,
        "mixture": mixture,
        "unique_tokens": unique,
        "epochs": seen / unique,
        "steps": steps,
        "step_knots": steps[:, None] * np.cumsum(mixture, -1),
        "lr_knots": peak_lr[:, None] * mixture,
        "lr_sum": peak_lr * steps,
        "flops": 6 * model_size * tokens,
        "corpus_tokens": seen,
        "epochs_anneal": 0.25 * seen[:, ::-1] / unique,
    }
    if unknown := [name for name in names if name not in made]:
        raise ValueError(
            f"No values can be drawn for {', '.join(unknown)}, only for {', '.join(made)}. Give `columns` instead."
        )
    return {name: made[name] for name in names} or {"tokens": tokens}


def draw_theta(law: Law, rng: np.random.Generator, count: int) -> Array:
    """Coefficients drawn uniformly from the box in search coordinates: [count, p]."""
    lower, upper = _ends(law)
    return _to_theta(law, rng.uniform(lower, upper, (count, len(lower))))


def draw_truth(law: Law, rng: np.random.Generator) -> Array:
    """Coefficients that a set of corpora might have: from the priors, or from the middle half of the box: [p]."""
    lower, upper = _ends(law)
    u = rng.uniform(0.75 * lower + 0.25 * upper, 0.25 * lower + 0.75 * upper)
    for i, coefficient in enumerate(law.coefficients):
        if coefficient.prior is not None:
            center, sd = coefficient.prior
            u[i] = np.clip(center + min(sd, 1.0) * rng.uniform(-1, 1), lower[i], upper[i])
    return _to_theta(law, u)


def _as_used(law: Law, corpora: int) -> Law:
    """A law that can be fitted: a term of the loss on top of 1 nat, a law of tokens through the loss they lead to."""
    floor = Constant("base").fix(base=1.0)
    if law.output == "loss":
        return floor + law
    if law.output in ("tokens", "model_size"):
        return law >> (floor + PowerLaw(law.output, 1e8, "scale", "power").fix(scale=1.0, power=0.5))
    if law.output == "corpus_tokens":
        total = MixingLaw(tuple(f"{i}" for i in range(corpora)), 1e8)
        return law >> (floor + total.fix(**{name: 0.5 if name == "beta" else 0.0 for name in total.names}))
    return law


def _check_direction(law: Law, columns: Columns, rng: np.random.Generator, names: Sequence[str], sign: int) -> None:
    theta = draw_theta(law, rng, 20)
    for name in names:
        partial = law.partial(theta, columns, name)
        word = "decreasing" if sign < 0 else "increasing"
        assert (sign * partial >= -1e-12 * np.abs(partial).max()).all(), f"{_name(law)} is not {word} in {name}."


def _compare(ours: Array, theirs: Array, value: Array, law: Law, name: str) -> None:
    allowed = _TOLERANCE * (np.abs(theirs) + np.abs(value))
    worst = np.abs(ours - theirs).max(initial=0.0)
    assert (np.abs(ours - theirs) <= allowed).all(), (
        f"The complex step of {_name(law)} by {name} differs from central differences by {worst:.2g}: its body is not "
        "complex-analytic. Compare real parts, use np.where, and no abs, max, sort or logaddexp."
    )


def _with_zeros(columns: Columns) -> dict[str, Array]:
    """The columns with the first corpus unused in every second row, and alone in every fourth."""
    zeroed = {name: np.array(values, float) for name, values in columns.items()}
    for name in {"mixture", "corpus_tokens", "epochs"} & set(zeroed):
        zeroed[name][::2, 0] = 0
        zeroed[name][1::4, 1:] = 0
        if name == "mixture":
            zeroed[name] /= zeroed[name].sum(-1, keepdims=True)
    return zeroed


def _corners(law: Law, rng: np.random.Generator) -> Array:
    p = len(law.coefficients)
    ends = np.array(list(product((0, 1), repeat=p))) if p <= 8 else rng.integers(0, 2, (256, p))
    return np.where(ends == 1, [c.upper for c in law.coefficients], [c.lower for c in law.coefficients])


def _ends(law: Law) -> tuple[Array, Array]:
    boxes = [(np.log(c.lower), np.log(c.upper)) if c.log else (c.lower, c.upper) for c in law.coefficients]
    ends = np.array(boxes, float).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _to_theta(law: Law, u: Array) -> Array:
    log = np.array([c.log for c in law.coefficients], bool)
    return np.where(log, np.exp(np.where(log, u, 0.0)), u)


def _log_uniform(rng: np.random.Generator, lower: float, upper: float, shape: int | tuple[int, ...]) -> Array:
    return np.exp(rng.uniform(np.log(lower), np.log(upper), shape))


def _name(law: Law) -> str:
    return type(law).__name__
