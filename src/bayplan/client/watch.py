"""A watch: events as the API server sends them, one JSON object a line, for as long as it lasts."""

from collections.abc import AsyncIterator, Callable
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient
from bayplan.kube.meta import ObjectMeta

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class WatchEvent(Struct, frozen=True):
    """One line of a watch; the object is decoded by whoever knows what it is."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Raw


class _Bookmark(Struct):
    metadata: ObjectMeta = ObjectMeta()


class _Status(Struct):
    code: int = 0
    message: str = ""


_EVENT = msgspec.json.Decoder(WatchEvent)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)
_STATUS = msgspec.json.Decoder(_Status)


async def watch(
    client: ApiClient,
    path: str,
    *,
    params: dict[str, str],
    lasting_seconds: float,
    silence_seconds: float,
    opened: Callable[[], None] | None = None,
) -> AsyncIterator[WatchEvent]:
    """The events of one watch; ends when the server ends it, raises `ApiError` for an ERROR event.

    ``lasting_seconds`` is how long the server is asked to keep it open; one that is silent for longer than
    ``silence_seconds`` ends with `Silent`. ``opened`` is called when it is open, before any event.
    """
    wanted = {
        **params,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(int(lasting_seconds)),
    }
    doing = f"watching {path}"
    lines = client.lines(path, params=wanted, doing=doing, silence_seconds=silence_seconds, opened=opened)
    async for line in lines:
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                status = _STATUS.decode(event.object)
                raise ApiError(status.code, status.message, doing=doing)
        except msgspec.MsgspecError as error:
            raise ConnectError(f"{doing}: not an event: {error}") from error
        yield event


def bookmark(event: WatchEvent) -> tuple[str, bool]:
    """A bookmark's resource version, and whether it ends the initial events."""
    try:
        metadata = _BOOKMARK.decode(event.object).metadata
    except msgspec.MsgspecError as error:
        raise ConnectError(f"a bookmark cannot be read: {error}") from error
    ended = (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return metadata.resource_version or "", ended
