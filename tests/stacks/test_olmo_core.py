"""What OLMo-core itself makes of the emitted files."""

import importlib.util
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from mixopt.emit.olmo_core import emit
from mixopt.emit.write import write
from mixopt.schedules.constant import constant
from mixopt.schedules.cosine import cosine
from mixopt.schedules.linear import linear
from mixopt.schedules.schedule import Schedule, Segment
from mixopt.schedules.wsd import wsd
from tests.recipes import recipe

pytestmark = [
    pytest.mark.stacks,
    pytest.mark.skipif(importlib.util.find_spec("olmo_core") is None, reason="olmo_core is not installed here"),
    pytest.mark.filterwarnings("ignore"),
]
TOKENS = 1_048_576_000  # 1000 steps of 2**20

SCHEDULES = {
    "wsd": wsd(3e-4, TOKENS, warmup=0.05),
    "wsd floor": wsd(3e-4, TOKENS, warmup=0.05, final=0.1),
    "cosine": cosine(3e-4, TOKENS, warmup=0.05, final=0.1),
    "cosine without warmup": cosine(3e-4, TOKENS, warmup=0.0),
    "linear": linear(3e-4, TOKENS, warmup=0.05),
    "constant": constant(3e-4, TOKENS, warmup=0.05),
    "constant without warmup": constant(3e-4, TOKENS),
    "warmup above 0": Schedule((Segment(TOKENS / 4, 1e-5, 3e-4), Segment(TOKENS * 3 / 4, 3e-4, 0.0, "cosine"))),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_the_learning_rate_is_the_recipes(kind):
    from olmo_core.optim.scheduler import Scheduler

    train = yaml.safe_load(emit(recipe(learning_rate=SCHEDULES[kind]))["train.yaml"])
    scheduler = Scheduler.from_dict(train["train_module"]["scheduler"])
    tokens = np.linspace(0, TOKENS, 201).astype(int)
    found = [
        scheduler.get_lr(train["train_module"]["optim"]["lr"], int(at), train["trainer"]["max_duration"]["value"])
        for at in tokens
    ]
    np.testing.assert_allclose(found, SCHEDULES[kind](tokens), rtol=0, atol=3e-4 * 1e-9)


def test_wsd_without_warmup_differs_in_the_first_step_only():
    from olmo_core.optim.scheduler import Scheduler

    schedule = wsd(3e-4, TOKENS, warmup=0.0)
    train = yaml.safe_load(emit(recipe(learning_rate=schedule))["train.yaml"])
    scheduler = Scheduler.from_dict(train["train_module"]["scheduler"])
    found = [scheduler.get_lr(3e-4, step * 2**20, TOKENS) for step in range(1001)]
    assert found[0] == 0
    np.testing.assert_allclose(found[1:], schedule(np.arange(1, 1001) * 2.0**20), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("shares", "available"),
    [
        ({"web": 0.62, "code": 0.23, "math": 0.15}, {"web": 900_000, "code": 300_000, "math": 50_000}),
        ({"web": 0.5, "code": 0.3, "math": 0.2}, {"web": 200_000, "code": 110_000, "math": 70_000}),
        ({"web": 1 / 3, "code": 1 / 3, "math": 1 / 3}, {"web": 400_000, "code": 400_000, "math": 340_000}),
    ],
)
def test_the_built_mixture_has_the_shares_and_tokens(tmp_path, monkeypatch, shares, available):
    from olmo_core.data.source_mixture import SourceMixtureDatasetConfig, SourceMixtureList

    tokens = 1_000_000
    small = recipe(
        tokens=tokens,
        batch=constant(16 * 1024, tokens),
        learning_rate=wsd(3e-4, tokens),
        stages=[{"tokens": tokens, "mixture": shares}],
        available={name: float(size) for name, size in available.items()},
    )
    write(small, "olmo_core", tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, size in available.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        for part in range(2):
            np.zeros(size // 2, np.uint32).tofile(tmp_path / "data" / name / f"{part}.npy")
    dataset = yaml.safe_load((tmp_path / "train.yaml").read_text())["dataset"]
    sources = SourceMixtureList.from_yaml(dataset.pop("source_list"))
    sources.validate()
    built = SourceMixtureDatasetConfig(source_list=sources, render_tables=False, quiet=True, **dataset).build(
        npdtype=np.uint32, sequence_length=1024
    )
    got = {outcome.name: sum(path.tokens for path in outcome.path_tokens) for outcome in built.sources}
    assert sum(got.values()) == dataset["requested_tokens"] == 62 * 16 * 1024
    for name, share in shares.items():
        # Whole sequences of each of six files.
        assert abs(got[name] - share * sum(got.values())) <= 2 * 1024


def test_the_duration_is_read_in_tokens():
    from olmo_core.train import TrainerConfig
    from olmo_core.train.common import Duration

    train = yaml.safe_load(emit(recipe())["train.yaml"])
    config = TrainerConfig.from_dict({"save_folder": "out", **train["trainer"]})
    assert config.max_duration == Duration.tokens(TOKENS)


def test_the_optimizer_decays_every_matrix_but_the_embedding():
    import torch
    from olmo_core.nn.transformer import TransformerConfig
    from olmo_core.optim.scheduler import WSD
    from olmo_core.train.train_module import TransformerTrainModuleConfig

    asked = recipe(model={"model_size": 100_352, "width": 64, "depth": 2})
    train = yaml.safe_load(emit(asked)["train.yaml"])
    config = TransformerTrainModuleConfig.from_dict({**train["train_module"], "rank_microbatch_size": 1024})
    assert isinstance(config.scheduler, WSD)
    assert (config.max_grad_norm, config.max_sequence_length) == (1.0, 1024)
    model = TransformerConfig.llama_like(vocab_size=256, n_heads=4, **train["model"]).build(init_device="cpu")
    optimizer = config.optim.build(model)
    assert type(optimizer) is torch.optim.AdamW
    decay = {}
    for group in optimizer.param_groups:
        assert (group["lr"], tuple(group["betas"])) == (3e-4, (0.9, 0.95))
        decay |= {id(matrix): group["weight_decay"] for matrix in group["params"]}
    found = {name: decay[id(matrix)] for name, matrix in model.named_parameters()}
    assert found["embeddings.weight"] == 0
    assert "lm_head.w_out.weight" not in found  # tied
    assert {name: rate for name, rate in found.items() if name != "embeddings.weight" and rate != 0.1} == {}


def test_a_batch_ramp_ends_at_the_recipes_rate_and_starts_where_the_file_says():
    import torch
    from olmo_core.optim.scheduler import Scheduler
    from olmo_core.train.callbacks import BatchSizeSchedulerCallback
    from olmo_core.train.common import Duration, DurationUnit
    from olmo_core.train.train_module import TransformerTrainModule

    ramp = Schedule(tuple(Segment(TOKENS / 2, size, size, "constant") for size in (2.0**19, 2.0**21)))
    asked = recipe(batch=ramp)
    train = yaml.safe_load(emit(asked)["train.yaml"])
    settings = train["train_module"]
    # The real callback, scheduler and optimizer; a stand-in for the loop around them.
    module = object.__new__(TransformerTrainModule)
    module.optim = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=settings["optim"]["lr"])
    module.scheduler = Scheduler.from_dict(settings["scheduler"])
    batches = train["batch_size_scheduler"]
    callback = BatchSizeSchedulerCallback(
        batch_sizes=batches["batch_sizes"],
        schedule=[Duration(point["value"], DurationUnit(point["unit"])) for point in batches["schedule"]],
    )
    loader = SimpleNamespace(global_batch_size=train["data_loader"]["global_batch_size"], batches_processed=0)
    callback.trainer = SimpleNamespace(
        data_loader=loader,
        train_module=module,
        callbacks={},
        max_tokens=TOKENS,
        max_duration=Duration.tokens(TOKENS),
        global_step=0,
        global_train_tokens_seen=0,
        epoch=1,
    )
    callback.post_attach()
    seen, sizes, found = [], [], []
    while callback.trainer.global_train_tokens_seen < TOKENS:
        callback.pre_load_batch()
        group = module.optim.param_groups[0]
        seen.append(callback.trainer.global_train_tokens_seen)
        sizes.append(loader.global_batch_size)
        found.append(float(module.scheduler.set_lr(group, callback.trainer)))
        callback.trainer.global_train_tokens_seen += loader.global_batch_size
        callback.trainer.global_step += 1
        loader.batches_processed += 1
    # It waits for a step that the larger batch divides: at most 3 small ones.
    switch = seen[sizes.index(2**21)]
    assert TOKENS / 2 <= switch <= TOKENS / 2 + 4 * 2**19
    expected = asked.learning_rate(np.array(seen)) * np.where(np.array(sizes) == 2**21, 1.0, 0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-15)
