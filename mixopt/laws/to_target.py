r"""How many tokens, or steps, a target loss takes at a given batch size."""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.law import Coefficient, Law


@dataclass(frozen=True)
class ToTarget(Law):
    r"""Tokens, or steps, to a target loss: a larger batch needs fewer steps but more tokens.

    .. math:: D = D_{min} \, (1 + B / B_c), \qquad S = D / B = S_{min} \, (1 + B_c / B), \qquad
        S_{min} = D_{min} / B_c

    A small batch needs the fewest tokens, a very large one the fewest steps; at the critical batch :math:`B_c` both are
    twice their minimum. With `size_unit` both grow with the model, each at its own target:
    :math:`D_{min} = d_0 (N / u_N)^g`, :math:`B_c = b (N / u_N)^\kappa`.

    Parameters
    ----------
    counts : what is counted: ``tokens`` or ``steps``
    tokens_unit, batch_unit : tokens; about where d0 and b are looked for, within a factor of 1000
    size_unit : parameters at which d0 and b are defined; None for runs of one model

    Inputs
    ------
    batch_tokens : [n], tokens in one optimizer step, :math:`B`
    model_size : [n], parameters, :math:`N`; only with `size_unit`

    Output
    ------
    tokens or steps : [n], to the target

    Coefficients
    ------------
    d0 : tokens, in [1e-3, 1e3] tokens_unit, searched in log
    b : tokens, in [1e-3, 1e3] batch_unit, searched in log. Published: 1.1e6 for 85M parameters (from
        `overhead_batch`, 745 sequences of 512)
    g : in [-.5, 2.5]; 1 where tokens are in proportion to the size
    kappa : in [-.5, 1.5]

    References
    ----------
    McCandlish et al., *An Empirical Model of Large-Batch Training*, 2018, arXiv:1812.06162, equation 2.11.
    Zhang et al., *How Does Critical Batch Size Scale in Pre-training?*, 2024, arXiv:2410.21676.

    Examples
    --------
    A batch of a tenth of the critical one costs a tenth more tokens; ten times the critical one, eleven times as many:

    >>> law = ToTarget(tokens_unit=1e9, batch_unit=1e6)
    >>> law(np.array([1e9, 1e6]), {"batch_tokens": np.array([1e5, 1e6, 1e7])})
    array([1.1e+09, 2.0e+09, 1.1e+10])
    """

    counts: str = "tokens"
    tokens_unit: float = 1e9
    batch_unit: float = 5e5
    size_unit: float | None = None

    published = {"b": 2190 * 512.0}  # noqa: RUF012
    reference = "McCandlish et al. 2018, arXiv:1812.06162; Zhang et al. 2024, arXiv:2410.21676"

    def __post_init__(self) -> None:
        if self.counts not in ("tokens", "steps"):
            raise ValueError(f"counts is {self.counts!r}; tokens or steps to the target can be counted.")
        d, b = self.tokens_unit, self.batch_unit
        minimum, critical = (
            Coefficient("d0", 1e-3 * d, 1e3 * d, log=True),
            Coefficient("b", 1e-3 * b, 1e3 * b, log=True),
        )
        powers = (Coefficient("g", -0.5, 2.5), Coefficient("kappa", -0.5, 1.5))
        sized = self.size_unit is not None
        inputs = ("batch_tokens", "model_size") if sized else ("batch_tokens",)
        coefficients = (minimum, critical, *powers) if sized else (minimum, critical)
        self._declare(inputs=inputs, output=self.counts, coefficients=coefficients)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        batch, growth = columns["batch_tokens"], self._log_size(columns) * (theta[..., 2:3] if self.size_unit else 0.0)
        tokens = theta[..., :1] * np.exp(growth) * (1 + batch / self.critical(theta, columns))
        return tokens / batch if self.counts == "steps" else tokens

    def critical(self, theta: Array, columns: Columns) -> Array:
        """The critical batch of each row in tokens, `[*s, n]`, or `[*s, 1]` for runs of one model."""
        if self.size_unit is None:
            return theta[..., 1:2]
        return theta[..., 1:2] * np.exp(theta[..., 3:4] * self._log_size(columns))

    def _log_size(self, columns: Columns) -> Array:
        return np.log(columns["model_size"] / self.size_unit) if self.size_unit else np.zeros(1)


def overhead_batch(critical: Array, base: float, overhead: float = 0.2) -> Array:
    r"""The batch that takes `overhead` more tokens to a target than a batch of `base`.

    .. math:: 1 + B / B_c = (1 + o) (1 + B_{base} / B_c)

    With a fifth more, from 256 sequences, this is what Zhang et al. (2024) call the critical batch size: a critical
    batch of 2189 sequences in the sense of `ToTarget` is 745 in theirs.

    >>> float(overhead_batch(np.array(2189.0), 256.0).round())
    745.0
    """
    return (1 + overhead) * (critical + base) - critical


def examples() -> tuple[Law, ...]:
    return (
        ToTarget(tokens_unit=1e8, batch_unit=1e5),
        ToTarget("steps", tokens_unit=1e8, batch_unit=1e5, size_unit=1e7),
    )
