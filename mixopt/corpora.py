"""Where text comes from, and which of it is held out: files or datasets in, a `Corpus` out."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from mixopt.columns import Array
from mixopt.documents.document import Document
from mixopt.documents.read import Place, read_documents
from mixopt.errors import StudyError

Hashes = NDArray[np.uint64]

_MULTIPLIER = 0x9E3779B97F4A7C15  # odd, so that no power of it is 0 modulo 2^64
_PIECE_BYTES = 1 << 23  # training text hashed at a time: 64 MB of hashes


@dataclass(frozen=True)
class Corpus:
    """Texts to train on and texts held out; no document has a part on both sides.

    Attributes
    ----------
    name
        As the study calls it.
    train, valid
        Texts of the two sides, in the order in which they were read.
    declared_tokens
        Tokens that the target run has of this corpus, where the files here are a sample of it; None where they are all.
    origin
        Where the texts were read from.
    duplicates
        Exact copies that were dropped before the split.
    """

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]
    declared_tokens: float | None
    origin: str
    duplicates: int = 0

    @cached_property
    def train_bytes(self) -> int:
        """UTF-8 bytes of the training texts."""
        return sum(len(text.encode()) for text in self.train)

    @cached_property
    def valid_bytes(self) -> int:
        """UTF-8 bytes of the held-out texts."""
        return sum(len(text.encode()) for text in self.valid)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the texts and of the side that each is on; the name and the origin do not enter.

        >>> one, two = (Corpus(name, ("a b", "c"), ("d",), None, name) for name in ("x", "y"))
        >>> one.digest == two.digest != Corpus("x", ("a b",), ("c", "d"), None, "x").digest
        True
        """
        digest = hashlib.sha256()
        for side in (self.train, self.valid):
            digest.update(f"{len(side)} texts\n".encode())
            for text in side:
                digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()


def read_corpus(
    name: str,
    *,
    valid_share: float = 0.1,
    seed: int = 0,
    declared_tokens: float | None = None,
    **place: Unpack[Place],
) -> Corpus:
    """Read a corpus, drop exact copies and hold out a share of its documents.

    Which documents are held out follows from `seed` and the documents' ids and sizes, through SHA-256, so it is the
    same on every machine. Parts `page#0`, `page#1` of a document stay together.

    Parameters
    ----------
    name
        What the study calls the corpus.
    valid_share
        Share of the bytes to hold out, above 0 and below 1.
    seed
        Another seed holds out other documents.
    declared_tokens
        Tokens that the target run has of this corpus, if what is read is a sample.
    place
        Where the text is: `files` (paths or patterns) or `dataset`, and the other keywords of
        `mixopt.documents.read.read_documents`.

    Raises
    ------
    StudyError
        Nothing to read, something unreadable (file and line are named), or fewer than two documents.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sizes = [Path(folder, f"{i}.txt").write_text(f"page {i % 20:02d}") for i in range(21)]
    ...     corpus = read_corpus("pages", files="*.txt", root=folder)
    >>> len(corpus.train), len(corpus.valid), corpus.duplicates
    (18, 2, 1)
    """
    if not 0 < valid_share < 1:
        raise StudyError(f"{name}: valid_share is {valid_share}; it must be above 0 and below 1, such as 0.1.")
    read = _read(name, place)
    first: dict[str, Document] = {}
    for document in read:
        first.setdefault(document.text, document)
    kept = tuple(first.values())
    held_out = hold_out(kept, valid_share, seed)
    if not held_out:
        raise StudyError(
            f"{name} is one document ({kept[0].key}); one to train on and one to hold out are needed. Split it into "
            "documents, for example at its chapters, or name another id_field if they share their ids."
        )
    return Corpus(
        name=name,
        train=tuple(document.text for document in kept if document.key not in held_out),
        valid=tuple(document.text for document in kept if document.key in held_out),
        declared_tokens=declared_tokens,
        origin=_origin(place),
        duplicates=len(read) - len(kept),
    )


def read_texts(name: str, **place: Unpack[Place]) -> tuple[str, ...]:
    """All texts of a place, none held out: what a target `name` is measured on. `place` is as in `read_corpus`.

    Raises
    ------
    StudyError
        Nothing to read, or something unreadable (file and line are named).
    """
    return tuple(document.text for document in _read(name, place))


def _read(name: str, place: Place) -> list[Document]:
    try:
        documents = list(read_documents(**place))
    except StudyError as error:
        raise StudyError(f"{name}: {error}") from error
    if not any(document.text.strip() for document in documents):
        raise StudyError(f"{name} has no text in {_origin(place)}. Name files that hold documents.")
    return documents


def _origin(place: Place) -> str:
    files = place.get("files", ())
    patterns = [files] if isinstance(files, str | Path) else files
    return ", ".join(filter(None, (place.get("dataset"), place.get("subset"), *map(str, patterns))))


def hold_out(documents: Iterable[Document], valid_share: float, seed: int = 0) -> frozenset[str]:
    """Keys of the documents to hold out: in the order of their hash, those that fit into the share of the bytes.

    Where none fits, the smallest is held out; where there is one document only, none.

    >>> pages = [Document(f"page {i}#{part}", "four") for i in range(20) for part in range(2)]
    >>> len(hold_out(pages, 0.1))
    2
    """
    sizes: dict[str, int] = {}
    for document in documents:
        sizes[document.key] = sizes.get(document.key, 0) + len(document.text.encode())
    sizes = {key: size for key, size in sizes.items() if size}
    room = valid_share * sum(sizes.values())
    held_out: set[str] = set()
    order = sorted(sizes, key=lambda key: hashlib.sha256(f"{seed}:{key}".encode()).digest())
    for key in order:
        if sizes[key] <= room:
            held_out.add(key)
            room -= sizes[key]
    if not held_out and len(order) > 1:
        held_out.add(min(order, key=lambda key: sizes[key]))
    return frozenset(held_out)


def overlap(train: Sequence[str], valid: Sequence[str], window: int = 60) -> float:
    """Share of the `window`-byte pieces of the held-out texts that stand verbatim in a training text.

    Every position of every held-out text starts a piece; a text shorter than the window has none. At 0.05 one byte
    in twenty can be copied from memory instead of predicted, which flatters the loss of whatever repeats that text.

    Pieces are compared by a polynomial hash of 64 bits: with 2 MB against 200 kB the chance of one false match is
    2e-8.

    >>> overlap(["the cat sat on the mat"], ["a cat sat on a mat"], window=8)  # 5 of 11: ' cat sat' to ' sat on '
    0.45454545454545453
    """
    sought = np.unique_inverse(_hashes(valid, window))
    found = np.zeros(sought.values.size, dtype=bool)
    for piece in _pieces(train):
        hashes = np.sort(_hashes(piece, window))
        if hashes.size:
            at = np.searchsorted(hashes, sought.values)
            found |= hashes.take(at, mode="clip") == sought.values
    return float(found[sought.inverse_indices].mean()) if found.size else 0.0


def _pieces(texts: Sequence[str]) -> Iterator[list[str]]:
    piece, size = list[str](), 0
    for text in texts:
        piece.append(text)
        size += len(text)
        if size > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def _hashes(texts: Sequence[str], window: int) -> Hashes:
    """Hash of each window of each text: sum over j of byte[i + j] * MULTIPLIER^j, modulo 2^64."""
    encoded = [text.encode() for text in texts]
    values: Hashes = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint64) + np.uint64(1)
    ends = np.cumsum([len(data) for data in encoded], dtype=np.int64)
    inside: Array = np.repeat(ends, [len(data) for data in encoded]) - np.arange(values.size) >= window
    hashes, length = np.zeros(values.size, np.uint64), 0
    power, doubled = values, 1  # hashes of windows of 1, 2, 4, ... bytes
    while doubled <= window:
        if window & doubled:
            hashes = _joined(power, hashes, doubled)
            length += doubled
        power, doubled = _joined(power, power, doubled), 2 * doubled
    assert length == window
    return hashes[inside]


def _joined(first: Hashes, second: Hashes, length: int) -> Hashes:
    """Hashes of windows of `first`, of `length` bytes, followed by those of `second`."""
    factor = np.uint64(pow(_MULTIPLIER, length, 1 << 64))
    joined = first.copy()
    joined[: max(first.size - length, 0)] += factor * second[length:]
    return joined
