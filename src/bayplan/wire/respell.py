"""Normalises the field names of envelopes: Go takes ``nodenames``, ``nodeNames`` and ``NodeNames`` as one.

Only envelopes are changed. Field names inside a Pod or a Node are fixed.
"""

import types
import typing
from typing import Any

import msgspec
from msgspec import Raw

from bayplan.wire.v1 import Envelope

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])
_ENCODER = msgspec.json.Encoder()


def respell(body: bytes, kind: type[Envelope]) -> bytes:
    """The message with its field names as ``kind`` spells them; unknown fields are left out."""
    return _ENCODER.encode(_value(Raw(body), kind))


def _value(raw: Raw, kind: Any) -> Any:
    kind = _without_null(kind)
    if bytes(raw).strip() == b"null":
        return raw
    if isinstance(kind, type) and issubclass(kind, Envelope):
        known = {f.encode_name.lower(): f for f in msgspec.structs.fields(kind)}
        sent = [(known.get(name.lower()), value) for name, value in _OBJECT.decode(raw).items()]
        return {field.encode_name: _value(value, field.type) for field, value in sent if field}
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is dict:
        return {name: _value(value, inner[1]) for name, value in _OBJECT.decode(raw).items()}
    if typing.get_origin(kind) is list and _is_envelope(inner[0]):
        return [_value(value, inner[0]) for value in _ARRAY.decode(raw)]
    return raw


def _without_null(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(part for part in typing.get_args(kind) if part is not type(None))
    return kind


def _is_envelope(kind: Any) -> bool:
    kind = _without_null(kind)
    return isinstance(kind, type) and issubclass(kind, Envelope)
