import pytest

from mixopt.emit.huggingface import emit
from mixopt.emit.write import write
from mixopt.errors import EmitError
from mixopt.schedules.schedule import Schedule, Segment
from tests.recipes import recipe


def test_it_writes_what_the_emitter_returns(tmp_path):
    paths = write(recipe(), "huggingface", tmp_path / "new")
    assert {path.name: path.read_text() for path in paths} == emit(recipe())
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["train.py", "train.yaml"]


def test_tables_keep_their_line_ends(tmp_path):
    schedule, _ = write(recipe(), "tabulated", tmp_path)
    assert schedule.read_bytes().count(b"\r\n") == 1001


def test_an_unknown_emitter_is_named_with_those_there_are(tmp_path):
    with pytest.raises(ValueError, match=r"has no 'huggingfase'; it has .*huggingface, .*tabulated"):
        write(recipe(), "huggingfase", tmp_path)


def test_a_refusal_leaves_nothing_behind(tmp_path):
    ramp = Schedule(tuple(Segment(524_288_000, size, size) for size in (2.0**19, 2.0**20)))
    with pytest.raises(EmitError, match="keeps one batch size"):
        write(recipe(batch=ramp), "huggingface", tmp_path / "new")
    assert not (tmp_path / "new").exists()
