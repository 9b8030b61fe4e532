"""Converts the values that a source gives by node into columns with the rows of a table.

A source that is asked about each pod gives thousands of values each time, and the pod waits for the
conversion: so it avoids loops over single values.
"""

from collections.abc import Collection, Mapping
from itertools import chain
from math import isfinite, isnan, nan
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.snapshot.columns import parse_number
from bayplan.snapshot.strings import ABSENT, Strings

Scalar = float | int | bool | str
PLAIN = ""
"""The field of a source that gives one value per node."""
MOST_FIELDS = 256
"""The limit of fields: with more, names of pods or the like were mistaken for fields."""

_PLAIN_TYPES = frozenset({float, int, bool, str, NoneType})
_NUMBERS = frozenset({float, int, bool})


def by_field(values: Mapping[str, Any]) -> dict[str, dict[str, Scalar]]:
    """Values by field and node, from values by node: ``{"a": 1}`` or ``{"a": {"warranty": True}}``.

    ``None`` and NaN count as missing. Raises `ValueError` for anything else that is neither a number nor a
    text, and for more than `MOST_FIELDS`.
    """
    kinds = set(map(type, values.values()))
    if kinds == {dict}:
        columns = _transposed(values)
    elif kinds <= _PLAIN_TYPES:
        columns = {PLAIN: {node: one for node, one in values.items() if one is not None}}
    else:
        return _checked_one_by_one(values)
    if not all(_PLAIN_TYPES.issuperset(map(type, column.values())) for column in columns.values()):
        return _checked_one_by_one(values)
    return {name: present for name, column in columns.items() if (present := _without_nan(column))}


def _transposed(values: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Values by field and node, from values by node and field; ``None`` is left out."""
    columns: dict[str, dict[str, Any]] = {}
    for node, fields in values.items():
        for name, one in fields.items():
            if one is not None:
                column = columns.get(name)
                if column is None:
                    column = _new_column(columns, name)
                column[node] = one
    return columns


def _new_column(columns: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if len(columns) >= MOST_FIELDS:
        first = next(iter(columns))
        raise ValueError(
            f"more than {MOST_FIELDS} columns, such as {str(first)[:60]!r} and {str(name)[:60]!r}; want the"
            " same few names for every node, as in {node: {price: 1}}"
        )
    columns[name] = {}
    return columns[name]


def _without_nan(values: dict[str, Any]) -> dict[str, Scalar]:
    kinds = set(map(type, values.values()))
    # One NaN makes the sum NaN, and a sum is ten times faster than a check of each value.
    if float not in kinds or (kinds == {float} and not isnan(sum(values.values()))):
        return values
    return {node: one for node, one in values.items() if not (isinstance(one, float) and isnan(one))}


def _checked_one_by_one(values: Mapping[str, Any]) -> dict[str, dict[str, Scalar]]:
    """As `by_field`, for values of any type, in three times the time; the error names the wrong value."""
    fields: dict[str, dict[str, Scalar]] = {}
    for node, value in values.items():
        several = value if isinstance(value, Mapping) else {PLAIN: value}
        for name, given in several.items():
            one = given.item() if isinstance(given, np.generic) else given
            if one is None or (isinstance(one, float) and isnan(one)):
                continue
            if not isinstance(one, Scalar):
                where = f"{node}.{name}" if name else node
                raise ValueError(f"{where}: want a number or a text, got {type(one).__name__}")
            column = fields.get(name)
            if column is None:
                column = _new_column(fields, name)
            column[node] = one
    return fields


def numbers(values: Mapping[str, Scalar]) -> dict[str, float]:
    """The values that are numbers, or texts of numbers; never NaN or infinity."""
    return {key: number for key, value in values.items() if not isnan(number := _number(value))}


def _number(value: Scalar) -> float:
    """The value as a float; NaN if it is no number, infinite, or a whole number too large for a float."""
    if isinstance(value, str):
        parsed = parse_number(value, float)
        return nan if parsed is None else parsed
    try:
        number = float(value)
    except OverflowError:
        return nan
    return number if isfinite(number) else nan


def places(there: Collection[str], keys: Strings) -> NDArray[np.intp]:
    """The index of each key in ``there``; -1 for a key that is not in it."""
    # Absent keys, and names that no node has, share the last place.
    by_code = np.full(len(keys.values) + 1, -1, dtype=np.intp)
    by_code[keys.find(there)] = np.arange(len(there))
    by_code[-1] = -1
    return by_code[keys.codes]


def floats(values: list[Scalar]) -> NDArray[np.float64]:
    """The values as floats, NaN for those that are no numbers, and one more NaN at the end."""
    # Types are checked first: NumPy would turn a mixed list into texts, each as long as the longest.
    plain = values if _NUMBERS.issuperset(map(type, values)) else map(_number, values)
    try:
        found = np.fromiter(chain(plain, (nan,)), dtype=np.float64, count=len(values) + 1)
    except OverflowError:
        # A whole number is too large for a float.
        found = np.fromiter(chain(map(_number, values), (nan,)), dtype=np.float64, count=len(values) + 1)
    found[np.isinf(found)] = nan
    return found


def texts(values: list[Any], at: NDArray[np.intp]) -> Strings:
    """The values at these indices as texts; absent where the index is -1."""
    present = np.flatnonzero(at >= 0)
    chosen = [values[place] for place in at[present].tolist()]
    found = Strings.intern(chosen if {str}.issuperset(map(type, chosen)) else map(_text, chosen))
    codes = np.full(len(at), ABSENT, dtype=np.int32)
    codes[present] = found.codes
    return found.with_codes(codes)


def _text(value: Scalar) -> str:
    """The text of a value; bools as JSON and YAML write them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
