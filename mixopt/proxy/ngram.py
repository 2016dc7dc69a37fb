"""The ngram proxy: a byte 6-gram model, which reads a megabyte in a fraction of a second and needs no tuning.

The model is interpolated modified Kneser-Ney, see `mixopt.proxy._kneser_ney`. Settings and losses count in the
tokens of the study's BPE as for any proxy (the nats of a token are those of its bytes); the model sees bytes.
It ranks mixtures; it has no model size, batch size or learning rate. The work is a few sorts on one CPU core,
whatever the device; there are no steps to report.

One epoch at most. Kneser-Ney goes by how many n-grams were seen only once, and in a text read twice there are none:
the discounts lose their meaning, and the loss says nothing of repetition. A corpus whose quota exceeds its unique
tokens is therefore read once in full, its `epochs` is 1.0, and the others keep their quotas. The run then reads
fewer tokens than `settings.tokens`, namely the sum of `epochs * unique_tokens`; `realized` has the shares of these.

Each corpus is cut into windows of max(`sequence_length`, 128) tokens, in an order that depends on the seed and the
corpus's name only: a larger quota extends a smaller one, and mixtures differ in nothing but their shares. No n-gram
runs across windows, which leaves 5 bytes of each uncounted (2 % at 128 tokens of 2 bytes). Of a target longer than
30 kB, 8 evenly spaced chunks of 30 kB together are scored, the same in every run.
"""

import math
import time
import zlib
from collections.abc import Mapping

import numpy as np

from mixopt.columns import Array
from mixopt.proxy._kneser_ney import KneserNey, estimate, log_probabilities
from mixopt.proxy._token_bytes import TokenBytes, read_token_bytes, spans
from mixopt.proxy.data import TokenData
from mixopt.proxy.face import Progress, Result
from mixopt.sweep.settings import RunSettings

ORDER = 6
"""Bytes in the longest n-gram."""

SHORTEST_WINDOW = 128
"""Tokens; each window spends its first ORDER - 1 bytes as history alone, so short windows waste text."""

HELD_OUT_BYTES = 30_000
"""Bytes of each target that are scored, at most."""

HELD_OUT_CHUNKS = 8
"""Places of a longer target that those bytes come from."""


def train(
    settings: RunSettings,
    data: TokenData,
    *,
    sequence_length: int = 128,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Result:
    """Estimate one byte 6-gram model on a mixture and score every target.

    One epoch at most; see the module for what is read and what is scored.

    Parameters
    ----------
    settings : the run; `model_size`, `batch_tokens` and `peak_lr` must be None
    data : the study's tokens
    sequence_length : tokens
    device, progress : not used; the work is done on one CPU core and has no steps

    Raises
    ------
    ValueError
        If the settings have a size, batch or learning rate, name an unknown corpus, claim more unique tokens than the
        corpus has, or leave no text.
    """
    _check(settings, data)
    began = time.thread_time()
    table = read_token_bytes(data.tokenizer_path)
    quotas = _quotas(settings, data)
    text, starts = _text(settings, data, quotas, max(sequence_length, SHORTEST_WINDOW), table)
    model = estimate(text, starts, order=ORDER)
    scores = {target: _score(model, valid, table) for target, valid in data.valid.items()}
    total = sum(quotas.values())
    return Result(
        status="finished",
        loss={target: per_token for target, (per_token, _) in scores.items()},
        bits_per_byte={target: per_byte for target, (_, per_byte) in scores.items()},
        epochs={corpus: quota / settings.unique_tokens.get(corpus, 1) for corpus, quota in quotas.items()},
        realized={corpus: quota / total for corpus, quota in quotas.items()},
        steps=1,
        flops=0.0,
        seconds=time.thread_time() - began,
        model_size=None,
    )


def _check(settings: RunSettings, data: TokenData) -> None:
    for name in ("model_size", "batch_tokens", "peak_lr"):
        if getattr(settings, name) is not None:
            raise ValueError(
                f"run {settings.id}: {name} is {getattr(settings, name)}, but an ngram model has none. Leave it None, "
                "or choose the transformer proxy."
            )
    for corpus in (corpus for corpus, share in settings.mixture.items() if share > 0):
        if corpus not in data.train:
            raise ValueError(f"run {settings.id}: no corpus {corpus!r}; the data has {', '.join(sorted(data.train))}.")
        available, unique = len(data.train[corpus]), settings.unique_tokens.get(corpus, 0)
        if not 1 <= unique <= available:
            raise ValueError(
                f"run {settings.id}: {unique} unique tokens of {corpus}; give 1 to {available}, all it has."
            )


def _quotas(settings: RunSettings, data: TokenData) -> dict[str, int]:
    """Tokens to read of each corpus: its share rounded to a token, at most one epoch."""
    wanted = {corpus: round(settings.mixture.get(corpus, 0.0) * settings.tokens) for corpus in sorted(data.train)}
    if not any(wanted.values()):
        raise ValueError(f"run {settings.id} reads no text; its {settings.tokens} tokens round to none of any corpus.")
    return {corpus: quota and min(quota, settings.unique_tokens[corpus]) for corpus, quota in wanted.items()}


def _text(
    settings: RunSettings, data: TokenData, quotas: Mapping[str, int], window: int, table: TokenBytes
) -> tuple[Array, Array]:
    """The run's text as bytes, and where its windows start."""
    tokens: list[Array] = []
    lengths: list[Array] = []
    for corpus, quota in quotas.items():
        source = data.train[corpus]
        starts, sizes = _windows(len(source), quota, window, [settings.seed, zlib.crc32(corpus.encode())])
        tokens.append(source[spans(starts, sizes)])
        lengths.append(sizes)
    return _decode(np.concatenate(tokens), np.concatenate(lengths), table)


def _windows(n: int, quota: int, window: int, seed: list[int]) -> tuple[Array, Array]:
    """Starts and lengths of windows of n tokens, drawn without replacement; the last is cut to make up `quota`."""
    starts = np.random.default_rng(seed).permutation(-(-n // window)) * window
    sizes = np.minimum(window, n - starts)
    sizes = np.clip(quota - (np.cumsum(sizes) - sizes), 0, sizes)
    return starts[sizes > 0], sizes[sizes > 0]


def _decode(tokens: Array, windows: Array, table: TokenBytes) -> tuple[Array, Array]:
    """Tokens in windows of so many tokens as bytes, and where the windows start in these."""
    before = np.concatenate(([0], np.cumsum(table.lengths[tokens])))
    return table.decode(tokens), before[np.cumsum(windows) - windows]


def _score(model: KneserNey, valid: Array, table: TokenBytes) -> tuple[float, float]:
    """Nats per token and bits per byte of text of a target; special tokens are predicted but are no text."""
    starts, sizes = _held_out(valid, table)
    tokens = valid[spans(starts, sizes)]
    nats = -float(log_probabilities(model, *_decode(tokens, sizes, table)).sum())
    return nats / len(tokens), nats / math.log(2) / int(table.lengths[tokens[~table.special[tokens]]].sum())


def _held_out(valid: Array, table: TokenBytes) -> tuple[Array, Array]:
    """Starts and lengths of the stretches of a target that are scored."""
    share = HELD_OUT_BYTES / int(table.lengths[valid].sum())
    if share >= 1:
        return np.array([0]), np.array([len(valid)])
    length = int(share * len(valid) / HELD_OUT_CHUNKS)
    return np.linspace(0, len(valid) - length, HELD_OUT_CHUNKS).astype(int), np.full(HELD_OUT_CHUNKS, length)
