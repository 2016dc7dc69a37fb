"""Many penalized fits of a floor plus an exponential at once, by damped Gauss-Newton steps."""

from typing import NamedTuple

import numpy as np

from mixopt.columns import Array

_STEPS = 60
_BLOCK = 3_000_000  # entries of the Jacobians held at once: 24 MB
_DONE = 1e-6
_RIDGE = 1e-9  # of the floor and the level, which are not penalized


class Exponentials(NamedTuple):
    """Coefficients [b, p] of b fits: floor, level, one a feature; and [b, p, p], the inverse of their curvature."""

    theta: Array
    inverse: Array


def exponentials(features: Array, output: Array, strength: Array) -> Exponentials:
    """For each of b rows of `output` [b, n], minimizes sum (floor + exp(level + a.x) - y)^2 + strength |a|^2.

    Features [n, f] are centered and outputs of order one, the lowest 0, so that one start serves all.
    """
    p = features.shape[1] + 2
    block = max(1, _BLOCK // (features.shape[0] * p))
    parts = [_solve(features, output[i : i + block], strength[i : i + block]) for i in range(0, len(output), block)]
    return Exponentials(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def exponential(theta: Array, features: Array) -> Array:
    """Values [b, n] of b fits at rows of features."""
    level = theta[:, 1:2] + theta[:, 2:] @ features.T
    return theta[:, :1] + np.exp(np.clip(level, -30.0, 6.0))


def leverage(fitted: Exponentials, features: Array) -> Array:
    """How much of one run's noise goes into the prediction of each row, as a share of its variance: [b, n]."""
    slopes = _slopes(fitted.theta, features)
    return np.maximum(((slopes @ fitted.inverse) * slopes).sum(-1), 0)


def _slopes(theta: Array, features: Array) -> Array:
    grown = exponential(theta, features) - theta[:, :1]
    ones = np.ones((*grown.shape, 1))
    return np.concatenate([ones, grown[..., None], grown[..., None] * features], -1)


def _solve(features: Array, output: Array, strength: Array) -> Exponentials:
    b, p = len(output), features.shape[1] + 2
    penalty = np.full((b, p), _RIDGE)
    penalty[:, 2:] = strength[:, None]
    theta = np.zeros((b, p))
    theta[:, 0] = -0.5
    theta[:, 1] = np.log(output.mean(-1) + 0.5)
    damping, going = np.full(b, 1e-2), np.arange(b)
    value = _objective(theta, features, output, penalty)
    for _ in range(_STEPS):
        step = _step(theta[going], features, output[going], penalty[going], damping[going])
        tried = theta[going] - step
        found = _objective(tried, features, output[going], penalty[going])
        good = found < value[going]
        gain = np.where(good, value[going] - found, np.inf) / np.maximum(value[going], 1e-300)
        theta[going[good]], value[going[good]] = tried[good], found[good]
        damping[going] = np.clip(np.where(good, damping[going] * 0.3, damping[going] * 4), 1e-9, 1e8)
        # Small steps under strong damping are not yet an end.
        going = going[((gain > _DONE) | (damping[going] > 1e-3)) & (damping[going] < 1e8)]
        if not len(going):
            break
    slopes = _slopes(theta, features)
    curvature = slopes.transpose(0, 2, 1) @ slopes + penalty[:, :, None] * np.eye(p)
    return Exponentials(theta, np.linalg.inv(curvature))


def _objective(theta: Array, features: Array, output: Array, penalty: Array) -> Array:
    return ((exponential(theta, features) - output) ** 2).sum(-1) + (penalty * theta**2).sum(-1)


def _step(theta: Array, features: Array, output: Array, penalty: Array, damping: Array) -> Array:
    slopes = _slopes(theta, features)
    missed = exponential(theta, features) - output
    curvature = slopes.transpose(0, 2, 1) @ slopes
    places = np.arange(theta.shape[1])
    curvature[:, places, places] += penalty
    curvature[:, places, places] *= 1 + damping[:, None]
    gradient = (missed[:, None, :] @ slopes)[:, 0] + penalty * theta
    return np.linalg.solve(curvature, gradient[..., None])[..., 0]
