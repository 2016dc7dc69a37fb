"""Tables of other sizes, lengths and bucketings in one."""

import numpy as np
import pytest

from mixopt.errors import RunsError
from mixopt.runs import Runs
from mixopt.runs_pool import pool


def table(corpora, targets, mixtures, **more):
    rows = len(mixtures)
    return Runs.from_records(
        corpora,
        targets,
        [
            {
                "run": f"r{row}",
                "tokens": 1e8,
                "model_size": 1e6,
                "mixture": dict(zip(corpora, mixtures[row], strict=True)),
                "unique_tokens": {name: 1e7 * (i + 1) for i, name in enumerate(corpora)},
                "loss": dict.fromkeys(targets, 3.0 + row / 10),
            }
            | more
            for row in range(rows)
        ],
    )


def test_corpora_are_renamed_merged_and_split(tmp_path):
    first = table(["pile_cc", "github", "gitlab"], ["pile_cc"], [[0.5, 0.2, 0.3], [1.0, 0.0, 0.0]])
    second = table(["all_web"], ["web"], [[1.0]], model_size=1e8, tokens=1e10)
    path = tmp_path / "pool.yaml"
    path.write_text(
        """
sources:
  a:
    corpora: {pile_cc: web, github: code, gitlab: code}
    targets: {pile_cc: web}
  b:
    corpora:
      all_web: {web: 0.9, code: 0.1}
"""
    )
    both = pool({"a": first, "b": second}, path)
    assert (both.corpora, both.targets) == (("web", "code"), ("web",))
    assert both["run"].tolist() == ["a/r0", "a/r1", "b/r0"]
    np.testing.assert_allclose(both["mixture"], [[0.5, 0.5], [1.0, 0.0], [0.9, 0.1]])
    np.testing.assert_allclose(both["unique_tokens"], [[1e7, 5e7], [1e7, 5e7], [9e6, 1e6]])
    assert both["model_size"].tolist() == [1e6, 1e6, 1e8]


def test_shares_are_kept_whatever_is_merged_and_split(rng):
    """Law of conservation: under any mapping each row's shares sum to what they did, and so do its tokens."""
    for _ in range(50):
        old, new = rng.integers(1, 6, 2)
        shares = rng.dirichlet(np.ones(old), 4)
        runs = table([f"c{i}" for i in range(old)], ["t"], shares.tolist())
        names = [f"n{i}" for i in range(new)]
        parts = {f"c{i}": dict(zip(names, rng.dirichlet(np.ones(new)).tolist(), strict=True)) for i in range(old)}
        made = pool({"x": runs}, {"sources": {"x": {"corpora": parts}}})
        np.testing.assert_allclose(made["mixture"].sum(-1), 1, atol=1e-12)
        assert (made["mixture"] >= 0).all()
        np.testing.assert_allclose(made["unique_tokens"].sum(-1), runs["unique_tokens"].sum(-1))
        weights = np.array([list(parts[name].values()) for name in runs.corpora])
        np.testing.assert_allclose(made["mixture"], shares @ weights)


def test_passes_follow_from_what_was_merged():
    """Two corpora of 10M and 20M tokens, 30M of each seen: 3 and 1.5 passes; as one 60M of 30M, 2 passes."""
    runs = table(["a", "b"], ["t"], [[0.5, 0.5]], tokens=6e7, epochs={"a": 3.0, "b": 1.5})
    made = pool({"x": runs}, {"sources": {"x": {"corpora": {"a": "ab", "b": "ab"}}}})
    np.testing.assert_allclose(made["epochs"], [[2.0]])


def test_passes_of_each_phase_add_by_themselves():
    """10M tokens seen 2 times and 20M .5 times before annealing, 1 and 2.5 times in it: 30M of 30M, and 60M of 30M."""
    phases = {"epochs": {"a": 2.0, "b": 0.5}, "epochs_anneal": {"a": 1.0, "b": 2.5}}
    runs = table(["a", "b"], ["t"], [[1 / 3, 2 / 3]], tokens=9e7, **phases)
    made = pool({"x": runs}, {"sources": {"x": {"corpora": {"a": "ab", "b": "ab"}}}})
    np.testing.assert_allclose(made["epochs"], [[1.0]])
    np.testing.assert_allclose(made["epochs_anneal"], [[2.0]])
    both = pool({"x": runs, "y": table(["c"], ["t"], [[1.0]], **{name: {"c": 1.0} for name in phases})})
    assert both["epochs_anneal"].tolist() == [[1.0, 2.5, 0.0], [0.0, 0.0, 1.0]]


def test_what_is_left_out_or_unknown_is_said():
    first = table(["web"], ["exam", "code"], [[1.0]], peak_lr=1e-3)
    made = pool({"a": first, "b": table(["web"], ["exam"], [[1.0]])})
    said = " ".join(made.notes)
    assert "peak_lr is not known for the runs of b" in said
    assert "Targets of a that others did not measure are left out: code" in said
    assert np.isnan(made["peak_lr"]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"source": {}}, "source"),
        ({"sources": {"aa": {}}}, r"sources has no 'aa'; did you mean 'a'\?"),
        ({"sources": {"a": {"corpora": {"wbe": "w"}}}}, r"sources.a.corpora has no 'wbe'; did you mean 'web'\?"),
        ({"sources": {"a": {"targets": {"exa": "w"}}}}, r"sources.a.targets has no 'exa'; did you mean 'exam'\?"),
        (
            {"sources": {"a": {"corpora": {"web": {"x": 0.5, "y": 0.4}}}}},
            r"\{x: 0.5, y: 0.4\} is not accepted; give parts",
        ),
        ({"sources": {"a": {"targets": {"exam": None, "code": None}}}}, "no target was measured by every table"),
        ({"sources": {"a": {"targets": {"exam": "code"}}}}, "calls two targets 'code'; losses do not add"),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_nearest_name(mapping, sentence):
    with pytest.raises(RunsError, match=sentence):
        pool({"a": table(["web"], ["exam", "code"], [[1.0]])}, mapping)


def test_a_wrong_file_is_refused_with_its_line(tmp_path):
    path = tmp_path / "pool.yaml"
    path.write_text("sources:\n  a:\n    corpra: {web: w}\n")
    with pytest.raises(RunsError, match=r"pool\.yaml:3: sources\.a has no key 'corpra'; did you mean 'corpora'\?"):
        pool({"a": table(["web"], ["exam"], [[1.0]])}, path)
    path.write_text("sources:\n  a:\n    corpora:\n      web: {x: 0.5, y: 0.4}\n")
    with pytest.raises(RunsError, match=r"pool\.yaml:4: .* give parts that are not negative and sum to 1"):
        pool({"a": table(["web"], ["exam"], [[1.0]])}, path)
    with pytest.raises(RunsError, match=r"no\.yaml is not there"):
        pool({"a": table(["web"], ["exam"], [[1.0]])}, tmp_path / "no.yaml")


def test_what_does_not_compare_is_not_pooled():
    nats = table(["web"], ["exam"], [[1.0]], tokenizer="gpt2")
    with pytest.raises(RunsError, match="losses of the tokenizers 'gpt2' and 'llama' in nats per token"):
        pool({"a": nats, "b": table(["web"], ["exam"], [[1.0]], tokenizer="llama")})
    measured = table(["web"], ["exam"], [[1.0]], bits_per_byte={"exam": 1.0})
    with pytest.raises(RunsError, match=r"different units \(a in nats/token, b in bits/byte\)"):
        pool({"a": nats, "b": measured.in_bits_per_byte()})
    with pytest.raises(RunsError, match="with embeddings for some runs and without for others"):
        pool({"a": table(["web"], ["exam"], [[1.0]], size_counts="all"), "b": table(["web"], ["exam"], [[1.0]])})
    less = {name: values for name, values in nats.columns.items() if name != "tokens"}
    with pytest.raises(RunsError, match="b tells no tokens, which others do; give it as a constant when reading"):
        pool({"a": nats, "b": Runs(nats.corpora, nats.targets, less)})
    with pytest.raises(RunsError, match="no table was given"):
        pool({})
