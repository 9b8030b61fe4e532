"""Telling people what was decided: Events, which ``kubectl describe pod`` shows."""

from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote

from bayplan.client.rest import ApiClient

# The API server refuses longer ones; it counts bytes.
_NOTE_BYTES = 1024
# The API server cuts the start of a name that it makes up at 58 characters.
_NAME_CHARACTERS = 57
_TIMEOUT_SECONDS = 5.0


async def record_event(
    client: ApiClient,
    *,
    namespace: str,
    regarding: tuple[str, str],
    reason: str,
    message: str,
    action: str,
    component: str,
    instance: str,
    kind: Literal["Normal", "Warning"] = "Normal",
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> None:
    """Write one Event about a pod, ``regarding`` its name and UID; a longer message is cut.

    ``component`` says who reports (``bayplan.dev/scheduler``), ``instance`` which of them, ``action`` what
    it did (``Binding``). Needs the right to create ``events`` of ``events.k8s.io``. An Event that cannot be
    written raises like any request; it is never worth failing for.
    """
    name, uid = regarding
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": name[:_NAME_CHARACTERS].rstrip("-.") + "-",
            "namespace": namespace,
        },
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": kind,
        "reason": reason,
        "action": action,
        "note": _cut(message),
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": uid},
        "reportingController": component,
        "reportingInstance": instance,
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{quote(namespace, safe='')}/events"
    await client.create(path, event, timeout_seconds=timeout_seconds)


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _NOTE_BYTES:
        return message
    end = "..."
    return encoded[: _NOTE_BYTES - len(end)].decode(errors="ignore") + end
