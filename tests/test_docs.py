"""What the README shows does run, and what it says of the tool is what the tool says."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mixopt._discover import available
from mixopt.cli import app
from mixopt.execute import simulate
from mixopt.runs import Runs
from mixopt.study import Study
from mixopt.sweep.design import check_cost, design
from mixopt.sweep.frame import frame_of
from mixopt.sweep.settings import RunSettings, Sweep
from mixopt.sweep.simplex import fill

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


FITTING = (ROOT / "docs" / "fitting.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [content for name, content in fenced if name == language]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng) -> Path:
    """runs.parquet of two corpora and two targets, as the README's example reads it."""
    import numpy as np

    mixtures = fill(40, np.zeros(2), np.ones(2), center=np.full(2, 0.5))
    runs = [
        RunSettings(
            "transformer",
            int(tokens),
            {"web": float(mixture[0]), "code": float(mixture[1])},
            {"web": int(tokens), "code": int(tokens) // 8},
            seed=i % 2,
            model_size=[25_000, 50_000, 100_000][i % 3],
            batch_tokens=[1024, 4096][i % 2],
            peak_lr=[5e-3, 1e-2, 2e-2][i % 3],
        )
        for i, (mixture, tokens) in enumerate(zip(mixtures, np.tile([1e5, 2e5, 4e5, 8e5], 10), strict=True))
    ]
    sweep = Sweep(("web", "code"), ("code", "exam"), tuple(runs))
    monkeypatch.chdir(tmp_path)
    return simulate.execute(sweep, tmp_path).write(tmp_path / "runs.parquet")


def test_the_python_examples_run_as_written(table: Path, capsys: pytest.CaptureFixture[str]):
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "token_exchange" in printed
    assert "Chosen(mixture=" in printed


def test_the_page_on_fitting_runs_as_written(table: Path, capsys: pytest.CaptureFixture[str]):
    Runs.read(table).write(table.with_name("runs.csv"))
    table.with_name("columns.yaml").write_text("seed: seed\nloss: {from: 'loss[*]'}\nmixture: {from: 'mixture[*]'}\n")
    for block in blocks("python", FITTING):
        exec(compile(block, "fitting.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "predicts rows held out" in printed
    assert "m[web]" in printed


def test_every_law_is_on_the_page_on_fitting():
    named = set(re.findall(r"`(\w+)`", FITTING.partition("## The laws")[2]))
    files = {path.stem for path in (ROOT / "mixopt" / "laws").glob("*.py")}
    assert set(available("laws")) | {"ready", "plausible"} == named & files


def test_the_study_of_the_readme_is_a_study_whose_sweep_can_be_done(tmp_path: Path):
    (tmp_path / "study.yaml").write_text(blocks("yaml")[0])
    study = Study.read(tmp_path / "study.yaml", check_files=False)
    check_cost(study)
    for run in design(frame_of(study, {name: 1e8 for name in study.corpora})).runs:
        assert run.batch_tokens is None or run.batch_tokens % study.sequence_length == 0


def test_the_error_of_the_readme_is_the_one_that_is_printed(tmp_path: Path):
    quoted = next(block for block in blocks("") if "3 apples" in block)
    text = (ROOT / "recipes" / "quickstart.yaml").read_text(encoding="utf-8")
    (tmp_path / "study.yaml").write_text(text.replace("flops: 2.3e12", "flops: 3 apples"))
    result = CliRunner().invoke(app, ["sweep", str(tmp_path / "study.yaml"), "--dry-run"])
    assert result.exit_code == 2
    assert result.stderr.replace(f"{tmp_path}/", "").split() == quoted.split()


@pytest.mark.parametrize("link", re.findall(r"\]\(((?!http)[^)]+)\)", README))
def test_links_lead_to_files(link: str):
    assert (ROOT / link).exists()


def test_verbs_and_benchmarks_named_in_the_readme_exist():
    verbs = set(re.findall(r"^mixopt ([a-z]+)", "".join(blocks("")), flags=re.MULTILINE))
    assert {"init", "sweep", "recipe"} <= verbs
    for verb in verbs:
        assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0
    benchmarks = re.findall(r"`(\w+\.py)` \(", README)
    assert benchmarks
    assert all((ROOT / "benchmarks" / name).exists() for name in benchmarks)
