"""The one gate where run data is validated."""

import numpy as np
import pandas as pd
import pytest

from mixopt.errors import RunsError
from mixopt.fit.noise import seed_noise
from mixopt.runs import Runs

CORPORA, TARGETS = ("web", "code"), ("code", "exam")


def record(run, share, **changes):
    return {
        "run": run,
        "status": "finished",
        "proxy": "transformer",
        "tokens": 1e6,
        "model_size": 1e5,
        "seed": 0,
        "mixture": {"web": share, "code": 1 - share},
        "unique_tokens": {"web": 1e6, "code": 2e5},
        "loss": {"code": 3 + share, "exam": 4 - share},
        **changes,
    }


def table(*records):
    return Runs.from_records(CORPORA, TARGETS, records or [record("a", 0.25), record("b", 0.75)])


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    runs = table()
    read = Runs.read(runs.write(tmp_path / f"runs.{suffix}"))
    assert (read.corpora, read.targets) == (CORPORA, TARGETS)
    assert read.columns.keys() == runs.columns.keys()
    for name, values in runs.columns.items():
        np.testing.assert_array_equal(read[name], values)
    assert [path.name for path in tmp_path.iterdir()] == [f"runs.{suffix}"]  # no half-written file is left


def test_shuffled_rows_keep_their_losses(rng):
    """Rows carry mixture and loss together, so no order of rows can pair them wrongly."""
    runs = table(*[record(f"r{i}", share) for i, share in enumerate(rng.random(20))])
    shuffled = Runs.from_pandas(runs.to_pandas().sample(frac=1, random_state=1))
    np.testing.assert_allclose(shuffled.target("code")["loss"], 3 + shuffled["mixture"][:, 0])
    assert list(shuffled["run"]) != list(runs["run"])


def test_a_target_is_one_column_of_losses():
    np.testing.assert_array_equal(table().target("exam")["loss"], [3.75, 3.25])


def test_diverged_runs_are_kept_and_can_be_left_out():
    runs = table(record("a", 0.5), record("b", 0.5, status="diverged", loss={"code": np.inf, "exam": np.nan}))
    assert len(runs) == 2
    assert list(runs.finished()["run"]) == ["a"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mixture": {"web": 0.5, "code": 0.43}}, r"row 2 \(run b\): mixture sums to 0.93; shares must sum to 1"),
        ({"mixture": {"web": 1.5, "code": -0.5}}, r"row 2 \(run b\): mixture is 1.5; it must be in \[0, 1\]"),
        ({"mixture": {"wbe": 1.0}}, "run b: mixture names 'wbe'; known: web, code"),
        (
            {"loss": {"code": 3.0}},
            r"row 2 \(run b\) is finished but has the loss nan for exam; it must be in \(0, inf\)",
        ),
        ({"loss": {"code": -1.0, "exam": 3.0}}, r"has the loss -1 for code; .* Mark the run diverged if it was lost"),
        ({"loss": {"code": 0.0, "exam": 3.0}}, "has the loss 0 for code"),
        ({"loss": {"code": 3.0, "exams": 3.0}}, "run b: loss names 'exams'; known: code, exam"),
        ({"tokens": None}, r"row 2 \(run b\): tokens is nan"),
        ({"tokens": -4.0}, r"row 2 \(run b\): tokens is -4; it must be in \[1, inf\)"),
        ({"tokens": np.inf}, r"row 2 \(run b\): tokens is inf; it must be in \[1, inf\)"),
        ({"peak_lr": 0.0}, r"row 2 \(run b\): peak_lr is 0; it must be in \(0, inf\)"),
        ({"learning_rate": 1.0}, "run b has the unknown column 'learning_rate'; columns are run, proxy, status"),
        ({"run": "a"}, "has run 'a' 2 times; each run has one row"),
        ({"status": "done"}, "has the status 'done'; it is finished or diverged"),
        ({"proxy": ""}, "has the proxy ''; it is transformer or ngram"),
    ],
)
def test_bad_rows_are_refused_with_their_place(changes, sentence):
    with pytest.raises(RunsError, match=sentence):
        table(record("a", 0.5), record("b", 0.5) | changes)


def test_bad_tables_are_refused(tmp_path):
    with pytest.raises(RunsError, match=r"no\.parquet is not there"):
        Runs.read(tmp_path / "no.parquet")
    (tmp_path / "runs.xlsx").write_text("")
    with pytest.raises(RunsError, match=r"ends in '\.xlsx'; a table of runs ends in \.csv, \.parquet"):
        Runs.read(tmp_path / "runs.xlsx")
    frame = table().to_pandas()
    with pytest.raises(RunsError, match="unknown column 'learning_rate'"):
        Runs.from_pandas(frame.assign(learning_rate=1.0))
    with pytest.raises(RunsError, match=r"unknown column 'unique_tokens\[cod\]'"):
        Runs.from_pandas(frame.rename(columns={"unique_tokens[code]": "unique_tokens[cod]"}))
    with pytest.raises(RunsError, match=r"lacks the column unique_tokens\[web\]; give unique_tokens for each name, or"):
        Runs.from_pandas(frame.drop(columns="unique_tokens[web]"))
    with pytest.raises(RunsError, match=r"no mixture\[\.\.\.\] column"):
        Runs.from_pandas(pd.DataFrame({"run": ["a"], "loss[code]": [3.0]}))
    with pytest.raises(RunsError, match="lacks the column 'tokens'"):
        Runs.from_pandas(frame.drop(columns="tokens"))


def test_unknown_targets_and_columns_are_named():
    with pytest.raises(RunsError, match="measured target 'math'; measured: code, exam"):
        table().target("math")
    with pytest.raises(KeyError, match="no column 'peak_lr'"):
        table()["peak_lr"]


def test_seed_noise_is_the_spread_within_settings(rng):
    """Mixtures differ by far more than seeds; only the seeds count."""
    records = []
    for setting in range(30):
        for seed in range(4):
            loss = (2 + setting) * np.exp(0.01 * rng.standard_normal(2))
            losses = dict(zip(TARGETS, loss, strict=True))
            records.append(record(f"{setting}-{seed}", setting / 30, seed=seed, loss=losses))
    noise = seed_noise(table(*records))
    for target in TARGETS:
        assert noise[target] == pytest.approx(0.01, rel=0.25)  # 90 degrees of freedom: sd of the estimate is 7.5 %


def test_seed_noise_is_unknown_without_replicates_or_seeds():
    assert np.isnan(seed_noise(table())["code"])
    same = [{k: v for k, v in record(run, 0.5).items() if k != "seed"} for run in "ab"]
    assert np.isnan(seed_noise(table(*same))["code"])


def test_without_a_proxy_all_runs_are_transformers():
    bare = table(*[{k: v for k, v in record(run, 0.5).items() if k != "proxy"} for run in "ab"])
    assert list(bare.of("transformer")["run"]) == ["a", "b"]
    assert len(bare.of("ngram")) == 0


def test_files_that_are_no_tables_are_named(tmp_path):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(RunsError, match=r"empty\.csv is not a CSV table"):
        Runs.read(tmp_path / "empty.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(RunsError, match=r"bad\.parquet is not a parquet table"):
        Runs.read(tmp_path / "bad.parquet")
    table().to_pandas().assign(tokens="lots").to_csv(tmp_path / "words.csv", index=False)
    with pytest.raises(RunsError, match=r"words\.csv, column tokens: could not convert string to float: 'lots'"):
        Runs.read(tmp_path / "words.csv")
