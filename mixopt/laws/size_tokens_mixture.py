r"""Laws of size, tokens and mixture together, ready to be compared: where these three meet is not asked of anyone."""

from collections.abc import Sequence

from mixopt.laws.additive_mixture import additive
from mixopt.laws.averaged_coefficients import averaged
from mixopt.laws.constant import Constant
from mixopt.laws.exchange_with_size import ExchangeWithSize, exchange_with_size
from mixopt.laws.joint_mixture import JointMixture, joint
from mixopt.laws.law import Law
from mixopt.laws.undertraining import Undertraining

_ALPHA_PRIOR = (0.35, 0.15)


def size_tokens_mixture(corpora: Sequence[str], size_unit: float, tokens_unit: float) -> dict[str, Law]:
    r"""Losses of size, tokens and mixture, checkpoints along a run included, by name.

    * ``additive``: they add, so every size has the same best mixture (`additive`);
    * ``joint``: the mixture scales what size and tokens add (`joint`);
    * ``averaged``: so do all coefficients, each the average over corpora (`averaged`);
    * ``exchange``: size and tokens scale what a mixture is worth, and a larger model lacks more in a short run
      (`exchange_with_size`);
    * ``exchange_joint``: the same, but what a small model lacks is the average over corpora of a lack for each, and
      the worth of a mixture does not depend on size: :math:`E + \sum_i A_i h_i (N / u_N)^{-\alpha} + \dots`

    Parameters
    ----------
    corpora : names, in the order of the columns
    size_unit, tokens_unit : where coefficients are defined, parameters and tokens; best inside the range of the runs

    Examples
    --------
    >>> {name: len(law.names) for name, law in size_tokens_mixture(["web", "code"], 1e8, 1e10).items()}
    {'additive': 9, 'joint': 13, 'averaged': 16, 'exchange': 15, 'exchange_joint': 15}
    """
    names = tuple(corpora)
    size = JointMixture(names, "model_size", size_unit, prior=_ALPHA_PRIOR).fix(gamma_A=1.0)
    worth = ExchangeWithSize(names, tokens_unit, size_unit, shared_g=False).fix(k=0.0)
    return {
        "additive": additive(names, tokens_unit=tokens_unit, size_unit=size_unit),
        "joint": joint(names, tokens_unit=tokens_unit, size_unit=size_unit),
        "averaged": averaged(names, tokens_unit=tokens_unit, size_unit=size_unit),
        "exchange": exchange_with_size(names, tokens_unit=tokens_unit, size_unit=size_unit),
        "exchange_joint": Constant("E") + size + worth + Undertraining(tokens_unit, size_unit),
    }


def examples() -> tuple[Law, ...]:
    return tuple(size_tokens_mixture(("web", "code", "math"), 1e7, 1e8).values())
