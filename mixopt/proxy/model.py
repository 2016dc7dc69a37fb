"""The network: a decoder-only transformer with RMSNorm, rotary positions, QK-norm, SwiGLU and tied embeddings.

One `peak_lr` serves every size. Width scales by muP (Yang et al. 2022, *Tensor Programs V*, arXiv:2203.03466): hidden
matrices start with variance 1 / fan_in and learn at BASE_WIDTH / width of the learning rate, the embedding learns at
all of it, and the logits shrink by BASE_WIDTH / width. QK-norm makes attention independent of the width. Depth scales
by depth-muP (Yang et al. 2023, arXiv:2310.02244): residual branches of 1 / sqrt(2 depth), and hidden matrices that
learn at sqrt(BASE_DEPTH / depth) of that. Norms have no gains and layers no biases: every parameter is in a matrix.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mixopt.proxy.shape import BASE_WIDTH, Shape, lr_factor

EMBEDDING_STD = 0.05
"""Standard deviation of the embedding at the start; the learning rate moves it by that much in about 1/lr steps."""

LOGIT_SCALE = 2.0
"""Factor on the logits at the base width: normed state times embedding is of order sqrt(width) without it."""

_EPSILON = 1e-6


@dataclass(frozen=True)
class Group:
    """Matrices that share a learning rate and a weight decay, as views into one flat array and its flat gradient."""

    flat: Tensor
    matrices: tuple[Tensor, ...]
    lr_factor: float
    decays: bool


@dataclass(frozen=True)
class Network:
    """The matrices of one model: embedding [V, w], and per layer qkv [3w, w], out [w, w], up [2h, w], down [w, h]."""

    shape: Shape
    groups: tuple[Group, ...]
    embedding: Tensor
    layers: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...]

    @property
    def model_size(self) -> int:
        """Non-embedding parameters, counted on the matrices themselves."""
        return sum(matrix.numel() for layer in self.layers for matrix in layer)


def build(shape: Shape, vocabulary: int, *, seed: int, device: str = "cpu") -> Network:
    """A fresh network: hidden matrices N(0, 1/fan_in), embedding N(0, EMBEDDING_STD^2).

    Learning-rate factors: embedding 1, a hidden matrix `lr_factor(shape)`.
    """
    random = torch.Generator().manual_seed(seed)
    w, h = shape.width, shape.hidden
    sizes = [(3 * w, w), (w, w), (2 * h, w), (w, h)] * shape.depth
    embedding = _group([(vocabulary, w)], [EMBEDDING_STD], 1.0, False, random, device)
    hidden = _group(sizes, [fan_in**-0.5 for _, fan_in in sizes], lr_factor(shape), True, random, device)
    layers = tuple((m[0], m[1], m[2], m[3]) for m in (hidden.matrices[i : i + 4] for i in range(0, len(sizes), 4)))
    return Network(shape, (embedding, hidden), embedding.matrices[0], layers)


def _group(
    sizes: list[tuple[int, int]],
    stds: list[float],
    lr_factor: float,
    decays: bool,
    random: torch.Generator,
    device: str,
) -> Group:
    # One flat array a group: an optimizer step is then a handful of operations however many layers there are.
    flat = torch.empty(sum(rows * columns for rows, columns in sizes), device=device)
    flat.grad = torch.zeros_like(flat)
    matrices: list[Tensor] = []
    first = 0
    for (rows, columns), std in zip(sizes, stds, strict=True):
        span = slice(first, first + rows * columns)
        flat[span] = torch.randn(rows * columns, generator=random).mul_(std).to(device)
        matrix = flat[span].view(rows, columns).detach().requires_grad_()
        matrix.grad = flat.grad[span].view(rows, columns)
        matrices.append(matrix)
        first = span.stop
    return Group(flat, tuple(matrices), lr_factor, decays)


def states(network: Network, tokens: Tensor) -> Tensor:
    """Normed final states [B, T, w] of tokens [B, T]; state t depends on tokens 0..t alone."""
    size = network.shape
    branch = (2 * size.depth) ** -0.5
    rotation = _rotation(tokens.shape[1], size.width // size.heads, tokens.device)
    x = rms_norm(F.embedding(tokens, network.embedding))
    for qkv, out, up, down in network.layers:
        x = torch.add(x, F.linear(_attention(rms_norm(x), qkv, size.heads, rotation), out), alpha=branch)
        gate, value = F.linear(rms_norm(x), up).chunk(2, -1)
        x = torch.add(x, F.linear(F.silu(gate) * value, down), alpha=branch)
    return rms_norm(x)


def logits(network: Network, tokens: Tensor) -> Tensor:
    """Logits [B, T, V] of the next token."""
    return F.linear(states(network, tokens), network.embedding) * logit_factor(network)


def losses(network: Network, tokens: Tensor) -> Tensor:
    """Mean loss [nats per token] of sequences [B, T + 1]: token t + 1 from tokens 0..t."""
    found = states(network, tokens[:, :-1]).flatten(0, 1)
    return _CrossEntropy.apply(found, network.embedding, tokens[:, 1:].flatten(), logit_factor(network))  # type: ignore[no-any-return]


def logit_factor(network: Network) -> float:
    """Factor from state times embedding to logits: LOGIT_SCALE * BASE_WIDTH / width."""
    return LOGIT_SCALE * BASE_WIDTH / network.shape.width


def _attention(x: Tensor, qkv: Tensor, heads: int, rotation: Tensor) -> Tensor:
    size = x.shape[-1] // heads
    packed = F.linear(x, qkv).unflatten(-1, (3 * heads, size))
    turned = rotate(rms_norm(packed[:, :, : 2 * heads]), rotation)
    q, k = turned.transpose(1, 2).chunk(2, 1)
    v = packed[:, :, 2 * heads :].transpose(1, 2)
    return F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), is_causal=True).transpose(1, 2).flatten(2)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021, arXiv:2104.09864): neighboring pairs of x [B, T, h, d] turned in the plane."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * rotation).flatten(-2).to(x.dtype)


@cache
def _rotation(length: int, size: int, device: torch.device) -> Tensor:
    angle = torch.outer(torch.arange(length), 10_000.0 ** -(torch.arange(0, size, 2) / size))
    return torch.polar(torch.ones_like(angle), angle)[:, None, :].to(device)


def rms_norm(x: Tensor) -> Tensor:
    """x / sqrt(mean x^2) over the last axis, without gains."""
    return _RmsNorm.apply(x)  # type: ignore[no-any-return]


class _RmsNorm(torch.autograd.Function):
    """Half the time of `F.rms_norm` on a CPU, which is a chain of five operations there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        wide = torch.promote_types(x.dtype, torch.float32)
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
        inverse = norm.add_(_EPSILON).reciprocal_().mul_(math.sqrt(x.shape[-1])).to(x.dtype)
        y = x * inverse
        ctx.save_for_backward(y, inverse)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        y, inverse = ctx.saved_tensors
        along = (grad * y).mean(-1, keepdim=True)
        return torch.addcmul(grad, y, along, value=-1).mul_(inverse)


class _CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of `scale * states @ embedding.T`, in chunks that stay in the cache, gradients on the way.

    The logits of a batch are the largest array of a small model: they are read once here and never kept.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, embedding: Tensor, labels: Tensor, scale: float) -> Tensor:  # type: ignore[override]
        device = states.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        found, weights, labels = states.to(kind), embedding.to(kind), labels.long()
        rows = max(64, (1 << 18 if device == "cpu" else 1 << 26) // embedding.shape[0])
        total = states.new_zeros((), dtype=torch.float32)
        ctx.gradients = grads = (torch.empty_like(states), torch.zeros_like(embedding)) if states.requires_grad else ()
        for first in range(0, len(labels), rows):
            part, label = found[first : first + rows], labels[first : first + rows, None]
            chance = (part * scale @ weights.T).float().softmax(-1)
            total -= chance.gather(1, label).log_().sum()
            if grads:
                error = chance.scatter_add_(1, label, chance.new_full(label.shape, -1.0)).to(kind)
                grads[0][first : first + rows] = error @ weights
                grads[1].add_(error.T @ part)
        ctx.factor = scale / len(labels)
        return total / len(labels)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        factor = grad * ctx.factor
        return ctx.gradients[0].mul_(factor), ctx.gradients[1].mul_(factor), None, None
