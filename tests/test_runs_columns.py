"""Which column of a table means what: every form of the mapping, and what is said of those that are wrong."""

import numpy as np
import pandas as pd
import pytest

from mixopt.errors import RunsError
from mixopt.runs import Runs
from mixopt.runs_columns import ColumnMap

FRAME = pd.DataFrame(
    {
        "name": ["a", "b"],
        "w_web": [25.0, 50.0],
        "w_code": [75.0, 50.0],
        "n_params": [1e6, 2e6],
        "bs": [64, 128],
        "web_loss": [3.0, 3.1],
        "code_loss": [2.0, 2.1],
        "train_loss": [1.0, 1.0],
        "state": ["finished", "crashed"],
    }
)
WHOLE = """
run: name
status: {from: state, values: {finished: finished, crashed: unfinished}}
model_size: {from: n_params, counts: all}
tokens: 1e9
mixture: {from: "w_*", times: 0.01}
unique_tokens: {web: 1e12, code: 2e9}
batch_tokens: {from: bs, times: 2048}
loss: {from: "*_loss", except: [train_loss]}
schedule: {value: cosine}
"""


@pytest.fixture
def read(tmp_path):
    def from_yaml(text, frame=FRAME):
        path = tmp_path / "columns.yaml"
        path.write_text(text)
        return Runs.from_pandas(frame, "runs.csv", path)

    return from_yaml


def test_every_form_of_an_entry(read):
    runs = read(WHOLE)
    assert (runs.corpora, runs.targets) == (("web", "code"), ("web", "code"))
    assert runs["run"].tolist() == ["a", "b"]
    assert runs["status"].tolist() == ["finished", "unfinished"]
    assert runs["schedule"].tolist() == ["cosine", "cosine"]
    assert runs["size_counts"].tolist() == ["all", "all"]
    np.testing.assert_allclose(runs["mixture"], [[0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_array_equal(runs["batch_tokens"], [131072, 262144])
    np.testing.assert_array_equal(runs["tokens"], [1e9, 1e9])
    np.testing.assert_array_equal(runs["unique_tokens"], [[1e12, 2e9]] * 2)
    np.testing.assert_array_equal(runs["loss"], [[3.0, 2.0], [3.1, 2.1]])
    assert "Columns not read: train_loss." in runs.notes


def test_what_is_written_means_the_same_again(read, tmp_path):
    path = tmp_path / "first.yaml"
    path.write_text(WHOLE)
    first = ColumnMap.of(path)
    (tmp_path / "again.yaml").write_text(first.to_yaml())
    assert ColumnMap.of(tmp_path / "again.yaml").entries == first.entries


def test_names_of_the_vocabulary_need_no_entry_and_null_leaves_them_out():
    frame = FRAME[["n_params"]].assign(**{"tokens": 1e9, "loss[web]": 3.0, "seed": [0, 1]})
    runs = Runs.from_pandas(frame, columns={"model_size": "n_params", "seed": None})
    assert set(runs.columns) == {"run", "status", "model_size", "tokens", "mixture", "loss"}


def test_a_list_of_columns_is_the_corpora():
    frame = pd.DataFrame({"sports": [0.2, 1.0], "law": [0.8, 0.0], "bpb": [1.0, 1.1]})
    runs = Runs.from_pandas(frame, columns={"mixture": ["law", "sports"], "bits_per_byte": {"exam": "bpb"}})
    assert runs.corpora == ("law", "sports")
    assert (runs.targets, runs.loss_unit) == (("exam",), "bits/byte")


def test_rows_of_one_run_can_be_told_by_what_they_share():
    frame = pd.DataFrame({"N": [1e6, 1e6, 2e6], "tokens": [1e8, 2e8, 1e8], "loss": [4.0, 3.8, 3.9]})
    runs = Runs.from_pandas(frame, columns={"model_size": "N", "run": {"same": ["model_size"]}})
    assert runs["run"].tolist() == ["1", "1", "2"]
    assert any("checkpoints" in note for note in runs.notes)


def test_rounded_shares_are_divided_by_their_sum_only_where_asked():
    frame = pd.DataFrame({"w_a": [0.333, 0.5], "w_b": [0.666, 0.5], "loss": [3.0, 3.1]})
    with pytest.raises(RunsError, match=r"row 1 .*mixture sums to 0.999; .*rounded, it seems: .*renormalize: true"):
        Runs.from_pandas(frame, columns={"mixture": "w_*"})
    runs = Runs.from_pandas(frame, columns={"mixture": "w_*", "renormalize": True})
    np.testing.assert_allclose(runs["mixture"].sum(-1), 1, atol=1e-15)
    np.testing.assert_allclose(runs["mixture"][0], [1 / 3, 2 / 3])
    assert any("1 of 2 rows" in note and "largest correction was of 0.999 to 1" in note for note in runs.notes)
    frame.loc[0, "w_a"] = 0.3
    with pytest.raises(RunsError, match=r"mixture sums to 0.966; .*list the missing corpus"):
        Runs.from_pandas(frame, columns={"mixture": "w_*", "renormalize": True})


def test_a_table_with_two_sizes_must_say_which_it_means():
    frame = pd.DataFrame({"params": [2e6], "params_no_embed": [1e6], "tokens": 1e9, "loss": [3.0]})
    sentence = r"has params and params_no_embed; say what model_size counts: \{from: params_no_embed, counts: non_emb"
    with pytest.raises(RunsError, match=sentence):
        Runs.from_pandas(frame, columns={"model_size": "params"})
    said = Runs.from_pandas(frame, columns={"model_size": {"from": "params", "counts": "all"}})
    assert said["model_size"].tolist() == [2e6]
    assert said["size_counts"].tolist() == ["all"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tokns: bs", r"columns.yaml:1: 'tokns' is not in the vocabulary; did you mean 'tokens'\?"),
        (
            "run: nam",
            r"columns.yaml:1: run names the column 'nam', which runs.csv lacks; did you mean 'name'\?".replace(
                "columns.yaml:1", "columns.yaml"
            ),
        ),
        ("tokens: {form: bs}", r"columns.yaml:1: tokens has no key 'form'; did you mean 'from'\?"),
        ("tokens: {times: 3}", "tokens needs one of from, value and same; it has times"),
        ("tokens: {from: bs, times: x}", "tokens.times is 'x'; give a number"),
        ("tokens: {from: bs, times: 0}", "tokens.times is 0; give a number"),
        ("tokens: {from: null}", "tokens.from is None; give names of columns"),
        ("run: {same: [seed]}\nloss: '*_loss'", "run.same names 'seed', which runs.csv does not tell"),
        ("tokens: true", "tokens is True; give the name of a column, a number"),
        ("tokens: [bs, n_params]", "tokens names 2 columns; give one"),
        ("tokens: {value: many}", "tokens.value is 'many'; a constant tokens is a number"),
        ("run: 3", "run is 3; a constant run is text"),
        ("mixture: 'w*_*'", r"mixture is 'w\*_\*'; give a pattern with one \*"),
        ("mixture: 'x_*'", r"mixture names the columns 'x_\*', of which runs.csv has none"),
        ("mixture: {web: 'w_*'}", r"mixture.web is 'w_\*'; give the name of one column, or a number"),
        ("tokens: {from: bs, values: {a: b}}", "tokens.values is for columns of text"),
        ("tokens: {from: bs, counts: all}", "tokens.counts is for model_size; give non_embedding or all"),
        ("run: {same: [nme]}", "run.same is for run: give columns of the vocabulary"),
        ("renormalize: 1", "renormalize is 1; give true or false"),
        ("loss_unit: bits", "loss_unit is 'bits'; give nats/token or bits/byte"),
        ("loss_unit: bits/byte\nloss: '*_loss'", "was to be read in bits/byte and has no bits_per_byte"),
        ("", "is empty; say which column means what"),
        ("- tokens", "the file holds a list"),
        ("tokens: !!python/object:os.system x", "write it without a tag"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_said(read, text, sentence):
    with pytest.raises(RunsError, match=sentence):
        read(text)


def test_a_word_that_the_mapping_does_not_translate_is_named(read):
    with pytest.raises(RunsError, match=r"row 2: state is 'crashed', which the mapping's values do not name; add it"):
        read("run: name\nloss: '*_loss'\nstatus: {from: state, values: {finished: finished}}")


def test_a_missing_mapping_is_named(tmp_path):
    with pytest.raises(RunsError, match=r"no\.yaml is not there"):
        ColumnMap.of(tmp_path / "no.yaml")


def test_rows_that_look_like_checkpoints_are_asked_about():
    """Rows of one size every 2B tokens are rarely runs of their own; sizes and tokens of a design rise by factors."""
    even = pd.DataFrame({"model_size": 1e8, "tokens": np.arange(1, 8) * 2e9, "loss": np.linspace(4, 3, 7)})
    assert any("as the checkpoints of one run do" in note for note in Runs.from_pandas(even).notes)
    design = even.assign(tokens=1e9 * 2.0 ** np.arange(7))
    assert not any("checkpoints" in note for note in Runs.from_pandas(design).notes)


def test_a_user_overrules_a_layout():
    assert ColumnMap.of({"renormalize": False}).over({"renormalize": True}).renormalize is False
    assert ColumnMap().over({"renormalize": True}).renormalize is True
