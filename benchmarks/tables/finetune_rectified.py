"""Fine-tuning thirty models: Lin et al., 2024, arXiv:2402.02314, on FLAN.

Table: github.com/linhaowei1/Fine-tuning-Scaling-Law at 5214568, benchmark/flan.csv, test losses after 200 to 1,638,400
examples in 14 doublings (the loss before fine-tuning is left out, as there). The figure is a fit: root mean square
deviation of log loss, averaged over models. Published: the rectified law against a power law, both over a floor.

Beyond the paper, the last doublings are held out: fitted up to 204,800 examples, scored on the three that follow.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.tables.row import Row, reference
from mixopt.fit.fit import Fit
from mixopt.fit.many import fit_targets
from mixopt.fit.norms import Square
from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.power_law import PowerLaw
from mixopt.laws.rectified import Rectified

TABLE = "runs/finetune_rectified/runs_long.csv"
SHA256 = "43c56c478241298665504b16e4f463895f42c2ce54c09964d71d919f432816c8"
PUBLISHED, PUBLISHED_POWER_LAW = 0.0065, 0.036
_NORM = Square(1e-2)
_FITTED = 204_800


def read(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of the models [k], examples [n] and loss [n, k]."""
    with path.open() as file:
        table = [row for row in csv.DictReader(file) if row["task"] == "flan" and int(row["finetune_examples"]) > 0]
    models = sorted({row["config name"] for row in table})
    examples = sorted({int(row["finetune_examples"]) for row in table})
    loss = np.full((len(examples), len(models)), np.nan)
    for row in table:
        place = examples.index(int(row["finetune_examples"])), models.index(row["config name"])
        loss[place] = float(row["test_loss"])
    return models, np.array(examples, float), loss


def laws() -> dict[str, Law]:
    """The rectified law and the power law, each over a floor."""
    return {
        "rectified": Constant("E", 0.02, 5.0) + Rectified("examples", 1e5),
        "power law": Constant("E", 0.02, 5.0) + PowerLaw("examples", 1e5, "A", "beta"),
    }


def fit_models(law: Law, models: list[str], examples: np.ndarray, loss: np.ndarray, **options: int) -> dict[str, Fit]:
    """A fit for each model, all in one batch."""
    return fit_targets(law, {"examples": examples, "loss": loss}, targets=models, norm=_NORM, starts=16, **options)


def deviations(fits: dict[str, Fit], examples: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Root mean square deviation of log loss of each model."""
    predicted = np.stack([fitted.predict({"examples": examples}) for fitted in fits.values()], axis=1)
    return np.sqrt((np.log(predicted / loss) ** 2).mean(0))


def rows() -> Iterator[Row]:
    models, examples, loss = read(reference(TABLE, SHA256))
    found: dict[str, float] = {}
    seconds = 0.0
    for name, law in laws().items():
        began = process_time()
        fits = fit_models(law, models, examples, loss)
        seconds = seconds or process_time() - began
        found[name] = float(deviations(fits, examples, loss).mean())
    yield Row(
        "finetune_rectified",
        "RMSD of log loss, 30 models",
        "E + rectified",
        found["rectified"],
        reach=PUBLISHED,
        published=PUBLISHED,
        seconds=seconds,
        note=f"a power law: published {PUBLISHED_POWER_LAW}, here {found['power law']:.4f}",
    )
    yield _beyond(models, examples, loss)


def _beyond(models: list[str], examples: np.ndarray, loss: np.ndarray) -> Row:
    """What the fits to fewer examples predict of more."""
    seen = examples <= _FITTED
    law = laws()
    began = process_time()
    fits = fit_models(law["rectified"], models, examples[seen], loss[seen], replicates=100)
    seconds = process_time() - began
    ends = [fitted.interval({"examples": examples[~seen]}, observation=True) for fitted in fits.values()]
    low, high = (np.stack(part, axis=1) for part in zip(*ends, strict=True))
    straight = fit_models(law["power law"], models, examples[seen], loss[seen])
    return Row(
        "finetune_rectified",
        "the same, on 2, 4 and 8 times the examples",
        "E + rectified",
        float(deviations(fits, examples[~seen], loss[~seen]).mean()),
        coverage=float(((low <= loss[~seen]) & (loss[~seen] <= high)).mean()),
        seconds=seconds,
        note=f"a power law: {float(deviations(straight, examples[~seen], loss[~seen]).mean()):.4f}",
    )
