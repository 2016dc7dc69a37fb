"""Writing files so that, whatever happens, a reader finds the old one or the new one, whole."""

import json
import os
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast


def write_bytes(path: Path, content: bytes) -> Path:
    """Write beside the place, flush to the disk, rename over it: after a crash the file is old, new or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as part:
        part.write(content)
        part.flush()
        os.fsync(part.fileno())
    os.chmod(part.name, 0o644)  # a temporary file is its owner's alone; results are to be shared
    os.replace(part.name, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def write_text(path: Path, text: str) -> Path:
    """`write_bytes` of UTF-8 text, line ends as they are."""
    return write_bytes(path, text.encode())


def write_json(path: Path, content: Mapping[str, Any]) -> Path:
    """`write_bytes` of a JSON document, in which a number that is not known is null."""
    return write_bytes(path, json.dumps(_nulled(content), indent=1, allow_nan=False).encode())


def _nulled(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _nulled(item) for key, item in cast(dict[str, Any], value).items()}
    return [_nulled(item) for item in cast(list[Any], value)] if isinstance(value, list | tuple) else value
