"""Saturation by passes against its published form, and against what two phases must agree on."""

import numpy as np
import pytest

from mixopt.laws.saturation import Saturation, saturation
from mixopt.testing import draw_theta

CORPORA = ("web", "code")


def test_published_form(rng):
    """b0 - sum a (1 - e^(-rho z)) + sum p softplus(log(1 + z) - tau)^2, b0 the floor plus all to be taught."""
    first, second = rng.uniform(0, 20, (2, 10, 2))
    E, a, rho, p, tau, gamma = 1.2, [0.4, 0.2], [0.5, 2.0], [0.01, 0.03], [1.0, 2.0], 1.7
    z = first + gamma * second
    taught = (a * (1 - np.exp(-np.array(rho) * z))).sum(-1)
    harm = (p * np.logaddexp(0, np.log(1 + z) - tau) ** 2).sum(-1)
    law = saturation(CORPORA, phases=2)
    theta = np.array([E, *a, *rho, *p, *tau, gamma])
    found = law(theta, {"epochs": first, "epochs_anneal": second})
    assert found == pytest.approx(E + sum(a) - taught + harm, rel=1e-12)


def test_passes_that_count_alike_add_up(rng):
    """At gamma = 1 it does not matter in which phase a pass was made."""
    one, two = Saturation(CORPORA), Saturation(CORPORA, phases=2)
    theta = draw_theta(one, rng, 6)
    first, second = rng.uniform(0, 5, (2, 8, 2))
    both = two(np.concatenate([theta, np.ones((6, 1))], 1), {"epochs": first, "epochs_anneal": second})
    assert both == pytest.approx(one(theta, {"epochs": first + second}), rel=1e-12)


def test_more_teaches_until_it_harms():
    """One corpus: the loss falls with passes, has one lowest point and rises after it."""
    z = np.geomspace(0.1, 1000, 200)
    loss = Saturation(("code",))(np.array([0.5, 0.5, 0.02, 1.6]), {"epochs": z[:, None]})
    lowest = int(loss.argmin())
    assert 2 < z[lowest] < 50
    assert (np.diff(loss[: lowest + 1]) < 0).all()
    assert (np.diff(loss[lowest:]) > 0).all()


def test_phases_are_one_or_two():
    with pytest.raises(ValueError, match="phases is 3; a run has 1 phase"):
        Saturation(CORPORA, phases=3)
