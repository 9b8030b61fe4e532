"""The quantity functions of Kubernetes in expressions: ``quantity("500m").isLessThan(quantity("1"))``.

The library has no custom types, so a quantity is represented as bytes: its billionths, in digits. Equal
quantities are then equal, however they are written. Nothing else in an expression may be bytes.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bayplan.kube.quantity import INT64_MAX, QuantityError, nano

if TYPE_CHECKING:
    from cel_expr_python import cel

_ONE = 10**9

FUNCTIONS = (
    "quantity",
    "isQuantity",
    "isInteger",
    "asInteger",
    "asApproximateFloat",
    "sign",
    "add",
    "sub",
    "compareTo",
    "isLessThan",
    "isGreaterThan",
)
"""All functions of Kubernetes' quantity library."""


def declarations(library: Any) -> "list[cel.FunctionDecl]":
    """The declarations of the functions for the library's environment."""
    kinds = library.Type
    text, number, quantity = kinds.STRING, kinds.INT, kinds.BYTES

    def declare(name: str, returns: Any, *overloads: tuple[list[Any], Callable[..., Any]]) -> Any:
        member = overloads[0][0][0] is quantity
        made = [
            library.Overload(f"{name}_{place}", returns, kinds_, is_member=member, impl=function)
            for place, (kinds_, function) in enumerate(overloads)
        ]
        return library.FunctionDecl(name, made)

    return [
        declare("quantity", quantity, ([text], _quantity)),
        declare("isQuantity", kinds.BOOL, ([text], _is_quantity)),
        declare("isInteger", kinds.BOOL, ([quantity], _is_integer)),
        declare("asInteger", number, ([quantity], _as_integer)),
        declare("asApproximateFloat", kinds.DOUBLE, ([quantity], _as_float)),
        declare("sign", number, ([quantity], lambda one: _compare(one, b"0"))),
        declare("add", quantity, ([quantity, quantity], _add), ([quantity, number], _add_number)),
        declare("sub", quantity, ([quantity, quantity], _sub), ([quantity, number], _sub_number)),
        declare("compareTo", number, ([quantity, quantity], _compare)),
        declare("isLessThan", kinds.BOOL, ([quantity, quantity], lambda one, two: int(one) < int(two))),
        declare("isGreaterThan", kinds.BOOL, ([quantity, quantity], lambda one, two: int(one) > int(two))),
    ]


@lru_cache(maxsize=8192)
def _quantity(text: str) -> bytes:
    return _packed(nano(text))


def _is_quantity(text: str) -> bool:
    try:
        nano(text)
    except QuantityError:
        return False
    return True


def _is_integer(one: bytes) -> bool:
    return int(one) % _ONE == 0 and abs(int(one)) <= INT64_MAX * _ONE


def _as_integer(one: bytes) -> int:
    if not _is_integer(one):
        raise ValueError(f"{_as_float(one):g} cannot be an integer; use asApproximateFloat()")
    return int(one) // _ONE


def _as_float(one: bytes) -> float:
    return int(one) / _ONE


def _compare(one: bytes, two: bytes) -> int:
    return (int(one) > int(two)) - (int(one) < int(two))


def _add(one: bytes, two: bytes) -> bytes:
    return _packed(int(one) + int(two))


def _add_number(one: bytes, two: int) -> bytes:
    return _packed(int(one) + two * _ONE)


def _sub(one: bytes, two: bytes) -> bytes:
    return _packed(int(one) - int(two))


def _sub_number(one: bytes, two: int) -> bytes:
    return _packed(int(one) - two * _ONE)


def _packed(value: int) -> bytes:
    return b"%d" % value
