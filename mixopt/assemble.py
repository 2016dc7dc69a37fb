"""A plan becomes a recipe: schedules over its tokens, epochs and files of its corpora, and where it all comes from."""

import os
from collections.abc import Mapping
from importlib.metadata import version

import numpy as np

from mixopt._discover import load
from mixopt.fit.fit import Fit
from mixopt.fit.selection import Selection
from mixopt.optimize.plan import Interval as Ends
from mixopt.optimize.plan import Plan
from mixopt.proxy.data import TokenData
from mixopt.proxy.shape import BASE_DEPTH, BASE_WIDTH, lr_factor, shape
from mixopt.recipe import (
    CorpusUse,
    Interval,
    Model,
    Optimizer,
    Prediction,
    Provenance,
    Recipe,
    Stage,
    Target,
    Transfer,
)
from mixopt.report.numbers import count
from mixopt.schedules.constant import constant
from mixopt.schedules.schedule import Schedule
from mixopt.study import Study


def recipe_of(
    study: Study, data: TokenData, selection: Selection, plan: Plan, available: Mapping[str, float], runs: int
) -> Recipe:
    """The recipe of a plan that is already rounded to whole steps.

    The plan's peak learning rate is that of the base width, as in the proxies; the recipe's is that of its own width.

    Parameters
    ----------
    available : tokens of each corpus in the target run
    runs : proxy runs that the laws were fitted to

    Raises
    ------
    ValueError
        The plan has no interval, no learning rate or no batch size; or no shape is known of a model of its size.
    """
    chosen = plan.chosen
    if chosen.peak_lr is None or chosen.batch_tokens is None:
        raise ValueError("the plan has no peak_lr or no batch_tokens; a recipe needs both. Give them in choose.")
    tokens, mixture = int(chosen.tokens), _shares(chosen.mixture)
    model, transfer = _model(int(chosen.model_size), chosen.peak_lr)
    return Recipe(
        provenance=_provenance(study, selection, plan, runs, _about_text(study, data, mixture, available)),
        model=model,
        tokens=tokens,
        sequence_length=study.sequence_length,
        batch=constant(chosen.batch_tokens, tokens),
        learning_rate=learning_rate(study.choose.schedule, transfer.base_lr * transfer.factor, tokens),
        stages=(Stage(tokens=tokens, mixture=mixture),),
        corpora={
            name: _use(study, data, name, chosen.mixture[name] * tokens, available[name]) for name in study.corpora
        },
        targets={name: _target(study, data, name, plan) for name in study.targets},
        predicted=Prediction(loss=plan.loss, interval=_interval(plan.interval, plan.level)),
        seed=study.seed,
        tokenizer=str(data.tokenizer_path),
    )


def _model(model_size: int, base_lr: float) -> tuple[Model, Transfer]:
    """The model in the proxies' shape at its size, and what muP makes of their learning rate at that width."""
    like, usual = shape(model_size), Optimizer().weight_decay
    transfer = Transfer(base_lr=base_lr, base_width=BASE_WIDTH, base_depth=BASE_DEPTH, factor=lr_factor(like))
    note = (
        f"The learning rate is that of hidden matrices at width {like.width} and depth {like.depth}: "
        f"{transfer.factor:.4g} times the {base_lr:.4g} that the proxies, by muP, call for at width {BASE_WIDTH} and "
        f"depth {BASE_DEPTH}. Under muP embeddings take {base_lr:.4g}. Where the trainer is not muP-parametrized, "
        f"confirm the rate with a short sweep around it. Weight decay {usual:g} multiplies the rate of the trainer; "
        f"in the proxies it multiplies {base_lr:.4g}, as {usual / transfer.factor:.3g} would here."
    )
    return Model(model_size=model_size, width=like.width, depth=like.depth, transfer=transfer, note=note), transfer


def learning_rate(schedule: str, peak_lr: float, tokens: int) -> Schedule:
    """The study's schedule at this peak over these tokens."""
    return getattr(load("schedules", schedule), schedule)(peak_lr, tokens)


def _provenance(study: Study, selection: Selection, plan: Plan, runs: int, about_text: tuple[str, ...]) -> Provenance:
    return Provenance(
        mixopt=version("mixopt"),
        study=study.name,
        study_sha256=study.digest,
        law=selection.law,
        coefficients={target: _coefficients(fitted) for target, fitted in selection.laws.items()},
        coefficient_intervals={target: _ends(fitted, plan.level) for target, fitted in selection.laws.items()},
        runs=runs,
        warnings=selection.warnings + plan.notes + about_text,
    )


def _about_text(
    study: Study, data: TokenData, mixture: Mapping[str, float], available: Mapping[str, float]
) -> tuple[str, ...]:
    """Where the text that the recipe names is not what it is to be trained on: samples, and held-out documents."""
    counted = {name: len(data.train[name]) for name in mixture}
    samples = [
        f"{name}: the proxies read {count(counted[name])} of the {count(available[name])} tokens that the recipe "
        "counts on. Put the full corpus in place of its files."
        for name in mixture
        if available[name] > counted[name]
    ]
    measured = {target.corpus for target in study.targets.values()}
    held_out = [
        f"{name}: its text includes the {100 * study.proxy.valid_share:.3g} % that a target is measured on. Leave "
        "those documents (mixopt.corpora.read_corpus tells which) out of training, or expect a lower loss than "
        "predicted."
        for name in mixture
        if name in measured
    ]
    return (*samples, *held_out)


def _coefficients(fitted: Fit) -> dict[str, float]:
    return {name: float(value) for name, value in zip(fitted.law.names, fitted.theta, strict=True)}


def _ends(fitted: Fit, level: float) -> dict[str, Interval]:
    lower, upper = fitted.coefficient_intervals(level)
    ends = zip(fitted.law.names, lower.tolist(), upper.tolist(), strict=True)
    return {name: Interval(lower=low, upper=high, level=level) for name, low, high in ends}


def _interval(ends: Ends | None, level: float) -> Interval:
    if ends is None:
        raise ValueError("the plan has no interval; fit the laws with replicates=200.")
    return Interval(lower=ends[0], upper=ends[1], level=level)


def _shares(mixture: Mapping[str, float]) -> dict[str, float]:
    total = sum(mixture.values())
    return {name: share / total for name, share in mixture.items() if share > 0}


def _use(study: Study, data: TokenData, name: str, seen: float, available: float) -> CorpusUse:
    documents = data.documents[name]
    return CorpusUse(
        available_tokens=available,
        epochs=seen / available,
        documents=documents,
        mean_document_tokens=len(data.train[name]) / documents,
        files=tuple(os.path.normpath(path) for path in study.corpora[name].paths()),
    )


def _target(study: Study, data: TokenData, name: str, plan: Plan) -> Target:
    found = plan.targets[name]
    return Target(
        weight=study.targets[name].weight,
        loss=found.loss,
        interval=_interval(found.interval, plan.level),
        bits_per_byte=_bits_per_byte(data, name, found.loss),
    )


def _bits_per_byte(data: TokenData, target: str, loss: float) -> float:
    return loss / np.log(2) * len(data.valid[target]) / data.valid_bytes[target]
