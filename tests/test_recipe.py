import datetime
import json
import re
import stat
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from mixopt.assemble import recipe_of
from mixopt.emit.huggingface import emit
from mixopt.optimize.plan import Chosen
from mixopt.recipe import Recipe
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from mixopt.study import Study
from tests.recipes import recipe

TRANSFER = {"base_lr": 0.0096, "base_width": 64, "base_depth": 2, "factor": 0.03125}
TEXT = recipe(model={"model_size": 10**9, "width": 2048, "depth": 20, "transfer": TRANSFER}).to_yaml()


def changed(text, pattern, replacement):
    text, times = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
    assert times == 1, pattern
    return text


def test_yaml_gives_back_the_same_recipe_to_the_last_digit():
    third = recipe(
        learning_rate=wsd(1e-5 / 3, 1_048_576_000, shape="sqrt", final=1 / 7),
        stages=[{"tokens": 1_048_576_000, "mixture": {"web": 1 / 3, "code": 1 / 3, "math": 1 - 2 / 3}}],
    )
    assert Recipe.from_yaml(third.to_yaml()) == third


def test_json_gives_back_the_same_recipe():
    assert Recipe.from_plain(json.loads(recipe().model_dump_json())) == recipe()


def test_small_floats_stay_floats_for_readers_of_yaml_1_1():
    text = recipe(learning_rate=wsd(2e-5, 1_048_576_000)).to_yaml()
    assert "end: 2.0e-05" in text
    assert yaml.safe_load(text)["learning_rate"]["segments"][0]["end"] == 2e-5


def test_the_order_of_corpora_is_that_of_the_file():
    assert list(Recipe.from_yaml(TEXT).corpora) == ["web", "code", "math"]


def test_the_json_schema_names_every_key_and_forbids_others():
    schema = Recipe.json_schema()
    assert set(schema["properties"]) == set(Recipe.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["format"]["const"] == 1
    assert schema["$defs"]["Segment"]["required"] == ["tokens", "start", "end"]


def test_mixture_takes_the_stages_together():
    stages = [
        {"tokens": 750, "mixture": {"web": 1.0}},
        {"tokens": 250, "mixture": {"web": 0.2, "math": 0.8}},
    ]
    made = recipe(tokens=1000, stages=stages, available={"web": 1e4, "code": 1e4, "math": 100.0})
    assert made.mixture == pytest.approx({"web": 0.8, "code": 0.0, "math": 0.2})
    assert made.corpora["math"].epochs == pytest.approx(2.0)


def test_a_recipe_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        recipe().seed = 3


def test_read_gives_back_what_write_wrote_and_leaves_nothing_else(tmp_path):
    path = recipe().write(tmp_path / "new" / "recipe.yaml")
    assert Recipe.read(path) == recipe()
    assert [file.name for file in path.parent.iterdir()] == ["recipe.yaml"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        ("^seed: 17$", "sead: 17", r"key seed: this key is missing. Add it"),
        ("^seed: 17$", "seed: 17\nsead: 17", "key sead: this key is not known"),
        ("shape: linear", "shap: linear", r"key learning_rate.segments.0.shap: this key is not known"),
        ("end: 0.0003", "end: 3e-4", r"key learning_rate.segments.0.end: '3e-4' is not a number. .* write 1.0e-4"),
        ("shape: linear", "shape: step", r"key learning_rate.segments.0: segment shape is 'step'"),
        ("^format: 1$", "format: 2", "key format: Input should be 1; it is 2"),
        ("^seed: 17$", "seed: 17.0", r"key seed: Input should be a valid integer; it is 17.0"),
        ("loss: 2.1", "loss: .nan", "key targets.code.loss: .* finite number; it is nan"),
        ("web: 0.62", "web: 0.55", r"key stages.0: mixture sums to 0.93; shares must sum to 1 within 1e-6. Divide by"),
        ("web: 0.62", "wep: 0.62", r"stage 1 mixes 'wep'; corpora has only web, code, math"),
        ("web: 0.62", "web: 1.62", r"key stages.0.mixture.web: .*less than or equal to 1; it is 1.62"),
        ("epochs: 1.572864", "epochs: 1.6", r"corpora.math.epochs is 1.6; 1.57286e\+08 tokens of 1e\+08 are 1.57286"),
        ("^- tokens: 1048576000", "- tokens: 1048576", "stages covers 1048576 tokens; it must cover all 1048576000"),
        ("tokens: 786432000.0", "tokens: 786.0", "learning_rate covers .* tokens; it must cover all 1048576000"),
        ("tokens: 1048576000.0", "tokens: 5.0", "batch covers 5 tokens; it must cover all"),
        ("lower: 2.05", "lower: 2.5", "interval runs from 2.5 to 2.15; lower must not exceed upper"),
        (
            "base_lr: 0.0096",
            "base_lr: 0.02",
            r"peaks at 0.0003; model.transfer says 0.02 \* 0.03125 = 0.000625. Correct",
        ),
        ("beta2: 0.95", "beta2: 1.0", "key optimizer.beta2: Input should be less than 1; it is 1.0"),
        ("level: 0.9", "level: 90", "level: Input should be less than 1; it is 90"),
        ("study: three-corpora", "study: 2026-01-01", "holds 2026-01-01, a date; .* Quote it"),
        ("study_sha256: .*", "study_sha256: abc", "key provenance.study_sha256: .*pattern"),
        ("^seed: 17$", "seed: [17", "is not YAML: "),
        ("^seed: 17$", "seed: 17\nseed: 18", r"line \d+: key seed is given twice. Remove one"),
        ("math: 0.15", "math: 0.15, math: 0.1", r"line \d+: key math is given twice"),
    ],
)
def test_read_tells_the_file_and_the_key(tmp_path, pattern, replacement, message):
    path = tmp_path / "recipe.yaml"
    path.write_text(changed(TEXT, pattern, replacement))
    with pytest.raises(ValueError, match=message) as caught:
        Recipe.read(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_epochs_may_be_rounded_to_a_percent():
    assert Recipe.from_yaml(changed(TEXT, "epochs: 1.572864", "epochs: 1.57")).corpora["math"].epochs == 1.57


def test_the_transfer_may_be_rounded_to_a_percent():
    assert Recipe.from_yaml(changed(TEXT, "factor: 0.03125", "factor: 0.0312")).model.transfer


def test_the_optimizer_is_that_of_the_proxies():
    transformer = pytest.importorskip("mixopt.proxy.transformer", reason="torch is not installed here")
    optimizer = recipe().optimizer
    assert (optimizer.beta1, optimizer.beta2) == transformer.BETAS
    assert optimizer.weight_decay == transformer.WEIGHT_DECAY
    assert optimizer.clip_norm == transformer.CLIP_NORM


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere.yaml is not a file; give the path of a recipe.yaml"):
        Recipe.read(tmp_path / "nowhere.yaml")


def test_plain_values_only():
    with pytest.raises(ValueError, match="holds 2026-01-01, a date"):
        Recipe.from_plain({"format": datetime.date(2026, 1, 1)})


def test_a_schedule_may_be_given_as_such():
    ramp = Schedule((Segment(524_288_000, 2.0**19, 2.0**19), Segment(524_288_000, 2.0**20, 2.0**20)))
    assert recipe(batch=ramp).batch == ramp


STUDY = {
    "name": "large",
    "corpora": {
        "code": {"files": ["code.jsonl"]},
        "web": {"files": ["web.jsonl"], "available_tokens": "3B"},
        "unused": {"files": ["unused.jsonl"], "available_tokens": "3B"},
    },
    "targets": {"code": {"corpus": "code"}, "unused": {"corpus": "unused"}, "exam": {"files": ["exam.txt"]}},
    "budget": {"flops": "6e18"},
    "choose": {"model_size": [1e8, 1e10], "tokens": [1e8, 1e10], "batch_tokens": [1e3, 1e4], "peak_lr": [1e-3, 1e-1]},
    "sweep": {"model_size": [25_000, 50_000], "tokens": [100_000, 200_000], "peak_lr": [1e-3, 1e-2]},
}


def assembled(model_size=10**9, peak_lr=0.016, **changes):
    """The recipe of a plan that takes a billion tokens: half of code, half of web."""
    study = Study.model_validate(STUDY, context={"check_files": False})
    tokens = {"code": np.zeros(600_000_000, np.uint8), "web": np.zeros(20_000_000, np.uint8), "unused": np.zeros(5)}
    data = SimpleNamespace(
        train=tokens,
        documents=dict.fromkeys(tokens, 5),
        valid={name: np.zeros(1000) for name in study.targets},
        valid_bytes=dict.fromkeys(study.targets, 3000),
        tokenizer_path="outputs/large/data/tokenizer.json",
    )
    plan = SimpleNamespace(
        chosen=Chosen({"code": 0.5, "web": 0.5, "unused": 0.0}, model_size, 1e9, 2.0**20, peak_lr),
        loss=2.0,
        interval=(1.9, 2.1),
        level=0.9,
        targets=dict.fromkeys(study.targets, SimpleNamespace(loss=2.0, interval=(1.9, 2.1))),
        notes=("a note of the plan",),
    )
    vars(plan).update(changes)
    selection = SimpleNamespace(law="a law", laws={}, warnings=("a warning of the fit",))
    return recipe_of(study, data, selection, plan, {"code": 6e8, "web": 3e9, "unused": 3e9}, 50)


@pytest.mark.parametrize("model_size", [100_000, 1_000_000, 3_000_000])
def test_the_learning_rate_is_the_one_that_the_proxy_of_this_size_gives_its_hidden_matrices(model_size):
    pytest.importorskip("torch", reason="torch is not installed here")
    from mixopt.proxy.model import build
    from mixopt.proxy.shape import shape

    made = assembled(model_size)
    network = build(shape(model_size), 300, seed=0)
    (rate,) = {group.lr_factor for group in network.groups if group.decays}
    assert made.learning_rate.peak == pytest.approx(0.016 * rate, rel=1e-12)
    assert (made.model.width, made.model.depth) == (network.shape.width, network.shape.depth)


@pytest.mark.parametrize("model_size", [4 * 10**8, 10**9, 7 * 10**9, 7 * 10**10])
def test_a_large_model_runs_far_below_the_rate_of_the_proxies_and_says_so(model_size):
    made = assembled(model_size)
    assert 12 * made.model.depth * made.model.width**2 == pytest.approx(model_size, rel=0.15)
    assert made.learning_rate.peak * made.model.width / 64 < 0.0161
    assert made.model.transfer.base_lr == 0.016
    text = emit(made)["train.yaml"]
    assert f"width {made.model.width} and depth {made.model.depth}: {made.model.transfer.factor:.4g} times the" in text
    assert f"multiplies 0.016, as {0.1 * 0.016 / made.learning_rate.peak:.3g} would here." in text
    assert "Under muP embeddings take 0.016. Where the trainer is not muP-parametrized, confirm" in text


def test_samples_and_held_out_text_are_told_where_they_apply():
    made = assembled()
    warnings = made.provenance.warnings
    assert warnings[:2] == ("a warning of the fit", "a note of the plan")
    sample, held_out = warnings[2:]  # none of the unused corpus
    assert sample.startswith("web: the proxies read 20M of the 3B tokens that the recipe counts on. Put the full")
    assert held_out.startswith("code: its text includes the 10 % that a target is measured on. Leave those documents")
    text = emit(made)["train.yaml"]
    assert all(f"# Warning: {warning}\n" in text for warning in warnings)


@pytest.mark.parametrize("missing", ["batch_tokens", "peak_lr"])
def test_a_plan_without_learning_rate_or_batch_makes_no_recipe(missing):
    numbers = {"batch_tokens": 1e6, "peak_lr": 0.01} | {missing: None}
    with pytest.raises(ValueError, match=r"no peak_lr or no batch_tokens; a recipe needs both. Give them in choose"):
        assembled(chosen=Chosen({"code": 0.5, "web": 0.5, "unused": 0.0}, 1e9, 1e9, **numbers))


def test_a_plan_without_an_interval_makes_no_recipe():
    with pytest.raises(ValueError, match=r"the plan has no interval; fit the laws with replicates=200"):
        assembled(interval=None)
