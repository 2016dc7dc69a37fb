r"""Laws of size and tokens, ready to be compared: how the two shortfalls combine is not asked of anyone."""

from mixopt.laws.chinchilla import chinchilla
from mixopt.laws.constant import Constant
from mixopt.laws.kaplan import Kaplan
from mixopt.laws.law import Law
from mixopt.laws.tied_exponent import TiedExponent

# Two or three sizes cannot tell an exponent from a floor; the published .35 within .15 holds it until they can.
_ALPHA_PRIOR = (0.35, 0.15)


def size_and_tokens(size_unit: float, tokens_unit: float) -> dict[str, Law]:
    r"""Losses of size and tokens over a floor, by name.

    .. math:: L = E + f(N, D)

    with f one of

    * ``tied_exponent``: both shortfalls add and fall with one exponent, four coefficients in all;
    * ``chinchilla``: they add, each with an exponent of its own, the size's near the published one;
    * ``kaplan_floor``: the larger shortfall rules (`Kaplan`, here on top of a floor), so that more tokens help a large
      model more than a small one.

    Parameters
    ----------
    size_unit, tokens_unit : where coefficients are defined, parameters and tokens

    Examples
    --------
    >>> {name: len(law.names) for name, law in size_and_tokens(1e8, 1e10).items()}
    {'tied_exponent': 4, 'chinchilla': 5, 'kaplan_floor': 5}
    """
    floor = Constant("E")
    return {
        "tied_exponent": floor + TiedExponent(size_unit, tokens_unit),
        "chinchilla": chinchilla(size_unit=size_unit, tokens_unit=tokens_unit, prior=_ALPHA_PRIOR),
        "kaplan_floor": floor + Kaplan(size_unit, tokens_unit),
    }


def examples() -> tuple[Law, ...]:
    return tuple(size_and_tokens(1e7, 1e8).values())
