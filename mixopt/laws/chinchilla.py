r"""The loss of a model of a given size after a given number of tokens."""

import math
from collections.abc import Mapping

from mixopt.laws.constant import Constant
from mixopt.laws.law import Law
from mixopt.laws.power_law import PowerLaw

HOFFMANN: Mapping[str, float] = {"E": 1.69, "A": 406.4, "alpha": 0.34, "B": 410.7, "beta": 0.28}
BESIROGLU: Mapping[str, float] = {"E": 1.8172, "A": 482.01, "alpha": 0.3478, "B": 2085.43, "beta": 0.3658}


def chinchilla(*, size_unit: float = 1e9, tokens_unit: float = 1e9, prior: tuple[float, float] | None = None) -> Law:
    r"""The loss as a sum of what the text, the model and the data leave over.

    .. math:: L = E + A \, (N / u_N)^{-\alpha} + B \, (D / u_D)^{-\beta}

    No model predicts text perfectly (:math:`E`); a small one is worse (:math:`A`), and so is one that saw little
    (:math:`B`). Both shortfalls shrink as power laws, so a budget has one best split between size and tokens.

    Parameters
    ----------
    size_unit, tokens_unit : where :math:`A` and :math:`B` are defined, parameters and tokens
    prior : (center, sd) of alpha, or None; as in `PowerLaw`

    Inputs
    ------
    model_size : [n], parameters, :math:`N`
    tokens : [n], tokens, :math:`D`

    Coefficients
    ------------
    E, A, alpha, B, beta : boxes as in `Constant` and `PowerLaw`. Published, at one parameter and one token: `HOFFMANN`
        (approach 3 of the paper) and `BESIROGLU` (the same runs, fitted to the optimum).

    References
    ----------
    Hoffmann et al., *Training Compute-Optimal Large Language Models*, 2022, arXiv:2203.15556, equation 2.
    Besiroglu et al., *Chinchilla Scaling: A replication attempt*, 2024, arXiv:2404.10102.

    Examples
    --------
    Chinchilla itself, 70B parameters and 1.4T tokens, by the replicated fit:

    >>> import numpy as np
    >>> law = chinchilla()
    >>> published = from_paper(BESIROGLU)
    >>> theta = np.array([published[c.name] for c in law.coefficients])
    >>> law(theta, {"model_size": np.array([70e9]), "tokens": np.array([1.4e12])}).round(3)
    array([1.974])
    >>> print(law.describe(theta))
    1.817 + 482 / model_size^0.3478 + 2085 / tokens^0.3658
    """
    size = PowerLaw("model_size", size_unit, "A", "alpha", prior)
    data = PowerLaw("tokens", tokens_unit, "B", "beta")
    return Constant("E") + size + data


def from_paper(paper: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """Coefficients as papers print them (at one parameter and one token), restated at our units.

    The 2085 nats "at one token" of the replicated fit are 1.06 nats at 1e9 tokens:

    >>> round(from_paper(BESIROGLU)["B"], 2)
    1.06
    """
    return {
        "E": paper["E"],
        "A": paper["A"] * math.exp(-paper["alpha"] * math.log(size_unit)),
        "alpha": paper["alpha"],
        "B": paper["B"] * math.exp(-paper["beta"] * math.log(tokens_unit)),
        "beta": paper["beta"],
    }


def to_paper(ours: Mapping[str, float], *, size_unit: float = 1e9, tokens_unit: float = 1e9) -> dict[str, float]:
    """Coefficients at our units, restated as papers print them: at one parameter and one token.

    >>> round(to_paper(from_paper(HOFFMANN))["A"], 1)
    406.4
    """
    return from_paper(ours, size_unit=1 / size_unit, tokens_unit=1 / tokens_unit)


def examples() -> tuple[Law, ...]:
    return (chinchilla(size_unit=1e7, tokens_unit=1e8),)
