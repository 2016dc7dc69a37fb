"""What a reader has to know before believing laws fitted to a table of runs."""

from collections.abc import Mapping

import numpy as np

from mixopt.fit.fit import Fit
from mixopt.runs import Runs

RELIABLE_SIZE = 15e6
"""Proxies below this rank mixtures for large models less reliably: Spearman .73 at 1M, over .89 above 15M parameters
(Olmix, arXiv:2602.12237)."""
# Size and tokens on a line this straight leave under 6 % of the variance of one to tell it from the other.
_COLLINEAR = 0.97
_GUESSED = {
    "model_size": "what a larger model gains",
    "batch_tokens": "the best",
    "peak_lr": "the best",
}


def cautions(runs: Runs, fits: Mapping[str, Fit], noise: Mapping[str, float]) -> list[str]:
    """Sentences about all transformer runs, diverged ones too, and about the fit of each target to the others."""
    said = list[str]()
    sizes = runs.columns.get("model_size", np.array([np.inf]))
    if (largest_size := float(np.nanmax(sizes))) < RELIABLE_SIZE:
        said.append(
            f"The largest proxy has {largest_size:,.0f} parameters. Proxies under 15M do not rank mixtures for large "
            "models reliably (rank correlation .73 at 1M against .89 above 15M, arXiv:2602.12237): this shows the "
            "method, not a production mixture."
        )
    for state, words in {"diverged": "diverged", "unfinished": "did not finish"}.items():
        if lost := int((runs["status"] == state).sum()):
            said.append(f"{lost} of {len(runs)} transformer runs {words}; they are kept in the table and not fitted.")
    if not np.isfinite(list(noise.values())).all():
        said.append("No run was repeated with another seed, so the noise is not known. Repeat some with other seeds.")
    said += _untold(runs.finished())
    return said + _of_targets(fits)


def _of_targets(fits: Mapping[str, Fit]) -> list[str]:
    """Each caution once, with the targets that it holds for."""
    held: dict[str, list[str]] = {}
    for target, fitted in fits.items():
        for caution in fitted.cautions():
            held.setdefault(caution, []).append(target)
    return [f"{_named(targets, len(fits))}: {caution}" for caution, targets in held.items()]


def _named(targets: list[str], every: int) -> str:
    if len(targets) == every > 1:
        return f"all {every} targets"
    return ", ".join(targets[:3]) + (f" and {len(targets) - 3} more" if len(targets) > 3 else "")


def _untold(runs: Runs) -> list[str]:
    """What the design of the runs leaves to priors."""
    constant = [name for name in _GUESSED if name in runs.columns and np.ptp(runs[name]) == 0]
    said = [f"All runs have one {name}, so {_GUESSED[name]} was not measured." for name in constant]
    if not {"model_size", "tokens"} <= set(runs.columns):
        return said
    size, tokens = (np.log(runs[name]) for name in ("model_size", "tokens"))
    if np.ptp(size) and np.ptp(tokens) and abs(np.corrcoef(size, tokens)[0, 1]) > _COLLINEAR:
        said.append(
            "Size and tokens rise together in these runs, so their effects cannot be told apart; add runs off the "
            "diagonal."
        )
    return said
