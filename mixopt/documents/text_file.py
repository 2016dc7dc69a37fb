"""Reads one file of text, whatever it is packed in; what it is follows from its name.

`.jsonl`, `.ndjson` and `.json` hold one JSON object a line, `.parquet` one document a row, any other file is one
document, and tables and archives are refused. `.gz`, `.zst` and `.zstd` at the end are unpacked first.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from mixopt.documents.document import Document, Fields
from mixopt.errors import StudyError

_JSON_LINES = (".jsonl", ".ndjson", ".json")
_PACKED = (".gz", ".zst", ".zstd")
# Read as text, each of these would be one document of separators or noise.
_REFUSED = (".csv", ".tsv", ".arrow", ".bin", ".npy", ".npz", ".idx", ".zip", ".tar", ".tgz", ".bz2", ".xz")


def read_file(path: Path, name: str, fields: Fields) -> Iterator[Document]:
    """Documents of one file; `name` is how their ids call it.

    Raises
    ------
    StudyError
        The file is broken, is not UTF-8, or a record lacks the text; the message names the line.
    """
    kind = next((suffix for suffix in reversed(path.suffixes) if suffix.lower() not in _PACKED), "").lower()
    if kind in _REFUSED:
        raise StudyError(
            f"{path} ends in {kind}; .jsonl, .parquet and text are read, also packed as .gz or .zst. "
            "Convert it to JSON lines, one object with a text field a line."
        )
    if kind == ".parquet":
        yield from _parquet(path, name, fields)
    elif kind in _JSON_LINES:
        yield from _json_lines(path, name, fields)
    else:
        with _open(path) as file:
            yield Document(name, _decoded(file.read(), str(path)))


def _open(path: Path) -> BinaryIO:
    """The unpacked bytes of a file."""
    if path.suffix.lower() == ".gz":
        try:
            return io.BytesIO(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, zlib.error) as error:
            raise StudyError(f"{path} is not a whole gzip file ({error}). Fetch or pack it again.") from error
    if path.suffix.lower() in (".zst", ".zstd"):
        return io.BytesIO(_unpack_zstd(path))
    return path.open("rb")


def _unpack_zstd(path: Path) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise StudyError(f"{path} needs the package zstandard: pip install 'mixopt[proxy]'.") from None
    packed, frames = path.read_bytes(), list[bytes]()
    try:
        while packed:
            frame = zstandard.ZstdDecompressor().decompressobj()
            frames.append(frame.decompress(packed))
            # A reader of streams would take a file that was cut short for a short file.
            if not frame.eof:
                raise zstandard.ZstdError("the last frame is cut short")
            packed = frame.unused_data
    except zstandard.ZstdError as error:
        raise StudyError(f"{path} is not a whole zstd file ({error}). Fetch or pack it again.") from error
    return b"".join(frames)


def _decoded(data: bytes, place: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(
            f"{place} is not UTF-8 (byte 0x{data[error.start]:02x} at {error.start}). "
            "Convert it, for example with iconv -f latin1 -t utf-8."
        ) from None


def _json_lines(path: Path, name: str, fields: Fields) -> Iterator[Document]:
    with _open(path) as lines:
        for number, line in enumerate(lines, 1):
            place = f"{path} line {number}"
            if not line.strip():
                continue
            try:
                record = json.loads(_decoded(line, place))
            except json.JSONDecodeError as error:
                raise StudyError(
                    f"{place}: {error.msg} (column {error.colno}). Each line must be one JSON object."
                ) from None
            if not isinstance(record, dict):
                kind = type(record).__name__
                raise StudyError(f"{place} holds a {kind}; each line must be one JSON object with a text field.")
            yield fields.document(cast("dict[str, object]", record), place, f"{name}:{number}")


def _parquet(path: Path, name: str, fields: Fields) -> Iterator[Document]:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(path) as table:
            columns: list[str] = table.schema_arrow.names
            wanted = [column for column in (fields.text, fields.id) if column in columns]
            fields.check(columns, str(path))
            number = 0
            for batch in table.iter_batches(columns=wanted):
                for record in cast("list[dict[str, Any]]", batch.to_pylist()):
                    number += 1
                    yield fields.document(record, f"{path} row {number}", f"{name}:{number}")
    except (pyarrow.ArrowException, OSError) as error:
        raise StudyError(f"{path} is not a parquet file that can be read ({error}). Write it again.") from error
