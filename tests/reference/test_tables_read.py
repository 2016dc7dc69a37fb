"""Published tables through the generic path: a mapping each, and what comes out is ready to be fitted."""

import numpy as np
import pytest

from mixopt.fit.fit import fit
from mixopt.fit.norms import Huber
from mixopt.laws.chinchilla import chinchilla
from mixopt.runs import Runs
from mixopt.runs_pool import pool

DIGESTS = {
    "regmix/train_mixture_1m.csv": "04a32ef4ab594376bf90e11404c033668f887c351d6a03ad3744824c7296a2d8",
    "regmix/train_pile_loss_1m.csv": "49a959aa07ce5c20831d5abe3a7896ff0cd90a398bd407c8913fd5588be0465a",
    "regmix/test_mixture_60m.csv": "197267b7d6f15367e2f46c881e564c35b0d34e51b1754bb09d07e650cf8e1ce8",
    "regmix/test_pile_loss_60m.csv": "8fe69d59ab7dd4fae4736459f4265ec93c7ed1ad1eca407346052560edc72b5b",
    "olmix/dclm_ratios.csv": "adb28a62cb39da22fa0d9ce36a5631044b3f3ea13c57f23c1f08240ca5347c81",
    "olmix/dclm_metrics.csv": "4c891a1eeb556e1e91abe60695011b51971aef6db40ce33796a73af612a70bdc",
    "dmsl_shukor/runs.csv": "d16bb0968fd1f53fdb66da8a2acbec2e477c750e30916daf24b628319f86aff4",
    "steplaw/dense_lr_bs_loss.csv": "1cd08722753709916e1ece1483924d4d8fd1dd1250a9baa112568417197340ef",
    "datablations/runs_clean_182.csv": "ea16e8e987240ce9b4a4488d767f6982b62c3b7de32c4b3922ae82910eb9d0fd",
    "gadre_overtraining/runs.csv": "62281ebc57af80202214a373e98da9db12475d59715b52c0a9ebd527aaa17ce3",
    "chinchilla_epoch/svg_extracted_data.csv": "193478df4e90f040016431996c45682659306840ecdadf83cfb9cd5ca0aa1b30",
}
REGMIX = (
    ("train_mixture_1m.csv", "train_pile_loss_1m.csv"),
    ("test_mixture_60m.csv", "test_pile_loss_60m.csv"),
)


def test_regmix_from_its_two_files(reference_table):
    """512 runs at 1M and 256 at 60M, 17 corpora, 13 losses; row sums of .996 to 1.003 are divided out and said."""
    sizes = (1e6, 60e6)
    for names, rows, size in zip(REGMIX, (512, 256), sizes, strict=True):
        mixtures, losses = (reference_table(f"runs/regmix/{name}", DIGESTS[f"regmix/{name}"]) for name in names)
        columns = {"run": "index", "mixture": "train_the_pile_*", "loss": "metric/the_pile_*_val_loss"}
        runs = Runs.read([losses, mixtures], columns | {"model_size": size, "tokens": 1e9, "renormalize": True})
        assert (len(runs), len(runs.corpora), len(runs.targets)) == (rows, 17, 13)
        np.testing.assert_allclose(runs["mixture"].sum(-1), 1, atol=1e-12)
        recognized = Runs.read(mixtures, {"model_size": size, "tokens": 1e9})
        np.testing.assert_array_equal(recognized["loss"], runs["loss"])
        assert any("were rounded and divided by their sum" in note for note in runs.notes)


def test_olmix_in_bits_per_byte(reference_table):
    names = ("dclm_ratios.csv", "dclm_metrics.csv")
    ratios, _ = (reference_table(f"runs/olmix/{name}", DIGESTS[f"olmix/{name}"]) for name in names)
    runs = Runs.read(ratios)
    assert (len(runs), len(runs.corpora), len(runs.targets)) == (127, 24, 110)
    assert runs.loss_unit == "bits/byte"
    first = runs["run"].tolist().index("19g3guks")
    assert runs.target("arc_challenge:rc::olmes")["loss"][first] == 1.69303692503894
    assert runs["mixture"][first, runs.corpora.index("social_life")] == pytest.approx(0.7)


READ = {
    "dmsl_shukor/runs.csv": (
        """
run: {same: [model_size, mixture]}
tokens: n_tokens
mixture: "weight_*"
loss: {from: "*_loss", except: [openhermes_loss]}
""",
        (1748, 7, 7),
        "Mid-run checkpoints are not short runs",
    ),
    "steplaw/dense_lr_bs_loss.csv": (
        """
run: exp_name
model_size: {from: N, counts: non_embedding}
tokens: D
batch_tokens: {from: bs, times: 2048}
peak_lr: lr
loss: {pile: smooth loss}
""",
        (1404, 1, 1),
        "tells no mixture",
    ),
    "datablations/runs_clean_182.csv": ("model_size: params\n", (182, 1, 1), "tells no mixture"),
    "gadre_overtraining/runs.csv": (
        """
run: name
model_size: {from: params_no_embed, counts: non_embedding}
batch_tokens: {from: global_batch_seqs, times: 2048}
peak_lr: lr
loss: {from: "loss_*", except: ["loss_lo_*", "loss_hi_*"]}
""",
        (35, 1, 8),
        "Columns not read",
    ),
    "chinchilla_epoch/svg_extracted_data.csv": (
        "model_size: Model Size\nflops: Training FLOP\n",
        (245, 1, 1),
        "tokens = flops / (6 * model_size)",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_one_file_and_a_mapping(reference_table, tmp_path, name):
    text, shape, note = READ[name]
    (tmp_path / "columns.yaml").write_text(text)
    runs = Runs.read(reference_table(f"runs/{name}", DIGESTS[name]), tmp_path / "columns.yaml")
    assert (len(runs), len(runs.corpora), len(runs.targets)) == shape
    assert any(note in said for said in runs.notes)
    columns = runs.finished().target(runs.targets[0])
    for column in ("model_size", "tokens", "loss"):
        assert np.isfinite(columns[column]).all()
        assert (columns[column] > 0).all()
    assert len(runs.finished()) >= len(runs) - 6


def test_what_is_read_fits_as_published(reference_table):
    """Chinchilla's 240 runs through a mapping of two lines: E 1.8172, alpha .3478, beta .3658 (arXiv:2404.10102)."""
    name = "chinchilla_epoch/svg_extracted_data.csv"
    runs = Runs.read(
        reference_table(f"runs/{name}", DIGESTS[name]), {"model_size": "Model Size", "flops": "Training FLOP"}
    )
    kept = runs.where(runs["loss"][:, 0] < np.sort(runs["loss"][:, 0])[-5])
    assert len(kept) == 240
    fitted = fit(chinchilla(), kept.target("loss"), norm=Huber(1e-3), starts=16, seed=0)
    found = dict(zip(fitted.law.names, fitted.theta, strict=True))
    assert found["E"] == pytest.approx(1.8172, abs=0.01)
    assert found["alpha"] == pytest.approx(0.3478, abs=0.005)
    assert found["beta"] == pytest.approx(0.3658, abs=0.005)


def test_two_sizes_and_a_coarser_bucketing_in_one_table(reference_table):
    """RegMix at 1M and 60M with both of its PubMed corpora as one."""
    tables: dict[str, Runs] = {}
    for source, size, (mixtures, losses) in zip(("small", "large"), (1e6, 60e6), REGMIX, strict=True):
        reference_table(f"runs/regmix/{losses}", DIGESTS[f"regmix/{losses}"])
        path = reference_table(f"runs/regmix/{mixtures}", DIGESTS[f"regmix/{mixtures}"])
        tables[source] = Runs.read(path, {"model_size": size, "tokens": 1e9})
    merged = {"corpora": {"pubmed_central": "medicine", "pubmed_abstracts": "medicine"}}
    both = pool(tables, {"sources": dict.fromkeys(tables, merged)})
    assert (len(both), len(both.corpora), len(both.targets)) == (768, 16, 13)
    np.testing.assert_allclose(both["mixture"].sum(-1), 1, atol=1e-12)
    assert set(both["model_size"]) == {1e6, 60e6}
