"""The noise floor: how far the losses of one run lie apart when only its seed changes."""

import numpy as np

from mixopt.columns import Array
from mixopt.runs import Runs

_SETTINGS = ("proxy", "schedule", "model_size", "tokens", "mixture", "unique_tokens", "batch_tokens", "peak_lr")


def seed_noise(runs: Runs) -> dict[str, float]:
    r"""Standard deviation of the log loss of each target over seeds, pooled over all settings that were repeated.

    .. math:: s^2 = \sum_g \sum_{i \in g} (\log L_i - \overline{\log L_g})^2 \Big/ \sum_g (n_g - 1)

    Diverged runs are left out. NaN where no run was repeated with another seed, or seeds are not told.

    Examples
    --------
    Two seeds 1 % apart are .7 % from their mean:

    >>> same = {"status": "finished", "tokens": 1e6, "mixture": {"web": 1.0}}
    >>> runs = Runs.from_records(["web"], ["web"], [
    ...     same | {"run": "a", "seed": 0, "loss": {"web": 3.00}},
    ...     same | {"run": "b", "seed": 1, "loss": {"web": 3.03}}])
    >>> round(seed_noise(runs)["web"], 4)
    0.007
    """
    if "seed" not in runs.columns:
        return dict.fromkeys(runs.targets, float("nan"))
    runs = runs.finished()
    groups = _groups(runs)
    log_loss = np.log(runs["loss"])
    inside = np.zeros(len(runs.targets))
    freedom = 0
    for group in range(groups.max(initial=-1) + 1):
        if len(np.unique(runs["seed"][groups == group])) < 2:
            continue  # alike in all that is known, the seed too: something else differs that the table does not tell
        rows = log_loss[groups == group]
        inside += ((rows - rows.mean(0)) ** 2).sum(0)
        freedom += len(rows) - 1
    sd = np.sqrt(inside / freedom) if freedom else np.full(len(runs.targets), np.nan)
    return dict(zip(runs.targets, sd.tolist(), strict=True))


def _groups(runs: Runs) -> Array:
    """Rows with the same settings, seed aside, have the same number: [n]."""
    columns = [runs[name].reshape(len(runs), -1).astype(str) for name in _SETTINGS if name in runs.columns]
    keys = ["|".join(row) for row in np.hstack(columns)] if len(runs) else []
    return np.unique(keys, return_inverse=True)[1] if keys else np.zeros(0, int)
