"""Chinchilla's runs, read off a figure of its paper by Besiroglu et al., 2024, arXiv:2404.10102.

Table: github.com/epoch-research/analyzing-chinchilla at 9225883, data/svg_extracted_data.csv, 245 runs. Tokens are
compute / 6 / size. The five runs with the highest loss are dropped, as there. Its notebook reaches an objective of
1.0182740e-3 from 4500 starts; all of it is a fit, nothing is held out.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.fit.fit import fit
from mixopt.laws.chinchilla import BESIROGLU, chinchilla, to_paper

TABLE = "runs/chinchilla_epoch/svg_extracted_data.csv"
SHA256 = "193478df4e90f040016431996c45682659306840ecdadf83cfb9cd5ca0aa1b30"
NOTEBOOK = 1.0182740e-3
_ALLOWED = {"E": 0.01, "alpha": 0.005, "beta": 0.005}


def read(path: Path, dropped: int = 5) -> dict[str, np.ndarray]:
    """The runs as columns, without the `dropped` ones of highest loss."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    size, flops, loss = (np.array([float(row[k]) for row in rows]) for k in ("Model Size", "Training FLOP", "loss"))
    kept = np.sort(np.argsort(loss)[: len(loss) - dropped])
    return {"model_size": size[kept], "tokens": (flops / 6 / size)[kept], "loss": loss[kept]}


def rows() -> Iterator[Row]:
    runs = read(reference(TABLE, SHA256))
    began = process_time()
    fitted = fit(chinchilla(), runs)
    seconds = process_time() - began
    found = to_paper(dict(zip(fitted.law.names, fitted.theta.tolist(), strict=True)))
    yield Row(
        "chinchilla_epoch",
        "objective, log loss",
        "chinchilla",
        ours=fitted.log_loss_objective,
        reach=1.01828e-3,
        published=NOTEBOOK,
        seconds=seconds,
        note=f"{fitted.law.describe(fitted.theta)}; A off {found['A'] / BESIROGLU['A'] - 1:+.1%}, "
        f"B {found['B'] / BESIROGLU['B'] - 1:+.1%}",
    )
    yield Row("chinchilla_epoch", "starts that agree", "chinchilla", ours=fitted.agreement, reach=0.9, higher=True)
    for name, allowed in _ALLOWED.items():
        off = abs(found[name] - BESIROGLU[name])
        yield Row("chinchilla_epoch", f"{name}, distance", "chinchilla", off, allowed, note=f"{found[name]:.4f}")
