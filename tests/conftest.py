"""What every test may ask for: one seeded generator, and published tables that live outside the repository."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables.row import MissingTable, reference


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240611)


@pytest.fixture
def reference_table() -> Callable[[str, str], Path]:
    """Path of a published table below $MIXOPT_REFERENCE_DATA, its content verified; the test is skipped without it."""

    def find(relative_path: str, sha256: str) -> Path:
        try:
            return reference(relative_path, sha256)
        except MissingTable as missing:
            pytest.skip(str(missing))

    return find


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of two tiny corpora, web and code, and the target code: training takes no time."""
    from mixopt.corpora import Corpus
    from mixopt.proxy.data import prepare

    rng = np.random.default_rng(5)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), 5)) for _ in range(300)]

    def text(low: int, high: int) -> str:
        return " ".join(words[i] for i in rng.integers(low, high, 4_000))

    corpora = {
        name: Corpus(name, (text(*span), text(*span)), (text(*span),), None, name)
        for name, span in (("web", (0, 300)), ("code", (200, 300)))
    }
    folder = tmp_path_factory.mktemp("study")
    prepare(corpora, {"code": corpora["code"].valid}, folder / "data", vocabulary=300, leakage_limit=1.0)
    return folder
