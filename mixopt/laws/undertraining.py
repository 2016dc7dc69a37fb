r"""What a run lacks for having seen few tokens, where larger models lack more."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class Undertraining(Law):
    r"""The excess loss of a run that stopped early, or of a checkpoint along the way.

    .. math:: L = T \, (D / u_D)^{-\tau} (N / u_N)^{\kappa_T}

    Models of all sizes start from the same loss and need some tokens before their size shows: the gap between two
    sizes grows along a run. A sum of a term in size and one in tokens has the same gap everywhere. With
    :math:`\kappa_T > 0` a larger model is further from what it will reach after the same tokens.

    Parameters
    ----------
    tokens_unit, size_unit : where :math:`T` is defined, tokens and parameters; best inside the range of the runs

    Inputs
    ------
    tokens : [n], tokens seen, :math:`D`
    model_size : [n], parameters, :math:`N`

    Coefficients
    ------------
    T : nats per token at one unit of each, in [1e-4, 10], searched in log
    tau : in [.02, 4]; prior .8 +- .5, between a whole run's .37 (Besiroglu et al. 2024) and the 1.06 of a joint law
        of checkpoints (Marin project, 2026)
    kappa_T : in [-1, 1]; prior 0 +- .3. Published: -.014, next to nothing

    References
    ----------
    Besiroglu et al., *Chinchilla Scaling: A replication attempt*, 2024, arXiv:2404.10102, for kappa_T = 0; the
    product of powers is the last term of the joint law of github.com/marin-community/marin (2026).

    Examples
    --------
    After one unit of tokens a small model lacks .1 nats and one 16 times larger .17; ten times the tokens on, .01 and
    .017: the gap between them has grown by .06 nats.

    >>> law = Undertraining(1e10, 1e8)
    >>> runs = {"tokens": np.array([1e10, 1e10, 1e11, 1e11]), "model_size": np.array([1e8, 1.6e9, 1e8, 1.6e9])}
    >>> law(np.array([0.1, 1.0, 0.2]), runs).round(3)
    array([0.1  , 0.174, 0.01 , 0.017])
    """

    tokens_unit: float
    size_unit: float

    inputs = ("tokens", "model_size")
    output = "loss"
    decreasing = ("tokens",)
    published = {"tau": 1.063376, "kappa_T": -0.014295}  # noqa: RUF012
    reference = "Besiroglu et al. 2024, arXiv:2404.10102; github.com/marin-community/marin, 2026"

    def __post_init__(self) -> None:
        T = Coefficient("T", 1e-4, 10.0, log=True)
        tau = Coefficient("tau", 0.02, 4.0, prior=(0.8, 0.5))
        self._declare(coefficients=(T, tau, Coefficient("kappa_T", -1.0, 1.0, prior=(0.0, 0.3))))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        T, tau, kappa = theta[..., :1], theta[..., 1:2], theta[..., 2:3]
        tokens, size = np.log(columns["tokens"] / self.tokens_unit), np.log(columns["model_size"] / self.size_unit)
        return T * np.exp(kappa * size - tau * tokens)


def examples() -> tuple[Law, ...]:
    return (Undertraining(1e8, 1e7),)
