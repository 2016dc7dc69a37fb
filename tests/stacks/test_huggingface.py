"""What transformers and datasets themselves make of the emitted files."""

import importlib.util
import json
import os
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import yaml

from mixopt.emit.huggingface import emit
from mixopt.emit.write import write
from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.linear import linear
from mixopt.schedules.wsd import wsd
from tests.recipes import recipe

NEEDS = ("torch", "transformers", "datasets", "accelerate", "tokenizers")
MISSING = [name for name in NEEDS if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.stacks,
    pytest.mark.skipif(
        bool(MISSING), reason=f"the Hugging Face stack is not complete here: {', '.join(MISSING)} missing"
    ),
    # The stack's own deprecations are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]
TOKENS = 1_048_576_000  # 1000 steps of 2**20


def rates(config):
    """The learning rate of every step, by the parser and the scheduler that the Trainer uses."""
    import torch
    from transformers import HfArgumentParser, TrainingArguments
    from transformers.optimization import get_scheduler

    settings = {**config["training_arguments"], "use_cpu": True}
    (arguments,) = HfArgumentParser(TrainingArguments).parse_dict(settings)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=arguments.learning_rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = get_scheduler(
            arguments.lr_scheduler_type,
            optimizer,
            num_warmup_steps=arguments.get_warmup_steps(arguments.max_steps),
            num_training_steps=arguments.max_steps,
            scheduler_specific_kwargs=arguments.lr_scheduler_kwargs,
        )
    found = []
    for _ in range(arguments.max_steps):
        found.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return np.array(found)


SCHEDULES = {
    "wsd": (wsd(3e-4, TOKENS, warmup=0.05), 0.0),
    "wsd sqrt": (wsd(3e-4, TOKENS, warmup=0.05, shape="sqrt"), 0.0),
    "wsd cosine": (wsd(3e-4, TOKENS, warmup=0.05, shape="cosine"), 0.0),
    # its warmup starts at the floor, not at 0
    "wsd floor": (wsd(3e-4, TOKENS, warmup=0.05, final=0.1), 0.1),
    "wsd without warmup": (wsd(3e-4, TOKENS, warmup=0.0), 0.0),
    # 33.3 and 177.7 steps become 33 and 178
    "wsd of broken steps": (wsd(3e-4, TOKENS, warmup=0.0333, decay=0.1777), 0.01),
    "cosine": (cosine(3e-4, TOKENS, warmup=0.05, final=0.0), 0.0),
    "cosine floor": (cosine(3e-4, TOKENS, warmup=0.05, final=0.1), 0.0),
    "linear": (linear(3e-4, TOKENS, warmup=0.05), 0.0),
    "linear floor": (linear(3e-4, TOKENS, warmup=0.05, final=0.2), 0.0),
    "constant": (constant(3e-4, TOKENS, warmup=0.05), 0.0),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_learning_rate_is_the_recipes(kind):
    schedule, gap = SCHEDULES[kind]
    found = rates(yaml.safe_load(emit(recipe(learning_rate=schedule))["train.yaml"]))
    # Step k runs at the rate after k steps: the first one at the very start of the warmup.
    asked = schedule(np.arange(1000) * 2.0**20)
    assert len(found) == 1000
    assert np.max(np.abs(found - asked)) / 3e-4 <= gap + 1e-12


def test_the_arguments_arrive_as_written():
    from transformers import HfArgumentParser, TrainingArguments

    settings = yaml.safe_load(emit(recipe())["train.yaml"])["training_arguments"]
    (arguments,) = HfArgumentParser(TrainingArguments).parse_dict({**settings, "use_cpu": True})
    for name, value in settings.items():
        assert getattr(arguments, name) == value, name


def script():
    """The emitted train.py as a module."""
    module = types.ModuleType("train")
    exec(compile(emit(recipe())["train.py"], "train.py", "exec"), module.__dict__)
    return module


def test_the_examples_of_a_run_have_the_token_shares_and_whole_epochs():
    from datasets import Dataset

    data = yaml.safe_load(emit(recipe())["train.yaml"])["data"]
    sizes = {"web": 3000, "code": 1000, "math": 150}
    probabilities = {name: corpus["probability"] for name, corpus in data["corpora"].items()}
    corpora = [Dataset.from_dict({"corpus": [name] * n, "row": range(n)}) for name, n in sizes.items()]
    run = script().mixed(corpora, list(probabilities.values()), data["seed"], data["stopping_strategy"], 2500)
    assert len(run) == 2500
    for name, share in probabilities.items():
        rows = [row for corpus, row in zip(run["corpus"], run["row"], strict=True) if corpus == name]
        # four standard deviations of a binomial
        assert abs(len(rows) / 2500 - share) < 4 * np.sqrt(share * (1 - share) / 2500)
        times = np.bincount(rows, minlength=sizes[name])
        assert times.max() - times.min() <= 1


@pytest.fixture
def tiny(tmp_path, rng):
    """A folder with two corpora, a tokenizer and the emitted files of a recipe of six steps."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    for name, suffix in (("web", ".jsonl"), ("code", ".jsonl")):
        lines = (json.dumps({"text": " ".join(rng.choice(words, 60))}) for _ in range(80))
        (tmp_path / f"{name}{suffix}").write_text("\n".join(lines) + "\n")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(words)] * 10, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokens, available = 6 * 4 * 32, {"web": 3000.0, "code": 4000.0}
    small = recipe(
        tokens=tokens,
        sequence_length=32,
        batch=constant(4 * 32, tokens),
        learning_rate=wsd(1e-2, tokens, warmup=2 / 6, decay=2 / 6),
        stages=[{"tokens": tokens, "mixture": {"web": 0.7, "code": 0.3}}],
        available=available,
        model={"model_size": 20_000, "width": 32, "depth": 2},
        tokenizer="tokenizer.json",
    )
    plain = small.model_dump(mode="json")
    for name in available:
        plain["corpora"][name]["files"] = [f"{name}.jsonl"]
    write(type(small).from_plain(plain), "huggingface", tmp_path)
    return tmp_path


def test_the_script_trains_from_beginning_to_end(tiny):
    config = yaml.safe_load((tiny / "train.yaml").read_text())
    config["training_arguments"] |= {"logging_steps": 1, "report_to": "none", "use_cpu": True}
    (tiny / "train.yaml").write_text(yaml.safe_dump(config))
    run = subprocess.run(
        [sys.executable, "train.py", "train.yaml"],
        cwd=tiny,
        env={**os.environ, "HF_HOME": str(tiny / "cache"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert (tiny / "out" / "model.safetensors").is_file()
    state = json.loads((tiny / "out" / "checkpoint-6" / "trainer_state.json").read_text())
    assert state["global_step"] == 6
    steps = [entry for entry in state["log_history"] if "loss" in entry]
    # Trainer logs the rate of the step to come, or of the step done, by release; either way it is the schedule's.
    logged = [entry["learning_rate"] for entry in steps]
    asked = wsd(1e-2, 6, warmup=2 / 6, decay=2 / 6)(np.arange(7))
    assert np.allclose(logged, asked[:6], atol=1e-12) or np.allclose(logged, asked[1:], atol=1e-12)
    assert all(np.isfinite(entry["loss"]) for entry in steps)


def test_the_script_refuses_processes_that_do_not_divide_the_batch(tiny):
    run = subprocess.run(
        [sys.executable, "train.py", "train.yaml"],
        cwd=tiny,
        env={**os.environ, "WORLD_SIZE": "3", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode != 0
    assert "4 sequences do not divide among 3 processes; start 2 or 4 processes instead." in run.stderr


@pytest.mark.parametrize(
    ("sequences", "processes", "micro", "accumulation"),
    [(1024, 1, 16, 64), (1024, 8, 16, 8), (96, 8, 12, 1), (997, 1, 1, 997), (34, 2, 1, 17)],
)
def test_micro_batches_make_up_the_batch(sequences, processes, micro, accumulation):
    assert micro * accumulation * processes == sequences
    assert script().micro_batches(sequences, processes) == {
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulation,
    }


@pytest.mark.parametrize(
    ("sequences", "processes", "said"), [(12, 5, "start 4 or 6 processes"), (12, 16, "start 12 processes")]
)
def test_other_numbers_of_processes_are_told_the_nearest_that_divide(sequences, processes, said):
    with pytest.raises(SystemExit, match=f"{sequences} sequences do not divide among {processes} processes; {said}"):
        script().micro_batches(sequences, processes)


def test_the_trainer_decays_every_matrix_but_the_embedding(tmp_path):
    from transformers import HfArgumentParser, LlamaConfig, LlamaForCausalLM, TrainingArguments

    config = yaml.safe_load(emit(recipe(model={"model_size": 100_352, "width": 64, "depth": 2}))["train.yaml"])
    settings = {**config["training_arguments"], "use_cpu": True, "output_dir": str(tmp_path)}
    (arguments,) = HfArgumentParser(TrainingArguments).parse_dict(settings)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, **config["model"]))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    optimizer = script().DecayingTrainer(model=model, args=arguments).create_optimizer()
    decay = {}
    for group in optimizer.param_groups:
        assert tuple(group["betas"]) == (0.9, 0.95)
        decay |= {id(matrix): group["weight_decay"] for matrix in group["params"]}
    found = {name: decay[id(matrix)] for name, matrix in model.named_parameters()}
    spared = {name for name, rate in found.items() if rate == 0}
    assert {name for name in found if "embed" in name or "norm" in name} == spared
    assert set(found.values()) == {0.0, 0.1}
    sizes = {name: matrix.numel() for name, matrix in model.named_parameters() if name not in spared}
    assert sum(sizes.values()) == 100_352


def test_the_script_names_a_corpus_it_cannot_read(tiny):
    config = yaml.safe_load((tiny / "train.yaml").read_text())
    data = config["data"]
    with pytest.raises(SystemExit, match=r"corpus web is in web.bin; files must end in .jsonl"):
        script().packed("web", ["web.bin"], None, None, data["sequence_length"])


def test_packing_loses_less_than_a_sequence(tiny, monkeypatch):
    from transformers import PreTrainedTokenizerFast

    monkeypatch.chdir(tiny)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file="tokenizer.json")
    end = tokenizer.get_vocab()["<eos>"]
    sequences = script().packed("web", ["web.jsonl"], tokenizer, end, 32)
    texts = [json.loads(line)["text"] for line in (tiny / "web.jsonl").read_text().splitlines()]
    stream = [token for text in texts for token in [*tokenizer(text)["input_ids"], end]]
    packed = [token for row in sequences["input_ids"] for token in row]
    assert len(stream) - 32 < len(packed) <= len(stream)
    assert packed == stream[: len(packed)]
