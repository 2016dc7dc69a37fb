"""Answers a sweep from a known law plus noise instead of training: for tests, and to learn what a sweep could tell."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mixopt.columns import Array
from mixopt.execute.store import collect, save, split
from mixopt.proxy.face import Result
from mixopt.runs import Runs
from mixopt.sweep.settings import RunSettings, Sweep

NOISE = 0.003
"""Standard deviation of log loss between seeds: what small transformers show."""


def execute(sweep: Sweep, folder: Path, *, noise: float = NOISE, seed: int = 0, **ignored: object) -> Runs:
    """Losses of every run of `sweep` by the world that `seed` names, in `folder/simulated`, apart from trained runs.

    What executors that train are told besides (workers, device, watch) does not matter here.
    """
    folder = folder / "simulated"
    _, todo = split(sweep, folder)
    for run in todo:
        save(folder, run, _simulate(sweep, run, noise, seed).to_dict())
    return collect(sweep, folder)


def true_loss(run: RunSettings, targets: tuple[str, ...], seed: int = 0) -> dict[str, float]:
    r"""Loss of each target without noise [nats per token].

    .. math:: L_j = E_j + A N^{-1/3} + \left(\sum_i m_{ji} D'_i\right)^{-1/3} + c\,(\log \eta - \log \eta^*)^2

    with repeated tokens worth less (:math:`D'`, Muennighoff et al. 2023, R = 15) and more than the critical batch
    wasted. A target that is also a corpus is served best by it.
    """
    shares = np.array([run.mixture.get(name, 0.0) for name in run.unique_tokens])
    unique = np.array(list(run.unique_tokens.values()), dtype=float)
    effective = _effective(shares * run.tokens, unique) / (1 + (run.batch_tokens or 0) / 2e4)
    size_term = 0.5 * ((run.model_size or 50_000) / 1e5) ** (-1 / 3)
    lr_term = 0.0 if run.peak_lr is None else 0.1 * math.log(run.peak_lr / 1e-2) ** 2
    losses: dict[str, float] = {}
    for target in targets:
        rates, floor = _world(target, tuple(run.unique_tokens), seed)
        losses[target] = floor + size_term + lr_term + float((1e-3 + rates @ effective / 1e5) ** (-1 / 3))
    return losses


def _effective(seen: Array, unique: Array) -> Array:
    repeats = np.maximum(seen / unique - 1, 0)
    return np.minimum(seen, unique) + unique * 15 * -np.expm1(-repeats / 15)


def _world(target: str, corpora: tuple[str, ...], seed: int) -> tuple[Array, float]:
    rng = np.random.default_rng([seed, *target.encode()])
    rates = 0.2 * rng.random(len(corpora)) ** 2
    rates[[name == target for name in corpora]] = 1.0
    return rates, 1.0 + rng.random()


def _simulate(sweep: Sweep, run: RunSettings, noise: float, seed: int) -> Result:
    rng = np.random.default_rng(int(run.id.rsplit("-", 1)[1], 16) + seed)
    loss = {name: value * math.exp(noise * rng.standard_normal()) for name, value in
            true_loss(run, sweep.targets, seed).items()}  # fmt: skip
    epochs = {name: run.mixture.get(name, 0.0) * run.tokens / unique for name, unique in run.unique_tokens.items()}
    steps = run.tokens // (run.batch_tokens or run.tokens)
    return Result("finished", loss, _bits(loss), epochs, run.mixture, steps, run.flops, 0.0, run.model_size)


def _bits(loss: Mapping[str, float]) -> dict[str, float]:
    return {name: value / math.log(2) / 3 for name, value in loss.items()}  # a tokenizer of 3 bytes a token
