"""Reads documents from where people keep text: files of several kinds, or a dataset of Hugging Face."""

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from itertools import islice
from pathlib import Path
from typing import TypedDict, cast

from mixopt.documents.document import Document, Fields
from mixopt.documents.text_file import read_file
from mixopt.errors import StudyError


class Place(TypedDict, total=False):
    """Where text is: the keywords of `read_documents`, for functions that pass them on."""

    files: str | Path | Sequence[str | Path]
    dataset: str | None
    subset: str | None
    split: str
    text_field: str
    id_field: str
    max_documents: int | None
    root: str | Path


def read_documents(
    *,
    files: str | Path | Sequence[str | Path] = (),
    dataset: str | None = None,
    subset: str | None = None,
    split: str = "train",
    text_field: str = "text",
    id_field: str = "id",
    max_documents: int | None = None,
    root: str | Path = ".",
) -> Iterator[Document]:
    """Documents of files, or of a dataset, in their order.

    Parameters
    ----------
    files
        Paths or glob patterns, relative ones from `root`.
    dataset, subset, split
        A dataset of the Hugging Face hub; with `files`, the builder that reads them, such as `csv`.
    text_field, id_field
        Names of the fields of a record. A record without an id is called `<file>:<line>`, a text file by its path below
        the folder that all files have in common, so that ids do not depend on where the files are.
    max_documents
        Stop after so many; a dataset is then streamed, not fetched whole.

    Raises
    ------
    StudyError
        Nothing is named, or something cannot be read; the message names the file and the line.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     size = Path(folder, "notes.jsonl").write_text('{"id": "a", "text": "one"}\\n{"text": "two"}\\n')
    ...     [document.id for document in read_documents(files="*.jsonl", root=folder)]
    ['a', 'notes.jsonl:2']
    """
    patterns = [files] if isinstance(files, str | Path) else list(files)
    if not patterns and dataset is None:
        raise StudyError("Neither files nor a dataset is named. Name where the text is.")
    paths, fields = find_files(patterns, Path(root)), Fields(text_field, id_field)
    if dataset is not None:
        documents = read_dataset(
            dataset, paths, fields, subset=subset, split=split, streaming=max_documents is not None
        )
    else:
        absolute = [Path(os.path.abspath(path)) for path in paths]
        folder = os.path.commonpath([path.parent for path in absolute])
        named = [(path, whole.relative_to(folder).as_posix()) for path, whole in zip(paths, absolute, strict=True)]
        documents = (document for path, name in named for document in read_file(path, name, fields))
    yield from islice(documents, max_documents)


def find_files(patterns: Sequence[str | Path], root: Path = Path()) -> list[Path]:
    """Files that paths or glob patterns name, relative ones from `root`; each once, in sorted order per pattern.

    Raises
    ------
    StudyError
        A path does not exist, or a pattern matches no file.
    """
    found: dict[Path, None] = {}
    for pattern in patterns:
        path = root / pattern
        if path.is_file():
            found[path] = None
            continue
        if path.is_dir():
            raise StudyError(f"{path} is a folder. Name its files with a pattern, such as {path / '*.txt'}.")
        if not any(sign in str(pattern) for sign in "*?["):
            raise StudyError(f"{path} does not exist. Relative paths start at {root.absolute()}.")
        matches = [Path(match) for match in sorted(glob(str(path), recursive=True)) if Path(match).is_file()]
        if not matches:
            raise StudyError(f"{path} matches no file. Check the pattern; '**' reaches into folders.")
        found.update(dict.fromkeys(matches))
    return list(found)


def read_dataset(
    dataset: str, files: Sequence[Path], fields: Fields, *, subset: str | None, split: str, streaming: bool
) -> Iterator[Document]:
    """Documents of a dataset on the Hugging Face hub, or of local `files` through a builder (json, csv, text, ...).

    Raises
    ------
    StudyError
        The package `datasets` is missing, the dataset cannot be loaded, or a row lacks the text.
    """
    try:
        import datasets
        import datasets.exceptions
    except ImportError:
        raise StudyError(f"Dataset {dataset!r} needs the package datasets: pip install 'mixopt[hub]'.") from None
    data_files = [str(path) for path in files] or None
    try:
        rows = datasets.load_dataset(dataset, subset, data_files=data_files, split=split, streaming=streaming)
        for number, row in enumerate(cast("Iterable[dict[str, object]]", rows), 1):
            yield fields.document(row, f"Dataset {dataset!r} row {number}", f"{dataset}:{number}")
    except StudyError:
        raise
    except (datasets.exceptions.DatasetsError, OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StudyError(
            f"Dataset {dataset!r} (subset {subset!r}, split {split!r}) cannot be loaded: {reason}"
        ) from error
