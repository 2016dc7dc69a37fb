"""The documents of each sample corpus, out of the unpacked packages that hold them.

Each function takes the folders of its packages and yields (id, text), in an order that is the same on every machine
and has nothing to do with the names, so that a corpus may stop at any number of bytes.
"""

import hashlib
import html
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

Page = tuple[str, str]  # id, text

JUNK_PAGES = 110
BLOCK_ELEMENTS = "p|div|li|tr|h[1-6]|pre|br|dt|dd|table|ul|ol|title|blockquote"


def read(path: Path) -> str:
    return path.read_text("utf-8")


def by_hash(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: hashlib.sha256(path.name.encode()).hexdigest())


def python_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    root = folders[0] / "usr/lib/python3.11"
    for path in by_hash(path for path in root.rglob("*.py") if not path.is_symlink()):
        text = read(path)
        # A file that names its own copyright holder may have its own terms; PSF-2.0 covers the others.
        if 1000 < len(text) < 40_000 and "copyright" not in text.lower() and "lib2to3" not in path.parts:
            yield path.relative_to(root).as_posix(), text


def c_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    for path in by_hash((folders[0] / "usr/include/stb").glob("*.h")):
        if path.name != "stb.h":  # holds older copies of the other headers
            licence = r"(?s)/\*\s*-{20,}\s*This software is available under 2 licenses.*?\*/"
            yield path.name, re.sub(licence, "", read(path))


def austen_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    blob = (folders[0] / "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    for lines in r_vectors(blob):
        novel = "-".join(re.findall(r"[a-z]+", next(line for line in lines if line.strip()).lower()))
        chapters = re.split(r"(?mi)^(?=chapter [ivxlc\d]+\b)", "\n".join(lines))
        for number, chapter in enumerate(chapters[1:], 1):
            yield f"{novel}/chapter-{number:02d}", chapter


def r_vectors(blob: bytes) -> Iterator[list[str]]:
    """Character vectors of R's lazy-load database: (4 bytes of length, zlib stream) for each object."""
    while len(blob) > 4:
        stream = zlib.decompressobj()
        data = stream.decompress(blob[4:])
        blob = stream.unused_data
        at = data.index(b"\x00\x00\x00\x10") + 4  # 0x10: a character vector; its length follows
        count, at = int.from_bytes(data[at : at + 4]), at + 4
        lines: list[str] = []
        for _ in range(count):
            size = int.from_bytes(data[at + 4 : at + 8])  # after four bytes of flags
            lines.append(data[at + 8 : at + 8 + size].decode())
            at += 8 + size
        yield lines


def german_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    for path in by_hash((folders[0] / "usr/share/help/de").rglob("*.page")):
        text = re.sub(r"(?s)<info>.*?</info>|<!--.*?-->|<\?.*?\?>", "", read(path))
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
        yield f"{path.parent.name}/{path.stem}", re.sub(r"[ \t]*\n[ \t]*", "\n", text)


def sqlite_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    lists = ("doc_", "keyword", "sitemap", "search", "doclist", "docs.", "toc", "index")
    people = ("crew", "famous", "consortium", "support", "prosupport", "books", "codeof", "copyright")
    for path in by_hash((folders[0] / "usr/share/doc/sqlite3").rglob("*.html")):
        if not path.name.startswith(lists + people) and "releaselog" not in path.parts:
            text = read_html(path)
            yield path.relative_to(folders[0] / "usr/share/doc/sqlite3").as_posix(), text


def read_html(path: Path) -> str:
    """The text of a page without the head, scripts and the navigation bar."""
    page = re.sub(r"(?is)<(script|style|svg|head)\b.*?</\1>|<!--.*?-->", "", read(path))
    page = re.sub(rf"(?i)</?(?:{BLOCK_ELEMENTS})\b[^>]*>", "\n", page)
    text = html.unescape(re.sub(r"<[^>]+>", "", page))
    return re.sub(r"(?s)^.*?Search Changelog\s*", "", text, count=1)


def metamath_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    whole = (folders[0] / "usr/share/metamath/databases/set.mm").read_text("ascii")
    whole = re.sub(r"\s+\((?:Contributed|Revised|Proof\s+\w+|Proposed|Moved)\s+by\s[^()]*\)", "", whole)
    whole = whole[: whole.index("Mathboxes for user contributions\n#")]  # the main part, not the personal ones
    rule = r"(?:=-){10,}=?\n"
    parts = re.split(rf"(?m)^\$\(\n{rule}(.*?)\n{rule}", whole)
    sections = [
        (f"{i:04d}-{title.strip()}", text) for i, (title, text) in enumerate(zip(parts[1::2], parts[2::2], strict=True))
    ]
    for name, text in sorted(sections, key=lambda page: hashlib.sha256(page[0].encode()).hexdigest()):
        blocks = text[:15_000].split("\n\n")  # whole proofs only, and no section outweighs the others
        yield f"set.mm/{name}", "\n\n".join(blocks[:-1] if len(text) > 15_000 else blocks)


def speech_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    for path in by_hash((folders[0] / "package/data").glob("*.txt")):
        if path.name < "1930" and path.stat().st_size < 45_000:
            yield path.stem, read(path)


def junk_pages(folders: tuple[Path, ...]) -> Iterator[Page]:
    """Minified scripts and style sheets, and markup whose prose is cut: what a crawl brings by the side."""
    *scripts, manual = folders
    files = {path: folder for folder in scripts for path in folder.rglob("*.min.*") if is_original(path.name)}
    tables = ("catalog-", "view-", "infoschema-", "spi-", "ecpg-", "sql-")  # pages that one template fills
    html_pages = (manual / "usr/share/doc/postgresql-doc-15/html").glob("*.html")
    pages = [path for path in html_pages if not path.name.startswith(tables)]
    for path in by_hash([*files, *by_hash(pages)[:JUNK_PAGES]]):
        if path in files:
            yield f"{files[path].name}/{path.name}", read(path)[:12_000]
        else:
            # Without the head, the navigation, and prose beyond the first words between two tags.
            page = re.sub(r'(?s)^.*?<body[^>]*>|<div class="nav(?:header|footer)">.*?</div>', "", read(path))
            page = re.sub(r">([^<]{60,})<", lambda prose: f">{prose[1][:20]}<", page)
            yield f"postgresql/{path.stem}", page[:8_000]


def is_original(name: str) -> bool:
    """Whether a minified file is none of the variants that repeat most of another file of its package."""
    variant = r"\.(rtl|slim|esm|bundle|module|umd)\.|^bootstrap-|^core\."
    return name.endswith((".js", ".css")) and (name == "chart.umd.min.js" or not re.search(variant, name))
