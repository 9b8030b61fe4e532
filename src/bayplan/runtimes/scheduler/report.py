"""Reports what became of pods, as kube-scheduler does: Events, and conditions in the status.

Reports must never hold up scheduling. So they wait in a bounded queue of their own; reports beyond its limit
are dropped and counted.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.events import make_event, record_event, record_series
from bayplan.client.pod_status import write_unscheduled
from bayplan.client.rest import ApiClient
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.series import Series, SeriesBook

log = logging.getLogger(__name__)

Kind = Literal["event", "condition"]
Why = Literal["Unschedulable", "SchedulerError", "SchedulingGated"]

_LIMIT = 20_000
_AT_ONCE = 16
_NOW, _CAN_WAIT = 0, 1
# While pods are being bound, `Scheduled` Events leave the API server to the binds. They are then written
# slowly, unless so many wait that it is their turn.
_BUSY_SECONDS, _MANY = 0.02, 5_000
_SERIES_SECONDS = 30.0
_GONE = (404, 409)
# After a conflict, how long the watch gets to bring the changed pod; it needs milliseconds.
_CONFLICT_SECONDS = (0.05, 0.2, 1.0)


@dataclass(frozen=True)
class _Condition:
    reason: str
    message: str
    nominated_node: str
    generation: int
    """The ``metadata.generation`` of the pod that the condition is about."""


class Reporter:
    """Writes Events and conditions, several at a time; failures first, else in the order they came."""

    def __init__(
        self,
        client: ApiClient,
        *,
        instance: str,
        waits: Callable[[Pod], Pod | None] = lambda pod: pod,
        on_result: Callable[[str, str], None] = lambda *_: None,
        limit: int = _LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``instance`` is our name in Events; ``on_result`` gets the kind and result of each report.

        ``waits`` returns a pod as it is now; ``None`` if it has a node or is gone.
        """
        self._client = client
        self._instance = instance
        self._waits = waits
        self._on_result = on_result
        self._series = SeriesBook(clock=clock)
        # By rank and number: reports that others wait for, such as an autoscaler, overtake `Scheduled`.
        self._waiting: asyncio.PriorityQueue[tuple[int, int, Kind, str, Callable[[], Awaitable[None]]]]
        self._waiting = asyncio.PriorityQueue(maxsize=limit)
        self._numbers = itertools.count()
        self._status_told: dict[str, _Condition] = {}
        self._writing = 0
        self._ended = asyncio.Event()
        self.busy: Callable[[], bool] = lambda: False
        """Whether there are more important requests to send, such as binds."""

    async def run(self) -> None:
        """Write queued reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._count_on())
            while True:
                rank, _, kind, key, write = await self._waiting.get()
                while self._writing >= _AT_ONCE:
                    self._ended.clear()
                    await self._ended.wait()
                if rank == _CAN_WAIT and self.busy() and self._waiting.qsize() < _MANY:
                    await asyncio.sleep(_BUSY_SECONDS)
                self._writing += 1
                group.create_task(self._write(kind, key, write))

    async def close(self, *, timeout_seconds: float) -> None:
        """Wait until all reports are written, at most ``timeout_seconds``."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._waiting.join()
        except TimeoutError:
            log.warning("%d reports about pods were not written any more", self._waiting.qsize())

    def scheduled(self, pod: Pod, node: str) -> None:
        """Report that the pod was bound."""
        self._status_told.pop(pod.uid, None)
        key, at_ns = pod.key, time.time_ns()

        def write() -> Awaitable[None]:
            # The Event is made only now: thousands may wait while pods are bound.
            message = f"Successfully assigned {key} to {node}"
            event = self._event(pod, "Scheduled", message, action="Binding", at_ns=at_ns)
            return record_event(self._client, event)

        self._put("event", key, write, rank=_CAN_WAIT)

    def unscheduled(self, pod: Pod, why: Why, message: str, *, nominated_node: str = "") -> None:
        """Report that the pod has no node; repeated messages are counted in one Event."""
        series = self._series.said(
            pod.uid,
            message,
            lambda: self._event(pod, "FailedScheduling", message, action="Scheduling", kind="Warning"),
        )
        if series.news:
            self._put_series(series)
        self._condition(pod, _Condition(why, message, nominated_node, pod.generation))

    def kept_out(self, pod: Pod, message: str) -> None:
        """Report that a policy keeps the pod out of the queue; without an Event, as with scheduling gates."""
        self._condition(pod, _Condition("SchedulingGated", message, "", pod.generation))

    def preempted(self, victim: Pod, *, by: Pod) -> None:
        """Report that the victim was evicted for a more important pod."""
        message = f"Preempted by pod {by.uid} on node {victim.node_name}"
        event = self._event(victim, "Preempted", message, action="Preempting", component=by.scheduler_name)
        self._put("event", victim.key, lambda: record_event(self._client, event))

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._status_told.pop(uid, None)

    def _event(
        self,
        pod: Pod,
        reason: str,
        message: str,
        *,
        action: str,
        kind: Literal["Normal", "Warning"] = "Normal",
        component: str = "",
        at_ns: int | None = None,
    ) -> dict[str, Any]:
        reporter = component or pod.scheduler_name
        return make_event(
            namespace=pod.namespace,
            regarding=(pod.name, pod.uid),
            reason=reason,
            message=message,
            action=action,
            component=reporter,
            instance=f"{reporter}-{self._instance}",
            kind=kind,
            at_ns=at_ns,
        )

    def _put_series(self, series: Series) -> None:
        about = series.event["regarding"]
        key = f"{about['namespace']}/{about['name']}"
        series.on_its_way = self._put("event", key, lambda: self._write_series(series))

    async def _write_series(self, series: Series) -> None:
        count = series.tried = series.count
        try:
            if count == 1:
                await record_event(self._client, series.event)
            else:
                known = bool(series.written)
                await record_series(
                    self._client, series.event, count=count, observed=series.observed, known=known
                )
            self._series.wrote(series, count)
        except Exception:
            series.failed()
            raise
        finally:
            series.on_its_way = False
        if series.news:
            self._put_series(series)

    async def _count_on(self) -> None:
        """Write how often things were said, now and then."""
        while True:
            await asyncio.sleep(_SERIES_SECONDS)
            for series in self._series.due():
                self._put_series(series)

    def _condition(self, pod: Pod, said: _Condition) -> None:
        before = self._status_told.get(pod.uid)
        if said != before and self._put("condition", pod.key, lambda: self._status(pod, said, before)):
            self._status_told[pod.uid] = said

    async def _status(self, pod: Pod, said: _Condition, before: _Condition | None) -> None:
        nominated = said.nominated_node
        known = before.nominated_node if before else ((pod.status and pod.status.nominated_node_name) or "")

        def write(now: Pod) -> Awaitable[None]:
            return write_unscheduled(
                self._client,
                now,
                reason=said.reason,
                message=said.message,
                nominated_node=nominated if nominated != known else None,
                generation=said.generation,
                first=before is None,
            )

        try:
            await self._write_condition(pod, said, write)
        except Exception:
            # Not written: the next attempt writes its condition, even if it is the same.
            if self._status_told.get(pod.uid) is said:
                del self._status_told[pod.uid]
                if before is not None:
                    self._status_told[pod.uid] = before
            raise

    async def _write_condition(
        self, pod: Pod, said: _Condition, write: Callable[[Pod], Awaitable[None]]
    ) -> None:
        """Write the condition, again after each conflict, until the pod has a node or is gone."""
        for pause in (*_CONFLICT_SECONDS, None):
            now = self._waits(pod)
            if now is None:
                if self._status_told.get(pod.uid) is said:
                    # The pod was gone before the report: `forget` will not be called for it again.
                    del self._status_told[pod.uid]
                return
            try:
                await write(now)
                return
            except ApiError as error:
                old = self._status_told.get(pod.uid) is not said
                if error.status != 409 or pause is None or old:
                    raise
            await asyncio.sleep(pause)

    def _put(self, kind: Kind, key: str, write: Callable[[], Awaitable[None]], *, rank: int = _NOW) -> bool:
        try:
            self._waiting.put_nowait((rank, next(self._numbers), kind, key, write))
        except asyncio.QueueFull:
            self._on_result(kind, "dropped")
            return False
        return True

    async def _write(self, kind: Kind, key: str, write: Callable[[], Awaitable[None]]) -> None:
        try:
            await write()
        except (ApiError, ConnectError) as error:
            gone = isinstance(error, ApiError) and error.status in _GONE
            log.log(logging.DEBUG if gone else logging.WARNING, "pod %s: %s", key, error)
            self._on_result(kind, "failed")
        except Exception:
            # One report must not end all others.
            log.exception("pod %s: nothing could be told of it", key)
            self._on_result(kind, "failed")
        else:
            self._on_result(kind, "written")
        finally:
            self._writing -= 1
            self._ended.set()
            self._waiting.task_done()
