"""From token ids back to bytes, by the vocabulary of a byte-level BPE `tokenizer.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixopt.columns import Array

SPECIAL = b"\0"
"""What a special token such as <eos> becomes: one byte that text does not hold."""


@dataclass(frozen=True)
class TokenBytes:
    """The bytes of every token id, end to end."""

    joined: Array
    """[b] uint8"""
    starts: Array
    """[v] where each token's bytes begin in `joined`"""
    lengths: Array
    """[v] bytes of each token"""
    special: Array
    """[v] True for a token that stands for no text"""

    def decode(self, tokens: Array) -> Array:
        """The bytes of a sequence of tokens, [n] uint8."""
        return self.joined[spans(self.starts[tokens], self.lengths[tokens])]


def spans(starts: Array, lengths: Array) -> Array:
    """The places in stretches of an array, end to end.

    >>> spans(np.array([7, 2]), np.array([2, 3]))
    array([7, 8, 2, 3, 4])
    """
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def read_token_bytes(path: Path) -> TokenBytes:
    """Read the vocabulary of a `tokenizer.json`.

    Raises
    ------
    ValueError
        If a token is not written in the byte-level alphabet, or an id is missing.
    """
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    vocabulary: dict[int, bytes] = {}
    special = {token["id"]: bool(token["special"]) for token in content.get("added_tokens", ())}
    for token in content.get("added_tokens", ()):
        vocabulary[token["id"]] = SPECIAL if token["special"] else token["content"].encode()
    alphabet = byte_level_alphabet()
    for text, number in content["model"]["vocab"].items():
        if number not in vocabulary:
            vocabulary[number] = _bytes(text, alphabet, path)
    missing = sorted(set(range(len(vocabulary))) - set(vocabulary))
    if missing:
        raise ValueError(f"{path} has no token with id {missing[0]}; ids must run from 0 without a gap.")
    pieces = [vocabulary[number] for number in range(len(vocabulary))]
    lengths = np.array([len(piece) for piece in pieces])
    return TokenBytes(
        np.frombuffer(b"".join(pieces), np.uint8),
        np.cumsum(lengths) - lengths,
        lengths,
        np.array([special.get(number, False) for number in range(len(pieces))]),
    )


def byte_level_alphabet() -> dict[str, int]:
    """The character that stands for each byte in a byte-level vocabulary: itself if it prints, else one from U+0100 on.

    >>> alphabet = byte_level_alphabet()
    >>> alphabet["a"], alphabet["Ġ"]
    (97, 32)
    """
    printing = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(256 + place): byte for place, byte in enumerate(others)}


def _bytes(text: str, alphabet: Mapping[str, int], path: Path) -> bytes:
    try:
        return bytes(alphabet[character] for character in text)
    except KeyError:
        raise ValueError(
            f"{path}: token {text!r} is not in the byte-level alphabet. The ngram proxy needs a byte-level vocabulary."
        ) from None
