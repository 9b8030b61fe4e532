"""Writes Events, which ``kubectl describe pod`` shows.

A repeated Event is not written anew: it is counted in the first one, as a series.
"""

import time
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from bayplan.client.errors import ApiError
from bayplan.client.rest import ApiClient

# The API server's limit for messages, in bytes.
_NOTE_BYTES = 1024
# A name has 253 characters at the most, and the time behind the dot takes up to 17 of them.
_NAME_CHARACTERS = 236
_TIMEOUT_SECONDS = 5.0


def make_event(
    *,
    namespace: str,
    regarding: tuple[str, str],
    reason: str,
    message: str,
    action: str,
    component: str,
    instance: str,
    kind: Literal["Normal", "Warning"] = "Normal",
    at_ns: int | None = None,
) -> dict[str, Any]:
    """An Event about a pod, ``regarding`` its name and UID; a message above the limit is cut.

    ``component`` is the reporting controller (``bayplan.dev/scheduler``), ``instance`` which of them,
    ``action`` what it did (``Binding``). ``at_ns`` is the time in nanoseconds since 1970; by default now.
    """
    name, uid = regarding
    at_ns = time.time_ns() if at_ns is None else at_ns
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{name[:_NAME_CHARACTERS].rstrip('-.')}.{at_ns:x}",
            "namespace": namespace,
        },
        "eventTime": _stamp(datetime.fromtimestamp(at_ns / 1e9, UTC)),
        "type": kind,
        "reason": reason,
        "action": action,
        "note": _cut(message),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
        "reportingController": component,
        "reportingInstance": instance,
    }


async def record_event(
    client: ApiClient, event: dict[str, Any], *, timeout_seconds: float = _TIMEOUT_SECONDS
) -> None:
    """Write an Event. Needs the right to create ``events`` of ``events.k8s.io``.

    Raises like any request; callers must not fail because of it.
    """
    await client.create(_path(event), event, timeout_seconds=timeout_seconds)


async def record_series(
    client: ApiClient,
    event: dict[str, Any],
    *,
    count: int,
    observed: datetime,
    known: bool,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> None:
    """Write that an Event occurred ``count`` times, the last time when it was ``observed``.

    ``known`` says whether the API server has the Event. If it has expired there, after an hour, it is created
    anew; if it exists although its creation got no answer, it is not created twice. Needs the right to create
    and to patch ``events`` of ``events.k8s.io``.
    """
    series = {"series": {"count": count, "lastObservedTime": _stamp(observed)}}
    path = f"{_path(event)}/{quote(event['metadata']['name'], safe='')}"
    for patching in (known, not known):
        try:
            if patching:
                await client.patch(path, series, timeout_seconds=timeout_seconds)
            else:
                await record_event(client, event | series, timeout_seconds=timeout_seconds)
        except ApiError as error:
            mistaken = error.status == (404 if patching else 409) and patching == known
            if not mistaken:
                raise
        else:
            return


def _path(event: dict[str, Any]) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(event['metadata']['namespace'], safe='')}/events"


def _stamp(when: datetime) -> str:
    return when.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _NOTE_BYTES:
        return message
    end = " ..."
    return encoded[: _NOTE_BYTES - len(end)].decode(errors="ignore") + end
