"""Arguments of a policy: a typed struct, strict, spelled in camelCase in YAML."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound="Args")


class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of a policy's settings; every field needs a type, most have a default.

    Limits are written with ``Annotated[int, msgspec.Meta(ge=0)]``.
    """


def read_args(schema: type[T], data: dict[str, Any]) -> T:
    """The settings out of configuration data; raises `msgspec.ValidationError` with the path."""
    return msgspec.convert(data, schema)
