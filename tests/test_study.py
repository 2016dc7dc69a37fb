"""Study: a file that is right is read to the numbers it says; one that is wrong gives one sentence with its line."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

import mixopt
from mixopt import study_sections
from mixopt._discover import available
from mixopt.errors import StudyError
from mixopt.study import Study, template

STUDY = """\
name: small
corpora:
  code: {files: code.jsonl}
  web: {files: [web/*.txt], text: content, available_tokens: 3B}
targets:
  code: {corpus: code, weight: 2}
  exam: {files: exam.txt}
budget: {flops: 3 TFLOP}
max_epochs: {default: 4, code: 8}
shares: {web: [0, 0.5]}
choose:
  model_size: [20k, 1M]
  tokens: 2M tokens
  batch_tokens: [1k, 8k]
  peak_lr: [1e-3, 2.7e-2]
sweep:
  share_of_budget: 0.5
  model_size: [25k, 50k]
  tokens: [100k, 200k]
  peak_lr: [2e-3, 6e-3]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the files of STUDY are."""
    (tmp_path / "web").mkdir()
    for name in ("code.jsonl", "exam.txt", "web/b.txt", "web/a.txt"):
        (tmp_path / name).write_text("text")
    return tmp_path


def write(folder: Path, old: str = "", new: str = "") -> Path:
    """STUDY with one piece replaced, as a file."""
    assert old in STUDY
    path = folder / "study.yaml"
    path.write_text(STUDY.replace(old, new, 1))
    return path


def line_of(text: str, piece: str) -> int:
    return text[: text.index(piece)].count("\n") + 1


# --- what is read -----------------------------------------------------------------------------------------------


def test_values_are_the_numbers_written(folder: Path) -> None:
    study = Study.read(write(folder))
    assert study.budget.flops == 3e12
    assert study.corpora["web"].available_tokens == 3e9
    assert study.choose.ranges() == {"model_size": (2e4, 1e6), "batch_tokens": (1e3, 8e3), "peak_lr": (1e-3, 2.7e-2)}
    assert study.choose.fixed() == {"tokens": 2e6}
    assert study.sweep.model_size == (25_000, 50_000)
    assert study.epoch_caps() == {"code": 8, "web": 4}
    assert study.share_bounds() == {"code": (0, 1), "web": (0, 0.5)}
    assert {name: target.weight for name, target in study.targets.items()} == {"code": 2, "exam": 1}


def test_ladder_is_given_or_even_in_log_over_the_range(folder: Path) -> None:
    study = Study.read(write(folder, "  peak_lr: [2e-3, 6e-3]\n"))
    assert study.ladder("peak_lr") == pytest.approx((1e-3, 3e-3, 9e-3, 27e-3))
    assert study.ladder("batch_tokens") == (1024, 2048, 3968, 7936)  # whole sequences of 128
    assert Study.read(write(folder)).ladder("peak_lr") == (2e-3, 6e-3)
    assert Study.read(write(folder, "[1k, 8k]", "2k")).ladder("batch_tokens") == (2048,)


def test_underscores_part_digits(folder: Path) -> None:
    study = Study.read(write(folder, "text: content", "max_documents: 20_000"))
    assert study.corpora["web"].max_documents == 20_000


def test_the_limits_of_proxies_are_those_of_the_transformer() -> None:
    from mixopt.proxy import shape

    assert (study_sections.SMALLEST_PROXY, study_sections.LARGEST_PROXY) == (shape.SMALLEST_SIZE, shape.LARGEST_SIZE)
    assert study_sections.LARGEST_MODEL == shape.LARGEST_SHAPE


def test_one_number_caps_epochs_and_fixes_a_share(folder: Path) -> None:
    assert Study.read(write(folder, "{default: 4, code: 8}", "2.5")).epoch_caps() == {"code": 2.5, "web": 2.5}
    assert Study.read(write(folder, "max_epochs: {default: 4, code: 8}\n")).epoch_caps() == {"code": 4, "web": 4}
    assert Study.read(write(folder, "[0, 0.5]", "0.3")).share_bounds()["web"] == (0.3, 0.3)


def test_paths_start_at_the_study_and_are_sorted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder)
    monkeypatch.chdir("/")
    study = Study.read(path)
    assert study.corpora["web"].paths() == (folder / "web/a.txt", folder / "web/b.txt")
    copy = folder / "web" / "copy.yaml"
    copy.write_text(path.read_text())
    assert Study.read(copy, folder=folder) == study
    with pytest.raises(StudyError, match=r"no file matches 'code.jsonl'.* \(2 more"):
        Study.read(copy)
    assert Study.read(copy, check_files=False).digest == study.digest


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(folder: Path) -> None:
    (folder / "web[1].txt").write_text("text")
    study = Study.read(write(folder, "[web/*.txt]", "['web[1].txt', 'web/*', '**/a.txt']"))
    assert study.corpora["web"].paths() == (folder / "web/a.txt", folder / "web/b.txt", folder / "web[1].txt")


def test_absolute_paths_and_a_dataset(folder: Path) -> None:
    new = f"corpora:\n  wiki: {{dataset: wikimedia/wikipedia, config: 20231101.en}}\n  more: {{files: {folder}/web/*}}"
    corpora = Study.read(write(folder, "corpora:", new)).corpora
    assert (corpora["wiki"].dataset, corpora["wiki"].config, corpora["wiki"].split) == (
        "wikimedia/wikipedia",
        "20231101.en",
        "train",
    )
    assert corpora["wiki"].paths() == ()
    assert len(corpora["more"].paths()) == 2


@pytest.mark.parametrize("name", ["no", "null", "2023", "010", "1e5"])
def test_names_are_names_whatever_yaml_would_make_of_them(folder: Path, name: str) -> None:
    study = Study.read(write(folder, "  web: {", f"  {name}: {{files: web/a.txt}}\n  web: {{"))
    assert list(study.corpora) == ["code", name, "web"]


def test_digest_ignores_spelling_and_order_but_not_content(folder: Path) -> None:
    digest = Study.read(write(folder)).digest
    assert digest == Study.read(write(folder, "3 TFLOP", "3.0e12")).digest
    assert digest == Study.read(write(folder, "name: small", "# comment\nname: small\nseed: 0")).digest
    assert digest == Study.read(write(folder, "{corpus: code, weight: 2}", "{weight: 2.0, corpus: code}")).digest
    assert digest != Study.read(write(folder, "name: small", "name: small\nseed: 1")).digest
    assert re.fullmatch("[0-9a-f]{64}", digest)


def test_anchors_are_read(folder: Path) -> None:
    study = Study.read(write(folder, "{corpus: code, weight: 2}\n", "&code {corpus: code}\n  again: *code\n"))
    assert study.targets["again"] == study.targets["code"]


def test_nothing_can_be_changed_afterwards(folder: Path) -> None:
    study = Study.read(write(folder))
    with pytest.raises(ValidationError, match="frozen"):
        study.budget.flops = 1.0  # type: ignore[misc]


def test_a_study_made_of_python_values_is_checked_too() -> None:
    values = yaml.safe_load(STUDY)
    with pytest.raises(ValueError, match=r"corpora.code.files.*no file matches 'code.jsonl'"):
        Study.model_validate(values, context={"folder": "/nowhere"})


# --- one sentence per mistake -----------------------------------------------------------------------------------

WRONG = {
    # keys
    "unknown key": ("budget: {", "curpora: 1\nbudget: {", r"the file has no key 'curpora'; did you mean 'corpora'\?"),
    "unknown key inside": ("weight: 2", "wieght: 2", r"targets.code has no key 'wieght'; did you mean 'weight'\?"),
    "unlike any key": ("weight: 2", "zzz: 2", "targets.code has no key 'zzz'; it has files, dataset, config"),
    "missing section": ("budget: {flops: 3 TFLOP}\n", "", "the file lacks 'budget': What the target run may cost"),
    "missing key": ("  model_size: [20k, 1M]\n", "", "choose lacks 'model_size': Non-embedding parameters"),
    "later budget": ("{flops: 3 TFLOP}", "{gpu_hours: 3, on: h100}",
        "budget: a budget in gpu_hours is not read yet; give flops"),
    # quantities
    "apples": ("3 TFLOP", "3 apples", "budget.flops: '3 apples' is not accepted; give a positive number of FLOPs"),
    "tokens for flops": ("3 TFLOP", "2e9 tokens",
        "budget.flops: '2e9 tokens' is not accepted; give a positive number of F"),
    "yes": ("3 TFLOP", "yes", "budget.flops: 'yes' is not accepted"),
    "true": ("3 TFLOP", "true", "budget.flops: true is not accepted"),
    "date": ("3 TFLOP", "2024-01-01", "budget.flops: '2024-01-01' is not accepted"),
    "sexagesimal": ("3 TFLOP", "1:30", "budget.flops: '1:30' is not accepted"),
    "null": ("3 TFLOP", "", "budget.flops: empty is not accepted"),
    "nan": ("3 TFLOP", ".nan", "budget.flops: nan is not accepted"),
    "infinite": ("3 TFLOP", "-.inf", "budget.flops: -inf is not accepted"),
    "zero": ("3 TFLOP", "0", "budget.flops: 0 is not accepted"),
    "negative": ("3 TFLOP", "-1e12", r"budget.flops: -1e\+12 is not accepted"),
    "rung": ("[25k, 50k]", "[25k, 50 tokens]",
        r"sweep.model_size\[1\]: '50 tokens' is not accepted; give a number of para"),
    # ranges, ladders
    "range turned": ("[20k, 1M]", "[1M, 20k]",
        r"choose.model_size: \['1M', '20k'\] is not accepted; give \[low, high\] with low"),
    "range of one": ("[20k, 1M]", "[20k]", r"choose.model_size: \['20k'\] is not accepted; give \[low, high\]"),
    "range without width": ("[20k, 1M]", "[1M, 1M]", "or one value to fix it, each a number of parameters"),
    "ladder turned": ("[25k, 50k]", "[50k, 25k]",
        r"sweep.model_size: \[50000, 25000\] is not accepted; give the values in rising"),
    "ladder doubled": ("[25k, 50k]", "[25k, 25k]", "each once"),
    "ladder empty": ("[25k, 50k]", "[]", "sweep.model_size has 0 entries; give at least 1"),
    "ladder of one": ("[25k, 50k]", "25k", r"sweep.model_size: '25k' is not accepted; give a list, such as \[1, 2\]"),
    # names
    "no such corpus": ("corpus: code", "corpus: coed",
        r"targets.code.corpus: no corpus is named 'coed'; did you mean 'code'\?"),
    "cap of no corpus": ("code: 8", "wbe: 8", r"max_epochs.wbe: no corpus is named 'wbe'; did you mean 'web'\?"),
    "bound of no corpus": ("shares: {web", "shares: {xyz", "shares.xyz: no corpus is named 'xyz'; it has code, web"),
    "path as a name": ("name: small", "name: ../x", "name: '../x' is not accepted as a name; give at most 64 letters"),
    "bad corpus name": ("  web:", "  a b:", "corpora.a b: 'a b' is not accepted as a name"),
    "reserved name": ("  web:", "  default:", "corpora.default: 'default' is not accepted as a name.*not 'default'"),
    "schedule": ("[20k, 1M]", "[20k, 1M]\n  schedule: wds",
        "choose.schedule: mixopt.schedules has no 'wds'; it has .*cosine.*wsd"),
    "emitter": ("name: small", "name: small\nemit: [olmo]",
        r"emit\[0\]: mixopt.emit has no 'olmo'; it has .*tabulated"),
    # places of text
    "two origins": ("{files: code.jsonl}", "{files: code.jsonl, dataset: x}",
        "corpora.code: files and dataset given; give exactly one of files, dataset"),
    "no origin": ("{files: code.jsonl}", "{text: text}",
        "corpora.code: no place of text given; give exactly one of files, dataset"),
    "target without": ("{files: exam.txt}", "{weight: 1}",
        "targets.exam: no place of text given; give exactly one of corpus, files, dataset"),
    "config of files": ("{files: code.jsonl}", "{files: code.jsonl, config: en}",
        "corpora.code: config belongs to a dataset"),
    "missing file": ("files: code.jsonl", "files: cod.jsonl",
        r"corpora.code.files\[0\]: no file matches 'cod.jsonl'; paths start at"),
    "empty glob": ("web/*.txt", "web/*.jsonl.zst", r"corpora.web.files\[0\]: no file matches 'web/\*.jsonl.zst'"),
    "folder as file": ("files: exam.txt", "files: web", r"targets.exam.files\[0\]: no file matches 'web'"),
    "empty pattern": ("files: exam.txt", "files: ''", r"targets.exam.files\[0\]: no file matches ''"),
    "file of no text": ("files: exam.txt", "files: 3", "targets.exam.files: 3 is not accepted; give a list"),
    # numbers
    "no weight": ("weight: 2", "weight: 0", "targets.code.weight: 0 is not accepted; give a number above 0"),
    "weight of nan": ("weight: 2", "weight: .nan", "targets.code.weight: nan is not accepted; give a finite number"),
    "weight as text": ("weight: 2", "weight: much", "targets.code.weight: 'much' is not accepted; give a number"),
    "cap of zero": ("code: 8", "code: 0", "max_epochs.code: 0 is not accepted; give a number above 0"),
    "cap below zero": ("{default: 4, code: 8}", "-1", "max_epochs.default: -1 is not accepted; give a number above 0"),
    "share above 1": ("[0, 0.5]", "[0, 50]", r"shares.web\[1\]: 50 is not accepted; give a number up to 1"),
    "share below 0": ("[0, 0.5]", "[-0.1, 0.5]", r"shares.web\[0\]: -0.1 is not accepted; give a number from 0 up"),
    "share turned": ("[0, 0.5]", "[0.5, 0.2]", r"shares.web: \[0.5, 0.2\] is not accepted; give \[lower, upper\]"),
    "share as truth": ("[0, 0.5]", "true", "shares.web: true is not accepted; give a list"),
    "too many bounds": ("[0, 0.5]", "[0, 0.5, 1]", "shares.web has 3 entries; give at most 2"),
    "lower bounds": ("[0, 0.5]", "0.6, code: [0.5, 1]", "shares: the lower bounds sum to 1.1; shares sum to 1"),
    "upper bounds": ("[0, 0.5]", "[0, 0.5], code: [0, 0.4]", "shares: the upper bounds sum to 0.9; shares sum to 1"),
    "share of budget": ("share_of_budget: 0.5", "share_of_budget: 0",
        "sweep.share_of_budget: 0 is not accepted; give a number above 0"),
    "few mixtures": ("share_of_budget: 0.5", "mixtures: 1\n  favorites: 0",
        "sweep.mixtures: 1 is not accepted; one per corpus, two per level and the favorites are 4"),
    "half a mixture": ("share_of_budget: 0.5", "mixtures: 24.5",
        "sweep.mixtures: 24.5 is not accepted; give a whole number"),
    "favorites of nothing": ("share_of_budget: 0.5", "screen: 0",
        "sweep.favorites: 4 is not accepted; give at most as many as are screened, 0"),
    "one replicate": ("share_of_budget: 0.5", "replicates: 1",
        "sweep.replicates: 1 is not accepted; give a number from 2 up"),
    "truth as text": ("share_of_budget: 0.5", "epoch_matched: yes",
        "sweep.epoch_matched: 'yes' is not accepted; give true or false"),
    "device": ("name: small", "name: small\nproxy: {device: gpu}",
        "proxy.device: 'gpu' is not accepted; give cpu, cuda, cuda:0 or mps"),
    "workers": ("name: small", "name: small\nproxy: {workers: 0}",
        "proxy.workers: 0 is not accepted; give auto, or a whole number"),
    "workers as truth": ("name: small", "name: small\nproxy: {workers: true}", "proxy.workers: true is not accepted"),
    "vocabulary": ("name: small", "name: small\nproxy: {vocabulary: 100000}",
        "proxy.vocabulary: 100000 is not accepted; give a number up to 65535"),
    "held out": ("name: small", "name: small\nproxy: {valid_share: 1}",
        "proxy.valid_share: 1 is not accepted; give a number below 1"),
    "seed": ("name: small", "name: small\nseed: -1", "seed: -1 is not accepted; give a number from 0 up"),
    "short batch": ("[1k, 8k]", "[100, 8k]",
        "choose.batch_tokens: 100 tokens are less than one sequence; give at least sequence_length, 128"),
    "one level": ("[25k, 50k]\n  tokens: [100k, 200k]", "[25k]\n  tokens: [100k]",
        "sweep.tokens: the ladders have one level; laws are told apart by larger runs, so give two or more"),
    "small model": ("[20k, 1M]", "[1k, 1M]",
        r"choose.model_size: 1000 to 1e\+06 is not accepted; shapes are known for 20000 to 1e\+12"),
    "large proxy": ("[25k, 50k]", "[25k, 900M]",
        r"sweep.model_size\[1\]: 9e\+08 is not accepted; proxies have 20000 to 5e\+08 parameters"),
    "short screen": ("share_of_budget: 0.5", "screen: 3\n  favorites: 0",
        "sweep.screen: 3 is not accepted; give 0, or at least two more than corpora, 4"),
    "half a sequence": ("share_of_budget: 0.5", "batch_tokens: [1000, 2048]",
        r"sweep.batch_tokens\[0\]: 1000 is no multiple of sequence_length, 128; the nearest is 1024"),
    "long batch": ("[1k, 8k]", "[1k, 200k]",
        "sweep.tokens: a run of 100000 tokens is shorter than the largest batch; give at least 199936"),
    "budget of no proxy": ("3 TFLOP", "25 GFLOP",
        r"budget.flops: 2.5e\+10 FLOPs do not pay for the smallest model and run in choose; give at least 2.4e\+11"),
    # shapes
    "list for a section": ("{flops: 3 TFLOP}", "[3 TFLOP]",
        "budget: a list is not accepted; give a mapping of keys to values"),
    "text for names": ("{web: [0, 0.5]}", "half", "shares: 'half' is not accepted; give a mapping of names to values"),
    "number for a name": ("name: small", "name: 3", "name: 3 is not accepted; give text"),
    "empty text": ("text: content", "text: ''", "corpora.web.text: '' is not accepted; give text that is not empty"),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG.values(), ids=WRONG.keys())
def test_one_mistake_is_one_sentence_with_its_line(folder: Path, old: str, new: str, message: str) -> None:
    path = write(folder, old, new)
    with pytest.raises(StudyError, match=message) as caught:
        Study.read(path)
    text = str(caught.value)
    assert re.match(re.escape(str(path)) + r":\d+: ", text), text
    assert "\n" not in text
    assert "more after this" not in text, text


@pytest.mark.parametrize(
    ("old", "new", "piece"),
    [
        ("weight: 2", "wieght: 2", "  code: {corpus"),
        ("[web/*.txt], text", "[web/a.txt,\n  web/none.txt], text", "  web/none.txt"),
        ("model_size: [25k, 50k]", "model_size:\n    - 25k\n    - 50 tokens", "- 50 tokens"),
        ("  model_size: [20k, 1M]\n", "", "choose:"),
        ("budget: {flops: 3 TFLOP}\n", "", "name: small"),
        ("budget:", "bugdet:", "bugdet:"),
    ],
)
def test_the_line_is_that_of_the_mistake(folder: Path, old: str, new: str, piece: str) -> None:
    path = write(folder, old, new)
    with pytest.raises(StudyError, match=rf"study.yaml:{line_of(path.read_text(), piece)}: "):
        Study.read(path)


def test_a_misspelled_key_is_told_before_the_one_that_it_leaves_missing(folder: Path) -> None:
    with pytest.raises(
        StudyError, match=r"the file has no key 'bugdet'; did you mean 'budget'\?\. \(1 more after this\.\)$"
    ):
        Study.read(write(folder, "budget:", "bugdet:"))


def test_the_smallest_proxy_run_has_to_fit_into_its_share_of_the_budget(folder: Path) -> None:
    needed = 6 * 25e3 * 100e3 / 0.05
    text = STUDY.replace("share_of_budget: 0.5", "share_of_budget: 0.05").replace("2M tokens", "100k")
    path = folder / "study.yaml"
    path.write_text(text.replace("3 TFLOP", f"{needed * 0.999:.6g}"))
    with pytest.raises(StudyError, match=r"do not pay for the smallest proxy run; give at least 3e\+11"):
        Study.read(path)
    path.write_text(text.replace("3 TFLOP", f"{needed:.6g}"))
    assert Study.read(path).budget.flops == needed


def test_the_first_in_the_file_is_told_and_the_others_counted(folder: Path) -> None:
    path = write(folder, "weight: 2", "weight: -2")
    path.write_text(path.read_text().replace("3 TFLOP", "lots").replace("3B", "many").replace("[25k, 50k]", "[50k]"))
    with pytest.raises(
        StudyError, match=r"study.yaml:4: corpora.web.available_tokens: 'many' .* \(2 more after this\.\)$"
    ):
        Study.read(path)


# --- files that are no study ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; `mixopt init` writes a study"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", r"study.yaml:1: the file holds a list; give keys and values"),
        (b"\nhello\n", r"study.yaml:2: the file holds text; give keys and values"),
        (b"name: x\ncorpora:\n\tweb: 1\n", r"study.yaml:3: not YAML, .*'\\tweb: 1'. Indent with spaces, not tabs"),
        (b"name: [x\nseed: 1\n", "study.yaml:2: not YAML, .*; the line is 'seed: 1'"),
        (b"name: x\nemit: [a\n", r"study.yaml:2: not YAML, .*; the line is 'emit: \[a'"),
        (b"name: x\n---\nname: y\n", "study.yaml:2: not YAML"),
        (b"name: \xff\n", r"is not UTF-8 text \(byte 6\); save it as UTF-8"),
        (b"name: \x01\n", "study.yaml is not YAML: .*special characters"),
        (b"name: x\nname: y\n", "study.yaml:2: the file has 'name' twice, in lines 1 and 2; rename or remove one"),
        (b"corpora:\n  web: {files: a}\n  code: {files: a}\n  web: {files: b}\n",
         "study.yaml:4: corpora has 'web' twice, in lines 2 and 4"),
        (b"[a]: 1\n", "study.yaml:1: a key in the file is a list or a mapping; give a name"),
        (b"name: !!python/name:os.system\n", "study.yaml:1: name has the tag .*; write it without a tag"),
        (b"name: !secret x\n", "study.yaml:1: name has the tag !secret"),
        (b"corpora: &a [*a]\n", r"study.yaml:1: corpora\[0\] contains itself; write its values out"),
        (b"name: " + b"[" * 1500 + b"\n", "is nested too deeply"),
    ],
)  # fmt: skip
def test_files_that_are_no_study(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with pytest.raises(StudyError, match=message) as caught:
        Study.read(path)
    assert "\n" not in str(caught.value)


def test_aliases_of_aliases_stay_small(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    path = tmp_path / "study.yaml"
    path.write_text("\n".join([*rows, "corpora: *a29"]))
    with pytest.raises(StudyError, match="the file has no key 'a0'"):
        Study.read(path)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"study.yaml does not exist; `mixopt init` writes a study"):
        Study.read(tmp_path / "study.yaml")
    with pytest.raises(StudyError, match="is a folder; give the study file in it"):
        Study.read(tmp_path)
    with pytest.raises(StudyError, match="cannot be read: "):
        Study.read(tmp_path / ("x" * 300))


# --- template, schema, import -----------------------------------------------------------------------------------


def test_the_template_is_a_study_and_explains_every_key(tmp_path: Path) -> None:
    for name in ("data/code/1.jsonl", "data/web.jsonl", "data/exam/1.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    path = tmp_path / "study.yaml"
    path.write_text(template())
    study = Study.read(path)
    for section in (study, study.choose, study.sweep, study.proxy, study.budget, *study.corpora.values()):
        for key in type(section).model_fields:
            assert re.search(rf"\b{key}: ", template()) or f"\n{key}:" in template(), key
    assert all(name in template() for name in available("schedules"))
    commented = [line for line in template().splitlines() if re.match(r"  +\w+: .*[^{]$", line) and "{" not in line]
    assert all("#" in line or "files:" in line for line in commented)


def test_the_quickstart_is_a_study() -> None:
    path = Path(mixopt.__file__).parents[1] / "recipes" / "quickstart.yaml"
    study = Study.read(path)
    assert set(study.sweep.model_dump()) == set(type(study.sweep).model_fields)
    assert all(len(corpus.paths()) == 1 for corpus in study.corpora.values())


def test_every_field_is_described_in_the_schema() -> None:
    schema = Study.json_schema()
    assert schema == json.loads(json.dumps(schema))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    sections: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert len(sections) == 7
    for section in sections:
        assert section["additionalProperties"] is False
        assert section["description"]
        for name, value in section["properties"].items():
            assert value.get("description", "").endswith("."), name
    assert schema["$defs"]["Budget"]["properties"]["flops"]["type"] == ["number", "string"]


def test_the_schema_names_the_keys_that_are_read() -> None:
    def keys(model: type[BaseModel]) -> set[str]:
        return set(model.model_fields)

    schema = Study.json_schema()
    assert set(schema["properties"]) == keys(Study)
    assert set(schema["required"]) == {"name", "corpora", "targets", "budget", "choose", "sweep"}


def test_import_is_light() -> None:
    heavy = "scipy torch pandas matplotlib datasets tokenizers pyarrow sklearn".split()
    code = f"import sys, mixopt.study; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
