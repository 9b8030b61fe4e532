"""Sums that stop at the largest int64: a pod may ask for all of it, and two such pods for no less."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LARGEST = int(np.iinfo(np.int64).max)
_HALF_BITS = 32
_HALF = (1 << _HALF_BITS) - 1

Ints = NDArray[np.int64]
Entries = tuple[NDArray[np.integer], Ints, Ints]
"""Places, the amount at each of them, and how many times it counts there."""


def add_up(size: int, parts: Sequence[Entries]) -> Ints:
    """What comes together at each of ``size`` places; amounts are never below zero."""
    highest = sum(int(amounts.max(initial=0)) * int(np.abs(times).sum()) for _, amounts, times in parts)
    if highest <= _LARGEST:
        return _plain(size, parts)
    # In two halves, none of which can pass its end; exact, so that what is taken off again is gone.
    high = _plain(size, [(at, amounts >> _HALF_BITS, times) for at, amounts, times in parts])
    low = _plain(size, [(at, amounts & _HALF, times) for at, amounts, times in parts])
    high += low >> _HALF_BITS
    fits = high <= _LARGEST >> _HALF_BITS
    return np.where(fits, (high << _HALF_BITS) | (low & _HALF), _LARGEST)


def _plain(size: int, parts: Sequence[Entries]) -> Ints:
    total = np.zeros(size, dtype=np.int64)
    for places, amounts, times in parts:
        np.add.at(total, places, amounts * times)
    return total
