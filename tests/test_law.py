"""Laws: the complex step, the two operators, holding coefficients, and the way through JSON."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from mixopt.laws.combine import Chain, Fixed, Sum, refuse_unread
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law, law_from_dict, logsumexp, relu, softplus
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.repetition import CorpusRepetition, Repetition

N, M = 7, 3


@dataclass(frozen=True)
class Worth(Law):
    """A loss of per-corpus tokens and of tokens: reads one wide and one row column."""

    inputs = ("corpus_tokens", "tokens")
    output = "loss"
    coefficients = tuple(Coefficient(f"m[{i}]", 0.1, 10, log=True) for i in range(M))

    def __call__(self, theta, columns):
        worth = (theta[..., None, :] * columns["corpus_tokens"] / 1e9).sum(-1)
        return np.exp(-0.3 * np.log(worth)) + 0.01 * np.log(columns["tokens"])


@dataclass(frozen=True)
class Batch(Law):
    """Tokens to effective tokens, with two coefficients."""

    inputs = ("tokens", "batch_tokens")
    output = "tokens"
    coefficients = (Coefficient("b", 1e4, 1e7, log=True), Coefficient("kappa", 0.0, 1.0))

    def __call__(self, theta, columns):
        critical = theta[..., :1] * np.exp(theta[..., 1:] * np.log(columns["tokens"] / 1e9))
        return columns["tokens"] / (1 + columns["batch_tokens"] / critical)


@dataclass(frozen=True)
class Doubled(Law):
    """A substitution without coefficients, whose body never looks at theta."""

    inputs = ("model_size",)
    output = "model_size"
    coefficients = ()

    def __call__(self, theta, columns):
        return 2 * columns["model_size"]


@pytest.fixture
def columns(rng):
    return {
        "tokens": rng.uniform(1e9, 1e10, N),
        "mixture": rng.dirichlet(np.ones(M), N),
        "unique_tokens": np.full((N, M), 1e9),
        "batch_tokens": np.full(N, 1e6),
        "model_size": rng.uniform(1e8, 1e9, N),
    }


def size_law():
    return Constant("E") + PowerLaw("model_size", 1e9, "A", "alpha")


def whole_law():
    return Doubled() >> Batch() >> CorpusRepetition() >> (Worth() + size_law())


LAWS = {
    "row columns only": Batch() >> (PowerLaw("tokens", 1e9, "B", "beta") + size_law()),
    "into a per-corpus column": whole_law(),
    "without coefficients upstream": Doubled() >> size_law(),
    "part held": whole_law().fix(**{"R": 10.0, "m[1]": 0.5, "alpha": 0.3}),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("shape", [(), (4,), (2, 4)])
def test_structured_jacobian_is_the_plain_complex_step(law, shape, columns, rng):
    theta = rng.uniform(0.2, 0.9, (*shape, len(law.coefficients)))
    theta[..., [name == "b" for name in law.names]] *= 1e6
    value, slopes = law.jacobian(theta, columns)
    plain_value, plain = Law.jacobian(law, theta, columns)
    assert value.shape == (*shape, N)
    assert slopes.shape == (*shape, N, len(law.coefficients))
    assert np.allclose(value, plain_value, rtol=1e-13, atol=0)
    assert np.allclose(slopes, plain, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("name", ["tokens", "mixture", "unique_tokens", "model_size"])
def test_partial_is_the_central_difference(name, columns, rng):
    law = whole_law()
    theta = rng.uniform(0.2, 0.9, len(law.coefficients))
    theta[0] *= 1e6
    ours = law.partial(theta, columns, name)
    assert ours.shape == columns[name].shape
    wide = columns[name].ndim == 2
    for j in range(M if wide else 1):
        nudge = np.zeros_like(columns[name])
        nudge[..., j if wide else slice(None)] = 1e-6 * columns[name].max()
        up, down = (law(theta, {**columns, name: columns[name] + sign * nudge}) for sign in (1, -1))
        numeric = (up - down) / (2e-6 * columns[name].max())
        assert np.allclose(ours[..., j] if wide else ours, numeric, rtol=1e-5, atol=1e-7 * np.abs(ours).max())


def test_a_chain_into_a_wide_column_costs_one_call_per_upstream_law(columns, monkeypatch):
    """Upstream tangents ride on leading rows of one call, however many corpora the column has."""
    law, calls = whole_law(), []
    plain = Worth.__call__
    monkeypatch.setattr(Worth, "__call__", lambda self, theta, c: calls.append(1) or plain(self, theta, c))
    law.jacobian(np.full((5, len(law.coefficients)), 0.5), columns)
    assert len(calls) == 2  # its own coefficients, and everything upstream


def test_chain_substitutes_and_is_associative(columns):
    a, b, c = Doubled(), Batch(), PowerLaw("tokens", 1e9, "B", "beta") + size_law()
    assert (a >> b) >> c == a >> (b >> c) == Chain(a, b, c)
    theta = np.array([1e6, 0.3, 1.0, 0.4, 1.8, 0.4, 0.3])
    tokens = columns["tokens"] / (1 + 1e6 / (1e6 * (columns["tokens"] / 1e9) ** 0.3))
    by_hand = (tokens / 1e9) ** -0.4 + 1.8 + 0.4 * (2 * columns["model_size"] / 1e9) ** -0.3
    assert np.allclose((a >> b >> c)(theta, columns), by_hand, rtol=1e-12)


def test_a_chain_reads_only_what_it_does_not_make():
    assert whole_law().inputs == ("model_size", "tokens", "batch_tokens", "mixture", "unique_tokens")


def test_fixing_everything_leaves_a_law_of_no_coefficients(columns, rng):
    law = whole_law()
    theta = rng.uniform(0.2, 0.9, len(law.coefficients))
    held = law.fix(**dict(zip(law.names, theta, strict=True)))
    assert held.coefficients == ()
    assert np.allclose(held(np.empty(0), columns), law(theta, columns), rtol=1e-14)
    value, slopes = held.jacobian(np.empty((2, 0)), columns)
    assert value.shape == (2, N)
    assert slopes.shape == (2, N, 0)


def test_fixing_part_of_a_chain_keeps_what_later_laws_see(columns):
    """Held or not, an effective column reaches every law that follows."""
    chain = (Doubled() >> Batch()).fix(b=1e6) >> (PowerLaw("tokens", 1e9, "B", "beta") + size_law())
    free = Doubled() >> Batch() >> (PowerLaw("tokens", 1e9, "B", "beta") + size_law())
    rest = np.array([0.3, 1.0, 0.4, 1.8, 0.4, 0.3])
    assert np.allclose(chain(rest, columns), free(np.array([1e6, *rest]), columns), rtol=1e-14)


def test_fixing_twice_is_fixing_at_once():
    law = PowerLaw("tokens", 1e9, "B", "beta")
    assert law.fix(B=1.0).fix(beta=0.3) == law.fix(beta=0.3, B=1.0)


def test_json_of_a_law_that_is_not_installed_is_refused():
    with pytest.raises(ValueError, match=r"There is no law named 'Doubled'; there are .*PowerLaw.* entry point"):
        law_from_dict(whole_law().to_dict())


def test_json_of_a_whole_model_returns_an_equal_law(columns):
    law = (Repetition() >> (PowerLaw("tokens", 1e9, "B", "beta") + size_law())).fix(R=15.39, E=1.8)
    again = law_from_dict(json.loads(json.dumps(law.to_dict())))
    assert again == law
    assert hash(again) == hash(law)
    assert again.names == ("B", "beta", "A", "alpha")
    theta = np.array([1.0, 0.3, 0.4, 0.3])
    assert np.array_equal(again(theta, columns), law(theta, columns))


def test_repr_and_description_are_readable():
    law = Constant("E") + PowerLaw("tokens", 1e9, "B", "beta")
    assert "PowerLaw(column='tokens'" in repr(law)
    assert law.describe(np.array([1.8, 1.06, 0.37])) == "1.8 + 2266 / tokens^0.37"


def test_helpers_are_right_and_complex_safe():
    x = np.array([-800.0, -1.0, 0.5, 800.0])
    step = x + 1e-30j
    assert np.allclose(softplus(x), np.logaddexp(0, x), rtol=1e-15)
    sigmoid = np.exp(-np.logaddexp(0, -x))
    assert np.allclose(softplus(step).imag / 1e-30, sigmoid, rtol=1e-12, atol=1e-300)
    assert np.array_equal(relu(step).imag / 1e-30, [0, 0, 1, 1])
    assert logsumexp(x) == pytest.approx(np.logaddexp.reduce(x), rel=1e-15)
    softmax = np.exp(x - logsumexp(x))
    assert np.allclose([logsumexp(x + 1e-30j * row).imag / 1e-30 for row in np.eye(4)], softmax, atol=1e-300)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Coefficient("E", 2, 1), r"Coefficient E has the box \[2, 1\]; both ends must be finite"),
        (lambda: Coefficient("E", 0, np.inf), r"both ends must be finite"),
        (lambda: Coefficient("E", 0, 1, log=True), r"searched in log but its box starts at 0\. Raise the lower end"),
        (lambda: Coefficient("E", 1, 2, prior=(1.0, 0.0)), r"Coefficient E has a prior with sd 0; it must be positive"),
        (lambda: Sum(Constant("E"), Constant("E")), r"Two laws share the coefficient E; rename it in one of them"),
        (
            lambda: refuse_unread(Batch() >> size_law().fix(E=1.0)),
            r"Batch makes tokens, which no law after it reads; they read model_size",
        ),
        (lambda: Chain(Batch(), Batch()), r"Two laws share the coefficient b, kappa"),
        (lambda: Chain(), r"A chain needs at least one law"),
        (lambda: Sum(Constant("E"), Batch()), r"one and the same column; these make loss, tokens\. Feed one"),
        (lambda: Sum(), r"these make none"),
        (lambda: Constant("E").fix(F=1.0), r"Constant has no coefficient F; it has E\."),
        (lambda: whole_law().fix(F=1.0), r"Chain has no coefficient F; it has b, kappa, R, m\[0\]"),
        (lambda: Constant("E").fix(E=1.0).fix(E=2.0), r"Coefficient E is already held at 1; fix the law it came from"),
        (lambda: Constant("E").fix(E=np.nan), r"Coefficient E is held at nan; give a finite number"),
        (lambda: Fixed(Constant("E"), (("E", 1.0),)).fix(A=1.0), r"Constant has no coefficient A"),
        (lambda: law_from_dict({"law": "Magic"}), r"There is no law named 'Magic'; there are .*Chain, .*entry point"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
