"""Watches: events as the API server streams them, one JSON object per line."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient, Resource, WatchEvent
from bayplan.kube.meta import NO_META, ObjectMeta

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _Status(Struct):
    code: int = 0
    message: str = ""


T = TypeVar("T")
_REFUSAL = msgspec.json.Decoder(WatchEvent[_Status])


class WithMetadata(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> ObjectMeta | None:
        """``metadata``, as sent."""
        ...


async def watch(
    client: ApiClient,
    resource: Resource[T],
    *,
    params: dict[str, str],
    lasting_seconds: float,
    silence_seconds: float,
    opened: Callable[[], None] | None = None,
) -> AsyncIterator[WatchEvent[T]]:
    """The events of one watch; ends when the server ends it, raises `ApiError` for an ERROR event.

    ``lasting_seconds`` is how long the server is asked to keep the watch open. Raises `Silent` after
    ``silence_seconds`` without an event. ``opened`` is called when the watch is open, before any event.
    """
    wanted = {
        **params,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(int(lasting_seconds)),
    }
    doing = f"watching {resource.path}"
    decode = resource.event.decode
    lines = client.lines(
        resource.path, params=wanted, doing=doing, silence_seconds=silence_seconds, opened=opened
    )
    async for line in lines:
        try:
            event = decode(line)
        except msgspec.MsgspecError as error:
            raise _refusal(line, doing) or ConnectError(
                f"{doing}: an event cannot be read: {error}"
            ) from error
        if event.type == "ERROR":
            raise _refusal(line, doing) or ConnectError(f"{doing}: an error that cannot be read")
        yield event


def _refusal(line: bytes, doing: str) -> ApiError | None:
    """The error of an ERROR event, whose object is a ``Status``; ``None`` for any other line."""
    with contextlib.suppress(msgspec.MsgspecError):
        event = _REFUSAL.decode(line)
        if event.type == "ERROR":
            return ApiError(event.object.code, event.object.message, doing=doing)
    return None


def bookmark(item: WithMetadata) -> tuple[str, bool]:
    """The resource version of a bookmark's object, and whether it ends the initial events."""
    metadata = item.metadata or NO_META
    ended = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return metadata.resource_version or "", ended
