"""Bytes to messages, messages to bytes.

kube-scheduler's own spelling is decoded in one pass; any other takes a second, slower one.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from bayplan.kube.node import NodeObject
from bayplan.wire import v1
from bayplan.wire.respell import respell

M = TypeVar("M", bound=v1.Envelope)

_DECODERS: dict[type[v1.Envelope], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (v1.ExtenderArgs, v1.ExtenderPreemptionArgs, v1.ExtenderBindingArgs)
}
_NODE = msgspec.json.Decoder(NodeObject)
_ENCODER = msgspec.json.Encoder()


class WireError(ValueError):
    """The bytes are not the message they should be; the text says what is wrong and where."""


def decode(body: bytes, kind: type[M]) -> M:
    """The message in ``body``; `WireError` for anything else, whatever the bytes are."""
    decoder: msgspec.json.Decoder[M] = _DECODERS[kind]
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            return decoder.decode(respell(body, kind))
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise WireError(_explain(error, kind.__name__, empty=not body.strip())) from None


def decode_nodes(items: Sequence[Raw]) -> list[NodeObject]:
    """The nodes of a request, with the fields that policies read."""
    nodes = []
    for number, item in enumerate(items):
        try:
            node = _NODE.decode(item)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            raise WireError(_explain(error, f"Nodes.items[{number}]")) from None
        if not node.name:
            raise WireError(f"Nodes.items[{number}]: metadata.name is missing")
        nodes.append(node)
    return nodes


def encode(message: v1.Envelope | list[v1.HostPriority]) -> bytes:
    """The bytes of an answer."""
    return _ENCODER.encode(message)


def _explain(error: Exception, what: str, *, empty: bool = False) -> str:
    if empty:
        return f"{what}: the body is empty, want JSON"
    if isinstance(error, RecursionError):
        return f"{what}: nested too deeply"
    return f"{what}: {error}"
