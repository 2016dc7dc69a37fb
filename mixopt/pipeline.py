"""The arrows between the nouns: each step reads what the one before left in the study's folder and leaves its own.

`outputs/<study>/` holds study.yaml (a copy), data/, sweep.json, runs/, runs.parquet, fit.json, plan.json, recipe.yaml,
emit/<stack>/ and report.html. A step whose result is there for the same input is not done again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mixopt._discover import load
from mixopt.assemble import recipe_of
from mixopt.columns import Array
from mixopt.corpora import Corpus, read_corpus, read_texts
from mixopt.emit.write import write
from mixopt.errors import StudyError
from mixopt.execute.local import Watch
from mixopt.files import write_bytes, write_json
from mixopt.fit import screen
from mixopt.fit.select import select
from mixopt.fit.selection import Selection
from mixopt.optimize.plan import Plan
from mixopt.optimize.problem import Problem, Target
from mixopt.optimize.slsqp import slsqp
from mixopt.optimize.verdict import round_plan
from mixopt.proxy.data import TokenData, prepare
from mixopt.recipe import Recipe
from mixopt.report.outcome import Outcome
from mixopt.runs import Runs
from mixopt.study import Study
from mixopt.study_sections import TextSource
from mixopt.sweep.design import check_cost, design, favorites
from mixopt.sweep.frame import Frame, frame_of
from mixopt.sweep.settings import Sweep
from mixopt.sweep.simplex import fill

T = TypeVar("T")
_POOL = 4096
_MARK = ".mixopt"  # in every folder that mixopt made, so that no other folder is written into
EXECUTOR = "local"
# What reading a file of ours raises when somebody or something has damaged it.
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(frozen=True)
class Workspace:
    """A study and the folder that its results go to."""

    study: Study
    source: Path
    folder: Path

    @classmethod
    def open(cls, source: str | Path, folder: str | Path | None = None, executor: str = EXECUTOR) -> "Workspace":
        """Read and check the study; nothing is written yet.

        Results go to `folder`, by default outputs/<study name>, or outputs/<study name>-<executor> where runs are not
        trained here.

        Raises
        ------
        StudyError
            The study is wrong, or the folder holds what mixopt did not write.
        """
        source = Path(source)
        study = Study.read(source)
        check_cost(study)
        name = study.name if executor == EXECUTOR else f"{study.name}-{executor}"
        folder = Path(folder) if folder else Path("outputs") / name
        if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).exists()):
            raise StudyError(f"{folder} is there and was not made by mixopt; name an empty or new folder by --out.")
        return cls(study, source, folder)


def texts(work: Workspace) -> tuple[dict[str, Corpus], dict[str, tuple[str, ...]]]:
    """The corpora of the study, split, and the held-out texts of its targets."""
    study = work.study
    corpora = {
        name: read_corpus(
            name,
            **_place(source),
            valid_share=study.proxy.valid_share,
            seed=study.seed,
            declared_tokens=source.available_tokens,
        )
        for name, source in study.corpora.items()
    }
    targets = {
        name: corpora[target.corpus].valid if target.corpus else read_texts(name, **_place(target))
        for name, target in study.targets.items()
    }
    return corpora, targets


def tokenize(work: Workspace) -> TokenData:
    """The study's texts as tokens, in `data/`."""
    corpora, targets = texts(work)
    work.folder.mkdir(parents=True, exist_ok=True)
    (work.folder / _MARK).touch()
    proxy = work.study.proxy
    data = prepare(
        corpora,
        targets,
        work.folder / "data",
        vocabulary=proxy.vocabulary,
        seed=work.study.seed,
        leakage_limit=proxy.leakage_limit,
    )
    write_bytes(work.folder / "study.yaml", work.source.read_bytes())
    return data


def framed(work: Workspace, data: TokenData) -> Frame:
    """What the runs of the sweep share: tokens counted on disk, or declared where the disk holds a sample."""
    counted = {name: float(len(tokens)) for name, tokens in data.train.items()}
    return frame_of(work.study, counted, data.digest[:12])


def run_sweep(work: Workspace, data: TokenData, *, executor: str = EXECUTOR, watch: Watch | None = None) -> Runs:
    """Do all runs of the sweep that are not on disk: the screen first, then the transformers with its favorites."""
    shared = framed(work, data)
    sweep = design(shared)
    _announce(work, sweep)
    execute = _executor(work, executor, watch)
    screens = Sweep(sweep.corpora, sweep.targets, tuple(run for run in sweep.runs if run.proxy == "ngram"))
    if screens.runs and work.study.sweep.favorites:
        sweep = sweep + favorites(shared, _favorites(work, shared, execute(screens, work.folder)))
        _announce(work, sweep)
    runs = execute(sweep, work.folder)
    runs.write(work.folder / "runs.parquet")
    return runs


def fit_laws(work: Workspace, runs: Runs) -> Selection:
    """The law that predicts held-out larger runs best, fitted to each target, in fit.json."""
    weights = {name: target.weight for name, target in work.study.targets.items()}
    path, key = work.folder / "fit.json", _key(runs.to_pandas().to_csv(), str(weights), str(work.study.seed))
    if (found := _stored(path, key, Selection.from_dict)) is not None:
        return found
    selection = select(runs, weights, seed=work.study.seed, for_plan=True)
    write_json(path, {"key": key, **selection.to_dict()})
    return selection


def decide(work: Workspace, selection: Selection, available: Mapping[str, float]) -> Plan:
    """The best recipe under the study's budget by the fitted laws, in plan.json."""
    path = work.folder / "plan.json"
    key = _key(work.study.digest, json.dumps(selection.to_dict()), json.dumps(dict(available)))
    if (found := _stored(path, key, Plan.from_dict)) is not None:
        return found
    problem = problem_of(work.study, selection, available)
    plan = round_plan(slsqp(problem, seed=work.study.seed), problem, work.study.sequence_length)
    write_json(path, {"key": key, **plan.to_dict()})
    return plan


def problem_of(study: Study, selection: Selection, available: Mapping[str, float]) -> Problem:
    """What the study asks, for the solver."""
    caps, bounds = study.epoch_caps(), study.share_bounds()
    return Problem(
        corpora=tuple(study.corpora),
        targets=tuple(Target(name, target.weight, selection.laws[name]) for name, target in study.targets.items()),
        unique_tokens=np.array([available[name] for name in study.corpora]),
        max_epochs=np.array([caps[name] for name in study.corpora]),
        share_bounds=np.array([bounds[name] for name in study.corpora]),
        budget_flops=study.budget.flops,
        choose=study.choose.ranges(),
        given=study.choose.fixed(),
    )


def conclude(work: Workspace, data: TokenData, runs: Runs, *, executor: str = EXECUTOR) -> Outcome:
    """From runs to the recipe, in recipe.yaml, and all that it rests on."""
    selection = fit_laws(work, runs)
    if executor != EXECUTOR:
        said = f"The runs come from the executor {executor}; no model was trained."
        selection = replace(selection, warnings=(said, *selection.warnings))
    available = available_tokens(work.study, data)
    plan = decide(work, selection, available)
    recipe = write_recipe(work, data, selection, plan, len(runs))
    return Outcome(work.study, runs, selection, plan, recipe, available)


def stored_outcome(work: Workspace) -> Outcome:
    """The outcome that `conclude` left in the study's folder.

    Raises
    ------
    StudyError
        There is none, or it is that of another study than this one as it stands.
    """
    again = f"run: mixopt recipe {work.source} --out {work.folder}"
    try:
        recipe = Recipe.read(work.folder / "recipe.yaml")
        runs = Runs.read(work.folder / "runs.parquet")
        plan = Plan.from_dict(_content(work.folder / "plan.json"))
        selection = Selection.from_dict(_content(work.folder / "fit.json"))
    except (OSError, *_DAMAGED) as error:
        raise StudyError(f"{work.folder} holds no finished recipe ({error}); {again}") from None
    if recipe.provenance.study_sha256 != work.study.digest:
        raise StudyError(f"{work.source} has changed since its recipe was made; {again}")
    available = {name: use.available_tokens for name, use in recipe.corpora.items()}
    return Outcome(work.study, runs, selection, plan, recipe, available)


def write_recipe(work: Workspace, data: TokenData, selection: Selection, plan: Plan, runs: int) -> Recipe:
    """The recipe of the plan, in recipe.yaml."""
    recipe = recipe_of(work.study, data, selection, plan, available_tokens(work.study, data), runs)
    recipe.write(work.folder / "recipe.yaml")
    return recipe


def emit(work: Workspace, recipe: Recipe) -> tuple[Path, ...]:
    """The configuration files of every stack that the study names, in emit/<stack>/."""
    paths: list[Path] = []
    for name in work.study.emit:
        paths += write(recipe, name, work.folder / "emit" / name)
    return tuple(paths)


def available_tokens(study: Study, data: TokenData) -> dict[str, float]:
    """Tokens of each corpus that the target run has: declared in the study, else counted."""
    return {name: source.available_tokens or float(len(data.train[name])) for name, source in study.corpora.items()}


def _place(source: TextSource) -> dict[str, Any]:
    return {
        "files": source.paths(),
        "dataset": source.dataset,
        "subset": source.config,
        "split": source.split,
        "text_field": source.text,
        "id_field": source.id,
        "max_documents": source.max_documents,
    }


def _executor(work: Workspace, name: str, watch: Watch | None) -> Callable[[Sweep, Path], Runs]:
    proxy = work.study.proxy
    workers = None if proxy.workers == "auto" else proxy.workers
    return partial(load("execute", name).execute, workers=workers, device=proxy.device, watch=watch)


def _favorites(work: Workspace, shared: Frame, screens: Runs) -> Array:
    if len(screens) < len(shared.corpora) + 2:  # one corpus, or all shares fixed: nothing to choose from
        return np.empty((0, len(shared.corpora)))
    weights = {name: target.weight for name, target in work.study.targets.items()}
    pool = fill(_POOL, *shared.bounds, center=shared.natural, seed=work.study.seed + 1)
    seen = np.minimum(pool * screens["tokens"][0], screens["unique_tokens"][0])
    fits = screen.fit_screen(screens, seed=work.study.seed)
    return screen.favorites(fits, weights, seen, pool, work.study.sweep.favorites)


def _announce(work: Workspace, sweep: Sweep) -> None:
    write_json(work.folder / "sweep.json", json.loads(sweep.to_json()))


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join((version("mixopt"), *parts)).encode()).hexdigest()


def _stored(path: Path, key: str, read: Callable[[dict[str, Any]], T]) -> T | None:
    """What a step left here for the same input; None where it has to be done (again)."""
    if not path.exists():
        return None
    try:
        same = json.loads(path.read_text(encoding="utf-8"))["key"] == key
        return read(_content(path)) if same else None
    except _DAMAGED as error:
        raise StudyError(f"{path} cannot be read ({error!r}); delete it and it is made again.") from None


def _content(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return {name: value for name, value in content.items() if name != "key"}
