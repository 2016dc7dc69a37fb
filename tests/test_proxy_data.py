"""Tokens on disk: text comes back, content decides what is redone, leaks and misfits are refused."""

import json
import math
from pathlib import Path
from pydoc_data import topics

import numpy as np
import pytest

from mixopt.corpora import Corpus
from mixopt.proxy import data as module
from mixopt.proxy.data import TokenData, load, prepare

pytest.importorskip("tokenizers", reason="data is prepared by the tokenizers package")

TEXTS = [topics.topics[key] for key in sorted(topics.topics)]
ODD = "naïve 東京 🙂 <eos> \u00a0\r\n"


def corpora() -> dict[str, Corpus]:
    manual = Corpus("manual", (*TEXTS[:12], ODD), (TEXTS[13], ODD), None, "pydoc")
    numbers = tuple(" ".join(str(n * n) for n in range(k, k + 200)) for k in range(0, 3000, 200))
    return {"manual": manual, "squares": Corpus("squares", numbers[:-1], numbers[-1:], None, "arithmetic")}


def made(folder: Path, **options: float) -> TokenData:
    named = corpora()
    return prepare(
        named, {name: corpus.valid for name, corpus in named.items()}, folder, **{"vocabulary": 400} | options
    )


def test_text_comes_back_from_its_tokens(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    data = made(tmp_path)
    tokenizer = Tokenizer.from_file(str(data.tokenizer_path))
    end = tokenizer.token_to_id("<eos>")
    for name, corpus in corpora().items():
        for tokens, documents in ((data.train[name], corpus.train), (data.valid[name], corpus.valid)):
            assert tokens.dtype == np.uint16
            pieces = np.split(tokens, np.flatnonzero(tokens == end) + 1)
            assert len(pieces.pop()) == 0
            assert [tokenizer.decode(piece[:-1].tolist()) for piece in pieces] == list(documents)
        assert data.documents[name] == len(corpus.train)
        assert data.valid_bytes[name] == sum(len(text.encode()) for text in corpus.valid)
        assert data.bytes_per_token_train[name] == pytest.approx(corpus.train_bytes / len(data.train[name]))
    assert data.vocabulary == 400
    assert max(int(tokens.max()) for tokens in data.train.values()) < 400


def test_tokens_are_shorter_than_bytes_and_mapped_from_disk(tmp_path: Path) -> None:
    data = made(tmp_path)
    assert data.bytes_per_token_train["manual"] > 1.5
    assert isinstance(data.train["manual"], np.memmap)


def test_the_same_content_is_loaded_and_other_content_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_build", lambda *_: pytest.fail("work was done twice"))
        again = made(tmp_path)
    assert {name: len(tokens) for name, tokens in again.train.items()} == {n: len(t) for n, t in first.train.items()}
    assert made(tmp_path, vocabulary=300).vocabulary == 300


def test_a_stopped_preparation_is_not_taken_for_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setattr(module, "_encode", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, vocabulary=300)
    with pytest.raises(ValueError, match=r"has no data\.json\. Run `prepare` into it first"):
        load(tmp_path)


def test_two_folders_hold_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        made(tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) == 6
    assert all((tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes() for file in files)


def test_a_corpus_has_no_more_say_in_the_tokenizer_than_its_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLICE_BYTES", 3000)
    named = {
        name: Corpus(name, (text,), (text,), None, "") for name, text in {"a": "ab " * 900, "c": "cd " * 9000}.items()
    }
    prepare(named, {"t": ["ef " * 30]}, tmp_path, vocabulary=300)
    merges = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["merges"]
    assert {"".join(merge) for merge in merges} >= {"ab", "cd"}


def test_a_leak_is_refused_with_corpus_target_and_share(tmp_path: Path) -> None:
    named = corpora()
    # Half of the windows of the target stand in the corpus: one text of it, the other is new.
    new = " ".join(f"{math.sqrt(n):.12f}" for n in range(2, 2000))[: len(TEXTS[0])]
    targets = {"clean": [new], "leaky": [TEXTS[0], new]}
    with pytest.raises(
        ValueError, match=r"50% of target 'leaky' stands verbatim in the training text of corpus 'manual'"
    ):
        prepare(named, targets, tmp_path, vocabulary=300)
    with pytest.raises(ValueError, match=r"at most 49% may\. Remove what they share .* or raise leakage_limit"):
        prepare(named, targets, tmp_path, vocabulary=300, leakage_limit=0.49)
    assert prepare(named, targets, tmp_path, vocabulary=300, leakage_limit=0.51).vocabulary == 300


@pytest.mark.parametrize("vocabulary", [256, 65_536])
def test_a_vocabulary_that_does_not_fit_16_bits_or_the_bytes_is_refused(vocabulary: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"vocabulary {vocabulary}; tokens are kept in 16 bits, so 257 .* to 65535"):
        made(tmp_path, vocabulary=vocabulary)


def test_a_corpus_or_target_without_text_is_refused(tmp_path: Path) -> None:
    named = corpora()
    with pytest.raises(ValueError, match=r"target 'empty' has no text\. Name a source that has some"):
        prepare(named, {"empty": ("",)}, tmp_path)
    with pytest.raises(ValueError, match=r"corpus 'bare' has no text"):
        prepare({"bare": Corpus("bare", (), (), None, "")}, {"manual": named["manual"].valid}, tmp_path)
