"""The one gate where run data is validated."""

from dataclasses import replace

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
    runs = replace(table(), notes=("tokens = steps * batch_tokens.",))
    read = Runs.read(runs.write(tmp_path / f"runs.{suffix}"))
    assert (read.corpora, read.targets) == (CORPORA, TARGETS)
    assert read.columns.keys() == runs.columns.keys()
    for name, values in runs.columns.items():
        np.testing.assert_array_equal(read[name], values)
    assert [path.name for path in tmp_path.iterdir()] == [f"runs.{suffix}"]  # no half-written file is left
    assert set(runs.notes) <= set(read.notes) or suffix == "csv"
    with pytest.raises(RunsError, match=r"runs\.xlsx ends in '\.xlsx'; runs are written to \.parquet or \.csv"):
        runs.write(tmp_path / "runs.xlsx")


def test_a_corpus_that_is_not_told_had_no_pass_in_any_phase():
    runs = table(record("a", 0.25, epochs={"web": 1.0}, epochs_anneal={"code": 2.0}))
    assert runs["epochs"].tolist() == [[1.0, 0.0]]
    assert runs["epochs_anneal"].tolist() == [[0.0, 2.0]]


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
        ({"run": "a"}, r"has run 'a' twice at 1e\+06 tokens, in rows 1 and 2, with loss\[code\] 3.25 and 3.5; keep"),
        ({"status": "done"}, "has the status 'done'; it is finished, diverged or unfinished"),
        ({"proxy": ""}, "has the proxy ''; it is transformer or ngram"),
    ],
)
def test_bad_rows_are_refused_with_their_place(changes, sentence):
    with pytest.raises(RunsError, match=sentence):
        table(record("a", 0.25), record("b", 0.5) | changes)


def test_bad_tables_are_refused(tmp_path):
    with pytest.raises(RunsError, match=r"no\.parquet is not there"):
        Runs.read(tmp_path / "no.parquet")
    (tmp_path / "runs.xlsx").write_text("")
    with pytest.raises(RunsError, match=r"ends in '\.xlsx'; a table of runs ends in \.csv, .*\.parquet"):
        Runs.read(tmp_path / "runs.xlsx")
    frame = table().to_pandas()
    with pytest.raises(RunsError, match="unknown column 'learning_rate'"):
        Runs.from_pandas(frame.assign(learning_rate=1.0))
    with pytest.raises(RunsError, match=r"unknown column 'unique_tokens\[cod\]'"):
        Runs.from_pandas(frame.rename(columns={"unique_tokens[code]": "unique_tokens[cod]"}))
    with pytest.raises(RunsError, match=r"lacks the column unique_tokens\[web\]; give unique_tokens for each name, or"):
        Runs.from_pandas(frame.drop(columns="unique_tokens[web]"))
    with pytest.raises(RunsError, match=r"no loss\[\.\.\.\] column .*spell one for each target, e\.g\. loss\[exam\]"):
        Runs.from_pandas(pd.DataFrame({"run": ["a"], "mixture[code]": [1.0]}))


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


def test_rows_alike_in_the_seed_too_are_no_replicates():
    """One setting and one seed twice, losses 20 % apart: something that the table does not tell was changed."""
    twice = [record(run, 0.5, seed=0, loss={"code": loss, "exam": loss}) for run, loss in (("a", 2.0), ("b", 2.4))]
    assert np.isnan(seed_noise(table(*twice))["code"])


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
    with pytest.raises(RunsError, match=r"words\.csv row 1: tokens is 'lots'; give plain numbers"):
        Runs.read(tmp_path / "words.csv")


def test_what_a_table_leaves_out_is_filled_in_and_said():
    """Chinchilla's runs are a model size, a compute and a loss each: no run, status, mixture or tokens."""
    frame = pd.DataFrame({"model_size": [1e8, 2e8, 4e8], "flops": [6e18, 6e18, 6e18], "loss": [3.2, 3.0, 2.9]})
    runs = Runs.from_pandas(frame, "chinchilla")
    assert (runs.corpora, runs.targets) == (("all",), ("loss",))
    assert runs["run"].tolist() == ["1", "2", "3"]
    assert runs["mixture"].tolist() == [[1.0], [1.0], [1.0]]
    assert runs["status"].tolist() == ["finished"] * 3
    np.testing.assert_allclose(runs["tokens"], [1e10, 5e9, 2.5e9])
    said = " ".join(runs.notes)
    for what in ("rows are numbered", "tells no mixture", "tokens = flops / (6 * model_size)"):
        assert what in said
    assert runs.where(runs["model_size"] > 1e8).finished().of("transformer").notes == runs.notes


def test_losses_say_whether_a_run_diverged_where_the_table_does_not():
    """Diverged runs are kept, marked, left out of the fit and counted; a run with half its losses is unfinished."""
    loss = {"loss[web]": [3.0, np.nan, np.inf, -1.0, 9.0, 3.1], "loss[code]": [2.0, np.nan, 2.0, 2.0, 2.0, np.nan]}
    frame = pd.DataFrame({"run": list("abcdef"), "tokens": 1e9, "initial_loss": 8.0} | loss)
    runs = Runs.from_pandas(frame)
    assert runs["status"].tolist() == ["finished", "diverged", "diverged", "diverged", "diverged", "unfinished"]
    assert runs.finished()["run"].tolist() == ["a"]
    said = " ".join(runs.notes)
    assert "4 rows with a loss that is missing, infinite, not positive or above the initial one" in said
    assert "4 rows of 6 belong to diverged runs" in said
    assert "unfinished runs, not fitted: f" in said
    with pytest.raises(RunsError, match=r"row 5 \(run e\) is finished with the loss 9, above its initial loss 8"):
        Runs.from_pandas(frame.assign(status=["finished", *["diverged"] * 3, "finished", "unfinished"]))


def test_checkpoints_of_a_run_are_several_rows_and_warned_of():
    runs = table(*[record("a", 0.5, tokens=t, loss={"code": 4 - t / 1e6, "exam": 3.0}) for t in (1e5, 5e5, 1e6)])
    assert len(runs) == 3
    assert any("Mid-run checkpoints are not short runs" in note for note in runs.notes)
    with pytest.raises(
        RunsError, match=r"has run 'a' twice at 1e\+06 tokens, in rows 1 and 2, the same in every column"
    ):
        table(record("a", 0.5), record("a", 0.5))


def test_bits_per_byte_alone_are_losses_in_bits_per_byte(tmp_path):
    frame = table().to_pandas()
    alone = frame.rename(columns={"loss[code]": "bits_per_byte[code]", "loss[exam]": "bits_per_byte[exam]"})
    runs = Runs.from_pandas(alone)
    assert runs.loss_unit == "bits/byte"
    assert runs.target("exam")["loss"].tolist() == [3.75, 3.25]
    assert any("bits per byte" in note for note in runs.notes)
    again = Runs.read(runs.write(tmp_path / "bits.csv"))
    assert again.loss_unit == "bits/byte"
    assert again.target("exam")["loss"].tolist() == [3.75, 3.25]
    assert table().loss_unit == "nats/token"
    with pytest.raises(RunsError, match="has no bits_per_byte; they cannot be had from nats"):
        table().in_bits_per_byte()


def test_nats_of_two_tokenizers_do_not_compare_and_bits_do():
    bits = {"bits_per_byte": {"code": 1.0, "exam": 1.1}}
    rows = [record("a", 0.25, tokenizer="gpt2", **bits), record("b", 0.75, tokenizer="llama", **bits)]
    with pytest.raises(
        RunsError, match="losses of the tokenizers 'gpt2' and 'llama' in nats per token, which do not comp"
    ):
        table(*rows)
    frame = pd.DataFrame([{"run": r["run"], "tokenizer": r["tokenizer"], "tokens": 1e6} for r in rows])
    flat = {"bits_per_byte[code]": 1.0, "loss[code]": 3.0, "mixture[web]": 1.0}
    runs = Runs.from_pandas(frame.assign(**flat), columns={"loss_unit": "bits/byte"})
    assert runs.loss_unit == "bits/byte"
    assert runs.target("code")["loss"].tolist() == [1.0, 1.0]


def test_sizes_with_and_without_embeddings_are_not_mixed():
    with pytest.raises(
        RunsError, match=r"with embeddings for some runs and without for others \(size_counts is all and"
    ):
        table(record("a", 0.25, size_counts="all"), record("b", 0.75, size_counts="non_embedding"))


def test_tokens_and_unique_tokens_that_were_swapped_are_found():
    """Of datablations' runs none trains on fewer tokens than are unique to it; swapped, all do."""
    frame = pd.DataFrame({"run": list("abc"), "tokens": [8e9, 4e9, 32e9], "unique_tokens": [4e9] * 3, "loss": 3.0})
    Runs.from_pandas(frame)
    swapped = frame.rename(columns={"tokens": "unique_tokens", "unique_tokens": "tokens"})
    sentence = r"row 1 \(run a\): tokens is 4e\+09, less than its unique_tokens 8e\+09; they look swapped"
    with pytest.raises(RunsError, match=sentence):
        Runs.from_pandas(swapped)
    told = swapped.assign(epochs=[2.0, 1.0, 8.0])
    with pytest.raises(RunsError, match="they look swapped"):
        Runs.from_pandas(told)
    Runs.from_pandas(frame.assign(epochs=[2.0, 1.0, 8.0]))
    # A corpus that is larger than any run has one size; that is no swap.
    Runs.from_pandas(pd.DataFrame({"run": list("ab"), "tokens": [1e9, 2e9], "unique_tokens": 1e12, "loss": 3.0}))


def test_what_runs_cannot_tell_is_said():
    same = Runs.from_records(("web", "code"), TARGETS, [record("a", 1.0, tokens=1e6), record("b", 1.0, tokens=2e6)])
    said = " ".join(same.notes)
    assert "No run used code" in said
    assert "All runs have one mixture" in said


def test_settings_that_some_runs_do_not_tell_are_named():
    """No law reads a column with holes, so a single blank costs what the others tell."""
    frame = pd.DataFrame({"run": list("abc"), "model_size": [1e7, np.nan, 4e7], "tokens": 1e9, "loss": [3.0, 2.9, 2.8]})
    assert "model_size is not known in 1 of 3 rows (b)" in " ".join(Runs.from_pandas(frame).notes)
    grams = frame.assign(proxy=["transformer", "ngram", "transformer"])  # n-grams have no size
    assert "is not known" not in " ".join(Runs.from_pandas(grams).notes)


def test_losses_that_no_setting_explains_are_named():
    """Two tasks in one column of losses: a fit would take their distance for noise."""
    frame = pd.DataFrame({"run": list("abc"), "tokens": [1e9, 1e9, 2e9], "seed": [0, 1, 0], "loss": [3.0, 4.5, 2.9]})
    assert "Rows 1 and 2 have the same settings and losses 50% apart" in " ".join(Runs.from_pandas(frame).notes)
    seeds = " ".join(Runs.from_pandas(frame.assign(loss=[3.0, 3.05, 2.9])).notes)
    assert "same settings" not in seeds


def test_a_target_that_no_run_measured_is_refused():
    frame = pd.DataFrame({"run": list("ab"), "tokens": 1e9, "loss[exam]": [3.0, 2.9], "loss[wiki]": np.nan})
    with pytest.raises(RunsError, match="has no loss of wiki in any row; leave that column out"):
        Runs.from_pandas(frame)
