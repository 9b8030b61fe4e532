"""Tells people what became of their pods, as kube-scheduler does: Events, and conditions in the status.

Telling must never hold up scheduling. So it waits in a queue of its own, which has an end: beyond it nothing
is written, and that is counted.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.events import record_event
from bayplan.client.pod_status import write_unscheduled
from bayplan.client.rest import ApiClient
from bayplan.kube.pod import Pod

log = logging.getLogger(__name__)

Kind = Literal["event", "condition"]
Why = Literal["Unschedulable", "SchedulerError"]

_LIMIT = 20_000
_AT_ONCE = 16
# The API server forgets an Event after an hour; a pod that still waits should have one.
_AGAIN_SECONDS = 600.0
_GONE = (404, 409)


@dataclass(frozen=True)
class _Said:
    reason: str
    message: str
    nominated_node: str


@dataclass
class _Told:
    """What was said of a pod that waits."""

    status: _Said | None = None
    event: str = ""
    event_at: float = 0.0


class Reporter:
    """Writes Events and conditions, some at once, in the order of asking."""

    def __init__(
        self,
        client: ApiClient,
        *,
        instance: str,
        on_result: Callable[[str, str], None] = lambda *_: None,
        limit: int = _LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``instance`` is who we are; ``on_result`` is told the kind of a report and what became of it."""
        self._client = client
        self._instance = instance
        self._on_result = on_result
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[Kind, str, Callable[[], Awaitable[None]]]]
        self._waiting = asyncio.Queue(maxsize=limit)
        self._told: dict[str, _Told] = {}

    async def run(self) -> None:
        """Write what there is to write, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._write())

    async def close(self, *, timeout_seconds: float) -> None:
        """Wait until all is written, if that does not take too long."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._waiting.join()
        except TimeoutError:
            log.warning("%d reports about pods were not written any more", self._waiting.qsize())

    def scheduled(self, pod: Pod, node: str) -> None:
        """The pod has its node."""
        self._told.pop(pod.uid, None)
        self._event(pod, "Scheduled", f"Successfully assigned {pod.key} to {node}", action="Binding")

    def unscheduled(self, pod: Pod, why: Why, message: str, *, nominated_node: str = "") -> None:
        """The pod has no node, for now. The same said again is not written again."""
        told = self._told.setdefault(pod.uid, _Told())
        now = self._clock()
        new = message != told.event or now - told.event_at >= _AGAIN_SECONDS
        if new and self._event(pod, "FailedScheduling", message, action="Scheduling", kind="Warning"):
            told.event, told.event_at = message, now
        said = _Said(why, message, nominated_node)
        before = told.status
        if said != before and self._put("condition", pod, lambda: self._status(pod, said, before)):
            told.status = said

    def preempted(self, victim: Pod, *, by: Pod) -> None:
        """The victim had to leave for a more important pod."""
        message = f"Preempted by pod {by.uid} on node {victim.node_name}"
        self._event(victim, "Preempted", message, action="Preempting", component=by.scheduler_name)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._told.pop(uid, None)

    def _event(
        self,
        pod: Pod,
        reason: str,
        message: str,
        *,
        action: str,
        kind: Literal["Normal", "Warning"] = "Normal",
        component: str = "",
    ) -> bool:
        reporter = component or pod.scheduler_name

        def write() -> Awaitable[None]:
            return record_event(
                self._client,
                namespace=pod.namespace,
                regarding=(pod.name, pod.uid),
                reason=reason,
                message=message,
                action=action,
                component=reporter,
                instance=f"{reporter}-{self._instance}",
                kind=kind,
            )

        return self._put("event", pod, write)

    async def _status(self, pod: Pod, said: _Said, before: _Said | None) -> None:
        nominated = said.nominated_node
        known = before.nominated_node if before else ((pod.status and pod.status.nominated_node_name) or "")
        try:
            await write_unscheduled(
                self._client,
                pod,
                reason=said.reason,
                message=said.message,
                nominated_node=nominated if nominated != known else None,
                first=before is None,
            )
        except (ApiError, ConnectError):
            # It is tried again with the next attempt, whatever that says.
            told = self._told.get(pod.uid)
            if told is not None and told.status is said:
                told.status = before
            raise

    def _put(self, kind: Kind, pod: Pod, write: Callable[[], Awaitable[None]]) -> bool:
        try:
            self._waiting.put_nowait((kind, pod.key, write))
        except asyncio.QueueFull:
            self._on_result(kind, "dropped")
            return False
        return True

    async def _write(self) -> None:
        while True:
            kind, key, write = await self._waiting.get()
            try:
                await write()
            except (ApiError, ConnectError) as error:
                gone = isinstance(error, ApiError) and error.status in _GONE
                log.log(logging.DEBUG if gone else logging.WARNING, "pod %s: %s", key, error)
                self._on_result(kind, "failed")
            else:
                self._on_result(kind, "written")
            finally:
                self._waiting.task_done()
