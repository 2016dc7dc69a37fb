"""The transformer against laws of nature (entropy, causality, symmetry) and the promises of muP."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mixopt.columns import Array
from mixopt.proxy.data import TokenData
from mixopt.proxy.face import Result
from mixopt.sweep.settings import RunSettings

torch = pytest.importorskip("torch", reason="the transformer proxy needs torch")

from torch.nn import functional as F  # noqa: E402

from mixopt.proxy import transformer  # noqa: E402
from mixopt.proxy.model import Network, build, logits, losses, rms_norm, rotate, states  # noqa: E402
from mixopt.proxy.shape import LARGEST_SIZE, SMALLEST_SIZE, Shape, shape  # noqa: E402
from mixopt.proxy.transformer import train  # noqa: E402

STATES = 32


def chain(seed: int) -> Array:
    """Transition probabilities [32, 32] of a Markov chain."""
    return np.random.default_rng(seed).dirichlet(np.full(STATES, 0.1), size=STATES)


def walk(chances: Array, n: int, rng: np.random.Generator) -> Array:
    edges, draws, state = np.cumsum(chances, axis=1), rng.random(n), 0
    tokens = np.empty(n, dtype=np.uint16)
    for place in range(n):
        state = min(int(np.searchsorted(edges[state], draws[place])), STATES - 1)
        tokens[place] = state
    return tokens


def entropy_rate(chances: Array) -> float:
    stationary = np.linalg.matrix_power(chances, 1000)[0]
    return float(-(stationary[:, None] * chances * np.log(chances + 1e-300)).sum())


def unigram_entropy(tokens: Array) -> float:
    shares = np.bincount(tokens, minlength=STATES) / len(tokens)
    return float(-(shares * np.log(shares + 1e-300)).sum())


@pytest.fixture(scope="module")
def data() -> TokenData:
    """Two corpora that are Markov chains of known entropy, and held-out text of each."""
    rng = np.random.default_rng(5)
    named = {"ash": chain(1), "birch": chain(2)}
    return TokenData(
        train={name: walk(chances, 20_000, rng) for name, chances in named.items()},
        valid={name: walk(chances, 6_000, rng) for name, chances in named.items()},
        bytes_per_token_train={name: 2.0 for name in named},
        valid_bytes={name: 12_000 for name in named},
        vocabulary=STATES,
        tokenizer_path=Path("none"),
        documents={name: 1 for name in named},
    )


def settings(**changes: object) -> RunSettings:
    run = RunSettings(
        "transformer",
        tokens=32_000,
        mixture={"ash": 0.75, "birch": 0.25},
        unique_tokens={"ash": 20_000, "birch": 4_000},
        seed=0,
        model_size=20_000,
        batch_tokens=512,
        peak_lr=0.01,
    )
    return replace(run, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def result(data: TokenData) -> Result:
    return train(settings(), data, sequence_length=64)


def test_held_out_loss_is_between_the_entropy_rate_and_the_unigram_entropy(data: TokenData, result: Result) -> None:
    for seed, name in ((1, "ash"), (2, "birch")):
        # Nothing beats the entropy rate of the source, but for the chance of a finite held-out text.
        assert entropy_rate(chain(seed)) - 0.05 < result.loss[name] < unigram_entropy(data.valid[name])
    assert result.status == "finished"


def test_bits_per_byte_are_the_nats_per_token_in_other_units(result: Result) -> None:
    for name, loss in result.loss.items():
        assert result.bits_per_byte[name] == pytest.approx(loss / math.log(2) * 6_000 / 12_000)


def test_a_run_accounts_for_its_tokens(result: Result) -> None:
    assert result.model_size == shape(20_000).model_size
    assert result.steps == math.ceil(32_000 / 512)
    assert result.flops == 6 * shape(20_000).model_size * 32_000
    assert abs(result.realized["ash"] - 0.75) < 1 / 500
    assert result.epochs["birch"] == pytest.approx(result.realized["birch"] * (32_000 / 64) / (4_000 // 64))
    assert result.seconds > 0


def test_the_same_seed_gives_the_same_bits_and_another_does_not(data: TokenData, result: Result) -> None:
    assert train(settings(), data, sequence_length=64).loss == result.loss
    short = settings(tokens=2048)
    assert train(short, data).loss != train(replace(short, seed=1), data).loss


def test_more_of_a_corpus_is_better_for_it(data: TokenData, result: Result) -> None:
    swapped = train(settings(mixture={"ash": 0.25, "birch": 0.75}), data, sequence_length=64)
    assert swapped.loss["birch"] < result.loss["birch"]
    assert swapped.loss["ash"] > result.loss["ash"]


def test_a_tiny_corpus_that_repeats_is_memorized(data: TokenData) -> None:
    seen: list[float] = []
    run = settings(mixture={"ash": 1.0}, unique_tokens={"ash": 128}, tokens=64_000)
    found = train(run, data, sequence_length=64, progress=lambda step, steps, loss: seen.append(loss))
    assert found.epochs == {"ash": 500.0, "birch": 0.0}
    assert seen[-1] < 0.5 * entropy_rate(chain(1)) < found.loss["ash"]


def test_an_absurd_learning_rate_is_recorded_as_diverged(data: TokenData) -> None:
    found = train(settings(peak_lr=1e4), data, sequence_length=64)
    assert found.status == "diverged"
    assert found.steps < 63
    assert found.flops == 6 * shape(20_000).model_size * found.steps * 512
    assert all(loss > math.log(STATES) for loss in found.loss.values())


def test_a_loss_that_is_no_number_is_recorded_as_infinite(data: TokenData, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> "torch.Tensor":
        return torch.tensor(math.nan, requires_grad=True)

    monkeypatch.setattr(transformer, "losses", broken)
    found = train(settings(), data, sequence_length=64)
    assert (found.status, found.steps, found.flops) == ("diverged", 0, 0.0)
    assert found.loss == {"ash": math.inf, "birch": math.inf} == found.bits_per_byte


def test_progress_is_told_of_every_step(data: TokenData) -> None:
    told: list[tuple[int, int]] = []
    train(settings(tokens=3_000), data, progress=lambda step, steps, loss: told.append((step, steps)))
    assert told == [(step, 6) for step in range(1, 7)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peak_lr": None, "model_size": None}, r"model_size and peak_lr missing; a transformer needs them"),
        ({"batch_tokens": 500}, r"batch_tokens 500 is not a multiple of the sequence length 128\. .* is: 512"),
        ({"peak_lr": 0.0}, r"peak_lr 0\.0; it must be above 0 and finite\. Start from"),
        ({"model_size": 100}, r"model_size 100; a transformer here has 2e4 to 5e8 non-embedding parameters"),
        ({"model_size": 10**9}, r"model_size 1e\+09; a transformer here has 2e4 to 5e8 non-embedding parameters"),
        ({"schedule": "cosin"}, r"mixopt\.schedules has no 'cosin'; it has .*cosine"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused(data: TokenData, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(settings(**changes), data)


def test_a_target_shorter_than_a_sequence_is_refused(data: TokenData) -> None:
    short = replace(data, valid={"ash": data.valid["ash"][:100]})
    with pytest.raises(ValueError, match=r"target 'ash' has 100 held-out tokens; a sequence takes 129\. Hold out more"):
        train(settings(), short)


def test_a_shape_hits_any_size_within_3_percent() -> None:
    shapes = [(size, shape(size)) for size in np.geomspace(20e3, 1e12, 400)]
    for size, found in shapes:
        assert found.model_size == pytest.approx(size, rel=0.03)
        assert found.width % found.heads == 0
        assert found.width // found.heads % 2 == 0
        assert 1.3 < found.hidden / found.width < 5
    assert [found.depth for _, found in shapes] == sorted(found.depth for _, found in shapes)
    assert shape(100e6).depth == 12
    assert all(shape(size).model_size == pytest.approx(size, rel=0.03) for size in (SMALLEST_SIZE, LARGEST_SIZE))


@pytest.mark.parametrize(
    ("size", "width", "depth"),
    # OLMo 2 1B, Llama 7B, 13B and 65B (arXiv:2302.13971), GPT-3 175B; by their non-embedding parameters.
    [(1.07e9, 2048, 16), (6.5e9, 4096, 32), (12.7e9, 5120, 40), (64.7e9, 8192, 80), (174e9, 12288, 96)],
)
def test_large_shapes_resemble_published_ones(size: float, width: int, depth: int) -> None:
    assert shape(size).width == pytest.approx(width, rel=0.13)
    assert shape(size).depth == pytest.approx(depth, rel=0.3)


@pytest.mark.parametrize("size", [1e4, 2e12, math.nan])
def test_a_size_without_a_shape_is_refused(size: float) -> None:
    with pytest.raises(ValueError, match=r"model_size .*; shapes are known for 2e4 to 1e12 .* Choose a number between"):
        shape(size)


@pytest.mark.parametrize("size", [20_000, 75_000, 400_000, 3_000_000])
def test_a_network_has_the_parameters_that_its_shape_claims(size: int) -> None:
    network = build(shape(size), 300, seed=0)
    assert network.model_size == shape(size).model_size
    flat = sum(group.flat.numel() for group in network.groups)
    assert flat == network.model_size + 300 * shape(size).width


def network_and_tokens(seed: int = 0) -> tuple[Network, "torch.Tensor"]:
    random = torch.Generator().manual_seed(seed)
    return build(Shape(32, 2, 2, 48), STATES, seed=seed), torch.randint(STATES, (3, 17), generator=random)


def test_attention_is_causal() -> None:
    network, tokens = network_and_tokens()
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % STATES
    before, after = logits(network, tokens), logits(network, changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert not torch.isclose(before[:, 9:], after[:, 9:]).all(-1).any()


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    random = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 16, generator=random).expand(20, 2, 16).transpose(0, 1)[:, None, :, None]
    angle = torch.outer(torch.arange(20), 10_000.0 ** -(torch.arange(0, 16, 2) / 16))
    rotation = torch.polar(torch.ones_like(angle), angle)[:, None]
    scores = rotate(query, rotation)[0, :, 0] @ rotate(key, rotation)[0, :, 0].T
    for distance in range(-10, 10):
        along = scores.diagonal(distance)
        assert torch.allclose(along, along[0].expand_as(along), atol=1e-4)
    assert scores.std() > 0.1


def test_norm_and_loss_have_the_values_and_gradients_of_torch() -> None:
    network, tokens = network_and_tokens()
    x = torch.randn(4, 32, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(rms_norm(x), F.rms_norm(x, (32,)), atol=1e-4)
    assert torch.autograd.gradcheck(rms_norm, (x,), atol=1e-4)
    losses(network, tokens).backward()
    own = [group.flat.grad.clone() for group in network.groups if group.flat.grad is not None]
    for group in network.groups:
        group.flat.grad.zero_()  # type: ignore[union-attr]
    plain = F.cross_entropy(logits(network, tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    plain.backward()
    assert losses(network, tokens).item() == pytest.approx(plain.item(), rel=1e-6)
    for mine, group in zip(own, network.groups, strict=True):
        assert torch.allclose(mine, group.flat.grad, atol=1e-6)  # type: ignore[arg-type]


def test_bf16_autocast_gives_the_loss_of_fp32() -> None:
    network, tokens = network_and_tokens()
    with torch.autocast("cpu", torch.bfloat16):
        half = losses(network, tokens)
    half.backward()
    assert half.item() == pytest.approx(losses(network, tokens).item(), rel=0.01)
    assert all(torch.isfinite(group.flat.grad).all() for group in network.groups)  # type: ignore[arg-type]


def test_bf16_steps_leave_no_old_copies_of_the_matrices(data: TokenData) -> None:
    network, tokens = network_and_tokens()
    stream = transformer.draw(data.train, {"ash": 1.0}, {"ash": 20_000}, 4, 32, 0)
    with torch.autocast("cpu", torch.bfloat16):
        transformer._fit(network, stream, [0, 2, 4], [0.1] * 2, "cpu", None)
        found = losses(network, tokens).item()
    with torch.autocast("cpu", torch.bfloat16):
        assert losses(network, tokens).item() == found


@pytest.mark.parametrize("micro_tokens", [100, 128, 64 * 7])
def test_micro_batches_have_the_loss_and_gradient_of_the_batch(
    micro_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = torch.randint(STATES, (13, 65), generator=torch.Generator().manual_seed(1))
    whole, parts = network_and_tokens()[0], network_and_tokens()[0]
    value = transformer._backward(whole, tokens)
    calls: list[int] = []
    monkeypatch.setattr(transformer, "_MICRO_TOKENS", micro_tokens)
    monkeypatch.setattr(
        transformer, "losses", lambda network, part: (calls.append(part[:, 1:].numel()), losses(network, part))[1]
    )
    assert transformer._backward(parts, tokens) == pytest.approx(value, rel=1e-6)
    assert len(calls) > 1
    assert max(calls) <= micro_tokens
    for one, other in zip(whole.groups, parts.groups, strict=True):
        assert torch.allclose(one.flat.grad, other.flat.grad, rtol=1e-4, atol=1e-7)  # type: ignore[arg-type]


def test_the_decay_of_a_step_is_that_of_the_schedule_at_any_shape() -> None:
    for found in (Shape(64, 2, 4, 96), Shape(128, 8, 8, 96)):
        network = build(found, STATES, seed=0)
        before = [group.flat.detach().clone() for group in network.groups]
        optimizer = transformer._optimizer(network)
        for group, options in zip(network.groups, optimizer.param_groups, strict=True):
            options["lr"] = 0.01 * group.lr_factor
        optimizer.step()  # with a gradient of zero
        kept = [float((group.flat / old).mean()) for group, old in zip(network.groups, before, strict=True)]
        assert kept == pytest.approx([1.0, 1 - 0.01 * transformer.WEIGHT_DECAY], abs=1e-6)


def change_of_states(width: int, depth: int, data: TokenData, *, scaled: bool) -> float:
    """RMS change of the final states after 4 steps of the hidden matrices alone."""
    network = build(Shape(width, depth, width // 16, 2 * width), STATES, seed=0)
    embedding, hidden = network.groups
    hidden = hidden if scaled else replace(hidden, lr_factor=1.0)
    network = replace(network, groups=(replace(embedding, lr_factor=0.0), hidden))
    tokens = torch.from_numpy(data.train["ash"][: 8 * 33].reshape(8, 33).astype(np.int64))
    with torch.no_grad():
        before = states(network, tokens)
    stream = transformer.draw(data.train, {"ash": 1.0}, {"ash": 20_000}, 32, 32, 0)
    transformer._fit(network, stream, [0, 8, 16, 24, 32], [0.004] * 4, "cpu", None)
    with torch.no_grad():
        return float((states(network, tokens) - before).square().mean().sqrt())


def test_updates_do_not_depend_on_the_width_and_would_without_the_scaling(data: TokenData) -> None:
    widths = (32, 64, 128, 256)
    changes = [change_of_states(width, 2, data, scaled=True) for width in widths]
    assert max(changes) / min(changes) < 1.4
    control = [change_of_states(width, 2, data, scaled=False) for width in widths]
    assert max(control) / min(control) > 2.5


def test_updates_do_not_depend_on_the_depth_and_would_without_the_scaling(data: TokenData) -> None:
    depths = (2, 8, 32)
    changes = [change_of_states(64, depth, data, scaled=True) for depth in depths]
    control = [change_of_states(64, depth, data, scaled=False) for depth in depths]
    assert max(changes) / min(changes) < 1.15
    assert max(control) / min(control) > 1.4


@pytest.mark.slow
def test_the_best_learning_rate_does_not_move_with_the_width(data: TokenData, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [0.002 * 2**step for step in range(7)]
    best: list[int] = []
    for width in (32, 128):
        monkeypatch.setattr(transformer, "shape", lambda size, width=width: Shape(width, 2, width // 16, 2 * width))
        runs = [train(settings(peak_lr=rate, tokens=64_000), data, sequence_length=64) for rate in rates]
        best.append(int(np.argmin([sum(run.loss.values()) for run in runs])))
    assert 0 < best[0] < len(rates) - 1
    assert abs(best[0] - best[1]) <= 1


@pytest.mark.parametrize(("targets", "tokens"), [(1, 16_384), (5, 8_192)])
@pytest.mark.parametrize(("length", "room"), [(128, 1), (512, 1), (1024, 2)])
def test_targets_are_measured_on_the_same_windows_spread_over_their_text(
    targets: int, tokens: int, length: int, room: int
) -> None:
    valid = {f"target {index}": np.arange(50_000, dtype=np.uint16) for index in range(targets)}
    data = TokenData({}, valid, {}, {}, 60_000, Path("none"), {})
    windows = transformer._held_out("target 0", data, length)
    assert windows.shape == (room * tokens // length, length + 1)
    assert (windows[0, 0], windows[-1, -1]) == (0, 49_999)
    inputs = windows[:, :-1]
    assert len(np.unique(inputs)) == inputs.size
    assert np.ptp(np.diff(windows[:, 0].astype(int))) <= 1
