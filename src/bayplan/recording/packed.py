"""Arrays in JSON: little-endian bytes, compressed, in base64; small, and fast to write and read.

``numpy.frombuffer(zlib.decompress(base64.b64decode(data)), "<" + kind)`` is the array.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType
from numpy.typing import NDArray

from bayplan.authoring.raised import encodable
from bayplan.recording.lines import RecordingError
from bayplan.snapshot.strings import ABSENT, Strings

_FAST = 1
_KINDS = frozenset({"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"})
# A short line must not decompress to a huge array.
_MAX_COUNT = 10_000_000
_Plain = int | float | str | bool | None


class Packed(Struct, frozen=True):
    """An array of numbers."""

    kind: str
    """NumPy's type code: ``f4`` is a float of four bytes."""
    count: int
    data: bytes


class Value(Struct, frozen=True, omit_defaults=True):
    """The value of one name in a detail: a number or a text, for all rows or per row."""

    plain: _Plain | UnsetType = UNSET
    array: Packed | None = None
    texts: list[str] | None = None
    """For texts: the array has indices into this list, and -1 for no text."""


def pack(array: NDArray[Any]) -> Packed | None:
    """Pack an array; ``None`` for an array of objects."""
    kind = array.dtype.str[1:]
    if kind not in _KINDS or array.ndim != 1:
        return None
    little = np.ascontiguousarray(array, dtype=f"<{kind}")
    return Packed(kind, len(little), zlib.compress(little.data, _FAST))


def unpack(packed: Packed) -> NDArray[Any]:
    """Unpack an array; raises `RecordingError` if it is damaged."""
    if packed.kind not in _KINDS or not 0 <= packed.count <= _MAX_COUNT:
        raise RecordingError(f"an array of {packed.count} {packed.kind!r}")
    dtype = np.dtype(f"<{packed.kind}")
    want = packed.count * dtype.itemsize
    try:
        # One byte more than allowed, since 0 would mean no limit.
        data = zlib.decompressobj().decompress(packed.data, want + 1)
    except zlib.error as error:
        raise RecordingError(f"an array that cannot be read: {error}") from None
    if len(data) != want:
        raise RecordingError(f"an array of {packed.count} {packed.kind!r} that has another size")
    return np.frombuffer(data, dtype)


def pack_values(values: Mapping[str, Any]) -> dict[str, Value] | None:
    """Pack the values of a detail; ``None`` if JSON cannot hold one of them."""
    found = {name: _packed(value) for name, value in values.items()}
    known = {name: value for name, value in found.items() if value is not None}
    return known if len(known) == len(found) else None


def unpack_values(values: Mapping[str, Value]) -> dict[str, Any]:
    """Unpack the values of a detail."""
    return {name: _unpacked(value) for name, value in values.items()}


def _packed(value: Any) -> Value | None:
    if isinstance(value, Strings):
        return _packed_texts(value)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
        value = value.item()
    if isinstance(value, np.ndarray):
        array = pack(value)
        return None if array is None else Value(array=array)
    if type(value) is str:
        return Value(plain=encodable(value))
    finite = not isinstance(value, float) or np.isfinite(value)
    return Value(plain=value) if type(value) in (int, float, bool, type(None)) and finite else None


def _packed_texts(column: Strings) -> Value:
    used, numbers = np.unique(column.codes, return_inverse=True)
    absent = int(used.size and used[0] == ABSENT)
    texts = [encodable(column.values[code]) for code in used[absent:].tolist()]
    return Value(array=pack((numbers - absent).astype(np.int32)), texts=texts)


def _unpacked(value: Value) -> Any:
    if value.array is None:
        return None if value.plain is UNSET else value.plain
    array = unpack(value.array)
    if value.texts is None:
        return array
    codes = array.astype(np.int32)
    if codes.size and not (codes.min() >= ABSENT and codes.max() < len(value.texts)):
        raise RecordingError("a text that is not there")
    return Strings(codes, tuple(value.texts))
