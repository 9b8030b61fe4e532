"""What became of a pod: bound to a node, or refused with a message; told by a watch."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.controlplane.plane import ControlPlane

Json = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How kube-scheduler's attempt ended."""

    node: str = ""
    reason: str = ""
    """Of the condition PodScheduled where it is False: Unschedulable, SchedulerError, SchedulingGated."""
    message: str = ""


class Outcomes:
    """Follows every pod of the cluster, inside its ``with`` block."""

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.server)
        context = ssl.create_default_context(cafile=str(plane.ca.cert))
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=3600, context=context
        )
        self._headers = {"Authorization": f"Bearer {plane.admin_token}"}
        self._plane = plane
        self._changed = threading.Condition()
        self._known: dict[str, Outcome] = {}
        self._ended = False
        self._thread = threading.Thread(target=self._follow, name="outcomes", daemon=True)

    def __enter__(self) -> Self:
        self._connection.connect()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended = True
        connected = self._connection.sock
        if connected is not None:
            connected.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def wait(self, pod: str, timeout_seconds: float = 30.0) -> Outcome:
        """How it ended for this pod; forgotten once it was told."""
        deadline = time.monotonic() + timeout_seconds
        with self._changed:
            while pod not in self._known:
                self._plane.check()
                for child in self._plane.api.watched:
                    child.check()
                if time.monotonic() > deadline:
                    raise AssertionError(f"pod {pod} has no outcome after {timeout_seconds:g} s")
                self._changed.wait(timeout=1.0)
            return self._known.pop(pod)

    def _follow(self) -> None:
        while not self._ended:
            try:
                self._connection.request("GET", "/api/v1/pods?watch=1", headers=self._headers)
                for line in self._connection.getresponse():
                    self._take(json.loads(line))
            except (OSError, http.client.HTTPException, ValueError):
                # Either the block has ended, or the API server has ended the watch: ask again.
                self._connection.close()

    def _take(self, event: Json) -> None:
        if event["type"] not in ("ADDED", "MODIFIED"):
            return
        pod = event["object"]
        outcome = _outcome(pod)
        if outcome is not None:
            with self._changed:
                self._known[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = outcome
                self._changed.notify_all()


def _outcome(pod: Json) -> Outcome | None:
    if node := pod["spec"].get("nodeName"):
        return Outcome(node)
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Outcome(reason=condition["reason"], message=condition.get("message", ""))
    # A pod whose volumes must be bound first is nominated meanwhile: nobody here would bind them.
    nominated = pod["status"].get("nominatedNodeName")
    return Outcome(nominated) if nominated else None
