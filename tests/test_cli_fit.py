"""`mixopt fit` from a table to a verdict, on runs of a known law; and every kind of bad table in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from mixopt.cli import app
from mixopt.files import write_json
from mixopt.fit.selection import Selection
from mixopt.runs import Runs

FLOOR, SIZES, TOKENS = 1.7, np.geomspace(2e7, 3e8, 5), np.geomspace(4e8, 2e10, 5)
COLUMNS = "run: name\nmodel_size: params\ntokens: d_tokens\nloss: {exam: exam_loss}\n"


def loss(size: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Hoffmann et al., arXiv:2203.15556, table A3: what the runs below follow up to a noise of .2 %."""
    return FLOOR + 406.4 / size**0.34 + 410.7 / tokens**0.28


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["fit", *map(str, words)])


def flat(said: str) -> str:
    """What was printed, without the ends of lines that the width of a screen made."""
    return " ".join(said.split())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    size, tokens = (one.ravel() for one in np.meshgrid(SIZES, TOKENS))
    noise = np.exp(0.002 * np.random.default_rng(0).standard_normal(len(size)))
    names = [f"r{i}" for i in range(len(size))]
    return pd.DataFrame(
        {"name": names, "params": size, "d_tokens": tokens, "exam_loss": loss(size, tokens) * noise, "host": "a"}
    )


@pytest.fixture(scope="module")
def made(frame: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("fit")
    frame.to_csv(folder / "runs.csv", index=False)
    (folder / "columns.yaml").write_text(COLUMNS)
    words = ("--columns", folder / "columns.yaml", "--replicates", 20, "--out", folder / "out")
    return folder, invoke(folder / "runs.csv", *words)


def test_one_command_leads_from_a_table_to_a_verdict(made: tuple[Path, Result]):
    folder, result = made
    assert result.exit_code == 0, result.output
    said = flat(result.output)
    assert "with the most compute" in said
    assert "Columns not read: host." in said
    files = {path.relative_to(folder / "out").as_posix() for path in (folder / "out").rglob("*") if path.is_file()}
    figures = {f"figures/{name}.png" for name in ("predicted", "curves", "residuals", "coefficients")}
    assert files == {"fit.json", "fit.txt", "fit.html"} | figures
    assert "exam" in (folder / "out" / "fit.html").read_text(encoding="utf-8")


def test_what_was_fitted_is_read_back_and_predicts_beyond_the_runs(made: tuple[Path, Result]):
    folder, _ = made
    data = json.loads((folder / "out" / "fit.json").read_text(encoding="utf-8"))
    selection = Selection.from_dict(data)
    again = write_json(folder / "again.json", selection.to_dict())
    assert json.loads(again.read_text(encoding="utf-8")) == data
    size, tokens = np.array([6e8, 1e9]), np.array([2e10, 4e10])
    said = selection.fits["exam"].predict({"model_size": size, "tokens": tokens, "mixture": np.ones((2, 1))})
    np.testing.assert_allclose(said, loss(size, tokens), rtol=0.01)


def test_a_dry_run_proposes_a_mapping_that_reads_the_table(frame: pd.DataFrame, tmp_path: Path):
    renamed = frame.rename(columns={"d_tokens": "n_tokens"})
    renamed.to_csv(tmp_path / "runs.csv", index=False)
    result = invoke(tmp_path / "runs.csv", "--dry-run")
    assert result.exit_code == 0, result.output
    proposed = result.output[result.output.index("# A guess") :]
    (tmp_path / "columns.yaml").write_text(proposed)  # as it was printed, on however narrow a screen
    runs = Runs.read(tmp_path / "runs.csv", tmp_path / "columns.yaml")
    np.testing.assert_allclose(runs["tokens"], frame["d_tokens"])
    shown = invoke(tmp_path / "runs.csv", "--dry-run", "--columns", tmp_path / "columns.yaml")
    assert shown.exit_code == 0
    assert "exam_loss" in shown.output
    assert {path.name for path in tmp_path.iterdir()} == {"runs.csv", "columns.yaml"}


def _cells(**columns: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(**columns)


def _first(column: str, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.assign(**{column: [value, *frame[column].tolist()[1:]]})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda frame: frame[:0], "has no row"),
        (lambda frame: frame[:1], "Add runs"),
        (_cells(params=1e8, d_tokens=1e9), "there is nothing that a law could explain"),
        (_cells(exam_loss=np.nan), "no finished transformer run"),
        (_cells(exam_loss=-1.0), "no finished transformer run"),
        (_first("d_tokens", "20B"), "row 1: d_tokens is '20B'; give plain numbers"),
        (_first("d_tokens", np.inf), "tokens is inf"),
        (_first("d_tokens", 0), "tokens is 0"),
        (lambda frame: pd.concat([frame, frame[:1]]), "the same in every column; remove one"),
        (lambda frame: pd.concat([frame, frame[:1].assign(exam_loss=9.0)]), "keep the right row"),
        (lambda frame: frame.drop(columns="params"), "names the column 'params', which"),
    ],
)
def test_bad_tables_end_in_one_sentence_and_write_nothing(change, sentence: str, frame: pd.DataFrame, tmp_path: Path):
    change(frame).to_csv(tmp_path / "runs.csv", index=False)
    (tmp_path / "columns.yaml").write_text(COLUMNS)
    _refused(invoke(tmp_path / "runs.csv", "--columns", tmp_path / "columns.yaml", "--out", tmp_path / "out"), sentence)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("runs.csv", b"", "holds nothing"),
        ("runs.csv", "run,tokens,loss\n\xe9,1e6,3\n".encode("latin-1"), "is not UTF-8 text"),
        ("runs.csv", b"run,tokens,loss\na,1e6,3\nb,2e6\n", "row 2 has 2 columns, the header 3"),
        ("runs.csv", bytes(range(256)), "holds zero bytes"),
        ("runs.pkl", b"\x80\x04.", "a pickle can run code"),
        ("runs.parquet", b"abc", "is not a parquet table"),
        ("runs.xlsx", b"PK", "a table of runs ends in"),
        ("runs", None, "is a folder that no importer knows"),
        ("other.csv", b"run,loss\n", "is not there"),
    ],
)
def test_files_that_are_no_table_end_in_one_sentence(name: str, content: bytes | None, sentence: str, tmp_path: Path):
    given = tmp_path / ("runs.csv" if name == "other.csv" else name)
    if content is None:
        given.mkdir()
    else:
        (tmp_path / name).write_bytes(content)
    _refused(invoke(given, "--out", tmp_path / "out"), sentence)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--target", "wiki"], "No run measured target 'wiki'; measured: exam."),
        (["--holdout", "nonsense"], "holdout is 'nonsense'; give 'larger', 'mixtures'"),
        (["--holdout", "1"], "give at least 2"),
        (["--columns", "missing.yaml"], "missing.yaml is not there"),
    ],
)
def test_bad_options_end_in_one_sentence(words: list[str], sentence: str, made: tuple[Path, Result], tmp_path: Path):
    folder, _ = made
    given = words if "--columns" in words else [*words, "--columns", str(folder / "columns.yaml")]
    _refused(invoke(folder / "runs.csv", *given, "--out", tmp_path / "out"), sentence)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ("toknes: d_tokens", "'toknes' is not in the vocabulary; did you mean 'tokens'?"),
        ("tokens: nope\nloss: exam_loss", "tokens names the column 'nope'"),
        ("tokens: {from: d_tokens, tmes: 3}", "tokens has no key 'tmes'; did you mean 'times'?"),
        ("a: [b", "not YAML"),
        ("- a", "the file holds a list"),
        ("", "is empty"),
    ],
)
def test_bad_mappings_end_in_one_sentence(mapping: str, sentence: str, made: tuple[Path, Result], tmp_path: Path):
    (tmp_path / "columns.yaml").write_text(mapping)
    _refused(invoke(made[0] / "runs.csv", "--columns", tmp_path / "columns.yaml", "--out", tmp_path / "out"), sentence)
    assert not (tmp_path / "out").exists()


def test_an_interrupted_fit_writes_nothing(monkeypatch: pytest.MonkeyPatch, made: tuple[Path, Result], tmp_path: Path):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixopt.console_fit.select", interrupt)
    words = ("--columns", made[0] / "columns.yaml", "--out", tmp_path / "out")
    result = invoke(made[0] / "runs.csv", *words)
    assert result.exit_code == 130
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def _refused(result: Result, sentence: str) -> None:
    assert result.exit_code == 2, result.output
    said = flat(result.stderr)
    assert said.startswith("mixopt: "), said
    assert sentence in said
