r"""A smooth function of the mixture, with no formula."""

from dataclasses import dataclass

from mixopt.columns import Columns
from mixopt.predictors.kernels import Kernel
from mixopt.predictors.predictor import Predictor
from mixopt.predictors.smooth import Smooth, smooth

_LENGTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
_ALL = ("share", "root", "log")


@dataclass(frozen=True)
class GaussianProcess(Predictor):
    r"""Gaussian-process regression of the log of the excess loss, on a distance that suits shares.

    .. math:: \log(L - c) \sim \mathcal{GP}(a_0, k), \qquad k(h, h') = (1 + \sqrt 3 d / l)\, e^{-\sqrt 3 d / l}

    Mixtures that lie close have losses that lie close. Close is meant by roots of shares (the Hellinger distance), or
    by shares, roots and logs together, never by shares alone: half a percent of code instead of none is a longer way
    than half of web instead of 49.5 %. The length l, the noise, the floor c and the distance are those that predict
    left-out runs best, target by target; targets with the same l share all the work.

    Parameters
    ----------
    output : what is predicted; one target [n] or several [n, k]
    inputs : columns read; other than the mixture they enter by their logs

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`

    References
    ----------
    Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006, section 5.4.2 (leave-one-out).

    Examples
    --------
    Between two mixtures that were run the interval is narrower than beyond them:

    >>> import numpy as np
    >>> code = np.linspace(0.1, 0.5, 9)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 3 - np.sqrt(code) + 0.01 * (-1) ** np.arange(9)}
    >>> learned = GaussianProcess().learn(runs)
    >>> lower, upper = learned.interval({"mixture": np.array([[0.7, 0.3], [0.0, 1.0]])})
    >>> bool((upper - lower)[0] < 0.2 * (upper - lower)[1])
    True
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)

    def learn(self, columns: Columns, *, seed: int = 0) -> Smooth:
        """Nothing is drawn: any seed gives the same."""
        near = [Kernel(features, length=length) for features in (("root",), _ALL) for length in _LENGTHS]
        return smooth(self, near, columns)


def examples() -> tuple[Predictor, ...]:
    return (GaussianProcess(), GaussianProcess(inputs=("mixture", "model_size")))
