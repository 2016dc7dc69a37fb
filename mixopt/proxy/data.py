"""TokenData: the corpora and targets of a study as tokens on disk."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixopt.columns import Array
from mixopt.corpora import Corpus, overlap
from mixopt.files import write_bytes

END = "<eos>"
SMALLEST_VOCABULARY = 257
LARGEST_VOCABULARY = 65_535
_SLICE_BYTES = 400_000  # enough for the merges of a vocabulary of some thousands, and read in under a second
_FORMAT = 1  # goes into the digest: a change of the encoding makes old folders be made anew

Texts = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class TokenData:
    """Tokens of each corpus (train) and each target (valid), uint16 and memory-mapped, and their worth in bytes.

    Every document ends in one <eos>, which counts as a token and as no byte. `digest` is that of the texts and of the
    way they were encoded.
    """

    train: Mapping[str, Array]
    valid: Mapping[str, Array]
    bytes_per_token_train: Mapping[str, float]
    valid_bytes: Mapping[str, int]
    vocabulary: int
    tokenizer_path: Path
    documents: Mapping[str, int]
    digest: str = ""


def prepare(
    corpora: Mapping[str, Corpus],
    targets: Texts,
    folder: Path,
    *,
    vocabulary: int = 1024,
    seed: int = 0,
    leakage_limit: float = 0.05,
) -> TokenData:
    """Tokenize corpora and targets into `folder`, or load what is there if it was made of the same content.

    The tokenizer is a byte-level BPE (Sennrich et al. 2016, arXiv:1508.07909) trained on an equally large slice of
    every corpus, so that none is favored by its size; a corpus smaller than the slice is taken whole. Text that leaks
    into a corpus is refused because it flatters the mixtures that repeat it.

    Parameters
    ----------
    targets : held-out texts of each target
    vocabulary : tokens, 257 (every byte and <eos>) to 65535
    seed : chooses the documents of the slices
    leakage_limit : largest share of a target's 60-byte windows that may stand verbatim in one corpus

    Raises
    ------
    ValueError
        The vocabulary does not fit; a corpus or target has no text; a target leaks into a corpus.
    """
    texts = {"train": {name: corpus.train for name, corpus in corpora.items()}, "valid": dict(targets)}
    _check(texts, vocabulary)
    folder = Path(folder)
    digest = _digest(texts, vocabulary, seed)
    if _digest_of(folder) != digest:
        _refuse_leakage(texts["train"], targets, leakage_limit)
        _build(texts, folder, vocabulary, seed, digest)
    return load(folder)


def _check(texts: Mapping[str, Texts], vocabulary: int) -> None:
    if not SMALLEST_VOCABULARY <= vocabulary <= LARGEST_VOCABULARY:
        raise ValueError(
            f"vocabulary {vocabulary}; tokens are kept in 16 bits, so {SMALLEST_VOCABULARY} (every byte and {END}) "
            f"to {LARGEST_VOCABULARY} are accepted. Choose a number between."
        )
    for kind, part in (("corpus", "train"), ("target", "valid")):
        for name, documents in texts[part].items():
            if not any(documents):
                raise ValueError(f"{kind} {name!r} has no text. Name a source that has some, or leave it out.")


def _build(texts: Mapping[str, Texts], folder: Path, vocabulary: int, seed: int, digest: str) -> None:
    tokenizer = _train_tokenizer(texts["train"], vocabulary, seed)
    folder.mkdir(parents=True, exist_ok=True)
    # data.json goes first and comes last: what a stopped run leaves behind is never taken for the whole.
    (folder / "data.json").unlink(missing_ok=True)
    write_bytes(folder / "tokenizer.json", tokenizer.to_str(pretty=False).encode())
    content: dict[str, Any] = {"digest": digest, "vocabulary": tokenizer.get_vocab_size()}
    for part, named in texts.items():
        (folder / part).mkdir(exist_ok=True)
        content[part] = {
            name: _encode(tokenizer, documents, folder / part / f"{name}.npy") for name, documents in named.items()
        }
    write_bytes(folder / "data.json", json.dumps(content, indent=1).encode())


def load(folder: Path) -> TokenData:
    """The tokens that `prepare` left in `folder`, memory-mapped.

    Raises
    ------
    ValueError
        There is no data.json in the folder.
    """
    folder = Path(folder)
    if not (folder / "data.json").exists():
        raise ValueError(f"{folder} has no data.json. Run `prepare` into it first.")
    content = json.loads((folder / "data.json").read_text())
    train, valid = content["train"], content["valid"]
    return TokenData(
        train={name: np.load(folder / "train" / f"{name}.npy", mmap_mode="r") for name in train},
        valid={name: np.load(folder / "valid" / f"{name}.npy", mmap_mode="r") for name in valid},
        bytes_per_token_train={name: entry["bytes"] / entry["tokens"] for name, entry in train.items()},
        valid_bytes={name: entry["bytes"] for name, entry in valid.items()},
        vocabulary=content["vocabulary"],
        tokenizer_path=folder / "tokenizer.json",
        documents={name: entry["documents"] for name, entry in train.items()},
        digest=content["digest"],
    )


def _train_tokenizer(texts: Texts, vocabulary: int, seed: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_slices(texts, seed), trainer)
    tokenizer.encode_special_tokens = True  # a document that says "<eos>" says five characters
    return tokenizer


def _slices(texts: Texts, seed: int) -> Iterator[str]:
    """Documents of each corpus in an order of the seed, until they make up the slice; the last one is cut."""
    for name in sorted(texts):
        documents, left = texts[name], _SLICE_BYTES
        order: list[int] = np.random.default_rng(seed).permutation(len(documents)).tolist()
        for index in order:
            piece = documents[index].encode()[:left].decode(errors="ignore")
            left -= len(piece.encode())
            yield piece
            if left < 4:
                break


def _encode(tokenizer: Any, documents: Sequence[str], path: Path) -> dict[str, int]:
    end = tokenizer.token_to_id(END)
    pieces: list[Array] = []
    for first in range(0, len(documents), 512):
        for encoding in tokenizer.encode_batch_fast(list(documents[first : first + 512]), add_special_tokens=False):
            pieces.append(np.array([*encoding.ids, end], dtype=np.uint16))
    tokens = np.concatenate(pieces)
    np.save(path, tokens)
    return {
        "tokens": len(tokens),
        "bytes": sum(len(document.encode()) for document in documents),
        "documents": len(documents),
    }


def _refuse_leakage(train: Texts, targets: Texts, limit: float) -> None:
    everything = [document for texts in targets.values() for document in texts]
    windows = {target: sum(_windows(texts)) for target, texts in targets.items()}
    for name, documents in train.items():
        # One pass for all targets bounds the share of each; only a target whose bound is too high needs its own.
        found = overlap(documents, everything) * sum(windows.values())
        for target, texts in targets.items():
            if found > limit * windows[target] and (share := overlap(documents, texts)) > limit:
                raise ValueError(
                    f"{share:.0%} of target {target!r} stands verbatim in the training text of corpus {name!r}; at "
                    f"most {limit:.0%} may. Remove what they share from one of them, or raise leakage_limit."
                )


def _windows(texts: Sequence[str]) -> Iterator[int]:
    return (max(0, len(text.encode()) - 59) for text in texts)


def _digest(texts: Mapping[str, Texts], vocabulary: int, seed: int) -> str:
    digest = hashlib.sha256(json.dumps([_FORMAT, _SLICE_BYTES, vocabulary, seed]).encode())
    for part, named in texts.items():
        for name, documents in named.items():
            digest.update(json.dumps([part, name, len(documents)]).encode())
            for document in documents:
                digest.update(hashlib.sha256(document.encode()).digest())
    return digest.hexdigest()


def _digest_of(folder: Path) -> str | None:
    """What the folder's tokens were made of; None where anything is missing or damaged, so that they are made anew."""
    try:
        data = load(folder)
        entries = json.loads((folder / "data.json").read_text())
        counts = [len(tokens) == entries["train"][name]["tokens"] for name, tokens in data.train.items()]
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return data.digest if all(counts) and data.tokenizer_path.is_file() else None
