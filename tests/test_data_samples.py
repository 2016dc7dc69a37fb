"""The corpora that come with the project are what their manifest and notice say."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mixopt.corpora import Corpus, overlap, read_corpus
from mixopt.documents.read import read_documents

SAMPLES = Path(__file__).parents[1] / "data_samples"
FOLDER = SAMPLES / "corpora"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text("utf-8"))
NOTICE = (SAMPLES / "NOTICE.md").read_text("utf-8")


@pytest.fixture(scope="module")
def corpora() -> dict[str, Corpus]:
    return {name: read_corpus(name, files=entry["file"], root=FOLDER) for name, entry in MANIFEST.items()}


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SAMPLES / "make_corpora.py"), "--check", "--out", str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_files_are_those_of_the_manifest():
    done = check(FOLDER)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{len(MANIFEST)} corpora match ")
    files = {entry["file"] for entry in MANIFEST.values()}
    assert {path.name for path in FOLDER.iterdir()} == {"manifest.json"} | files


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_another_file_is_noticed(tmp_path: Path, damage: str):
    shutil.copytree(FOLDER, tmp_path / "corpora")
    path = tmp_path / "corpora/german.jsonl.gz"
    if damage == "changed":
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    else:
        path.unlink()
    done = check(tmp_path / "corpora")
    assert done.returncode == 1
    assert re.search(r"german\.jsonl\.gz is missing or is not the file of manifest\.json \(german\)", done.stderr)


@pytest.mark.parametrize("name", MANIFEST)
def test_an_entry_describes_its_file(name: str):
    entry = MANIFEST[name]
    packed = (FOLDER / entry["file"]).read_bytes()
    assert hashlib.sha256(packed).hexdigest() == entry["sha256"]
    assert packed[4:8] == bytes(4), "the time in the header of gzip is 0, so that a rebuild gives the same file"
    records = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    assert all(list(record) == ["id", "text"] for record in records)
    assert len({record["id"] for record in records}) == len(records)
    assert len({record["id"].partition("#")[0] for record in records}) == entry["documents"]
    assert sum(len(record["text"].encode()) for record in records) == entry["bytes"]
    assert 3e5 < entry["bytes"] < 2e6
    assert entry["licence"]
    assert entry["note"]
    assert all(re.fullmatch(r"deb:[\w.+-]+=\S+|npm:@?[\w./-]+@[\d.]+", package) for package in entry["origin"])


def test_the_corpora_are_small():
    assert sum((FOLDER / entry["file"]).stat().st_size for entry in MANIFEST.values()) < 5e6


def test_code_of_high_value_is_scarce():
    assert min(MANIFEST, key=lambda name: MANIFEST[name]["bytes"]) == "python_code"


@pytest.mark.parametrize("name", MANIFEST)
def test_held_out_text_is_not_in_the_training_text(corpora: dict[str, Corpus], name: str):
    corpus = corpora[name]
    assert corpus.duplicates == 0
    assert overlap(corpus.train, corpus.valid) < 0.05
    assert len({text[:200] for text in corpus.valid}) >= 4
    assert 0.09 < corpus.valid_bytes / (corpus.valid_bytes + corpus.train_bytes) <= 0.1


@pytest.mark.parametrize("name", MANIFEST)
def test_no_corpus_holds_the_held_out_text_of_another(corpora: dict[str, Corpus], name: str):
    others = [text for other, corpus in corpora.items() if other != name for text in corpus.valid]
    assert overlap(corpora[name].train, others) < 0.0005


@pytest.mark.parametrize("name", MANIFEST)
def test_long_documents_are_in_parts_that_are_all_there(name: str):
    parts: dict[str, list[str]] = {}
    for document in read_documents(files=FOLDER / MANIFEST[name]["file"]):
        assert len(document.text.encode()) <= 50_000
        parts.setdefault(document.key, []).append(document.id)
    for key, ids in parts.items():
        assert len(ids) == 1 or sorted(ids) == sorted(f"{key}#{number}" for number in range(len(ids)))


def test_no_text_is_there_twice():
    texts = [document.text for document in read_documents(files=FOLDER / "*.jsonl.gz")]
    assert len(set(texts)) == len(texts) > 1000


@pytest.mark.parametrize("name", MANIFEST)
def test_no_addresses_of_people(name: str):
    address = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
    found = [address.findall(document.text) for document in read_documents(files=FOLDER / MANIFEST[name]["file"])]
    assert [match for matches in found for match in matches] == []


def test_every_corpus_and_package_is_credited():
    for name in MANIFEST:
        assert f"`{name}`" in NOTICE
    packages = [package.removeprefix("npm:").partition("@")[0] for package in MANIFEST["web_junk"]["origin"][:-1]]
    rows = [line for line in NOTICE.splitlines() if line.startswith("| `")]
    for package in packages:
        assert any(line.startswith(f"| `web_junk`: `{package}` |") for line in rows)
    licences = set(re.findall(r"`licenses/([^`]+)`", NOTICE))
    assert licences == {path.name for path in (SAMPLES / "licenses").iterdir()}
    assert all((SAMPLES / "licenses" / licence).stat().st_size > 500 for licence in licences)


def test_the_authors_and_translators_of_the_german_pages_are_named():
    credits = (SAMPLES / "licenses/gnome-user-docs-credits.txt").read_text("utf-8")
    written, translated = credits.split("\nTranslated by\n")
    assert "\n  Shaun McCance 2011, 2012" in written
    assert "\n  Phil Bull\n" in written
    assert "  Mario Blättermann 2011-2013" in translated
    assert len(written.splitlines()) > 30
    assert len(translated.splitlines()) >= 8
    assert "@" not in credits


def test_the_german_is_german():
    words = " ".join(document.text for document in read_documents(files=FOLDER / "german.jsonl.gz")).lower().split()
    common = {"der", "die", "das", "und", "sie", "ein", "eine", "ist", "nicht", "auf", "den", "zu", "oder", "im", "in"}
    assert sum(word in common for word in words) / len(words) > 0.15
    assert sum(word == "the" for word in words) / len(words) < 0.001
