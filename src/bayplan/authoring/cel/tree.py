"""A compiled expression as a tree, read from the bytes of a ``cel.expr.CheckedExpr``.

The library compiles and runs expressions, and exposes its tree only as a protobuf message. The few
fields needed here are parsed by hand, so that no protobuf package has to be installed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_PRIMITIVE_BYTES = 6
_EXPR = 4


@dataclass(frozen=True)
class Expr:
    """A part of an expression; ``id`` is the key of its place in the text."""

    id: int
    data: bytes = field(default=b"", kw_only=True, repr=False, compare=False)
    """The part as serialized by the library."""


@dataclass(frozen=True)
class Constant(Expr):
    """A literal; only the values of texts are kept."""

    text: str | None = None


@dataclass(frozen=True)
class Ident(Expr):
    """A name, such as ``pod`` or the variable of a macro."""

    name: str


@dataclass(frozen=True)
class Select(Expr):
    """``operand.field``, or ``has(operand.field)`` if ``test_only``."""

    operand: Expr
    field: str
    test_only: bool = False


@dataclass(frozen=True)
class Call(Expr):
    """A function or an operator: ``_==_``, ``_[_]``, ``startsWith``. The target comes first in ``args``."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class ListOf(Expr):
    """A list literal."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class MapOf(Expr):
    """A map literal."""

    keys: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Comprehension(Expr):
    """The expansion of ``all``, ``exists``, ``map``, ``filter`` and ``optMap``."""

    variable: str
    range: Expr
    accumulator: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


@dataclass(frozen=True)
class Tree:
    """The expression, the places of its parts in the text, and which of them are quantities."""

    root: Expr
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset of each part in code points, by id."""
    quantities: frozenset[int] = frozenset()
    """The ids of the parts of type bytes, which represent quantities."""


def read_tree(serialized: bytes) -> Tree:
    """Parse the output of the library's ``serialize``."""
    checked = _message(_message(serialized)[2][-1])
    offsets = {
        _number(entry, 1): _number(entry, 2)
        for info in checked.get(5, ())
        for entry in map(_message, _message(info).get(4, ()))
    }
    types = [_message(entry) for entry in checked.get(3, ())]
    quantities = frozenset(_number(entry, 1) for entry in types if _is_bytes(entry))
    return Tree(_expr(checked[_EXPR][-1]), offsets, quantities)


def with_root(serialized: bytes, part: Expr) -> bytes:
    """The serialized form of this part alone."""
    outer = dict(_fields(serialized))
    checked = [(number, data) for number, data in _fields(outer[2]) if number != _EXPR]
    return _written(
        [*((n, data) for n, data in outer.items() if n != 2), (2, _written([*checked, (_EXPR, part.data)]))]
    )


Fields = dict[int, list[bytes]]


def _expr(data: bytes) -> Expr:
    fields = _message(data)
    for number, read in _KINDS.items():
        if number in fields:
            return replace(read(_number(fields, 2), _message(fields[number][-1])), data=data)
    return Constant(_number(fields, 2), data=data)


def _constant(id: int, fields: Fields) -> Expr:
    return Constant(id, _text(fields, 6) if 6 in fields else None)


def _ident(id: int, fields: Fields) -> Expr:
    return Ident(id, _text(fields, 1))


def _select(id: int, fields: Fields) -> Expr:
    return Select(id, _expr(fields[1][-1]), _text(fields, 2), bool(_number(fields, 3)))


def _call(id: int, fields: Fields) -> Expr:
    parts = [*fields.get(1, ()), *fields.get(3, ())]
    return Call(id, _text(fields, 2), tuple(map(_expr, parts)))


def _list(id: int, fields: Fields) -> Expr:
    return ListOf(id, tuple(map(_expr, fields.get(1, ()))))


def _map(id: int, fields: Fields) -> Expr:
    entries = [_message(entry) for entry in fields.get(2, ())]
    keys = tuple(_expr(entry[3][-1]) for entry in entries if 3 in entry)
    return MapOf(id, keys, tuple(_expr(entry[4][-1]) for entry in entries))


def _comprehension(id: int, fields: Fields) -> Expr:
    range, start, condition, step, result = (_expr(fields[number][-1]) for number in (2, 4, 5, 6, 7))
    return Comprehension(id, _text(fields, 1), range, _text(fields, 3), start, condition, step, result)


# Parsers by field number in cel.expr.Expr.
_KINDS = {
    3: _constant,
    4: _ident,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}


def _is_bytes(entry: Fields) -> bool:
    return 2 in entry and _number(_message(entry[2][-1]), 3) == _PRIMITIVE_BYTES


def _message(data: bytes) -> Fields:
    """The fields of a message, by number; integers stay in their wire form."""
    fields: Fields = {}
    for number, value in _fields(data):
        fields.setdefault(number, []).append(value)
    return fields


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind, start = tag & 7, at
        if kind == _VARINT:
            _, at = _varint(data, at)
        elif kind == _BYTES:
            size, start = _varint(data, at)
            at = start + size
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"no protobuf field is of wire type {kind}")
        yield tag >> 3, data[start:at]


def _written(fields: list[tuple[int, bytes]]) -> bytes:
    """Serialize a message whose fields are messages or texts."""
    parts = [[_as_varint(number << 3 | _BYTES), _as_varint(len(data)), data] for number, data in fields]
    return b"".join(piece for part in parts for piece in part)


def _as_varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _as_varint(rest) if rest else bytes([low])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _number(fields: Fields, number: int) -> int:
    return _varint(fields[number][-1], 0)[0] if number in fields else 0


def _text(fields: Fields, number: int) -> str:
    return fields[number][-1].decode() if number in fields else ""
