"""Importers on files as the real library writes them; a test whose library is not installed is skipped and says so."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mixopt._discover import available
from mixopt.errors import RunsError
from mixopt.importers import csv_table
from mixopt.importers.table import open_table
from mixopt.importers.wandb import of_runs
from mixopt.runs import Runs
from mixopt.runs_columns import ColumnMap

SHARES = (0.25, 0.5, 0.9)
FLAT = pd.DataFrame(
    {
        "run": ["007", "1e5", "c"],
        "tokens": [1e6, 2e6, 3e6],
        "mixture[web]": SHARES,
        "mixture[code]": [1 - share for share in SHARES],
        "loss[exam]": [3.0, 2.9, 2.8],
    }
)


def same(runs: Runs) -> None:
    assert runs["run"].tolist() == ["007", "1e5", "c"]  # ids are text, whatever they look like
    assert (runs.corpora, runs.targets) == (("web", "code"), ("exam",))
    np.testing.assert_array_equal(runs["mixture"][:, 0], SHARES)
    np.testing.assert_array_equal(runs["tokens"], [1e6, 2e6, 3e6])
    np.testing.assert_array_equal(runs["loss"][:, 0], [3.0, 2.9, 2.8])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_delimiters_and_encodings_are_found_out_and_said(tmp_path, delimiter, encoding):
    FLAT.to_csv(tmp_path / "runs.csv", sep=delimiter, encoding=encoding, index=False)
    runs = Runs.read(tmp_path / "runs.csv")
    same(runs)
    said = " ".join(runs.notes)
    assert ("between its columns" in said) is (delimiter != ",")
    assert ("UTF-16" in said) is (encoding == "utf-16")


def test_tabs_are_usual_in_tsv(tmp_path):
    FLAT.to_csv(tmp_path / "runs.tsv", sep="\t", index=False)
    same(Runs.read(tmp_path / "runs.tsv"))
    assert Runs.read(tmp_path / "runs.tsv").notes == ()


def test_quoted_values_may_hold_delimiters_and_line_ends(tmp_path):
    (tmp_path / "runs.csv").write_text('run,note,tokens,loss\n"a,b","two\nlines",1e6,3.0\n')
    runs = Runs.read(tmp_path / "runs.csv", {"seed": None})
    assert runs["run"].tolist() == ["a,b"]


def test_parquet_and_json_lines(tmp_path):
    FLAT.to_parquet(tmp_path / "runs.parquet", index=False)
    same(Runs.read(tmp_path / "runs.parquet"))
    rows = FLAT.to_dict("records")
    (tmp_path / "flat.jsonl").write_text("\n".join(map(json.dumps, rows)))
    same(Runs.read(tmp_path / "flat.jsonl"))
    nested = [
        {"run": r["run"], "tokens": r["tokens"], "mixture": {"web": r["mixture[web]"], "code": r["mixture[code]"]}}
        | {"loss": {"exam": r["loss[exam]"]}}
        for r in rows
    ]
    (tmp_path / "nested.jsonl").write_text("\n\n".join(map(json.dumps, nested)) + "\n")
    same(Runs.read(tmp_path / "nested.jsonl"))


def test_a_long_table_is_read_in_pieces(tmp_path, monkeypatch, rng):
    """As a file larger than memory is: piece by piece, and of it only the columns that mean something."""
    rows = 1000
    frame = pd.DataFrame(rng.random((rows, 30)), columns=[f"c{i}" for i in range(30)])
    frame = frame.assign(name=[f"r{i}" for i in range(rows)], loss=3.0)
    frame.to_csv(tmp_path / "long.csv", index=False)
    monkeypatch.setattr(csv_table, "_FIELDS_AT_ONCE", 32 * 7)
    runs = Runs.read(tmp_path / "long.csv", {"run": "name", "peak_lr": "c3"})
    np.testing.assert_array_equal(runs["peak_lr"], frame["c3"])
    assert runs["run"].tolist() == frame["name"].tolist()
    frame.astype({"c3": object}).assign(c3=["x" if i == 900 else 1.0 for i in range(rows)]).to_csv(
        tmp_path / "long.csv", index=False
    )
    with pytest.raises(RunsError, match=r"long\.csv row 901: c3 is 'x'; give plain numbers"):
        Runs.read(tmp_path / "long.csv", {"run": "name", "peak_lr": "c3"})


def two_files(folder: Path, mixtures: pd.DataFrame, losses: pd.DataFrame) -> Path:
    mixtures.to_csv(folder / "train_mixture_1m.csv", index=False)
    losses.to_csv(folder / "train_pile_loss_1m.csv", index=False)
    return folder / "train_mixture_1m.csv"


REGMIX = pd.DataFrame(
    {
        "index": [1, 2, 3],
        "train_the_pile_arxiv": [0.333, 0.5, 1.0],
        "train_the_pile_pile_cc": [0.666, 0.5, 0.0],
    }
)
LOSSES = pd.DataFrame(
    {"index": [1, 2, 3], "metric/the_pile_arxiv_val_loss": [3.3, 3.5, 4.0], "metric/the_pile_github_val_loss": 2.0}
)


VAL = {"loss": "metric/the_pile_*_val_loss"}


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_two_files_are_joined_by_id_whatever_their_order(tmp_path, order):
    runs = Runs.read(two_files(tmp_path, REGMIX, LOSSES.iloc[order]), {"model_size": 1e6, "tokens": 1e9})
    assert (runs.corpora, runs.targets) == (("arxiv", "pile_cc"), ("arxiv", "github"))
    np.testing.assert_array_equal(runs.target("arxiv")["loss"], [3.3, 3.5, 4.0])
    np.testing.assert_allclose(runs["mixture"][0], [1 / 3, 2 / 3])
    assert any("read as RegMix's files" in note for note in runs.notes)
    assert any("largest correction was of 0.999 to 1" in note for note in runs.notes)


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        (LOSSES.iloc[:2], r"loss_1m\.csv has no run '3', which .*mixture_1m\.csv has in row 3; rows are joined by id"),
        (LOSSES.iloc[[0, 1, 2, 1]], r"loss_1m\.csv has index '2' in rows 2 and 4; keep one of them"),
        (LOSSES.assign(index=[1, 2, 4]), r"loss_1m\.csv has no run '3'"),
        (LOSSES.drop(columns="index"), r"loss_1m\.csv has no column 'index' to join it to .*mixture_1m\.csv by"),
    ],
)
def test_an_id_that_is_missing_or_twice_is_named(tmp_path, losses, sentence):
    with pytest.raises(RunsError, match=sentence):
        Runs.read(two_files(tmp_path, REGMIX, losses))


def test_several_files_or_the_mapping_can_say_what_is_joined(tmp_path):
    path = two_files(tmp_path, REGMIX.rename(columns=lambda name: name.replace("train_the_pile_", "w:")), LOSSES)
    other = path.with_name("train_pile_loss_1m.csv")
    columns = {"run": "index", "mixture": "w:*", "loss": "metric/the_pile_*_val_loss", "renormalize": True}
    both = Runs.read([path, other], columns)
    named = Runs.read(path, columns | {"join": other.name})
    np.testing.assert_array_equal(both["loss"], named["loss"])
    with pytest.raises(RunsError, match=r"train_mixture_1m\.csv has no column 'run' to join"):
        Runs.read([path, other], {"mixture": "w:*"})


def test_a_column_that_two_files_have_must_agree(tmp_path):
    path = two_files(tmp_path, REGMIX.assign(tokens=1e9), LOSSES.assign(tokens=[1e9, 1e9, 2e9]))
    with pytest.raises(
        RunsError, match=r"have the column 'tokens' both and differ in it: 1000000000.0 and 2000000000.0"
    ):
        Runs.read(
            [path, path.with_name("train_pile_loss_1m.csv")], {"run": "index", "mixture": "train_the_pile_*"} | VAL
        )


@pytest.mark.parametrize("given", ["folder", "file"])
def test_olmix_is_a_column_a_corpus_and_bits_per_byte_of_a_column_a_task(tmp_path, given):
    ids = {"run": ["x1", "x2"], "name": ["swarm-0", "swarm-1"], "index": [0, 1]}
    pd.DataFrame(ids | {"law": [0.2, 1.0], "games": [0.8, 0.0]}).to_csv(tmp_path / "dclm_ratios.csv")
    tasks = pd.DataFrame(ids | {"arc::olmes": [1.1, 1.2], "mbpp:3shot::none": [2.1, 2.2]})
    tasks.iloc[::-1].reset_index(drop=True).to_csv(tmp_path / "dclm_metrics.csv")
    runs = Runs.read(tmp_path if given == "folder" else tmp_path / "dclm_ratios.csv")
    assert runs.corpora == ("law", "games")
    assert (runs.targets, runs.loss_unit) == (("arc::olmes", "mbpp:3shot::none"), "bits/byte")
    np.testing.assert_array_equal(runs.target("arc::olmes")["loss"], [1.1, 1.2])
    assert any("24 corpora" in note or "2 corpora, and 2 tasks in bits per byte" in note for note in runs.notes)


def test_a_table_of_runs_from_wandb(tmp_path):
    """As the page of a project exports it: name, state, what was configured, what was measured last."""
    (tmp_path / "wandb.csv").write_text(
        '"Name","State","Notes","User","Tags","Created","Runtime","Sweep","lr","mix.web","mix.code","val/loss"\n'
        '"brisk-sun-1","finished","-","me","","2026-01-01T10:00:00.000Z","100","","0.001","0.25","0.75","3.1"\n'
        '"calm-sea-2","crashed","-","me","","2026-01-01T11:00:00.000Z","50","","0.001","0.5","0.5",""\n'
        '"dry-sand-3","finished","-","me","","2026-01-01T12:00:00.000Z","90","","0.1","0.5","0.5","NaN"\n'
    )
    runs = Runs.read(tmp_path / "wandb.csv", {"mixture": "mix.*", "loss": {"val": "val/loss"}, "peak_lr": "lr"})
    assert runs["run"].tolist() == ["brisk-sun-1", "calm-sea-2", "dry-sand-3"]
    assert runs["status"].tolist() == ["finished", "unfinished", "diverged"]
    assert any("table of runs from W&B" in note for note in runs.notes)


def test_a_chart_from_wandb_gives_the_last_value_of_each_run_and_is_joined(tmp_path):
    (tmp_path / "chart.csv").write_text(
        '"Step","a - 1 - val/loss","a - 1 - val/loss__MIN","a - 1 - val/loss__MAX","b - val/loss","b - val/loss__MIN",'
        '"b - val/loss__MAX"\n"0","9","9","9","9.5","9.5","9.5"\n"10","5","5","5","4","4","4"\n'
        '"20","3.5","3.5","3.5","","",""\n'
    )
    (tmp_path / "mixtures.csv").write_text("run,w_web,w_code\nb,1,0\na - 1,0.25,0.75\n")
    columns = {"run": "run", "steps": "Step", "batch_tokens": 1024, "mixture": "w_*", "loss": {"val": "val/loss"}}
    runs = Runs.read([tmp_path / "chart.csv", tmp_path / "mixtures.csv"], columns)
    assert runs["run"].tolist() == ["a - 1", "b"]
    np.testing.assert_array_equal(runs["loss"][:, 0], [3.5, 4.0])
    np.testing.assert_array_equal(runs["steps"], [20, 10])
    np.testing.assert_array_equal(runs["mixture"][:, 0], [0.25, 1.0])
    np.testing.assert_array_equal(runs["tokens"], [20480, 10240])


class PublicRun:
    """What wandb.Api().runs gives, as documented: id, name, state, config and summary_metrics of a run."""

    def __init__(self, number: int, share: float, loss: float, state: str) -> None:
        self.id, self.name, self.state = f"id{number}", f"calm-sea-{number}", state
        self.config = {"lr": 3e-4, "mix": {"web": share, "code": 1 - share}}
        self.summary_metrics = {"val/loss": loss, "_step": 10, "_runtime": 1.5}
        self.summary = self.summary_metrics


def test_runs_of_the_api_of_wandb_are_flattened():
    runs = [PublicRun(1, 0.25, 3.1, "finished"), PublicRun(2, 0.5, 3.0, "running")]
    table = of_runs(runs, "wandb:me/mix")
    columns = {"mixture": "config.mix[*]", "loss": {"val": "summary.val/loss"}, "peak_lr": "config.lr"}
    read = Runs.from_table(table, ColumnMap.of(columns))
    assert read["run"].tolist() == ["id1", "id2"]
    assert read["status"].tolist() == ["finished", "unfinished"]
    np.testing.assert_array_equal(read["mixture"], [[0.25, 0.75], [0.5, 0.5]])
    with pytest.raises(RunsError, match="wandb:me/mix holds no run"):
        of_runs([], "wandb:me/mix")


@pytest.mark.parametrize(("given", "package"), [("wandb:me/mix", "wandb"), ("mlflow:http://host:5000", "mlflow")])
def test_a_package_that_is_not_installed_is_named(monkeypatch, given, package):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(RunsError, match=rf"{given} needs the package {package}; run: pip install 'mixopt\[tracking\]'"):
        Runs.read(given)


@pytest.mark.filterwarnings("ignore")
def test_event_files_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="event files need the package tensorboard (extra: tracking)")
    writer = pytest.importorskip(
        "torch.utils.tensorboard", reason="event files are written by torch here"
    ).SummaryWriter
    for number, share in enumerate(SHARES):
        with writer(str(tmp_path / "logs" / f"run{number}")) as log:
            for step in (0, 50, 100):
                log.add_scalar("val_loss/exam", 5 - share - step / 100, step)
            log.add_hparams({"lr": 1e-3, "w_web": share, "w_code": 1 - share, "kind": "tiny"}, {"hparam/last": 1.0})
    columns = {"mixture": "hparams.w_*", "loss": "val_loss/*", "peak_lr": "hparams.lr", "steps": "step"}
    runs = Runs.read(tmp_path / "logs", columns | {"batch_tokens": 1024})
    assert runs["run"].tolist() == ["run0", "run1", "run2"]
    assert (runs.corpora, runs.targets) == (("code", "web"), ("exam",))
    np.testing.assert_allclose(runs["loss"][:, 0], [4 - share for share in SHARES], rtol=1e-6)
    np.testing.assert_allclose(runs["mixture"][:, 1], SHARES)
    np.testing.assert_array_equal(runs["tokens"], [102_400] * 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("store", ["mlruns", "mlflow.db"])
def test_a_store_of_mlflow(tmp_path, monkeypatch, store):
    mlflow = pytest.importorskip("mlflow", reason="a store is read by the package mlflow (extra: tracking)")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    path = tmp_path / store
    client = mlflow.MlflowClient(f"sqlite:///{path}" if store.endswith(".db") else path.as_uri())
    experiment = client.create_experiment("mix", artifact_location=str(tmp_path / "artifacts"))
    for number, share in enumerate((*SHARES, 0.1)):
        run = client.create_run(experiment, run_name=f"r{number}").info.run_id
        client.log_param(run, "w_web", share)
        client.log_param(run, "w_code", 1 - share)
        for step in range(3):
            client.log_metric(run, "loss_exam", 5 - share - step / 10, step=step)
        client.set_terminated(run, "FINISHED" if share > 0.1 else "FAILED")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    runs = Runs.read(path, {"mixture": "params.w_*", "loss": "metrics.loss_*", "tokens": 1e6})
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    assert runs["status"].tolist() == ["finished"] * 3 + ["unfinished"]
    np.testing.assert_allclose(runs.finished()["loss"][:, 0], [4.8 - share for share in SHARES])
    web = runs.corpora.index("web")
    np.testing.assert_allclose(runs["mixture"][:, web], (*SHARES, 0.1))


def test_the_importers_that_are_promised_are_there():
    promised = {"csv_table", "parquet", "jsonl", "regmix", "olmix", "wandb", "mlflow", "tensorboard"}
    assert promised <= set(available("importers"))


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    """A mapping that is wrong is refused from the header, however long the table is."""
    (tmp_path / "runs.csv").write_text("a,b\n1,2\nthis row is broken\n")
    assert open_table(tmp_path / "runs.csv").names == ("a", "b")
    with pytest.raises(RunsError, match="names the column 'c', which"):
        Runs.read(tmp_path / "runs.csv", {"loss": {"exam": "c"}})
