"""Training compute by the convention of Kaplan and Hoffmann: six FLOPs per parameter and token."""

from dataclasses import dataclass

from mixopt.columns import Array, Columns
from mixopt.laws.law import Law


@dataclass(frozen=True)
class Flops(Law):
    r"""FLOPs to train a dense model.

    .. math:: C = 6 N D

    Two FLOPs (a multiply and an add) per parameter and token forward, four backward. `N` counts non-embedding
    parameters; attention scores, about `n_layer * sequence_length * d_model / N` of this, are left out.

    Inputs
    ------
    model_size : [n], non-embedding parameters, :math:`N`
    tokens : [n], tokens trained on, repeats counted, :math:`D`

    References
    ----------
    Kaplan et al., *Scaling Laws for Neural Language Models*, 2020, arXiv:2001.08361, section 2.1;
    Hoffmann et al., *Training Compute-Optimal Large Language Models*, 2022, arXiv:2203.15556, section 3.

    Examples
    --------
    Chinchilla, 70B parameters on 1.4T tokens:

    >>> import numpy as np
    >>> Flops()(np.zeros(0), {"model_size": np.array([70e9]), "tokens": np.array([1.4e12])})
    array([5.88e+23])
    """

    inputs = ("model_size", "tokens")
    output = "flops"
    coefficients = ()

    def __call__(self, theta: Array, columns: Columns) -> Array:
        return 6 * columns["model_size"] * columns["tokens"]


def training_flops(model_size: float, tokens: float) -> float:
    """6 * model_size * tokens, for two numbers.

    >>> training_flops(70e9, 1.4e12)
    5.88e+23
    """
    return 6.0 * model_size * tokens
