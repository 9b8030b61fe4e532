"""Shares, factors and amounts as people write them: ``40%``, ``1.5``, ``2Gi``. `ResourceLimits` is on this.

Shares and factors are whole millionths: products of integers are exact, those of floats are not.
"""

import re
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from bayplan import blocks

Ints = NDArray[np.int64]
Number = float | int | str

WHOLE = 1_000_000
HIGHEST_FACTOR = 100
# Far more than any node has; times the highest factor it still fits into an int64.
ENDLESS = 2**55

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?")


def part_of(amounts: Ints, millionths: Ints | int) -> Ints:
    """The given millionths of each amount, rounded down; exact, and without overflow of int64."""
    whole = amounts // WHOLE
    # Not %: dividing by a constant is fast, and the remainder is then a subtraction.
    part: Ints = whole * millionths + (amounts - whole * WHOLE) * millionths // WHOLE
    return part


def read_factor(value: Number, what: str) -> int:
    """Millionths of a factor such as ``1.5`` or ``150%``."""
    found = _millionths(value, what)
    if not 0 < found <= HIGHEST_FACTOR * WHOLE:
        raise ValueError(f"{what}: {value!r} is no factor: want more than 0 and at most {HIGHEST_FACTOR}")
    return found


def read_share(value: Number, what: str) -> int:
    """Millionths of a share such as ``0.4`` or ``40%``."""
    found = _millionths(value, what)
    if found > WHOLE:
        meant = "" if "%" in str(value) else f"; did you mean {value}%?"
        raise ValueError(f"{what}: {value!r} is more than the whole node{meant}")
    if not found:
        raise ValueError(f"{what}: want more than nothing, such as 0.4 or 40%; got {value!r}")
    return found


def read_headroom(resource: str, value: Number) -> tuple[int, int]:
    """An amount, and millionths of the node's allocatable: one of the two is 0."""
    what = f"headroom.{resource}"
    if "%" in str(value):
        return 0, read_share(value, what)
    try:
        amount = blocks.amount(resource, value)
    except ValueError as error:
        raise ValueError(f"{what}: {error}; or a share of the node, such as 10%") from None
    if amount < 1:
        raise ValueError(f"{what}: want more than nothing, such as 500m, 2Gi or 10%; got {value!r}")
    if resource != "cpu" and amount == 1 and str(value) != "1":
        raise ValueError(f"{what}: {value!r} of {resource} is next to nothing; want 2Gi or 10%")
    return min(amount, ENDLESS), 0


def _millionths(value: Number, what: str) -> int:
    text = str(value).removesuffix("%")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{what}: {value!r} is neither a number such as 0.4 nor a percentage such as 40%")
    exact = Decimal(text) * (WHOLE // 100 if str(value).endswith("%") else WHOLE)
    if exact != int(exact):
        raise ValueError(f"{what}: {value!r} is finer than a millionth; round it")
    return int(exact)
