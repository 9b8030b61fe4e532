"""Copies of columns with some rows replaced."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.snapshot.columns import Values
from bayplan.snapshot.strings import Strings


def patched(values: Values, size: int, rows: NDArray[np.intp], fresh: Values) -> Values:
    """A copy of a column, ``size`` rows long, with ``fresh`` values in ``rows``."""
    if isinstance(values, Strings) and isinstance(fresh, Strings):
        sized = values.with_codes(_resized(values.codes, size))
        return sized.patched(rows, [fresh[row] for row in range(len(fresh))])
    assert isinstance(values, np.ndarray)
    assert isinstance(fresh, np.ndarray)
    return patched_array(values, size, rows, fresh)


def patched_array(
    values: NDArray[Any], size: int, rows: NDArray[np.intp], fresh: NDArray[Any]
) -> NDArray[Any]:
    """As `patched`, for an array; `TypeError` if the fresh values do not fit into it."""
    if not fits(values, fresh):
        raise TypeError(f"values of type {fresh.dtype} do not fit into a column of type {values.dtype}")
    copy = _resized(values, size)
    copy[rows] = fresh
    copy.flags.writeable = False
    return copy


def fits(values: NDArray[Any], fresh: NDArray[Any]) -> bool:
    """Whether an array holds fresh values as they are: NumPy would cut off a longer text, and turn NaN into a
    number among whole numbers.
    """
    return not fresh.size or np.can_cast(fresh.dtype, values.dtype, "safe")


def _resized(values: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy that is longer or shorter; new rows are 0."""
    copy = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    kept = min(size, len(values))
    copy[:kept] = values[:kept]
    return copy


def sliced(values: Values, rows: NDArray[np.intp]) -> Values:
    """These rows of a column."""
    return values.take(rows) if isinstance(values, Strings) else values[rows]
