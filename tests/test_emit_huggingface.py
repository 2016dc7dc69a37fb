import re

import pytest
import yaml

from mixopt.emit.huggingface import emit
from mixopt.errors import EmitError
from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.linear import linear
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import MEAN_DOCUMENT, MIXTURE, recipe

TOKENS = 1_048_576_000  # 1000 steps of 2**20


def parsed(**changes):
    return yaml.safe_load(emit(recipe(**changes))["train.yaml"])


def test_training_arguments_are_the_recipe_in_steps():
    arguments = parsed()["training_arguments"]
    assert arguments["max_steps"] * 2**20 == TOKENS
    assert arguments["learning_rate"] == 3e-4
    assert arguments["warmup_steps"] == 50
    assert isinstance(arguments["warmup_steps"], int)  # a float below 1 would be read as a share
    assert arguments["seed"] == 17


def test_the_optimizer_is_the_recipes_and_the_embeddings_are_tied():
    asked = {"name": "adamw", "beta1": 0.8, "beta2": 0.99, "weight_decay": 0.05, "clip_norm": 0.5}
    config = parsed(optimizer=asked)
    arguments = config["training_arguments"]
    names = ("adam_beta1", "adam_beta2", "weight_decay", "max_grad_norm")
    assert [arguments[name] for name in names] == [0.8, 0.99, 0.05, 0.5]
    assert arguments["optim"].startswith("adamw")
    assert config["model"]["tie_word_embeddings"] is True


def test_the_header_says_where_paths_start():
    assert "# Paths are relative to the folder that mixopt was called in.\n" in emit(recipe())["train.yaml"]


@pytest.mark.parametrize(
    ("schedule", "kind", "options"),
    [
        (
            wsd(3e-4, TOKENS, warmup=0.05, shape="sqrt", final=0.1),
            "warmup_stable_decay",
            {"num_stable_steps": 750, "num_decay_steps": 200, "decay_type": "1-sqrt", "min_lr_ratio": 0.1},
        ),
        (cosine(3e-4, TOKENS, final=0.1), "cosine_with_min_lr", {"min_lr_rate": pytest.approx(0.1)}),
        (cosine(3e-4, TOKENS, final=0.0), "cosine", {}),
        (linear(3e-4, TOKENS), "linear", {}),
        (linear(3e-4, TOKENS, final=0.5), "polynomial", {"lr_end": 1.5e-4, "power": 1.0}),
        (constant(3e-4, TOKENS, warmup=0.1), "constant_with_warmup", {}),
        (wsd(3e-4, TOKENS, warmup=0.0, decay=0.0), "constant_with_warmup", {}),
    ],
)
def test_schedules_have_their_usual_names(schedule, kind, options):
    arguments = parsed(learning_rate=schedule)["training_arguments"]
    assert (arguments["lr_scheduler_type"], arguments["lr_scheduler_kwargs"]) == (kind, options)


@pytest.mark.parametrize("batch", [2**20, 2**10, 3 * 2**18, 2**10 * 997])
def test_phases_add_up_to_the_steps_and_sequences_to_the_batch(batch):
    config = parsed(batch=constant(batch, TOKENS), learning_rate=wsd(3e-4, TOKENS, warmup=0.0333, decay=0.1777))
    arguments = config["training_arguments"]
    options = arguments["lr_scheduler_kwargs"]
    phases = arguments["warmup_steps"] + options["num_stable_steps"] + options["num_decay_steps"]
    assert phases == arguments["max_steps"] == round(TOKENS / batch)
    assert config["data"]["batch_sequences"] * 1024 == batch


def test_probabilities_are_token_shares_that_sum_to_one():
    corpora = parsed(stages=[{"tokens": TOKENS, "mixture": {"web": 0.3333333, "code": 0.3333333, "math": 0.3333333}}])[
        "data"
    ]["corpora"]
    # datasets refuses a sum that is 1e-7 away from 1
    assert sum(corpus["probability"] for corpus in corpora.values()) == pytest.approx(1, abs=1e-15)


def test_drawing_documents_by_their_probability_gives_the_token_shares():
    corpora = parsed()["data"]["corpora"]
    tokens = {name: corpora[name]["document_probability"] * MEAN_DOCUMENT[name] for name in MIXTURE}
    assert {name: drawn / sum(tokens.values()) for name, drawn in tokens.items()} == pytest.approx(MIXTURE)
    assert sum(corpus["document_probability"] for corpus in corpora.values()) == pytest.approx(1)


def test_document_probabilities_need_every_length():
    corpora = parsed(available={"web": 5e9, "else": 5e9}, stages=[{"tokens": TOKENS, "mixture": {"web": 1, "else": 0}}])
    assert corpora["data"]["corpora"]["web"]["document_probability"] == 1
    half = {"web": 0.5, "else": 0.5}
    corpora = parsed(available={"web": 5e9, "else": 5e9}, stages=[{"tokens": TOKENS, "mixture": half}])
    assert corpora["data"]["corpora"]["web"]["document_probability"] is None


@pytest.mark.parametrize("model_size", [100_000, 3_000_000, 125_829_120, 7_000_000_000])
def test_the_model_has_the_parameters_of_the_recipe(model_size):
    model = parsed(model={"model_size": model_size})["model"]
    width, hidden = model["hidden_size"], model["intermediate_size"]
    made = model["num_hidden_layers"] * (4 * width**2 + 3 * width * hidden)
    assert made == pytest.approx(model_size, rel=0.02)
    assert 2 < hidden / width < 3.5
    assert width % (2 * model["num_attention_heads"]) == 0  # rotary positions need heads of even size


def test_the_model_keeps_the_width_and_depth_of_the_recipe():
    model = parsed(model={"model_size": 100_000, "width": 64, "depth": 2})["model"]
    assert (model["hidden_size"], model["num_hidden_layers"], model["intermediate_size"]) == (64, 2, 176)


def test_the_header_tells_what_whole_steps_leave_and_how_far_the_rate_is():
    text = emit(recipe(tokens=TOKENS + 400_000))["train.yaml"]
    assert f"max_steps covers {TOKENS} of {TOKENS + 400_000} tokens (+400000 left by whole steps)" in text
    gap = float(re.search(r"at most (\S+) of the peak", text)[1])
    assert 0 < gap < 0.01
    # warmup_stable_decay starts its warmup at the floor
    text = emit(recipe(learning_rate=wsd(3e-4, TOKENS, final=0.1)))["train.yaml"]
    assert "at most 0.1 of the peak" in text


def test_the_note_on_the_model_is_passed_on():
    text = emit(recipe(model={"model_size": 10**8, "note": "muP at width 64"}))["train.yaml"]
    assert "# muP at width 64\n" in text


def test_the_script_is_python():
    compile(emit(recipe())["train.py"], "train.py", "exec")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"batch": Schedule(tuple(Segment(TOKENS / 2, size, size) for size in (2.0**19, 2.0**20)))},
            r"one batch size; this recipe has linear 524288->524288 \+ linear 1.04858e\+06.*'tabulated'",
        ),
        (
            {"batch": constant(2**20 + 512, TOKENS)},
            "1049088 tokens are 1024.5 sequences of 1024. Change the recipe's batch to 1048576 tokens",
        ),
        (
            {"learning_rate": Schedule(tuple(Segment(TOKENS / 2, top, top / 2) for top in (4e-4, 2e-4)))},
            r"one decay; this schedule has linear 0.0004->0.0002 \+ linear 0.0002->0.0001. Emit it with 'tabulated'",
        ),
        (
            {"learning_rate": Schedule((Segment(TOKENS / 2, 0.0, 1e-4), Segment(TOKENS / 2, 2e-4, 2e-4)))},
            "a linear warmup, a plateau and one decay",
        ),
        (
            {"learning_rate": Schedule((Segment(TOKENS / 2, 1e-5, 1e-4), Segment(TOKENS / 2, 1e-4, 1e-4)))},
            "huggingface warms up from 0; this schedule has linear 1e-05->0.0001.* Start it at 0",
        ),
        (
            {"stages": [{"tokens": TOKENS // 2, "mixture": MIXTURE}, {"tokens": TOKENS // 2, "mixture": MIXTURE}]},
            "trains on one mixture; this recipe has 2 stages. Emit it with 'tabulated'",
        ),
        ({"batch": constant(2.0**32, TOKENS)}, "less than half a batch; lower the recipe's batch"),
    ],
)
def test_it_refuses_what_the_trainer_cannot_say(changes, message):
    with pytest.raises(EmitError, match=message):
        emit(recipe(**changes))
