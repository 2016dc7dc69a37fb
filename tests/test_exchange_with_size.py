"""Exchange of tokens where size and length of run have a say, against the laws that it generalizes."""

import numpy as np
import pytest

from mixopt.laws.exchange_with_size import ExchangeWithSize, exchange_with_size
from mixopt.laws.token_exchange import TokenExchange
from mixopt.testing import draw_theta, simulated_columns

CORPORA = ("web", "code", "math")


@pytest.fixture
def columns(rng):
    return simulated_columns(["corpus_tokens", "model_size", "tokens"], 20, 3, rng)


@pytest.mark.parametrize("shared_g", [True, False])
def test_tied_and_free_of_size_it_is_token_exchange(columns, rng, shared_g):
    """With a g for each corpus `TokenExchange` has m outside of the power: m there is m^g here."""
    known = TokenExchange(CORPORA, 1e8, shared_g=shared_g)
    law = ExchangeWithSize(CORPORA, 1e8, 1e7, shared_g, tied=True).fix(k=0.0)
    theta = draw_theta(known, rng, 5)
    ours = theta.copy()
    if not shared_g:
        ours[:, :3] = theta[:, :3] ** (1 / theta[:, 3:6])
    assert law(ours, columns) == pytest.approx(known(theta, columns), rel=1e-9)


def test_size_multiplies_the_worth_of_a_mixture(columns, rng):
    """At k = 1 and eps -> 0 the excess is (N worth)^-beta: a model 8 times larger has 8^-beta of it."""
    law = ExchangeWithSize(CORPORA, 1e8, 1e7)
    theta = np.array([1.0, 2.0, 0.5, 0.6, 1e-12, 1.0, 0.5, 1.0, 0.3])
    larger = {**columns, "model_size": 8 * columns["model_size"]}
    assert law(theta, larger) / law(theta, columns) == pytest.approx(8**-0.5, rel=1e-6)


def test_without_q_only_shares_count(columns, rng):
    law = ExchangeWithSize(CORPORA, 1e8, 1e7).fix(q=0.0)
    longer = {**columns, "corpus_tokens": 7 * columns["corpus_tokens"]}
    theta = draw_theta(law, rng, 5)
    assert law(theta, longer) == pytest.approx(law(theta, columns), rel=1e-12)


def test_a_corpus_not_used_changes_nothing(columns, rng):
    law = ExchangeWithSize(CORPORA, 1e8, 1e7)
    unused = {**columns, "corpus_tokens": columns["corpus_tokens"] * [1.0, 1.0, 0.0]}
    theta = draw_theta(law, rng, 1)[0]
    other = theta.copy()
    other[2] *= 5
    assert law(other, unused) == pytest.approx(law(theta, unused), rel=1e-12)


def test_the_whole_law_is_the_sum_that_it_says(columns):
    law = exchange_with_size(CORPORA, tokens_unit=1e8, size_unit=1e7, shared_g=True)
    theta = dict(E=1.5, A=0.3, alpha=0.4, g=0.5, eps=0.02, B=0.8, beta=0.7, k=0.1, q=0.2, T=0.2, tau=0.9, kappa_T=0.15)
    theta |= {"m[web]": 1.0, "m[code]": 3.0, "m[math]": 0.2}
    n, d = columns["model_size"] / 1e7, columns["corpus_tokens"].sum(-1) / 1e8
    share = columns["corpus_tokens"] / columns["corpus_tokens"].sum(-1, keepdims=True)
    worth = np.sqrt(np.array([1.0, 3.0, 0.2]) * share).sum(-1) - np.sqrt(1e-6 * np.array([1.0, 3.0, 0.2])).sum()
    exchange = 0.8 * (0.02 + worth * n**0.1 * d**0.2) ** -0.7
    whole = 1.5 + 0.3 * n**-0.4 + exchange + 0.2 * (columns["tokens"] / 1e8) ** -0.9 * n**0.15
    assert law(np.array([theta[name] for name in law.names]), columns) == pytest.approx(whole, rel=1e-5)
