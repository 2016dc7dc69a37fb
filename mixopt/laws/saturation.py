r"""What a corpus can still teach after so many passes, and when more of it begins to harm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixopt.columns import Array, Columns
from mixopt.laws.constant import Constant
from mixopt.laws.law import Coefficient, Law, softplus


@dataclass(frozen=True)
class Saturation(Law):
    r"""The excess loss of a target as what each corpus has not yet taught, plus what overexposure to it costs.

    .. math:: L = \sum_i a_i e^{-\rho_i z_i} + \sum_i p_i \, \mathrm{softplus}\left(\log(1 + z_i) - \tau_i\right)^2,
        \qquad z_i = e_i^{(0)} + \gamma_{anneal} \, e_i^{(1)}

    Passes over a corpus teach up to :math:`a_i` nats, :math:`1 - 1/e` of it in :math:`1 / \rho_i` of them. Beyond
    about :math:`e^{\tau_i}` passes more of it costs, slowly. A pass in the second phase, where the learning rate
    decays, counts :math:`\gamma_{anneal}` times one in the first.

    The paper form writes :math:`b_0 - \sum_i a_i (1 - e^{-\rho_i z_i})`; with the floor :math:`E = b_0 - \sum_i a_i`
    as a `Constant` it is the same (`saturation`), and the loss stays positive wherever it is asked for.

    Parameters
    ----------
    corpora : names, in the order of the columns
    phases : 1 or 2; with 2 the second phase is read from `epochs_anneal`

    Inputs
    ------
    epochs : [n, m], passes over each corpus's unique tokens, in the first phase where there are two; may be 0
    epochs_anneal : [n, m], passes in the second phase; may be 0; only with two phases

    Coefficients
    ------------
    a[corpus] : nats per token, in [1e-4, 10], searched in log; prior .2, within a factor of 7
    rho[corpus] : per pass, in [.01, 100], searched in log; prior 1, within a factor of 4.5
    p[corpus] : nats per token, in [1e-5, 1], searched in log; prior .003, within a factor of 7
    tau[corpus] : log of passes, in [-1, 5]; prior 1.6 +- 1: harm from about four passes on
    gamma_anneal : in [.1, 10], searched in log; prior 1, within a factor of 2.7; only with two phases

    References
    ----------
    github.com/marin-community/marin, 2026 (DSP, there with a and p by non-negative least squares).
    Muennighoff et al., *Scaling Data-Constrained Language Models*, 2023, arXiv:2305.16264, for the exponential.

    Examples
    --------
    A corpus that can teach .5 nats, most of it in the first pass; at 40 passes it costs more than it taught last:

    >>> law = Saturation(("code",))
    >>> theta = np.array([0.5, 1.0, 0.01, 1.6])
    >>> law(theta, {"epochs": np.array([[0.0], [1.0], [4.0], [40.0]])}).round(3)
    array([0.5  , 0.185, 0.014, 0.05 ])
    """

    corpora: tuple[str, ...]
    phases: int = 1

    output = "loss"
    reference = "github.com/marin-community/marin, 2026; Muennighoff et al. 2023, arXiv:2305.16264"

    def __post_init__(self) -> None:
        if self.phases not in (1, 2):
            raise ValueError(
                f"phases is {self.phases}; a run has 1 phase (epochs), or 2 (epochs and epochs_anneal). "
                "Add up the passes of others."
            )
        gamma = (_positive("gamma_anneal", 0.1, 10.0, 1.0, 1.0),)
        coefficients = (
            *(_positive(f"a[{name}]", 1e-4, 10.0, 0.2, 2.0) for name in self.corpora),
            *(_positive(f"rho[{name}]", 1e-2, 100.0, 1.0, 1.5) for name in self.corpora),
            *(_positive(f"p[{name}]", 1e-5, 1.0, 3e-3, 2.0) for name in self.corpora),
            *(Coefficient(f"tau[{name}]", -1.0, 5.0, prior=(1.6, 1.0)) for name in self.corpora),
            *(gamma if self.phases == 2 else ()),
        )
        self._declare(inputs=("epochs", "epochs_anneal")[: self.phases], coefficients=coefficients)

    def __call__(self, theta: Array, columns: Columns) -> Array:
        at = self._read(theta, columns)
        over = softplus(np.log1p(at.passes) - at.tau)
        return (at.a * np.exp(-at.rho * at.passes) + at.p * over**2).sum(-1)

    def jacobian(self, theta: Array, columns: Columns) -> tuple[Array, Array]:
        at = self._read(theta, columns)
        left, over = np.exp(-at.rho * at.passes), softplus(np.log1p(at.passes) - at.tau)
        # The slope of softplus(x) is 1 - e^-softplus(x).
        by_over = -2 * at.p * over * np.expm1(-over)
        blocks = [left, -at.a * at.passes * left, over**2, -by_over]
        if self.phases == 2:
            by_pass = by_over / (1 + at.passes) - at.a * at.rho * left
            blocks.append((by_pass * columns["epochs_anneal"]).sum(-1, keepdims=True))
        loss = (at.a * left + at.p * over**2).sum(-1)
        return loss, np.concatenate([np.broadcast_to(b, (*loss.shape, b.shape[-1])) for b in blocks], -1)

    def partial(self, theta: Array, columns: Columns, name: str) -> Array:
        if name not in self.inputs:
            return super().partial(theta, columns, name)
        at = self._read(theta, columns)
        over = softplus(np.log1p(at.passes) - at.tau)
        harm = -2 * at.p * over * np.expm1(-over) / (1 + at.passes)
        slope = harm - at.a * at.rho * np.exp(-at.rho * at.passes)
        return slope if name == "epochs" else slope * theta[..., None, -1:]

    def _read(self, theta: Array, columns: Columns) -> "_At":
        m = len(self.corpora)
        a, rho, p, tau = (theta[..., None, i * m : (i + 1) * m] for i in range(4))
        passes = columns["epochs"]
        if self.phases == 2:
            passes = passes + theta[..., None, -1:] * columns["epochs_anneal"]
        return _At(a, rho, p, tau, passes)


class _At(NamedTuple):
    a: Array
    rho: Array
    p: Array
    tau: Array
    passes: Array


def saturation(corpora: Sequence[str], *, phases: int = 1) -> Law:
    r"""The law as published, :math:`b_0 = E + \sum_i a_i` the loss of a model that has seen nothing.

    >>> print(*saturation(["code"], phases=2).names)
    E a[code] rho[code] p[code] tau[code] gamma_anneal
    """
    return Constant("E") + Saturation(tuple(corpora), phases)


def _positive(name: str, lower: float, upper: float, center: float, sd: float) -> Coefficient:
    return Coefficient(name, lower, upper, log=True, prior=(float(np.log(center)), sd))


def examples() -> tuple[Law, ...]:
    corpora = ("web", "code", "math")
    return (Saturation(corpora), Saturation(corpora, phases=2))
