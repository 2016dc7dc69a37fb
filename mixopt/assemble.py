"""A plan becomes a recipe: schedules over its tokens, epochs and files of its corpora, and where it all comes from."""

import os
from collections.abc import Mapping
from importlib.metadata import version

import numpy as np

from mixopt._discover import load
from mixopt.fit.fit import Fit
from mixopt.fit.select import Selection
from mixopt.optimize.plan import Interval as Ends
from mixopt.optimize.plan import Plan
from mixopt.proxy.data import TokenData
from mixopt.proxy.shape import BASE_WIDTH, LARGEST_SIZE, SMALLEST_SIZE, shape
from mixopt.recipe import CorpusUse, Interval, Model, Prediction, Provenance, Recipe, Stage, Target
from mixopt.schedules.constant import constant
from mixopt.schedules.schedule import Schedule
from mixopt.study import Study


def recipe_of(
    study: Study, data: TokenData, selection: Selection, plan: Plan, available: Mapping[str, float], runs: int
) -> Recipe:
    """The recipe of a plan that is already rounded to whole steps.

    Parameters
    ----------
    available : tokens of each corpus in the target run
    runs : proxy runs that the laws were fitted to
    """
    chosen = plan.chosen
    tokens, batch = int(chosen.tokens), chosen.batch_tokens or study.sequence_length
    return Recipe(
        provenance=_provenance(study, selection, plan, runs),
        model=_model(int(chosen.model_size), chosen.peak_lr or 0.0),
        tokens=tokens,
        sequence_length=study.sequence_length,
        batch=constant(batch, tokens),
        learning_rate=learning_rate(study.choose.schedule, chosen.peak_lr or 0.0, tokens),
        stages=(Stage(tokens=tokens, mixture=_shares(chosen.mixture)),),
        corpora={
            name: _use(study, data, name, chosen.mixture[name] * tokens, available[name]) for name in study.corpora
        },
        targets={
            name: Target(
                weight=target.weight,
                loss=plan.targets[name].loss,
                interval=_interval(plan.targets[name].interval, plan.level),
                bits_per_byte=_bits_per_byte(data, name, plan.targets[name].loss),
            )
            for name, target in study.targets.items()
        },
        predicted=Prediction(loss=plan.loss, interval=_interval(plan.interval, plan.level)),
        seed=study.seed,
        tokenizer=str(data.tokenizer_path),
    )


def _model(model_size: int, peak_lr: float) -> Model:
    """The size, and how its trainer has to read the learning rate, which proxies transfer across widths by muP."""
    rule = f"peak LR is that of width {BASE_WIDTH} under muP: hidden matrices of width w take {BASE_WIDTH}/w of it"
    if not SMALLEST_SIZE <= model_size <= LARGEST_SIZE:
        return Model(model_size=model_size, note=f"{rule}, embeddings all of it.")
    like = shape(model_size)
    scaled = f"{peak_lr * BASE_WIDTH / like.width:.3g} at width {like.width} and depth {like.depth}, the proxies' shape"
    note = f"{rule} ({scaled}), embeddings all of it."
    return Model(model_size=model_size, width=like.width, depth=like.depth, note=note)


def learning_rate(schedule: str, peak_lr: float, tokens: int) -> Schedule:
    """The study's schedule at this peak over these tokens."""
    return getattr(load("schedules", schedule), schedule)(peak_lr, tokens)


def _provenance(study: Study, selection: Selection, plan: Plan, runs: int) -> Provenance:
    return Provenance(
        mixopt=version("mixopt"),
        study=study.name,
        study_sha256=study.digest,
        law=selection.law,
        coefficients={target: _coefficients(fitted) for target, fitted in selection.fits.items()},
        coefficient_intervals={target: _ends(fitted, plan.level) for target, fitted in selection.fits.items()},
        runs=runs,
        warnings=selection.warnings + plan.notes,
    )


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


def _bits_per_byte(data: TokenData, target: str, loss: float) -> float:
    return loss / np.log(2) * len(data.valid[target]) / data.valid_bytes[target]
