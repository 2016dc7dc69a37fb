"""Many targets in one batch: each fit is the one that the target alone gets."""

import time

import numpy as np
import pytest

from mixopt.errors import FitError
from mixopt.fit.fit import fit
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Huber, Square
from mixopt.laws.constant import Constant
from mixopt.laws.power_law import PowerLaw
from mixopt.runs import Runs

LAW = Constant("E") + PowerLaw("tokens", 1e9, "B", "beta")


def table(rng, targets=6, n=24):
    tokens = np.geomspace(1e8, 1e10, n)
    truth = np.stack([rng.uniform(1, 2, targets), rng.uniform(0.2, 1, targets), rng.uniform(0.2, 0.8, targets)], 1)
    loss = LAW(truth, {"tokens": tokens}) * np.exp(0.003 * rng.standard_normal((targets, n)))
    names = tuple(f"t{i}" for i in range(targets))
    return names, {"tokens": tokens, "loss": loss.T}


def alone(columns, k):
    return {**columns, "loss": columns["loss"][:, k]}


def test_each_fit_is_that_of_the_target_alone(rng):
    names, columns = table(rng)
    weight = rng.uniform(0.5, 2, 24)
    options = {"starts": 6, "replicates": 12, "weight": weight, "run": np.arange(24) // 2, "seed": 3}
    fits = fit_targets(LAW, columns, targets=names, **options)
    assert tuple(fits) == names
    for k, name in enumerate(names):
        one = fit(LAW, alone(columns, k), **options)
        assert np.allclose(fits[name].theta, one.theta, rtol=1e-9)
        assert np.allclose(fits[name].replicates, one.replicates, rtol=1e-9)
        assert (fits[name].agreement, fits[name].n) == (one.agreement, one.n)
        assert fits[name].noise == pytest.approx(one.noise)
        assert fits[name].support == one.support


def test_boxes_priors_norms_and_functions_may_differ(rng):
    """The last law has another unit: another function of the same coefficients, solved in a batch of its own."""
    names, columns = table(rng, targets=4)
    lowest = columns["loss"].min(0)
    laws = {
        name: Constant("E", 0.1, low, (float(np.log(low / 2)), 0.5)) + PowerLaw("tokens", 1e9, "B", "beta")
        for name, low in zip(names[:3], lowest, strict=False)
    }
    laws[names[3]] = Constant("E") + PowerLaw("tokens", 2e9, "B", "beta")
    norms = {name: Huber(0.001 * (k + 1)) for k, name in enumerate(names[:3])} | {names[3]: Square(0.003)}
    fits = fit_targets(laws, columns, norm=norms, starts=5)
    for k, name in enumerate(names):
        one = fit(laws[name], alone(columns, k), norm=norms[name], starts=5)
        assert fits[name].law == laws[name]
        assert np.allclose(fits[name].theta, one.theta, rtol=1e-9)
        assert fits[name].objective == pytest.approx(one.objective, rel=1e-9)


def test_one_batch_is_faster_than_one_after_the_other(rng):
    names, columns = table(rng, targets=40)

    def seconds(call):
        before = time.process_time()
        call()
        return time.process_time() - before

    together = min(seconds(lambda: fit_targets(LAW, columns, targets=names, starts=8)) for _ in range(2))
    apart = seconds(lambda: [fit(LAW, alone(columns, k), starts=8) for k in range(40)])
    assert apart > 2 * together


def test_runs_know_their_targets():
    known = {"status": "finished"}
    runs = Runs.from_records(
        ["web"],
        ["code", "prose"],
        [
            known
            | {"run": str(t), "mixture": {"web": 1.0}, "tokens": t, "loss": {"code": 1 + 1e8 / t, "prose": 2 + 1e8 / t}}
            for t in np.geomspace(1e8, 1e10, 9)
        ],
    )
    law = Constant("E") + PowerLaw("tokens", 1e8, "B", "beta")
    fits = fit_targets(law, runs, starts=8)
    assert {name: one.theta.round(5).tolist() for name, one in fits.items()} == {"code": [1, 1, 1], "prose": [2, 1, 1]}
    assert list(fit_targets({"prose": law}, runs, starts=2)) == ["prose"]
    with pytest.raises(FitError, match=r"No run measured target 'math'; measured: code, prose"):
        fit_targets(law, runs, targets=["math"])


def test_refusals(rng):
    names, columns = table(rng, targets=2)
    with pytest.raises(FitError, match=r"loss has shape \[24, 2\] and 0 targets are named"):
        fit_targets(LAW, columns)
    broken = {**columns, "loss": np.where(np.arange(24)[:, None] == 5, [[1.0, -1.0]], columns["loss"])}
    with pytest.raises(FitError, match=r"Target t1: Column loss row 5 is -1\.0"):
        fit_targets(LAW, broken, targets=names)
    with pytest.raises(ValueError, match=r"laws by target that all make the same column"):
        fit_targets({}, columns)
