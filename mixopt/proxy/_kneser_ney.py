r"""Interpolated modified Kneser-Ney over bytes, estimated by sorting.

.. math:: p_n(w \mid h) = \frac{c(hw) - D(c(hw))}{\sum_v c(hv)} + \gamma(h)\, p_{n-1}(w \mid h'), \qquad
   \gamma(h) = \frac{\sum_v D(c(hv))}{\sum_v c(hv)}, \qquad p_0 = \frac{1}{256}

:math:`h` is the history of n - 1 bytes, :math:`h'` the same without its oldest byte. At the highest order :math:`c`
counts occurrences; below, it counts the different bytes seen before (continuation counts). Each order has three
discounts from its counts of counts :math:`n_k`: with :math:`Y = n_1 / (n_1 + 2 n_2)`,

.. math:: D_1 = 1 - 2Y\frac{n_2}{n_1}, \qquad D_2 = 2 - 3Y\frac{n_3}{n_2}, \qquad D_{3+} = 3 - 4Y\frac{n_4}{n_3}

A text is a row of windows. The first n - 1 bytes of a window, n being the highest order, are history only, so no n-gram
runs from one window into the next.

An n-gram is packed into one 64-bit integer, oldest byte highest. Its history is the integer shifted right by one byte,
its suffix is the integer without its highest byte, and n-grams in order of the integer stand together by history.

References
----------
Chen and Goodman, *An Empirical Study of Smoothing Techniques for Language Modeling*, Harvard TR-10-98, 1998, section 3.
"""

from dataclasses import dataclass

import numpy as np

from mixopt.columns import Array

HIGHEST_ORDER = 8
"""Bytes in the 64-bit integer that holds an n-gram."""

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where counts of counts give none (no n-gram seen once, say): those of KenLM's `--discount_fallback`."""


@dataclass(frozen=True)
class Order:
    """The n-grams of one length, sorted, and what each says of its last byte and of its history."""

    grams: Array
    """[t] packed n-grams"""
    discounted: Array
    """[t] share of the n-gram in its history's count, after the discount"""
    backoff: Array
    """[t] probability that its history leaves to the next lower order"""


@dataclass(frozen=True)
class KneserNey:
    """The estimated orders, lowest first."""

    orders: tuple[Order, ...]


def estimate(text: Array, starts: Array, *, order: int = 6) -> KneserNey:
    """Count the n-grams of a text and discount them.

    Parameters
    ----------
    text : [n] uint8
    starts : [w] offsets at which windows begin, increasing from 0
    order : bytes in the longest n-gram, 1 to 8

    Raises
    ------
    ValueError
        If `order` is out of range, or if no window is as long as `order`.

    Examples
    --------
    After "abab..." an "a" is followed by a "b" with hardly a doubt:

    >>> text = np.frombuffer(b"ab" * 500, np.uint8)
    >>> model = estimate(text, np.array([0]), order=3)
    >>> held_out = np.frombuffer(b"abab", np.uint8)
    >>> float(np.exp(log_probabilities(model, held_out, np.array([0]))[-1]).round(3))
    0.999
    """
    if not 1 <= order <= HIGHEST_ORDER:
        raise ValueError(f"order {order} is out of range; an n-gram holds 1 to {HIGHEST_ORDER} bytes.")
    grams = _pack(text, order)[_depth(len(text), starts) >= order - 1]
    if not len(grams):
        raise ValueError(f"no window of the text is {order} bytes long; order {order} needs one. Give a longer text.")
    orders: list[Order] = []
    for length in range(order, 0, -1):
        types, counts = _count(_suffix(grams, length))
        orders.append(_discount(types, counts))
        grams = types
    return KneserNey(tuple(reversed(orders)))


def log_probabilities(model: KneserNey, text: Array, starts: Array) -> Array:
    """Log-probability of each byte given those before it in its window, [n] in nats.

    The history is cut to order - 1 bytes, and shorter near the start of a window.
    """
    keys = _pack(text, len(model.orders))
    depth = _depth(len(text), starts)
    probability = np.full(len(text), 1 / 256)
    for length, order in enumerate(model.orders, start=1):
        rows = np.flatnonzero(depth >= length - 1)
        probability[rows] = _interpolate(order, _suffix(keys[rows], length), probability[rows])
    return np.log(probability)


def discounts(counts: Array) -> tuple[float, float, float]:
    """D1, D2 and D3+ of n-grams with these counts, or `FALLBACK` where one of them is not a number in (0, k].

    >>> [round(discount, 2) for discount in discounts(np.repeat([1, 2, 3, 4], [75, 25, 15, 10]))]
    [0.6, 0.92, 1.4]
    """
    n1, n2, n3, n4 = (float(n) for n in np.bincount(np.minimum(counts, 5), minlength=6)[1:5])
    if min(n1, n2, n3) == 0:
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) > 0 else FALLBACK


def _pack(text: Array, order: int) -> Array:
    """[n] the byte of each position and up to `order` - 1 bytes before it, window or not."""
    bytes_ = text.astype(np.uint64)
    keys = bytes_.copy()
    for back in range(1, order):
        keys[back:] |= bytes_[:-back] << np.uint64(8 * back)
    return keys


def _suffix(grams: Array, length: int) -> Array:
    """The last `length` bytes of packed n-grams."""
    return grams & np.uint64((1 << 8 * length) - 1)


def _depth(n: int, starts: Array) -> Array:
    """[n] bytes before each position in its window."""
    return np.arange(n) - np.repeat(starts, np.diff(starts, append=n))


def _heads(ordered: Array) -> Array:
    """Where each run of equal values begins in a sorted array."""
    return np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))


def _count(grams: Array) -> tuple[Array, Array]:
    """The different n-grams in order, and how often each is there."""
    ordered = np.sort(grams)
    heads = _heads(ordered)
    return ordered[heads], np.diff(heads, append=len(ordered))


def _discount(grams: Array, counts: Array) -> Order:
    discount = np.array((0.0, *discounts(counts)))[np.minimum(counts, 3)]
    heads = _heads(grams >> np.uint64(8))
    sizes = np.diff(heads, append=len(grams))
    total = np.add.reduceat(counts, heads)
    backoff = np.add.reduceat(discount, heads) / total
    return Order(grams, (counts - discount) / np.repeat(total, sizes), np.repeat(backoff, sizes))


def _interpolate(order: Order, keys: Array, lower: Array) -> Array:
    """p_n of the keys from p_(n-1): a history that was never seen leaves all to the lower order."""
    at = np.searchsorted(order.grams, keys)
    right, left = np.minimum(at, len(order.grams) - 1), np.maximum(at - 1, 0)
    # An n-gram that was not seen sorts inside or beside those of its history: one of its two neighbors has the backoff.
    history = keys >> np.uint64(8)
    backoff = np.where(
        order.grams[right] >> np.uint64(8) == history,
        order.backoff[right],
        np.where(order.grams[left] >> np.uint64(8) == history, order.backoff[left], 1.0),
    )
    return np.where(order.grams[right] == keys, order.discounted[right], 0.0) + backoff * lower
