import datetime
import json
import re
import stat

import pytest
import yaml
from pydantic import ValidationError

from mixopt.recipe import Recipe
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import recipe

TRANSFER = {"base_lr": 0.0096, "base_width": 64, "factor": 0.03125}
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
