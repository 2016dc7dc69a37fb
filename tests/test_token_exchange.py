"""Token exchange with a power for each corpus, and with corpora in each other's way."""

import numpy as np
import pytest

from mixopt.fit.fit import fit
from mixopt.fit.norms import Huber
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.token_exchange import TokenExchange

CORPORA = ("web", "code", "math")
FLAGSHIP = TokenExchange(CORPORA, 1e9, shared_g=False, interference=True)
THETA = np.array([0.5, 8.0, 0.4, 0.6, 0.9, 0.5, 0.3, -0.2, 0.1, 0.2, 1.5, 0.7])


def mixtures(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    mixture = rng.dirichlet(np.full(3, 0.6), rows)
    return {"mixture": mixture, "corpus_tokens": 1e9 * mixture}


def test_is_the_formula_written_out(rng: np.random.Generator):
    """B (eps + sum m x^g)^-beta e^(t.h), up to the floor of a millionth of the unit."""
    runs, (m, g, t) = mixtures(rng, 20), THETA[:9].reshape(3, 3)
    x = runs["mixture"]
    by_hand = 1.5 * (0.2 + (m * x**g).sum(-1)) ** -0.7 * np.exp((t * x).sum(-1))
    assert FLAGSHIP(THETA, runs) == pytest.approx(by_hand, rel=5e-3)


def test_without_interference_it_is_the_law_at_t_of_zero(rng: np.random.Generator):
    runs = mixtures(rng, 20)
    still = np.concatenate([THETA[:6], np.zeros(3), THETA[9:]])
    plain = TokenExchange(CORPORA, 1e9, shared_g=False)
    assert np.allclose(FLAGSHIP(still, runs), plain(np.delete(THETA, [6, 7, 8]), runs), rtol=1e-14)


def test_one_power_is_the_same_law_either_way(rng: np.random.Generator):
    """With all powers equal, rates stand inside or outside of the power: m^g."""
    runs, g = mixtures(rng, 20), 0.6
    m = THETA[:3]
    inside = TokenExchange(CORPORA, 1e9)(np.concatenate([m, [g], THETA[9:]]), runs)
    outside = TokenExchange(CORPORA, 1e9, shared_g=False)(np.concatenate([m**g, np.full(3, g), THETA[9:]]), runs)
    assert np.allclose(inside, outside, rtol=1e-12)


def test_fits_that_corpora_are_in_each_others_way(rng: np.random.Generator):
    """300 mixtures in which math takes room: what only a factor on the excess explains is found, with its sign."""
    law = Constant("E") + FLAGSHIP
    truth = np.concatenate([[1.2], THETA[:6], [-0.1, -0.1, 0.25], THETA[9:]])
    runs, others = mixtures(rng, 300), mixtures(rng, 300)
    runs["loss"] = law(truth, runs) * np.exp(2e-3 * rng.standard_normal(300))
    seen = law(truth, others)

    def off(law: Law) -> float:
        return float(np.sqrt((np.log(fit(law, runs, norm=Huber(2e-3), starts=2).predict(others) / seen) ** 2).mean()))

    assert off(law) < 1e-3
    assert off(law) < 0.7 * off(Constant("E") + TokenExchange(CORPORA, 1e9, shared_g=False))


@pytest.mark.parametrize("law", [FLAGSHIP, TokenExchange(CORPORA, 1e9)], ids=["flagship", "one power"])
def test_slopes_come_without_complex_numbers(law: TokenExchange, rng: np.random.Generator, monkeypatch):
    """What makes hundreds of fits affordable: one real exponential a Jacobian. That it is right, the contract says."""
    runs, seen = mixtures(rng, 10), []
    exponential = np.exp

    def counted(x, *args, **options):
        seen.append(np.asarray(x))
        return exponential(x, *args, **options)

    monkeypatch.setattr(np, "exp", counted)
    law.jacobian(np.full(len(law.names), 0.5), runs)
    assert not any(np.iscomplexobj(x) for x in seen)
    assert sum(x.size >= runs["mixture"].size for x in seen) == 1
