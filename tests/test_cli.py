"""The command line from text to recipe, with simulated runs; and every kind of bad input in one sentence."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from mixopt.cli import app
from mixopt.recipe import Recipe
from mixopt.runs import Runs

STUDY = """\
name: small
corpora:
  web: {files: web.jsonl}
  code: {files: code.jsonl}
  junk: {files: junk.jsonl}
targets:
  code: {corpus: code}
budget: {flops: 3e11}
max_epochs: 6
choose:
  model_size: [20k, 400k]
  tokens: [50k, 1M]
  batch_tokens: [256, 4096]
  peak_lr: [2e-3, 4e-2]
sequence_length: 32
sweep:
  share_of_budget: 3
  model_size: [20k, 40k, 80k]
  tokens: [20k, 40k, 80k]
  batch_tokens: [256, 512, 1024]
  peak_lr: [5e-3, 1e-2, 2e-2]
  mixtures: 24
  screen: 16
  favorites: 2
proxy: {vocabulary: 300}
emit: [huggingface, olmo_core, tabulated]
"""


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def write_corpora(folder: Path, documents: int = 30) -> None:
    rng = np.random.default_rng(3)
    for name in ("web", "code", "junk"):
        words = ["".join(rng.choice(list("abcdefghijklmnop"), 5)) for _ in range(200)]
        with open(folder / f"{name}.jsonl", "w") as stream:
            for i in range(documents):
                text = " ".join(words[k] for k in rng.integers(0, 200, 200))
                stream.write(json.dumps({"id": f"{name}/{i}", "text": text}) + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A study's folder after `mixopt recipe`, and what the command printed."""
    folder = tmp_path_factory.mktemp("made")
    write_corpora(folder)
    (folder / "study.yaml").write_text(STUDY)
    result = invoke("recipe", folder / "study.yaml", "--out", folder / "out", "--executor", "simulate")
    assert result.exit_code == 0, result.output
    return folder, result


def test_one_command_leads_from_text_to_a_recipe(made: tuple[Path, Result]):
    folder, _ = made
    out = folder / "out"
    files = ["study.yaml", "sweep.json", "runs.parquet", "fit.json", "plan.json", "recipe.yaml", "report.html"]
    assert [name for name in files if not (out / name).is_file()] == []
    assert sorted(path.name for path in (out / "emit").iterdir()) == ["huggingface", "olmo_core", "tabulated"]
    assert not list(out.rglob("*.part"))


def test_the_recipe_keeps_the_budget_and_the_caps(made: tuple[Path, Result]):
    recipe = Recipe.read(made[0] / "out" / "recipe.yaml")
    assert 6 * recipe.model.model_size * recipe.tokens <= 3e11
    assert all(use.epochs <= 6 * 1.0001 for use in recipe.corpora.values())
    assert sum(recipe.mixture.values()) == pytest.approx(1)
    assert min(share for stage in recipe.stages for share in stage.mixture.values()) > 1e-9  # no rounding dust
    assert recipe.tokens % recipe.batch.peak == 0
    assert recipe.mixture["code"] > 0.3  # in the simulated world a target is served best by its own corpus
    low, high = recipe.predicted.interval.lower, recipe.predicted.interval.upper
    assert low < recipe.predicted.loss < high


def test_the_printed_table_has_what_a_person_needs(made: tuple[Path, Result]):
    printed = made[1].output
    for word in ("natural", "uniform", "predicted loss", "90%", "model size", "peak LR", "schedule", "report.html"):
        assert word in printed, f"{word} is missing from\n{printed}"


def test_a_second_call_changes_no_run_and_no_recipe(made: tuple[Path, Result]):
    folder, _ = made
    runs = folder / "out" / "simulated" / "runs"
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("run.json")}
    recipe = (folder / "out" / "recipe.yaml").read_bytes()
    result = invoke("recipe", folder / "study.yaml", "--out", folder / "out", "--executor", "simulate")
    assert result.exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("run.json")} == before
    assert len(before) == len(Runs.read(folder / "out" / "runs.parquet"))
    assert (folder / "out" / "recipe.yaml").read_bytes() == recipe


def test_the_table_of_runs_states_that_proxies_are_epoch_matched(made: tuple[Path, Result]):
    runs = Runs.read(made[0] / "out" / "runs.parquet").of("transformer")
    assert runs["epoch_matched"].all()
    ratio = runs["unique_tokens"] / runs["tokens"][:, None]
    np.testing.assert_allclose(ratio, np.broadcast_to(np.median(ratio, 0), ratio.shape), rtol=0.05)


def test_emit_writes_beside_the_recipe(made: tuple[Path, Result], tmp_path: Path):
    shutil.copy(made[0] / "out" / "recipe.yaml", tmp_path)
    result = invoke("emit", tmp_path / "recipe.yaml", "--to", "olmo-core", "--to", "tabulated")
    assert result.exit_code == 0
    assert {path.parent.name for path in tmp_path.rglob("*") if path.parent.parent.name == "emit"} == {
        "olmo_core",
        "tabulated",
    }


def test_the_study_that_init_writes_can_be_swept(tmp_path: Path):
    """Once its files are there: every option of the template is one that the tool accepts."""
    write_corpora(tmp_path, documents=500)
    assert invoke("init", tmp_path / "study.yaml").exit_code == 0
    for folder in ("data/code", "data/exam"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(tmp_path / "code.jsonl", tmp_path / "data" / "code")
    shutil.copy(tmp_path / "web.jsonl", tmp_path / "data")
    words = (tmp_path / "junk.jsonl").read_text().split()
    (tmp_path / "data" / "exam" / "one.txt").write_text(" ".join(words[5:400]))
    result = invoke("sweep", tmp_path / "study.yaml", "--out", tmp_path / "out", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "screen" in result.output


def test_simulated_runs_are_never_taken_for_trained_ones(made: tuple[Path, Result]):
    assert list((made[0] / "out" / "simulated" / "runs").iterdir())
    assert not (made[0] / "out" / "runs").exists()


def test_a_dry_run_trains_nothing_and_tells_the_cost(tmp_path: Path):
    write_corpora(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    result = invoke("sweep", tmp_path / "study.yaml", "--out", tmp_path / "out", "--dry-run")
    assert result.exit_code == 0, result.output
    for word in (
        "screen",
        "FLOPs",
        "of the budget",
        "seconds on",
        "n-gram screen likes best",
        "as they would in that run",
    ):
        assert word in " ".join(result.output.split())
    assert not (tmp_path / "out" / "runs").exists()


def test_init_writes_a_study_and_overwrites_none(tmp_path: Path):
    assert invoke("init", tmp_path / "study.yaml").exit_code == 0
    assert yaml.safe_load((tmp_path / "study.yaml").read_text())["budget"]
    again = invoke("init", tmp_path / "study.yaml")
    assert again.exit_code == 2
    assert "study.yaml exists; name another file" in again.stderr


def test_schema_is_json(tmp_path: Path):
    assert json.loads(invoke("schema").output)["properties"]["corpora"]


@pytest.mark.parametrize("verb", ["recipe", "sweep", "emit", "report", "init", "schema"])
def test_every_verb_explains_itself(verb: str):
    result = invoke(verb, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output


def swap(old: str, new: str) -> str:
    assert old in STUDY
    return STUDY.replace(old, new)


BAD = {
    "misspelt key": (swap("max_epochs: 6", "max_epoch: 6"), r"study.yaml:9.*no key 'max_epoch'.*max_epochs"),
    "wrong unit": (swap("flops: 3e11", "flops: 3 apples"), r"study.yaml:8.*budget.flops.*'3 apples'"),
    "missing file": (swap("web.jsonl", "wbe.jsonl"), r"study.yaml:3.*wbe.jsonl"),
    "budget too small": (swap("flops: 3e11", "flops: 3e3"), r"study.yaml:8.*do not pay for.*give at least"),
    "target without corpus": (swap("corpus: code", "corpus: cod"), r"study.yaml:7.*'cod'.*code"),
    "two corpora of one name": (swap("  junk:", "  web:"), r"study.yaml:5.*web.*line 3|study.yaml.*web.*3.*5"),
    "sweep too dear": (swap("share_of_budget: 3", "share_of_budget: 0.5"), r"sweep.share_of_budget allows 0\.5"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_studies_end_in_one_sentence_and_write_nothing(kind: str, tmp_path: Path):
    text, sentence = BAD[kind]
    write_corpora(tmp_path)
    (tmp_path / "study.yaml").write_text(text)
    refused(tmp_path, sentence)


CORPUS_FAULTS = {
    "empty": ("", r"web has no text in .*web\.jsonl"),
    "broken JSON": (7, r"web\.jsonl:? ?l?i?n?e? ?7"),
}


@pytest.mark.parametrize("kind", CORPUS_FAULTS)
def test_bad_corpora_end_in_one_sentence_and_write_nothing(kind: str, tmp_path: Path):
    fault, sentence = CORPUS_FAULTS[kind]
    write_corpora(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    lines = (tmp_path / "web.jsonl").read_text().splitlines()
    if fault == 7:
        lines[6] = lines[6][:40]
    (tmp_path / "web.jsonl").write_text("\n".join(lines) if fault else "")
    refused(tmp_path, sentence)


def refused(folder: Path, sentence: str) -> None:
    import re

    before = sorted(folder.iterdir())
    result = invoke("recipe", folder / "study.yaml", "--out", folder / "out", "--executor", "simulate")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("mixopt: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert re.search(sentence, result.stderr), result.stderr
    assert sorted(folder.iterdir()) == before


def test_a_target_that_no_run_measured_is_named(made: tuple[Path, Result]):
    from mixopt.errors import FitError
    from mixopt.fit.select import select

    runs = Runs.read(made[0] / "out" / "runs.parquet")
    with pytest.raises(FitError, match="no run measured target 'exam'; measured: code"):
        select(runs, {"exam": 1.0})


def test_a_fault_of_ours_shows_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Only errors raised on purpose by this package become a sentence."""
    from mixopt import console

    monkeypatch.setattr(console, "draw_report", lambda study, out, executor: np.zeros(2).reshape(3))
    assert isinstance(invoke("report", tmp_path / "study.yaml").exception, ValueError)


def test_an_interrupted_command_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from mixopt import console

    def interrupt(study: Path, out: Path | None, executor: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(console, "draw_report", interrupt)
    result = invoke("report", tmp_path / "study.yaml")
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr


@pytest.mark.parametrize("content", ["[]", "null", "{", '{"key": 1}', '{"interval": [1]}'])
@pytest.mark.parametrize("name", ["plan.json", "fit.json"])
def test_damaged_results_are_named_by_the_report(made: tuple[Path, Result], tmp_path: Path, name: str, content: str):
    shutil.copytree(made[0] / "out", tmp_path / "out")
    (tmp_path / "out" / name).write_text(content)
    result = invoke("report", made[0] / "study.yaml", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "holds no finished recipe" in result.stderr
    assert "run: mixopt recipe" in result.stderr


def test_a_report_of_a_changed_study_is_refused_and_nothing_is_written(made: tuple[Path, Result], tmp_path: Path):
    shutil.copytree(made[0] / "out", tmp_path / "out")
    write_corpora(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY.replace("3e11", "2.9e11"))
    before = (tmp_path / "out" / "recipe.yaml").read_bytes()
    result = invoke("report", tmp_path / "study.yaml", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "has changed since its recipe was made" in result.stderr
    assert (tmp_path / "out" / "recipe.yaml").read_bytes() == before


def test_a_folder_of_others_is_not_written_into(tmp_path: Path):
    write_corpora(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)
    result = invoke("sweep", tmp_path / "study.yaml", "--out", tmp_path, "--dry-run")
    assert result.exit_code == 2
    assert "was not made by mixopt; name an empty or new folder" in result.stderr
    assert not (tmp_path / "data").exists()
