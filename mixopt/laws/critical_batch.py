r"""What tokens are worth when the batch is large."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law, is_wide


def expected_batch(tokens: float) -> float:
    """Critical batch, in tokens, that Zhang et al. 2024 lead one to expect of a run of this many tokens.

    Their batch costs 20 % more tokens than one of 256 sequences; at 85M parameters that is 745 sequences of 512, so
    the batch that costs 100 % is 2190 sequences, at Chinchilla's 1.7e9 tokens. It grows as the .47th power.

    >>> f"{expected_batch(1e6):.2g} {expected_batch(1e12):.2g}"
    '3.4e+04 2.2e+07'
    """
    return 2190 * 512 * (tokens / 1.7e9) ** 0.47


@dataclass(frozen=True)
class CriticalBatch(Law):
    r"""Effective tokens of a run whose batch is not small.

    .. math:: D' = \frac{D}{1 + B / B_c}, \qquad B_c = b \, (D / u)^{\kappa}

    Gradients of a large batch average away more noise than there is: the larger the batch, the more tokens the same
    progress takes. At the critical batch :math:`B_c` it takes twice as many. :math:`B_c` grows along a run, because
    the gradient shrinks while its noise does not.

    :math:`B_c` is taken at the run's own `tokens`. With ``column="corpus_tokens"`` these are the tokens trained on,
    repeats included; with ``column="tokens"`` they are whatever `tokens` are at this place of the chain.

    Parameters
    ----------
    column : what is discounted: ``tokens`` [n], or ``corpus_tokens`` [n, m], each corpus by the same factor
    unit : tokens at which b is defined; best inside the range of the runs

    Inputs
    ------
    column : [n] or [n, m], tokens
    tokens : [n], tokens of the run, :math:`D`
    batch_tokens : [n], tokens in one optimizer step, :math:`B`

    Coefficients
    ------------
    b : tokens, in [64, 6.4e7], searched in log; prior `expected_batch` of the unit, within a factor of 4.5 (1 sd)
    kappa : in [0, 1]; prior .47 +- .1, so that runs of one length do not leave it open. Published: .47.

    References
    ----------
    McCandlish et al., *An Empirical Model of Large-Batch Training*, 2018, arXiv:1812.06162, equation 2.11.
    Zhang et al., *How Does Critical Batch Size Scale in Pre-training?*, 2024, arXiv:2410.21676, for kappa, b.

    Examples
    --------
    At a quarter of the critical batch a fifth of the tokens is lost, and at the critical batch half of them:

    >>> run = {"tokens": np.full(2, 1e9), "batch_tokens": np.array([2e5, 8e5])}
    >>> CriticalBatch("tokens")(np.array([8e5, 0.47]), run)
    array([8.e+08, 5.e+08])
    """

    column: str = "tokens"
    unit: float = 1e9

    published = {"b": expected_batch(1e9), "kappa": 0.47}  # noqa: RUF012
    reference = "McCandlish et al. 2018, arXiv:1812.06162; Zhang et al. 2024, arXiv:2410.21676"

    def __post_init__(self) -> None:
        b = Coefficient("b", 64.0, 6.4e7, log=True, prior=(float(np.log(expected_batch(self.unit))), 1.5))
        kappa = Coefficient("kappa", 0.0, 1.0, prior=(0.47, 0.1))
        inputs = tuple(dict.fromkeys((self.column, "tokens", "batch_tokens")))
        self._declare(increasing=("tokens",), decreasing=("batch_tokens",))
        self._declare(inputs=inputs, output=self.column, coefficients=(b, kappa))

    def __call__(self, theta: Array, columns: Columns) -> Array:
        b, kappa = theta[..., :1], theta[..., 1:]
        critical = b * np.exp(kappa * np.log(columns["tokens"] / self.unit))
        worth = 1 / (1 + columns["batch_tokens"] / critical)
        return columns[self.column] * (worth[..., None] if is_wide(self.column) else worth)


def examples() -> tuple[Law, ...]:
    return (CriticalBatch("tokens", 1e8), CriticalBatch("corpus_tokens", 1e8))
