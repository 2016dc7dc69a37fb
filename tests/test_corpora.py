"""Reading, splitting and comparing text."""

import builtins
import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
import zstandard

from mixopt import corpora
from mixopt.corpora import Corpus, hold_out, overlap, read_corpus, read_texts
from mixopt.documents.document import Document
from mixopt.documents.read import read_documents
from mixopt.errors import StudyError

PAGES = [{"id": f"page {i}", "text": f"Seite {i}: " + "äöü " * i} for i in range(1, 41)]


def lines(records: Iterable[object]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def write_jsonl(path: Path) -> None:
    path.write_bytes(lines(PAGES))


def write_gz(path: Path) -> None:
    path.write_bytes(gzip.compress(lines(PAGES)))


def write_zst(path: Path) -> None:
    # Two frames, as parallel compressors write them.
    halves = (lines(PAGES[:20]), lines(PAGES[20:]))
    path.write_bytes(b"".join(zstandard.ZstdCompressor().compress(half) for half in halves))


def write_parquet(path: Path) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(PAGES), path, row_group_size=7)


WRITERS = {
    "pages.jsonl": write_jsonl,
    "pages.JSONL": write_jsonl,
    "pages.v1.ndjson": write_jsonl,
    "pages.jsonl.gz": write_gz,
    "pages.json.gz": write_gz,
    "pages.jsonl.zst": write_zst,
    "pages.jsonl.zstd": write_zst,
    "pages.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_holds_the_same_corpus(tmp_path: Path, name: str):
    WRITERS[name](tmp_path / name)
    corpus = read_corpus("pages", files=name, root=tmp_path)
    write_jsonl(tmp_path / "reference.jsonl")
    assert sorted(corpus.train + corpus.valid) == sorted(page["text"] for page in PAGES)
    assert corpus.digest == read_corpus("x", files=tmp_path / "reference.jsonl").digest
    assert corpus.origin == name


@pytest.mark.parametrize("max_documents", [None, 12])
def test_a_dataset_builder_reads_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_documents: int | None):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    write_jsonl(tmp_path / "pages.jsonl")
    place = {"dataset": "json", "files": "pages.jsonl", "root": tmp_path, "max_documents": max_documents}
    documents = list(read_documents(**place))
    assert documents == [Document(page["id"], page["text"]) for page in PAGES[:max_documents]]


def test_text_files_are_one_document_each(tmp_path: Path):
    for name in ("a/one.txt", "a/deep/two.txt", "b/one.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}\n")
    (tmp_path / "b/three.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    documents = list(read_documents(files=["a/**/*.txt", "b/*", "b/one.txt"], root=tmp_path))
    assert [document.id for document in documents] == ["a/deep/two.txt", "a/one.txt", "b/one.txt", "b/three.txt.gz"]
    assert documents[0].text == "text of a/deep/two.txt\n"
    assert documents[3].text == "packed\n"


def test_ids_do_not_depend_on_where_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ids: list[list[str]] = []
    for folder in (tmp_path / "here", tmp_path / "far/away"):
        (folder / "sub").mkdir(parents=True)
        for i in range(3):
            (folder / f"sub/{i}.txt").write_text(f"text {i}")
        (folder / "more.jsonl").write_text('{"text": "last"}\n')
        ids.append([document.id for document in read_documents(files=["sub/*.txt", "more.jsonl"], root=folder)])
        monkeypatch.chdir(folder / "sub")
        ids.append([document.id for document in read_documents(files=["*.txt", "../more.jsonl"])])
    assert ids == [["sub/0.txt", "sub/1.txt", "sub/2.txt", "more.jsonl:1"]] * 4


def test_other_field_names_and_missing_ids(tmp_path: Path):
    (tmp_path / "x.jsonl").write_bytes(lines([{"url": 7, "body": "one"}, {"url": None, "body": "two"}, {"body": "3"}]))
    documents = read_documents(files=tmp_path / "x.jsonl", text_field="body", id_field="url")
    assert [document.id for document in documents] == ["7", "x.jsonl:2", "x.jsonl:3"]


def test_empty_lines_are_no_documents_and_count_as_lines(tmp_path: Path):
    (tmp_path / "x.jsonl").write_text('{"text": "one"}\n\n  \n{"text": "two"}')
    assert [document.id for document in read_documents(files="*.jsonl", root=tmp_path)] == ["x.jsonl:1", "x.jsonl:4"]


def test_texts_of_a_target_are_all_kept(tmp_path: Path):
    write_jsonl(tmp_path / "pages.jsonl")
    assert read_texts("target", files="pages.jsonl", root=tmp_path) == tuple(page["text"] for page in PAGES)


# --- the split --------------------------------------------------------------------------------------------------


def corpus_of(folder: Path, records: Iterable[object], **settings: Any) -> Corpus:
    (folder / "corpus.jsonl").write_bytes(lines(records))
    return read_corpus("web", files="corpus.jsonl", root=folder, **settings)


def test_exact_copies_are_dropped_before_the_split_and_counted(tmp_path: Path):
    copies = [{"id": f"copy {i}", "text": PAGES[i]["text"]} for i in range(15)]
    corpus = corpus_of(tmp_path, PAGES + copies + copies[:2])
    assert corpus.duplicates == 17
    assert corpus.digest == corpus_of(tmp_path, PAGES).digest


def test_parts_of_a_document_stay_on_one_side(tmp_path: Path):
    parts = [{"id": f"book {i}#{part}", "text": f"book {i} part {part}"} for i in range(60) for part in range(4)]
    corpus = corpus_of(tmp_path, parts)
    held_out, trained = ({text.partition(" part")[0] for text in side} for side in (corpus.valid, corpus.train))
    assert held_out.isdisjoint(trained)
    assert len(held_out) == 6
    assert len(corpus.valid) == 24


def test_a_document_is_as_large_as_its_parts_together():
    small = [Document(f"page {i}", "x" * 30) for i in range(9)]
    book = [Document(f"book#{part}", "x" * size) for part, size in enumerate((90, 1))]
    # 36.1 bytes may be held out: one page, and by no seed the book, whose last part alone would fit.
    assert {len(hold_out(small + book, 0.1, seed)) for seed in range(30)} == {1}
    assert all("book" not in hold_out(small + book, 0.1, seed) for seed in range(30))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.35, 0.9])
def test_the_share_is_one_of_bytes(rng: np.random.Generator, share: float):
    documents = [Document(str(i), "ä" * int(size)) for i, size in enumerate(rng.integers(1, 100, 2000))]
    total = sum(len(document.text.encode()) for document in documents)
    held_out = hold_out(documents, share)
    size = sum(len(document.text.encode()) for document in documents if document.id in held_out)
    # No document that is left would fit.
    left = min(len(document.text.encode()) for document in documents if document.id not in held_out)
    assert share * total - left < size <= share * total


def test_the_split_depends_on_ids_and_seed_and_not_on_order(rng: np.random.Generator):
    documents = [Document(f"page {i}", "same size") for i in range(200)]
    shuffled = [documents[i] for i in rng.permutation(200)]
    assert hold_out(documents, 0.1) == hold_out(shuffled, 0.1)
    assert len(hold_out(documents, 0.1)) == 20
    others = [hold_out(documents, 0.1, seed) for seed in range(30)]
    assert len(set(others)) == 30
    # A document is held out by a tenth of the seeds: 3 of 30 on average over documents, and none by all of them.
    counts = [sum(document.id in other for other in others) for document in documents]
    assert np.mean(counts) == 3
    assert max(counts) < 15


def test_the_smallest_is_held_out_where_none_fits():
    assert hold_out([Document("a", "x" * 9), Document("b", "x" * 5), Document("c", "x" * 7)], 0.1) == {"b"}


def test_a_document_without_text_is_not_the_one_held_out():
    assert hold_out([Document("a", "x" * 9), Document("b", ""), Document("c", "x" * 7)], 0.1) == {"c"}
    assert hold_out([Document("a", "x" * 9), Document("b", "")], 0.1) == frozenset()


def test_the_digest_sees_every_boundary():
    variants = [
        Corpus("x", ("ab", "c"), ("d",), None, ""),
        Corpus("x", ("a", "bc"), ("d",), None, ""),
        Corpus("x", ("abc",), ("d",), None, ""),
        Corpus("x", ("ab",), ("c", "d"), None, ""),
        Corpus("x", ("c", "ab"), ("d",), None, ""),
    ]
    assert len({corpus.digest for corpus in variants}) == 5


# --- overlap ----------------------------------------------------------------------------------------------------


def overlap_by_search(train: Iterable[str], valid: Iterable[str], window: int) -> float:
    """The definition, by substring search."""
    pieces = [text.encode()[i : i + window] for text in valid for i in range(len(text.encode()) - window + 1)]
    encoded = [text.encode() for text in train]
    return sum(any(piece in text for text in encoded) for piece in pieces) / len(pieces)


@pytest.mark.parametrize("window", [1, 2, 5, 8, 13, 60])
def test_overlap_is_the_share_found_by_searching(rng: np.random.Generator, window: int):
    words = ["ab", "ba", "ü", "abc ", "c"] if window < 10 else [f"{i:x}" * 9 + "é" for i in range(4)]
    texts = ["".join(rng.choice(words, rng.integers(1, 40))) for _ in range(30)]
    measured = overlap(texts[:20], texts[20:], window)
    assert measured == pytest.approx(overlap_by_search(texts[:20], texts[20:], window), abs=1e-15)
    assert 0 < measured <= 1


def test_a_window_does_not_reach_over_the_end_of_a_text():
    assert overlap(["x" * 59, "x" * 59], ["x" * 70]) == 0
    assert overlap(["x" * 60], ["x" * 59, "x" * 59, "y" * 60]) == 0
    assert overlap(["x" * 60], ["x" * 70]) == 1


def test_texts_shorter_than_the_window_have_no_overlap():
    assert overlap(["short"], ["short"]) == 0
    assert overlap([], ["x" * 60]) == 0
    assert overlap(["x" * 60], []) == 0


def test_training_text_is_hashed_piece_by_piece(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator):
    monkeypatch.setattr(corpora, "_PIECE_BYTES", 100)
    hashed, hashes_of = list[int](), corpora._hashes
    monkeypatch.setattr(corpora, "_hashes", lambda texts, window: hashed.append(len(texts)) or hashes_of(texts, window))
    train = ["".join(rng.choice(list("abcdefgh"), 70)) for _ in range(21)]
    assert overlap(train, [train[0], train[20], "z" * 70]) == pytest.approx(2 / 3)
    assert hashed == [3] + [2] * 10 + [1]


def test_overlap_of_two_megabytes_is_quick(rng: np.random.Generator):
    train, valid = (rng.integers(97, 123, size, dtype=np.uint8).tobytes().decode() for size in (2_000_000, 200_000))
    start = process_time()
    assert overlap([train], [valid + train[:200_000]]) == pytest.approx(0.5, abs=1e-3)
    assert process_time() - start < 1


# --- errors -----------------------------------------------------------------------------------------------------


def refuses(folder: Path, message: str, name: str, content: bytes, **settings: Any) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(StudyError, match=message):
        read_corpus("web", files=name, root=folder, **settings)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(StudyError, match=rf"web: .*no\.jsonl does not exist\. Relative paths start at {tmp_path}"):
        read_corpus("web", files="no.jsonl", root=tmp_path)


def test_a_pattern_without_a_match(tmp_path: Path):
    with pytest.raises(StudyError, match=r"\*\.txt matches no file\. Check the pattern"):
        read_corpus("web", files="*.txt", root=tmp_path)


def test_a_folder(tmp_path: Path):
    with pytest.raises(StudyError, match=r"is a folder\. Name its files with a pattern, such as .*\*\.txt"):
        read_corpus("web", files=tmp_path)


def test_no_place():
    with pytest.raises(StudyError, match="web: Neither files nor a dataset is named"):
        read_corpus("web")


@pytest.mark.parametrize("name", ["empty.jsonl", "empty.txt"])
def test_an_empty_file(tmp_path: Path, name: str):
    refuses(tmp_path, rf"web has no text in {name}\. Name files that hold documents", name, b"")


def test_an_empty_parquet_file(tmp_path: Path):
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "empty.parquet")
    with pytest.raises(StudyError, match=r"web has no text in empty\.parquet"):
        read_corpus("web", files="empty.parquet", root=tmp_path)


def test_broken_json_names_the_line(tmp_path: Path):
    content = lines(PAGES[:6]) + b'{"text": "cut\n'
    refuses(tmp_path, r"x\.jsonl line 7: Invalid control character .*must be one JSON object", "x.jsonl", content)
    refuses(tmp_path, r"x\.jsonl\.gz line 7: Invalid control character", "x.jsonl.gz", gzip.compress(content))


def test_a_line_that_is_no_object(tmp_path: Path):
    refuses(tmp_path, "line 1 holds a list; each line must be one JSON object", "x.jsonl", b'[{"text": "one"}]\n')


def test_a_missing_text_field_names_those_there_are(tmp_path: Path):
    message = r"line 2 has no field 'text'; it has id, body\. Name the field that holds the text"
    refuses(tmp_path, message, "x.jsonl", lines([{"text": "one"}, {"id": 1, "body": "two"}]))
    refuses(tmp_path, "line 1 has no field 'text'; it has no fields", "x.jsonl", b"{}")
    write_parquet(tmp_path / "pages.parquet")
    with pytest.raises(StudyError, match=r"pages\.parquet has no field 'body'; it has id, text"):
        read_corpus("web", files="pages.parquet", text_field="body", root=tmp_path)


def test_text_that_is_no_string(tmp_path: Path):
    message = "line 2: field 'text' is of type {}; text must be a string"
    refuses(tmp_path, message.format("int"), "x.jsonl", lines([{"text": "one"}, {"text": 7}]))
    refuses(tmp_path, message.format("NoneType"), "x.jsonl", lines([{"text": "one"}, {"text": None}]))
    parquet.write_table(pyarrow.table({"text": ["one", None]}), tmp_path / "x.parquet")
    with pytest.raises(StudyError, match=r"x\.parquet row 2: field 'text' is of type NoneType"):
        read_corpus("web", files="x.parquet", root=tmp_path)


def test_half_of_a_character_pair(tmp_path: Path):
    refuses(tmp_path, "line 1: field 'text' holds half of a character pair", "x.jsonl", b'{"text": "\\ud83d"}')


@pytest.mark.parametrize("broken", ["cut", "noise"])
def test_packed_files_that_are_not_whole(tmp_path: Path, broken: str):
    write_gz(tmp_path / "whole.gz")
    write_zst(tmp_path / "whole.zst")
    for name, kind in (("gz", "gzip"), ("zst", "zstd")):
        whole = (tmp_path / f"whole.{name}").read_bytes()
        content = whole[: len(whole) * 3 // 4] if broken == "cut" else b"this is not packed"
        refuses(tmp_path, rf"x\.jsonl\.{name} is not a whole {kind} file \(.+\)", f"x.jsonl.{name}", content)


def test_a_parquet_file_that_is_not_whole(tmp_path: Path):
    write_parquet(tmp_path / "whole.parquet")
    content = (tmp_path / "whole.parquet").read_bytes()
    refuses(tmp_path, r"x\.parquet is not a parquet file that can be read", "x.parquet", content[:-20])


def test_text_that_is_not_utf_8(tmp_path: Path):
    refuses(tmp_path, r"x\.txt is not UTF-8 \(byte 0xfc at 1\)\. Convert it", "x.txt", "für".encode("latin-1"))
    content = lines(PAGES[:2]) + '{"text": "für"}'.encode("latin-1")
    refuses(tmp_path, r"x\.jsonl line 3 is not UTF-8 \(byte 0xfc", "x.jsonl", content)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.tar.zst", "x.npy", "x.jsonl.xz"])
def test_tables_and_archives(tmp_path: Path, name: str):
    refuses(tmp_path, r"ends in \.\w+; \.jsonl, \.parquet and text are read.* Convert it to JSON lines", name, b"a,b\n")


def test_only_one_document(tmp_path: Path):
    refuses(tmp_path, r"web is one document \(book\.txt\).* Split it into documents", "book.txt", b"Call me Ishmael.")
    parts = lines({"id": f"book#{part}", "text": f"part {part}"} for part in range(9))
    refuses(tmp_path, r"web is one document \(book\).*name another id_field", "x.jsonl", parts)


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_that_is_none(tmp_path: Path, share: float):
    with pytest.raises(StudyError, match=rf"web: valid_share is {share}; it must be above 0 and below 1"):
        corpus_of(tmp_path, PAGES, valid_share=share)


def test_a_dataset_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "x.jsonl").write_bytes(lines(PAGES))
    place = {"dataset": "json", "files": "x.jsonl", "root": tmp_path}
    with pytest.raises(StudyError, match=r"Dataset 'json' \(subset None, split 'nosuch'\) cannot be loaded: "):
        read_corpus("web", split="nosuch", **place)
    with pytest.raises(StudyError, match=r"^web: Dataset 'json' row 1 has no field 'body'; it has id, text"):
        read_corpus("web", text_field="body", **place)
    (tmp_path / "x.jsonl").write_bytes(lines(PAGES) + b'{"text": 7, \n')
    for max_documents in (None, 100):
        with pytest.raises(StudyError, match=r"Dataset 'json' .* cannot be loaded: "):
            read_corpus("web", max_documents=max_documents, **place)


@pytest.mark.parametrize(
    ("module", "extra", "place"),
    [("datasets", "hub", {"dataset": "nosuch"}), ("zstandard", "proxy", {"files": "pages.jsonl.zst"})],
)
def test_a_package_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, place: dict[str, str]
):
    write_zst(tmp_path / "pages.jsonl.zst")
    whole = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == module:
            raise ImportError(name)
        return whole(name, *rest, **more)

    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StudyError, match=rf"needs the package {module}: pip install 'mixopt\[{extra}\]'"):
        read_corpus("web", root=tmp_path, **place)
