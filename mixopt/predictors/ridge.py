r"""A line through roots and logs of shares."""

from dataclasses import dataclass

from mixopt.columns import Columns
from mixopt.predictors.kernels import Kernel
from mixopt.predictors.predictor import Predictor
from mixopt.predictors.smooth import Smooth, smooth

_ALL = ("share", "root", "log")


@dataclass(frozen=True)
class Ridge(Predictor):
    r"""Ridge regression of the log of the excess loss on functions of the shares.

    .. math:: \log(L - c) = a_0 + \sum_i \left[a_i h_i + b_i \sqrt{h_i} + d_i \log(1 + h_i / \epsilon)\right]

    The first percent of a corpus teaches more than the last, which roots and logs of shares say and shares do not. Each
    target has a strength of the penalty, a floor c below its lowest loss, an epsilon of .01 or .001, or roots alone,
    chosen by leaving one run out. That costs no refit, so a hundred targets take seconds: the first model to ask where
    corpora and targets are many and runs few.

    Parameters
    ----------
    output : what is predicted; one target [n] or several [n, k]
    inputs : columns read; other than the mixture they enter by their logs

    Inputs
    ------
    mixture : [n, m], share of each corpus, :math:`h`

    References
    ----------
    Leave-one-out errors of ridge regression: Golub, Heath and Wahba, 1979, *Generalized Cross-Validation as a Method
    for Choosing a Good Ridge Parameter*, Technometrics 21(2).

    Examples
    --------
    Nine mixtures of web and code whose code loss falls by .5 with the root of code's share, noiselessly:

    >>> import numpy as np
    >>> code = np.linspace(0, 1, 9)
    >>> runs = {"mixture": np.stack([1 - code, code], 1), "loss": 3 - 0.5 * np.sqrt(code)}
    >>> learned = Ridge().learn(runs)
    >>> learned.predict({"mixture": np.array([[0.91, 0.09], [0.36, 0.64]])}).round(2)
    array([2.85, 2.6 ])
    """

    output: str = "loss"
    inputs: tuple[str, ...] = ("mixture",)

    def learn(self, columns: Columns, *, seed: int = 0) -> Smooth:
        """Nothing is drawn: any seed gives the same."""
        return smooth(self, (Kernel(("root",)), Kernel(_ALL, 1e-2), Kernel(_ALL, 1e-3)), columns)


def examples() -> tuple[Predictor, ...]:
    return (Ridge(), Ridge(inputs=("mixture", "tokens")))
