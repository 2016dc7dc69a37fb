"""The report: one page that loads nothing, says all that was decided, and stands on what a study happens to have."""

import base64
import html
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixopt.execute import simulate
from mixopt.fit.fit import fit
from mixopt.fit.select import select
from mixopt.fit.selection import Selection
from mixopt.laws.ready import candidates, units
from mixopt.optimize.plan import Plan
from mixopt.optimize.problem import Problem, Target
from mixopt.optimize.slsqp import slsqp
from mixopt.optimize.verdict import round_plan
from mixopt.recipe import Recipe
from mixopt.report import tables, words
from mixopt.report.figures import exchange, learning_rate, shares
from mixopt.report.figures.canvas import log_counts, look, panels
from mixopt.report.numbers import count, interval, percent, plain
from mixopt.report.outcome import Outcome
from mixopt.report.page import write_report
from mixopt.runs import Runs
from mixopt.schedules.constant import constant
from mixopt.schedules.wsd import wsd
from mixopt.study import Study
from mixopt.sweep.design import design
from mixopt.sweep.frame import frame_of

HOSTILE = "<img src=x onerror=alert(1)> & $\\frac$"
COUNTED = {"code": 4e5, HOSTILE: 3e5, "junk": 6e5}
FIGURES = {"mixture", "scaling", "shares", "held_out", "exchange", "learning_rate", "schedules"}
STUDY: Mapping[str, Any] = {
    "name": "small",
    "corpora": {"code": {"files": "code.txt"}, "prose": {"files": "prose.txt"}, "junk": {"files": "junk.txt"}},
    "targets": {"code": {"corpus": "code", "weight": 3.0}, "exam": {"files": "exam.txt"}},
    "budget": {"flops": 2e12},
    "choose": {
        "model_size": [30_000, 1_000_000],
        "tokens": [400_000, 4_000_000],
        "batch_tokens": [512, 4096],
        "peak_lr": [2e-3, 4e-2],
    },
    "sweep": {
        "share_of_budget": 2.5,
        "model_size": [30_000, 60_000, 120_000],
        "tokens": [100_000, 200_000, 400_000],
        "batch_tokens": [512, 2048],
        "peak_lr": [4e-3, 8e-3, 16e-3],
        "mixtures": 16,
        "screen": 12,
        "favorites": 0,
    },
}


def recipe_of(study: Study, plan: Plan) -> Recipe:
    def ends(interval: tuple[float, float] | None) -> dict[str, float]:
        assert interval is not None
        return {"lower": interval[0], "upper": interval[1], "level": plan.level}

    chosen, tokens = plan.chosen, int(plan.chosen.tokens)
    assert chosen.batch_tokens is not None
    assert chosen.peak_lr is not None
    plain_recipe = {
        "provenance": {
            "mixopt": "0.1.0",
            "study": study.name,
            "study_sha256": study.digest,
            "law": "a law",
            "coefficients": {},
            "runs": 50,
        },
        "model": {"model_size": int(chosen.model_size), "note": "width is that of the proxies"},
        "tokens": tokens,
        "sequence_length": study.sequence_length,
        "batch": {"segments": constant(chosen.batch_tokens, tokens).to_list()},
        "learning_rate": {"segments": wsd(chosen.peak_lr, tokens, warmup=0.05).to_list()},
        "stages": [{"tokens": tokens, "mixture": dict(chosen.mixture)}],
        "corpora": {name: {"available_tokens": COUNTED[name], "epochs": plan.epochs[name]} for name in study.corpora},
        "targets": {
            name: {"weight": study.targets[name].weight, "loss": target.loss, "interval": ends(target.interval)}
            for name, target in plan.targets.items()
        },
        "predicted": {"loss": plan.loss, "interval": ends(plan.interval)},
        "seed": study.seed,
    }
    return Recipe.from_plain(plain_recipe)


def plan_of(study: Study, selection: Selection) -> Plan:
    problem = Problem(
        corpora=tuple(study.corpora),
        targets=tuple(Target(name, study.targets[name].weight, fitted) for name, fitted in selection.fits.items()),
        unique_tokens=np.array([COUNTED[name] for name in study.corpora]),
        max_epochs=np.array(list(study.epoch_caps().values())),
        budget_flops=study.budget.flops,
        choose=study.choose.ranges(),
        given=study.choose.fixed(),
    )
    return round_plan(slsqp(problem, starts=6), problem, study.sequence_length)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A study of three corpora, one of a name that no study file may have, answered by a known law."""
    study = Study.model_validate(STUDY, context={"check_files": False})
    renamed = {HOSTILE if name == "prose" else name: source for name, source in study.corpora.items()}
    study = study.model_copy(update={"corpora": renamed})
    runs = simulate.execute(design(frame_of(study, COUNTED)), tmp_path_factory.mktemp("sweep"))
    weights = {name: target.weight for name, target in study.targets.items()}
    selection = select(runs, weights, replicates=20, for_plan=True)
    plan = plan_of(study, selection)
    return Outcome(study, runs, selection, plan, recipe_of(study, plan), COUNTED)


@pytest.fixture(scope="module")
def folder(outcome: Outcome, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("report")
    assert write_report(outcome, written) == written / "report.html"
    return written


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    """All tags with their attributes, and the tags left open or closed twice."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def visible(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)))


def pictures(page: str) -> list[str]:
    found = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    return [base64.b64decode(text).decode() for text in found]


def test_the_page_loads_nothing(page: str):
    parsed = Tags(page)
    assert not {tag for tag, _ in parsed.tags} & {"script", "iframe", "object", "embed", "base", "form"}
    sources = [value for _, attributes in parsed.tags for key in ("src", "href") if (value := attributes.get(key))]
    assert len(sources) == 1 + len(FIGURES)
    assert all(source.startswith("data:") for source in sources)
    assert not re.search(r"url\(|@import", page)
    for svg in pictures(page):
        assert all(link.startswith("#") for link in re.findall(r'href="([^"]*)"', svg))
        assert all(link.startswith("#") for link in re.findall(r"url\(([^)]*)\)", svg))


def test_the_page_is_well_formed_and_every_figure_has_words(page: str):
    parsed = Tags(page)
    assert (parsed.open, parsed.wrong) == ([], [])
    images = [attributes for tag, attributes in parsed.tags if tag == "img"]
    assert len(images) == len(FIGURES)
    assert all(len(image["alt"] or "") > 40 for image in images)
    heads = [attributes.get("scope") for tag, attributes in parsed.tags if tag == "th"]
    assert set(heads) == {"col", "row"}
    assert page.count("<table>") == page.count("<thead>")


def test_all_that_was_decided_is_on_the_page(page: str, outcome: Outcome):
    text, plan = visible(page), outcome.plan
    expected = [
        count(plan.chosen.model_size),
        count(plan.chosen.tokens),
        count(plan.chosen.batch_tokens),
        plain(plan.chosen.peak_lr),
        plain(plan.flops),
        plain(plan.loss),
        interval(plan.interval),
        plain(plan.kkt_residual),
        *(percent(outcome.used(name)) for name in outcome.corpora),
        *(plain(plan.epochs[name]) for name in outcome.corpora if outcome.used(name)),
        *(plain(target.loss) for target in plan.targets.values()),
        *(interval(target.interval) for target in plan.targets.values()),
        *(plain(baseline.loss) for baseline in plan.baselines.values()),
        *(plain(baseline.difference) for baseline in plan.baselines.values()),
        *(interval(baseline.difference_interval) for baseline in plan.baselines.values()),
        *plan.notes,
        *outcome.selection.warnings,
        *(row.name for row in outcome.selection.candidates),
        *(fitted.report() for fitted in outcome.fits.values()),
        outcome.study.digest,
        outcome.recipe.provenance.mixopt,
        outcome.recipe.model.note,
    ]
    assert [part for part in expected if part not in text] == []


def test_a_hostile_name_is_shown_and_not_obeyed(page: str):
    assert HOSTILE not in page
    assert HOSTILE in visible(page)
    assert "onerror" not in {key for _, attributes in Tags(page).tags for key in attributes}


def test_the_same_outcome_gives_the_same_bytes(outcome: Outcome, folder: Path, tmp_path: Path):
    write_report(outcome, tmp_path)
    first, second = ({path.name: path.read_bytes() for path in root.rglob("*.*")} for root in (folder, tmp_path))
    assert first == second


def test_every_figure_is_a_file_with_something_on_it(folder: Path):
    from matplotlib.image import imread

    files = {path.stem: path for path in (folder / "report").iterdir()}
    assert set(files) == FIGURES
    for path in files.values():
        pixels = imread(path).reshape(-1, 4)
        assert len(np.unique(pixels[:, :3] @ np.array([1.0, 300.0, 90_000.0]))) > 10
        assert (pixels[:, 3] == 1).all()


def test_the_plan_is_on_its_own_curves(outcome: Outcome):
    at = outcome.at_plan(outcome.mixture[None])
    for target, fitted in outcome.fits.items():
        assert fitted.predict(at)[0] == pytest.approx(outcome.plan.targets[target].loss, rel=1e-9)


def test_no_share_within_bounds_beats_the_plan(outcome: Outcome):
    for i, corpus in enumerate(outcome.corpora):
        mixtures = shares.varied(outcome, i)
        assert mixtures.sum(-1) == pytest.approx(1)
        assert mixtures[0, i] == 0
        epochs = mixtures[-1, i] * outcome.tokens / COUNTED[corpus]
        assert epochs <= 4 * (1 + 1e-9) or mixtures[-1, i] == 1
        allowed = (mixtures * outcome.tokens / outcome.unique <= 4).all(-1)
        # Rounding to whole steps moves the plan off its optimum by no more than this.
        assert shares.weighted(outcome, mixtures)[allowed].min() > -1e-4


def test_rates_are_told_in_tokens_of_the_targets_own_corpus(outcome: Outcome):
    law = candidates(outcome.corpora, **units(outcome.trained.columns))["token_exchange"]
    columns = outcome.trained.target("code")
    fitted = fit(law, columns, starts=2)
    known = replace(fitted, replicates=np.stack([fitted.theta, fitted.theta]))
    with_exchange = replace(outcome, selection=replace(outcome.selection, fits={**outcome.fits, "code": known}))
    worth = exchange.worth(with_exchange, "code")
    assert worth is not None
    assert worth.unit == "code"
    rates = [fitted.theta[law.names.index(f"m[{name}]")] for name in outcome.corpora]
    assert worth.rates == pytest.approx(np.array(rates) / rates[0])
    assert worth.ends is not None
    assert worth.ends[0] == pytest.approx(worth.ends[1])


def test_the_learning_rates_shown_are_of_one_size_and_length(outcome: Outcome):
    runs = learning_rate.grid(outcome)
    assert (np.unique(runs["model_size"]), np.unique(runs["tokens"])) == (30_000, 100_000)
    assert {(rate, batch) for rate, batch in zip(runs["peak_lr"], runs["batch_tokens"], strict=True)} == {
        (rate, batch) for rate in (4e-3, 8e-3, 16e-3) for batch in (512, 2048)
    }


def test_every_run_is_counted_once(outcome: Outcome):
    table = tables.runs(outcome)
    assert sum(int(row[1]) for row in table.rows) == len(outcome.runs)
    counted = {row[0]: int(row[1]) for row in table.rows}
    assert counted["n-gram screen of mixtures"] == 12
    assert counted["another seed"] == 4
    assert plain(outcome.sweep_flops) in words.spending(outcome)


def test_a_sweep_dearer_than_its_budget_is_said(outcome: Outcome):
    poor = outcome.study.model_copy(update={"budget": outcome.study.budget.model_copy(update={"flops": 1e11})})
    assert any("times the budget" in sentence for sentence in words.warnings(replace(outcome, study=poor)))
    rich = outcome.study.model_copy(update={"budget": outcome.study.budget.model_copy(update={"flops": 1e18})})
    assert not any("times the budget" in sentence for sentence in words.warnings(replace(outcome, study=rich)))


def test_a_gain_that_may_be_none_is_said(outcome: Outcome):
    doubtful = replace(outcome.plan.baselines["uniform"], difference_interval=(-0.1, 0.2), plan_better=0.6)
    plan = replace(outcome.plan, baselines={"uniform": doubtful})
    (sentence,) = words.comparisons(replace(outcome, plan=plan))
    assert "better with a chance of 60.0 %" in sentence
    assert "cannot tell from no difference" in sentence


def test_a_mixture_that_is_the_plan_is_as_good(outcome: Outcome):
    same = replace(outcome.plan.baselines["uniform"], difference=-3e-14, plan_better=0.5)
    (sentence,) = words.comparisons(replace(outcome, plan=replace(outcome.plan, baselines={"uniform": same})))
    assert sentence.startswith("as good as the uniform mixture")


@pytest.mark.parametrize(
    ("residual", "agreement", "said"),
    [
        (1e-9, 1.0, "no small change that the constraints allow lowers the predicted loss. All searches"),
        (1e-5, 0.5, "negligible. 50.0 % of the searches"),
        (1e-2, 0.1, "it is not shown to be optimal. 10.0 % of the searches, each from another start, ended at this "
         "loss: the loss has several valleys"),
    ],
)  # fmt: skip
def test_optimality_in_words(outcome: Outcome, residual: float, agreement: float, said: str):
    assert said in words.optimality(replace(outcome.plan, kkt_residual=residual, agreement=agreement))


def bare(outcome: Outcome) -> Outcome:
    """One target, one size, one learning rate, no screen, no replicates, no baselines, a law without exchange rates."""
    runs = outcome.trained
    kept = (runs["model_size"] == 30_000) & (runs["peak_lr"] == 8e-3) & (runs["batch_tokens"] == 2048)
    columns = {name: values for name, values in runs.where(kept).columns.items() if name not in ("seconds", "flops")}
    columns["loss"], columns["bits_per_byte"] = columns["loss"][:, :1], columns["bits_per_byte"][:, :1]
    runs = Runs(runs.corpora, ("code",), columns)
    fitted = fit(candidates(runs.corpora, **units(columns))["mixing_law"], runs.target("code"), starts=2)
    held = replace(outcome.selection.held_out, run=(), observed={"code": ()}, predicted={"code": ()})
    selection = replace(
        outcome.selection, law="mixing_law", fits={"code": fitted}, candidates=(), held_out=held, agreement={},
        noise={"code": float("nan")}, warnings=(),
    )  # fmt: skip
    alone = replace(outcome.plan.targets["code"], interval=None)
    plan = replace(
        outcome.plan, targets={"code": alone}, interval=None, baselines={}, multipliers={}, notes=()
    )  # fmt: skip
    return replace(outcome, runs=runs, selection=selection, plan=plan)


def test_what_is_missing_is_said_in_a_sentence(outcome: Outcome, folder: Path, tmp_path: Path):
    stale = tmp_path / "report" / "exchange.png"
    stale.parent.mkdir()
    stale.write_bytes(b"of an earlier law")
    text = visible(write_report(bare(outcome), tmp_path).read_text(encoding="utf-8"))
    for sentence in (
        "No n-gram screen was run",
        "The chosen law, mixing_law, exchanges no tokens",
        "No run varied the learning rate alone",
        "No run was held out",
        "All runs have 30k parameters",
        "No limit that could be moved holds the plan back",
        "(90 % interval not known)",
    ):
        assert sentence in text
    assert {path.stem for path in (tmp_path / "report").iterdir()} == {"mixture", "scaling", "shares", "schedules"}


def test_too_few_shared_mixtures_are_said(outcome: Outcome):
    few = replace(outcome, selection=replace(outcome.selection, agreement={}))
    assert words.screen(few) == [
        "Fewer than 4 mixtures were tried both by n-gram models and by transformers of one setting, so their agreement "
        "was not measured."
    ]


@pytest.mark.parametrize(("low", "high"), [(9e4, 4e6), (4e-3, 2e-2), (1e6, 1e13)])
def test_a_logarithmic_axis_has_few_round_ticks(low: float, high: float):
    with look():
        _, axes = panels(1, 1, 3, 2)
        log_counts(axes[0, 0].xaxis, low, high)
        ticks = axes[0, 0].xaxis.get_majorticklocs()
    assert 2 <= len(ticks) <= 9
    assert all(f"{tick:.6e}"[1:8] == ".000000" and f"{tick:e}"[0] in "125" for tick in ticks)
