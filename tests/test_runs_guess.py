"""A guess at a mapping: right on the names that people use, a question where names do not decide, never applied."""

import pandas as pd
import pytest

from mixopt.errors import RunsError
from mixopt.runs import Runs
from mixopt.runs_columns import ColumnMap
from mixopt.runs_guess import guess


@pytest.fixture
def guessed(tmp_path):
    def of(**columns):
        pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
        return guess(tmp_path / "t.csv")

    return of


SHARES = [[0.25, 0.5], [0.75, 0.5]]


@pytest.mark.parametrize(
    ("web", "code", "pattern"),
    [
        ("weight_web", "weight_code", "weight_*"),
        ("w_web", "w_code", "w_*"),
        ("train_the_pile_web", "train_the_pile_code", "train_the_pile_*"),
        ("mix/web", "mix/code", "mix/*"),
        ("web_share", "code_share", "*_share"),
        ("config.mix[web]", "config.mix[code]", None),
    ],
)
@pytest.mark.parametrize(
    ("exam", "wiki", "losses"),
    [
        ("metric/the_pile_exam_val_loss", "metric/the_pile_wiki_val_loss", "metric/the_pile_*_val_loss"),
        ("loss_exam", "loss_wiki", "loss_*"),
        ("exam_loss", "wiki_loss", "*_loss"),
    ],
)
def test_patterns(guessed, tmp_path, web, code, pattern, exam, wiki, losses):
    found = guessed(**{"name": ["a", "b"], web: SHARES[0], code: SHARES[1], exam: [3.0, 2.9], wiki: [4.0, 3.9]})
    if pattern:
        assert found.columns.entries["mixture"].sources == (pattern,)
    assert found.columns.entries["loss"].sources == (losses,)
    assert found.columns.entries["run"].sources == ("name",)
    (tmp_path / "columns.yaml").write_text(found.to_yaml())
    assert ColumnMap.of(tmp_path / "columns.yaml").entries == found.columns.entries
    runs = Runs.read(tmp_path / "t.csv", tmp_path / "columns.yaml")
    assert set(runs.targets) == {"exam", "wiki"}
    assert runs["mixture"].tolist() == [[0.25, 0.75], [0.5, 0.5]][: len(runs)] or pattern is None
    with pytest.raises(RunsError, match="unknown column"):  # a guess is never applied
        Runs.read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("N", "model_size"),
        ("params", "model_size"),
        ("num_params", "model_size"),
        ("D", "tokens"),
        ("n_tokens", "tokens"),
        ("lr", "peak_lr"),
        ("learning_rate", "peak_lr"),
        ("config.learning_rate", "peak_lr"),
        ("Training FLOP", "flops"),
        ("batch_size_tokens", "batch_tokens"),
        ("run_id", "run"),
        ("state", "status"),
    ],
)
def test_names_of_single_columns(guessed, name, column):
    values = ["a", "b"] if column in ("run", "status") else [1e6, 2e6]
    assert guessed(**{name: values, "val_loss": [3.0, 2.9]}).columns.entries[column].sources == (name,)


def test_what_names_do_not_decide_is_asked(guessed):
    found = guessed(
        params=[2e6, 3e6], params_no_embed=[1e6, 2e6], bs=[64, 64], loss=[3.0, 2.9], smooth_loss=[3.0, 2.9],
        state=["finished", "crashed"], w_a=[0.333, 0.5], w_b=[0.666, 0.5],
    )  # fmt: skip
    text = found.to_yaml()
    for asked in (
        "# ? model_size is params_no_embed, or is it params?",
        "# ? bs may count sequences",
        "# ? the shares were rounded: renormalize divides",
        "# ? status",
        "# ? are the losses in nats per token?",
    ):
        assert asked.replace("# ? status", "# ? state says crashed, finished") in text
    assert "model_size: {from: params_no_embed, counts: non_embedding}" in text
    assert "renormalize: true" in text


def test_error_bars_and_training_losses_are_no_targets(guessed):
    found = guessed(loss_web=[3.0, 2.9], loss_code=[2.0, 1.9], loss_lo_web=[1.0, 1.0], loss_lo_code=[1.0, 1.0],
                    train_loss=[1.0, 1.0])  # fmt: skip
    assert found.columns.entries["loss"].to_yaml() == '{from: "loss_*", except: ["loss_lo_*"]}'


def test_a_mean_of_the_losses_is_no_target_beside_them(guessed):
    losses = {"bpb_web": [1.0, 1.1], "bpb_code": [2.0, 2.1], "bpb_mean": [1.5, 1.6]}
    assert guessed(**losses).columns.entries["bits_per_byte"].to_yaml() == '{from: "bpb_*", except: [bpb_mean]}'
    assert guessed(mean_loss=[3.0, 2.9]).columns.entries["loss"].sources == ("mean_loss",)


def test_one_capital_is_a_size_and_one_small_letter_is_not(guessed):
    found = guessed(n=[3.0, 4.0], d=[32.0, 64.0], N=[1e7, 2e7], D=[1e9, 2e9], loss=[3.0, 2.9])
    assert found.columns.entries["model_size"].sources == ("N",)
    assert found.columns.entries["tokens"].sources == ("D",)
    assert "or is it" not in found.to_yaml()


def test_sequences_in_a_batch_are_counted_by_tokens_and_steps(guessed):
    known = {"loss": [3.0, 2.9], "steps": [100.0, 200.0], "bs": [8.0, 16.0]}
    sequences = guessed(**known, tokens=[100 * 8 * 2048.0, 200 * 16 * 2048.0])
    assert sequences.columns.entries["batch_tokens"].to_yaml() == "{from: bs, times: 2048}"
    tokens = guessed(**known, tokens=[800.0, 3200.0])
    assert tokens.columns.entries["batch_tokens"].to_yaml() == "bs"
    assert "may count sequences" not in tokens.to_yaml()
    assert "bs may count sequences" in guessed(**known, tokens=[1e9, 3e9]).to_yaml()


def test_ids_that_some_rows_lack_are_no_ids(guessed):
    found = guessed(run_id=["x", None], name=["a", "b"], loss=[3.0, 2.9])
    assert found.columns.entries["run"].sources == ("name",)


def test_percents_are_scaled(guessed):
    found = guessed(pct_web=[25.0, 50.0], pct_code=[75.0, 50.0], loss=[3.0, 2.9])
    assert found.columns.entries["mixture"].to_yaml() == '{from: "pct_*", times: 0.01}'


def test_a_table_in_the_vocabulary_needs_none(guessed):
    found = guessed(**{"run": ["a"], "mixture[web]": [1.0], "loss[exam]": [3.0]})
    assert not found.columns.entries
    assert "need no mapping" in found.to_yaml()


def test_a_table_without_a_loss_is_asked_for_one(guessed):
    assert "# ? no column is called a loss" in guessed(width=[1.0, 2.0], lr=[1.0, 2.0]).to_yaml()


def test_several_files_are_guessed_as_joined(tmp_path):
    pd.DataFrame({"index": [1, 2], "w_a": [0.2, 0.4], "w_b": [0.8, 0.6]}).to_csv(tmp_path / "w.csv", index=False)
    pd.DataFrame({"index": [2, 1], "web_loss": [3.0, 2.9], "code_loss": [2.0, 1.9]}).to_csv(
        tmp_path / "l.csv", index=False
    )
    found = guess([tmp_path / "w.csv", tmp_path / "l.csv"])
    assert found.columns.to_yaml().splitlines() == ["run: index", 'mixture: "w_*"', 'loss: "*_loss"']
    assert len(Runs.read([tmp_path / "w.csv", tmp_path / "l.csv"], found.columns)) == 2
    pd.DataFrame({"at": [1], "web_loss": [3.0]}).to_csv(tmp_path / "l.csv", index=False)
    with pytest.raises(RunsError, match="share no column that looks like the ids of runs"):
        guess([tmp_path / "w.csv", tmp_path / "l.csv"])
