"""Norms: how much a residual counts, as a function of z = residual of log loss / scale."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mixopt.columns import Array


class Norm(Protocol):
    """A norm of scaled residuals; `weight` is rho'(z) / z and `curvature` is rho''(z)."""

    @property
    def scale(self) -> float: ...

    def rho(self, z: Array) -> Array: ...

    def weight(self, z: Array) -> Array: ...

    def curvature(self, z: Array) -> Array: ...


@dataclass(frozen=True)
class Huber:
    r"""Square near zero, absolute value beyond one scale: outliers pull, but only so hard.

    .. math:: \rho(z) = z^2/2 \ (|z| \le 1), \quad |z| - 1/2 \ \text{beyond}

    `scale` is Huber's delta in log loss; 1e-3 is that of Hoffmann et al., 2022, arXiv:2203.15556.

    >>> Huber().rho(np.array([0.5, 3.0]))
    array([0.125, 2.5  ])
    """

    scale: float = 1e-3

    def __post_init__(self) -> None:
        _check(self.scale)

    def rho(self, z: Array) -> Array:
        size = np.abs(z)
        inside = np.minimum(size, 1.0)
        return inside * (size - 0.5 * inside)

    def weight(self, z: Array) -> Array:
        return 1 / np.maximum(np.abs(z), 1.0)

    def curvature(self, z: Array) -> Array:
        return (np.abs(z) <= 1.0).astype(float)


@dataclass(frozen=True)
class Square:
    r"""Half the square, :math:`\rho(z) = z^2/2`: the likelihood of Gaussian noise with sd `scale` in log loss.

    >>> Square().rho(np.array([0.5, 3.0]))
    array([0.125, 4.5  ])
    """

    scale: float = 1e-3

    def __post_init__(self) -> None:
        _check(self.scale)

    def rho(self, z: Array) -> Array:
        return 0.5 * z * z

    def weight(self, z: Array) -> Array:
        return np.ones_like(z)

    def curvature(self, z: Array) -> Array:
        return np.ones_like(z)


def norm_to_dict(norm: Norm) -> dict[str, Any]:
    """The norm as plain data."""
    return {"norm": type(norm).__name__, "scale": norm.scale}


def norm_from_dict(data: dict[str, Any]) -> Norm:
    """The norm that `norm_to_dict` wrote."""
    known = {"Huber": Huber, "Square": Square}
    if data.get("norm") not in known:
        raise ValueError(f"There is no norm {data.get('norm')!r}; there are {', '.join(known)}.")
    return known[data["norm"]](float(data["scale"]))


def _check(scale: float) -> None:
    if not 0 < scale < np.inf:
        raise ValueError(f"A norm's scale is a positive number of log loss, e.g. 1e-3; got {scale}.")
