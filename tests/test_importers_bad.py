"""Tables as they should not be: each is one clear sentence with place, value and remedy, or it is read correctly."""

import pickle
import time
import zipfile

import numpy as np
import pandas as pd
import pytest

from mixopt.errors import RunsError
from mixopt.runs import Runs

GOOD = "run,tokens,mixture[web],mixture[code],loss[exam]\na,1e6,0.25,0.75,3.0\nb,2e6,0.5,0.5,2.9\n"


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "t.csv is not a CSV table: it holds nothing; give one with a header and a row a run"),
        ("\n\n", "it holds nothing"),
        (GOOD.splitlines()[0], "t.csv has no row; give a row a run"),
        (changed("1e6", "lots"), r"t.csv row 1: tokens is 'lots'; give plain numbers, e.g. 1.5e9"),
        (changed("2.9", "2,9"), r"t.csv row 2 has 6 columns, the header 5; quote values that hold commas"),
        (changed("b,2e6,0.5,0.5,2.9", "b,2e6,0.5,0.5"), "t.csv row 2 has 4 columns, the header 5"),
        (changed("0.25", "0.2"), r"t.csv row 1 \(run a\): mixture sums to 0.95; shares must sum to 1 within 1e-06"),
        (changed("0.25", ""), r"t.csv row 1 \(run a\): mixture is nan; it must be in \[0, 1\]"),
        (changed("0.25,0.75", "-0.25,1.25"), r"t.csv row 1 \(run a\): mixture is -0.25; it must be in \[0, 1\]"),
        (
            changed("b,2e6,0.5,0.5,2.9", "a,1e6,0.25,0.75,3.0"),
            "run 'a' twice .* in rows 1 and 2, the same in every col",
        ),
        (changed("b,2e6", "a,1e6"), r"run 'a' twice at 1e\+06 tokens, in rows 1 and 2, with loss\[exam\] 3.0 and 2.9"),
        (changed("b,", ","), "t.csv row 2 names no run; give each row a run, or no column of runs"),
        (changed("2e6", ""), r"t.csv row 2 \(run b\): tokens is nan"),
        (changed("2e6", "inf"), r"t.csv row 2 \(run b\): tokens is inf"),
        (changed("tokens", "token"), r"unknown column 'token'; did you mean tokens\? columns are"),
        (
            changed("mixture[code]", "mixture[web]"),
            r"has the column 'mixture\[web\]' twice \(columns 3 and 4\); rename",
        ),
        (changed("loss[exam]", "los"), "unknown column 'los'; did you mean loss"),
        (GOOD.replace(",", " "), "t.csv has one column, 'run tokens .*'; separate columns by commas, tabs, semicolons"),
        (changed("a,1e6", '"a,1e6'), "t.csv is not a CSV table after row 0 .*; write it again"),
    ],
)
def test_bad_text(tmp_path, text, sentence):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(RunsError, match=sentence):
        Runs.read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (GOOD.encode("utf-16")[2:], "t.csv is not a CSV table: it holds zero bytes. Save it as UTF-8 text"),
        (GOOD.replace("a,", "é,").encode("latin-1"), r"t.csv is not UTF-8 text .*; save it as UTF-8"),
        (GOOD.encode("utf-16") + b"\x00", "t.csv is not UTF-16.* text .*; save it as UTF-8"),
        (b"PK\x03\x04rest of a zip", "t.csv is compressed; unpack it first"),
        (b"\x1f\x8brest of a gzip", "t.csv is compressed; unpack it first"),
        (pickle.dumps({"a": 1}), r"t.csv is not|t.csv is compressed"),
    ],
)
def test_bad_bytes(tmp_path, content, sentence):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(RunsError, match=sentence):
        Runs.read(tmp_path / "t.csv")


def test_pickles_archives_and_strange_files_are_refused_unread(tmp_path):
    """Nothing is unpacked, so no archive can unpack to more than there is room for; nothing is unpickled."""
    pd.DataFrame({"a": [1]}).to_pickle(tmp_path / "t.pkl")
    with pytest.raises(
        RunsError, match=r"t\.pkl is not read: a pickle can run code when it is opened; write the table"
    ):
        Runs.read(tmp_path / "t.pkl")
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", b"0" * 10**7)
    with pytest.raises(RunsError, match=r"t\.zip is not read: it is compressed; unpack it first"):
        Runs.read(tmp_path / "t.zip")
    with pytest.raises(RunsError, match=r"is a folder that no importer knows; give a table of runs in it"):
        Runs.read(tmp_path)
    with pytest.raises(RunsError, match="no table was given"):
        Runs.read([])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is not a table of JSON lines: it holds nothing"),
        ('{"run": "a"', r"t\.jsonl:1 is not JSON"),
        ('{"run": "a"}\n[1, 2]', r"t\.jsonl:2 is not a JSON object; give one a run"),
        ('{"run": "a", "loss": {"exam": "three"}}', r"t\.jsonl row 1: loss\[exam\] is 'three'; give plain numbers"),
        ('{"run": "a", "loss": {"exam": [3.0]}}', r"t\.jsonl row 1: loss\[exam\] is \[3\.0\]; give plain numbers"),
    ],
)
def test_bad_json_lines(tmp_path, text, sentence):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(RunsError, match=sentence):
        Runs.read(tmp_path / "t.jsonl")


def test_bad_parquet(tmp_path):
    pd.DataFrame({"run": ["a"], "loss[exam]": [["x"]]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(RunsError, match=r"t\.parquet row 1: loss\[exam\] is \['x'\]; give plain numbers"):
        Runs.read(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunsError, match=r"t\.parquet is not a parquet table"):
        Runs.read(tmp_path / "t.parquet")


def test_odd_tables_that_are_right(tmp_path):
    """One run, all mixtures the same, a corpus never used, losses that were lost: read as they are, and said."""

    def read(text: str) -> Runs:
        (tmp_path / "t.csv").write_text(text)
        return Runs.read(tmp_path / "t.csv")

    assert len(read("\n".join(GOOD.splitlines()[:2]))) == 1
    assert any("one mixture" in note for note in read(changed("0.25,0.75", "0.5,0.5")).notes)
    unused = read(changed("0.25,0.75", "0,1").replace("0.5,0.5", "0,1"))
    assert any("No run used web" in note for note in unused.notes)
    for lost in ("", "NaN", "inf", "-3.0", "0"):
        runs = read(changed("2.9", lost))
        assert runs["status"].tolist() == ["finished", "diverged"]
        assert runs.finished()["run"].tolist() == ["a"]
    spaced = read(changed("a,1e6", "a, 1e6 ").replace("run,tokens", "run, tokens"))
    assert spaced["tokens"].tolist() == [1e6, 2e6]


def test_a_hundred_thousand_columns_take_seconds(tmp_path, rng):
    corpora, rows = 100_000, 3
    shares = rng.dirichlet(np.full(corpora, 0.1), rows)
    header = ",".join(["run", *(f"mixture[c{i}]" for i in range(corpora)), "loss[exam]"])
    lines = [",".join([f"r{row}", *map(repr, shares[row].tolist()), "3.0"]) for row in range(rows)]
    (tmp_path / "wide.csv").write_text("\n".join([header, *lines]))
    start = time.process_time()
    runs = Runs.read(tmp_path / "wide.csv")
    assert time.process_time() - start < 10
    np.testing.assert_array_equal(runs["mixture"], shares)
    with pytest.raises(RunsError, match=r"lacks the column unique_tokens\[c1\]"):
        Runs.from_pandas(
            runs.to_pandas().iloc[:, :3].assign(**{"mixture[c1]": 0.5, "unique_tokens[c0]": 1.0, "loss": 3})
        )
