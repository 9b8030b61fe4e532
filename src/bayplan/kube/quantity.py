"""Converts Kubernetes quantities to exact integers: ``100m``, ``1.5Gi``, ``2e3``, ``0.1``.

Kubernetes rounds up where a unit cannot hold the value (``1n`` of CPU is 1 milli-CPU) and stops at
the largest int64. Both are kept, so that our sums are the sums kube-scheduler makes.
"""

import re
from functools import lru_cache

INT64_MAX = 2**63 - 1

# What Go's ParseInt accepts; Python's int() also accepts "1_000" and blanks.
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64 = range(-(2**63), 2**63)
_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,10})")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Past these powers every value is 0, the smallest unit or the largest int64; a hostile "1e999999999"
# must not make us build a number of a billion digits.
_POWER_LIMIT = 60
_DIGITS_LIMIT = 100
_MILLI, _NANO = 3, 9


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


def _malformed(text: object) -> QuantityError:
    return QuantityError(
        f"{text!r} is not a quantity: want a number with an optional suffix,"
        " such as 250m, 1.5, 2e3, 512Mi or 4G"
    )


@lru_cache(maxsize=65536)
def _scaled(text: str, power_of_ten: int) -> int:
    """The value of ``text`` times ``10**power_of_ten``, rounded up away from zero.

    Only the units that it makes have to be an int64.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > _DIGITS_LIMIT:
        raise _malformed(text)
    sign, whole, fraction, suffix = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise _malformed(text)
    two = 0
    ten = power_of_ten - len(fraction)
    if suffix in _DECIMAL:
        ten += _DECIMAL[suffix]
    elif suffix in _BINARY:
        two = _BINARY[suffix]
    elif exponent := _EXPONENT.fullmatch(suffix):
        ten += max(-4 * _DIGITS_LIMIT, min(int(exponent[1]), 4 * _DIGITS_LIMIT))
    else:
        raise _malformed(text)
    magnitude = _shift(int(whole + fraction) << two, ten)
    limit = INT64_MAX * int(10**power_of_ten)
    return max(-limit, min(-magnitude if sign == "-" else magnitude, limit))


def _shift(digits: int, ten: int) -> int:
    """``digits * 10**ten``, rounded up; bounded work whatever ``ten`` is."""
    if ten >= 0:
        return digits * int(10 ** min(ten, _POWER_LIMIT))
    return -(-digits // int(10 ** (-ten)))


def milli(quantity: str | int | float) -> int:
    """Thousandths of the quantity, rounded up: how Kubernetes counts CPU."""
    return _int64(thousandths(quantity))


def units(quantity: str | int | float) -> int:
    """Whole units of the quantity, rounded up: how Kubernetes counts everything but CPU."""
    return _scaled(_text(quantity), 0)


def nano(quantity: str | int | float) -> int:
    """Thousand-millionths of the quantity, the finest that Kubernetes knows; not an int64."""
    return _scaled(_text(quantity), _NANO)


def amount(resource: str, quantity: str | int | float) -> int:
    """The integer that scheduling uses for ``resource``: milli-CPU for ``cpu``, units for the rest."""
    return milli(quantity) if resource == "cpu" else units(quantity)


def thousandths(quantity: str | int | float) -> int:
    """Thousandths of the quantity, the finest that the API server keeps of a request; not an int64."""
    return _scaled(_text(quantity), _MILLI)


def of_thousandths(resource: str, value: int) -> int:
    """The integer that scheduling uses for ``resource``, of a sum of thousandths: rounded up once."""
    return _int64(value if resource == "cpu" else -(-value // 10**_MILLI))


def _int64(value: int) -> int:
    return max(-INT64_MAX, min(value, INT64_MAX))


def _text(quantity: str | int | float) -> str:
    """YAML written by hand says ``cpu: 4``; the API server always says ``"4"``."""
    if isinstance(quantity, str):
        return quantity
    if isinstance(quantity, bool):
        raise _malformed(quantity)
    return repr(quantity)


def whole_number(text: str) -> int | None:
    """The int64 that Go would parse from a label or a taint; ``None`` if it would fail."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
