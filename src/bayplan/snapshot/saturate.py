"""Sums that saturate at the largest int64, since a single pod may request that much."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LARGEST = int(np.iinfo(np.int64).max)
_HALF_BITS = 32
_HALF = (1 << _HALF_BITS) - 1

Ints = NDArray[np.int64]
Entries = tuple[NDArray[np.integer], Ints, Ints]
"""Indices, the amount at each, and how many times each amount counts."""


def add_up(size: int, parts: Sequence[Entries]) -> Ints:
    """The saturated sum at each of ``size`` indices; amounts must not be negative."""
    highest = sum(int(amounts.max(initial=0)) * int(np.abs(times).sum()) for _, amounts, times in parts)
    if highest <= _LARGEST:
        return _plain(size, parts)
    # The high and low 32 bits are summed apart: neither sum overflows, and negative counts cancel exactly.
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
