"""What the README shows does run, and what it says of the tool is what the tool says."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mixopt.cli import app
from mixopt.execute import simulate
from mixopt.study import Study
from mixopt.sweep.settings import RunSettings, Sweep
from mixopt.sweep.simplex import fill

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
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
            model_size=int(tokens) // 4,
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


def test_the_study_of_the_readme_has_only_known_keys():
    shown = yaml.safe_load(blocks("yaml")[0])
    properties = Study.json_schema()["properties"]
    assert set(shown) <= set(properties)
    choose = Study.json_schema()["$defs"]["Choose"]["properties"]
    assert set(shown["choose"]) <= set(choose)


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


def test_files_and_verbs_named_in_the_readme_exist():
    for verb in re.findall(r"mixopt ([a-z]+) ", " ".join(blocks("")) + README):
        if verb in ("recipe", "sweep", "init", "schema", "emit", "report"):
            assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0
    for name in re.findall(r"`(\w+\.py)` \(", README):
        assert (ROOT / "benchmarks" / name).exists()
