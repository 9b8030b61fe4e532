"""The arguments of a policy: a strict, typed struct with camelCase names in YAML."""

from typing import Any, TypeVar, dataclass_transform

import msgspec

T = TypeVar("T", bound="Args")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _ArgsMeta(msgspec.StructMeta):
    """Tells type checkers that all subclasses are frozen."""


class Args(
    msgspec.Struct,
    metaclass=_ArgsMeta,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
):
    """Base of a policy's settings: each field has a type, and mostly a default.

    ::

        class HeadroomArgs(bayplan.Args):
            headroom_milli: int = 0

    In a configuration that is ``args: {headroomMilli: 500}``. Unknown keys and wrong types are errors. Limits
    are written as ``Annotated[int, msgspec.Meta(ge=0)]``.
    """


def read_args(schema: type[T], data: dict[str, Any]) -> T:
    """The arguments from configuration data; raises `msgspec.ValidationError` with the path."""
    return msgspec.convert(data, schema)
