"""The transformer proxy: trains a small decoder-only language model on a mixture and measures it on every target.

The network is that of `mixopt.proxy.model`; AdamW with betas 0.9 and 0.95, weight decay 0.1 on all but the embedding,
gradients clipped to norm 1. The decay follows the schedule and not the learning-rate factor of a matrix, so a wide or
deep model forgets as fast as any other (Wang & Aitchison 2024, arXiv:2405.13698). The learning rate of a step is the
schedule's at the middle of its tokens, so the first step of a warm-up is not idle. A CPU runs it in fp32 on one
thread, because several runs side by side use the cores better than several threads; a GPU in bf16 autocast. The same
settings on the same CPU give the same losses to the last bit.
"""

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixopt import _discover
from mixopt.columns import Array
from mixopt.proxy.data import TokenData
from mixopt.proxy.face import Progress, Result
from mixopt.proxy.model import Network, build, losses
from mixopt.proxy.shape import LARGEST_SIZE, SMALLEST_SIZE, shape
from mixopt.sampling.stream import Stream, draw
from mixopt.sweep.settings import RunSettings

BETAS = (0.9, 0.95)
WEIGHT_DECAY = 0.1
CLIP_NORM = 1.0

TARGET_TOKENS = 16_384
"""Held-out tokens that a target is measured on, at most: the same ones in every run, evenly spread over its text."""

HELD_OUT_TOKENS = 40_960
"""Held-out tokens of all targets together, at most; they take less than a tenth of a run of 150k tokens."""

HELD_OUT_WINDOWS = 32
"""Sequences for which TARGET_TOKENS has room: where they are longer than 512 tokens, both limits grow with them."""

DIVERGED_BY = 1.0
"""Nats per token above the first step's loss, once warm, at which a run is given up."""

_READ_TOKENS = 1 << 16
_MICRO_TOKENS = 1 << 16  # a batch of more goes through the network in parts, so that memory does not limit the batch
_SCORE_TOKENS = 1 << 12


def train(
    settings: RunSettings,
    data: TokenData,
    *,
    sequence_length: int = 128,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Result:
    """Train one transformer on a mixture and measure its loss on every target.

    `peak_lr` is the learning rate of the embedding, and of the hidden matrices at width 64 and depth 2; those of
    another shape take `lr_factor(shape)` of it, so that one `peak_lr` serves all sizes. The run has
    round(tokens / sequence_length) sequences; the last step takes what is left. It is given up, as "diverged", when
    the training loss is no number or, after the warm-up, exceeds that of the first step by 1 nat; the losses are then
    those of the model as it is, `inf` where they are no number, and `steps`, `flops`, `epochs` and `realized` tell how
    far it came.

    Parameters
    ----------
    settings : the run; `model_size` 2e4 to 5e8, `batch_tokens` a multiple of `sequence_length`, `peak_lr` above 0
    data : the study's tokens
    sequence_length : tokens; the context in training and in measuring
    device : "cpu", or "cuda" for a GPU
    progress : called after each step

    Raises
    ------
    ValueError
        A setting is missing or out of range, or a target is shorter than one sequence.
    """
    size, batch_tokens, peak_lr = _checked(settings, sequence_length)
    held_out = {target: _held_out(target, data, sequence_length) for target in data.valid}
    count = max(1, round(settings.tokens / sequence_length))
    stream = draw(data.train, settings.mixture, settings.unique_tokens, count, sequence_length, settings.seed)
    with _one_thread(), torch.autocast(torch.device(device).type, torch.bfloat16, enabled=device != "cpu"):
        began = _clock(device)
        network = build(shape(size), data.vocabulary, seed=settings.seed, device=device)
        edges = np.minimum(
            np.arange(0, count + batch_tokens // sequence_length, batch_tokens // sequence_length), count
        )
        schedule = getattr(_discover.load("schedules", settings.schedule), settings.schedule)
        rates = schedule(peak_lr, count * sequence_length)((edges[1:] + edges[:-1]) / 2 * sequence_length)
        done = _fit(network, stream, edges.tolist(), rates.tolist(), device, progress)
        loss = {target: _score(network, windows, device) for target, windows in held_out.items()}
        seconds = _clock(device) - began
    seen = stream.first(int(edges[done]))
    bits = {target: len(data.valid[target]) / data.valid_bytes[target] / math.log(2) for target in loss}
    return Result(
        status="finished" if done == len(rates) else "diverged",
        loss=loss,
        bits_per_byte={target: loss[target] * bits[target] for target in loss},
        epochs=seen.epochs,
        realized=seen.realized,
        steps=done,
        flops=6.0 * network.model_size * len(seen) * sequence_length,
        seconds=seconds,
        model_size=network.model_size,
    )


def _checked(settings: RunSettings, sequence_length: int) -> tuple[int, int, float]:
    size, batch_tokens, peak_lr = settings.model_size, settings.batch_tokens, settings.peak_lr
    if size is None or batch_tokens is None or peak_lr is None:
        missing = [name for name in ("model_size", "batch_tokens", "peak_lr") if getattr(settings, name) is None]
        raise ValueError(f"run {settings.id}: {' and '.join(missing)} missing; a transformer needs them. Set them.")
    if not SMALLEST_SIZE <= size <= LARGEST_SIZE:
        raise ValueError(
            f"run {settings.id}: model_size {size:g}; a transformer here has 2e4 to 5e8 non-embedding parameters. "
            "Choose a number between."
        )
    if batch_tokens < 1 or batch_tokens % sequence_length:
        near = max(1, round(batch_tokens / sequence_length)) * sequence_length
        raise ValueError(
            f"run {settings.id}: batch_tokens {batch_tokens} is not a multiple of the sequence length "
            f"{sequence_length}. The nearest that is: {near}."
        )
    if not 0 < peak_lr < math.inf:
        raise ValueError(f"run {settings.id}: peak_lr {peak_lr}; it must be above 0 and finite. Start from 0.006.")
    return size, batch_tokens, peak_lr


def _held_out(target: str, data: TokenData, length: int) -> Array:
    """Windows [s, length + 1] of a target that every run is measured on."""
    tokens = data.valid[target]
    room = max(1.0, HELD_OUT_WINDOWS * length / TARGET_TOKENS)
    wanted = int(room * min(TARGET_TOKENS, HELD_OUT_TOKENS // len(data.valid)))
    windows = min((len(tokens) - 1) // length, max(1, wanted // length))
    if windows < 1:
        raise ValueError(
            f"target {target!r} has {len(tokens)} held-out tokens; a sequence takes {length + 1}. "
            "Hold out more text, or shorten sequence_length."
        )
    starts = np.linspace(0, len(tokens) - 1 - length, windows).astype(np.int64)
    return tokens[starts[:, None] + np.arange(length + 1)]


def _fit(
    network: Network, stream: Stream, edges: list[int], rates: list[float], device: str, progress: Progress | None
) -> int:
    """Train, and count the steps taken: as many as rates, fewer if the run diverged."""
    optimizer = _optimizer(network)
    gradients = [group.flat.grad for group in network.groups if group.flat.grad is not None]
    warm = rates.index(max(rates))
    begin, read, ahead, initial = 0, 0, torch.empty(0), math.inf
    for step, (first, last) in enumerate(pairwise(edges)):
        if last > read:
            # Batches are gathered many at a time; one by one, the gathering would cost as much as a small step.
            begin, read = first, min(len(stream), last + _READ_TOKENS // stream.sequence_length)
            ahead = _tensor(stream.tokens(begin, read), device)
        for gradient in gradients:
            gradient.zero_()
        value = _backward(network, ahead[first - begin : last - begin])
        initial = min(initial, value) if step == 0 else initial
        if not math.isfinite(value) or (step > warm and value > initial + DIVERGED_BY):
            return step
        _clip(gradients)
        for group, options in zip(network.groups, optimizer.param_groups, strict=True):
            options["lr"] = rates[step] * group.lr_factor
        optimizer.step()
        torch.clear_autocast_cache()  # or the next step would use bf16 copies of the matrices from before this one
        if progress is not None:
            progress(step + 1, len(rates), value)
    return len(rates)


def _backward(network: Network, batch: Tensor) -> float:
    """Mean loss of a batch, whose gradient is added to the network's, a micro-batch at a time."""
    value = torch.zeros((), device=batch.device)
    for part in batch.split(max(1, _MICRO_TOKENS // (batch.shape[1] - 1))):
        loss = losses(network, part) * (len(part) / len(batch))
        loss.backward()
        value += loss.detach()
    return value.item()


def _optimizer(network: Network) -> torch.optim.Optimizer:
    # AdamW multiplies the decay by the learning rate of the group: divided by the factor, the schedule's is left.
    groups: list[dict[str, Any]] = [
        {"params": [group.flat], "weight_decay": WEIGHT_DECAY / group.lr_factor if group.decays else 0.0}
        for group in network.groups
    ]
    return torch.optim.AdamW(groups, lr=1.0, betas=BETAS, fused=True)


def _clip(gradients: list[Tensor]) -> None:
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    shrink = (CLIP_NORM / norm).clamp_(max=1.0)
    for gradient in gradients:
        gradient.mul_(shrink)


@torch.no_grad()
def _score(network: Network, windows: Array, device: str) -> float:
    """Mean loss over all tokens of the windows [nats per token]; inf where it is no number."""
    pieces = _tensor(windows, device).split(max(1, _SCORE_TOKENS // windows.shape[1]))
    total = sum(losses(network, piece).item() * len(piece) for piece in pieces)
    return total / len(windows) if math.isfinite(total) else math.inf


def _tensor(tokens: Array, device: str) -> Tensor:
    return torch.from_numpy(tokens.astype(np.int32)).to(device)


def _clock(device: str) -> float:
    # CPU seconds of this thread alone, so that a busy machine does not make a run look dear.
    return time.thread_time() if device == "cpu" else time.perf_counter()


@contextmanager
def _one_thread() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
