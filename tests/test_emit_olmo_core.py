import math
from itertools import pairwise

import pytest
import yaml

from mixopt.emit.olmo_core import emit
from mixopt.errors import EmitError
from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.linear import linear
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import AVAILABLE, MIXTURE, recipe

TOKENS = 1_048_576_000  # 1000 steps of 2**20


def parsed(**changes):
    files = emit(recipe(**changes))
    return yaml.safe_load(files["sources.yaml"])["sources"], yaml.safe_load(files["train.yaml"])


def ramp(*sizes):
    return Schedule(tuple(Segment(TOKENS / len(sizes), size, size, "constant") for size in sizes))


def test_sources_have_the_shares_and_room_for_the_epochs():
    sources, _ = parsed()
    assert {source["source_name"]: source["target_ratio"] for source in sources} == MIXTURE
    for source in sources:
        epochs = source["target_ratio"] * TOKENS / AVAILABLE[source["source_name"]]
        assert max(1, epochs) <= source["max_repetition_ratio"] <= max(1, 1.02 * epochs + 0.01)


def test_requested_tokens_are_whole_batches():
    _, train = parsed(tokens=TOKENS + 1)
    dataset = train["dataset"]
    assert dataset["requested_tokens"] == 1001 * 2**20
    assert dataset["global_batch_size"] == train["data_loader"]["global_batch_size"] == 2**20
    assert train["trainer"]["max_duration"] == {"value": TOKENS + 1, "unit": "tokens"}
    assert dataset["seed"] == 17


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (
            wsd(3e-4, TOKENS, warmup=0.05, final=0.1),
            {"type": "wsd", "decay": 209_715_200, "decay_fraction": None, "decay_min_lr": pytest.approx(3e-5)},
        ),
        (cosine(3e-4, TOKENS, warmup=0.05, final=0.1), {"type": "cos_with_warmup", "alpha_f": pytest.approx(0.1)}),
        (linear(3e-4, TOKENS, warmup=0.05), {"type": "linear_with_warmup", "alpha_f": 0.0}),
        (constant(3e-4, TOKENS, warmup=0.05), {"type": "constant_with_warmup"}),
    ],
)
def test_schedules_are_in_tokens_under_their_registered_names(schedule, expected):
    _, train = parsed(learning_rate=schedule)
    train = train["train_module"]
    assert train["optim"]["lr"] == 3e-4
    common = {"units": "tokens", "warmup": 52_428_800, "warmup_min_lr": 0.0}
    assert train["scheduler"] == {**common, **expected}


def test_without_a_warmup_wsd_gets_one_of_a_token_and_says_so():
    text = emit(recipe(learning_rate=wsd(3e-4, TOKENS, warmup=0.0)))["train.yaml"]
    assert yaml.safe_load(text)["train_module"]["scheduler"]["warmup"] == 1
    assert "the first step has rate 0" in text


def test_constant_without_warmup_is_constant():
    module = parsed(learning_rate=constant(3e-4, TOKENS))[1]["train_module"]
    assert module["scheduler"] == {"type": "constant", "units": "tokens"}


def test_the_optimizer_and_the_model_are_the_recipes():
    asked = {"name": "adamw", "beta1": 0.8, "beta2": 0.99, "weight_decay": 0.05, "clip_norm": 0.5}
    _, train = parsed(optimizer=asked, model={"model_size": 100_352, "width": 64, "depth": 2})
    module = train["train_module"]
    assert module["max_grad_norm"] == 0.5
    assert (module["optim"]["betas"], module["optim"]["weight_decay"]) == ([0.8, 0.99], 0.05)
    assert train["model"] == {"d_model": 64, "n_layers": 2, "tie_word_embeddings": True}
    assert parsed()[1]["model"] == {"tie_word_embeddings": True}


def test_the_headers_say_where_paths_start_and_how_large_the_model_is():
    files = emit(recipe())
    assert "# Paths are relative to the folder that mixopt was called in.\n" in files["sources.yaml"]
    assert "for 125829120 parameters without embeddings" in files["train.yaml"]


def test_a_ramp_starts_from_the_rate_that_its_square_roots_bring_to_the_recipe():
    asked = recipe(batch=ramp(2.0**18, 2.0**19, 2.0**20))
    text = emit(asked)["train.yaml"]
    train = yaml.safe_load(text)
    batches = train["batch_size_scheduler"]["batch_sizes"]
    rate = train["train_module"]["optim"]["lr"]
    for before, after in pairwise(batches):
        rate *= math.sqrt(after / before)
    assert rate == pytest.approx(3e-4, rel=1e-14)
    assert [point["value"] for point in train["batch_size_scheduler"]["schedule"]] == [0, 349_525_333, 699_050_667]
    assert train["data_loader"]["global_batch_size"] == 2**18
    assert "0.00015 from 0 tokens, 0.0002121 from 349525333 tokens, 0.0003 from 699050667 tokens" in text


def test_batches_that_do_not_change_are_no_ramp():
    assert "batch_size_scheduler" not in parsed(batch=ramp(2.0**20, 2.0**20))[1]


def test_files_that_are_arrays_are_kept_and_others_are_to_be_tokenized():
    plain = recipe().model_dump(mode="json")
    plain["corpora"]["web"]["files"] = ["s3://bucket/web/*.npy"]
    text = emit(type(recipe()).from_plain(plain))["sources.yaml"]
    paths = {source["source_name"]: source["paths"] for source in yaml.safe_load(text)["sources"]}
    assert paths == {"web": ["s3://bucket/web/*.npy"], "code": ["data/code/*.npy"], "math": ["data/math/*.npy"]}
    assert "# Tokenize these first, into the paths below: code, math.\n" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"learning_rate": wsd(3e-4, TOKENS, shape="sqrt")},
            r"decays linearly, .* this schedule has .* sqrt 0.0003->0. Use a linear decay. Emit it with 'tabulated'",
        ),
        ({"learning_rate": wsd(3e-4, TOKENS, shape="cosine")}, "cosine without a plateau; .* Use a linear decay"),
        ({"batch": ramp(2.0**19, 3 * 2.0**18)}, "goes from 524288 to 786432 tokens. Use a multiple. .*'tabulated'"),
        ({"batch": Schedule((Segment(TOKENS, 2.0**18, 2.0**20),))}, "at once, .*linear 262144->.* Use constant seg"),
        ({"batch": constant(1e6, TOKENS)}, "1000000 tokens are 976.562 sequences of 1024. Change .* to 1000448 tokens"),
        (
            {"stages": [{"tokens": TOKENS // 2, "mixture": MIXTURE}, {"tokens": TOKENS // 2, "mixture": MIXTURE}]},
            "olmo_core trains on one mixture; this recipe has 2 stages. Emit it with 'tabulated'",
        ),
    ],
)
def test_it_refuses_what_olmo_core_cannot_say(changes, message):
    with pytest.raises(EmitError, match=message):
        emit(recipe(**changes))
