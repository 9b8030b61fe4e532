"""Feeds the queue from the watch: pods of our schedulers, and events that waiting pods may need."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from bayplan.kube.pod import NO_STATUS, Pod
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import News, PodQueue, Waiting
from bayplan.state import news

log = logging.getLogger(__name__)


class Inbox:
    """Adds pods to the queue and removes them, as the watch reports."""

    def __init__(
        self,
        names: Collection[str],
        queue: PodQueue,
        nominations: Nominations,
        *,
        on_gone: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``names`` are our scheduler names; ``on_gone`` gets the UID of each deleted pod."""
        self.names = frozenset(names)
        self.queue = queue
        self.nominations = nominations
        self.wake = asyncio.Event()
        """Set when the loop may have something to do."""
        self.asking = asyncio.Event()
        """Set when ``gate`` or ``order`` hooks may have to run for a pod."""
        queue.on_ask = self.asking.set
        self.binding: set[str] = set()
        """UIDs of pods whose bind is under way; the watch does not change their place in the queue."""
        self._on_gone = on_gone
        self.on_pod: Callable[[Pod], object] = lambda _: None
        """Called with each added or changed pod of ours, with a node or without."""
        self.stands_by: Callable[[], bool] = lambda: False
        """Whether another server schedules; then nominated nodes come from the status of pods."""

    def serve(self, names: Collection[str], waiting: Iterable[Pod]) -> None:
        """Use these scheduler names from now on; ``waiting`` are the pods without a node."""
        known, self.names = self.names, frozenset(names)
        for pod in self.queue.pods():
            if pod.scheduler_name not in self.names:
                self.queue.drop(pod.uid)
                self.give_back(pod.uid)
                log.info(
                    "pod %s is not ours any more: there is no scheduler %s in the configuration",
                    pod.key,
                    pod.scheduler_name,
                    extra={"pod": pod.key},
                )
        for pod in waiting:
            if pod.scheduler_name not in known:
                self.pod_is(pod)

    def pod_is(self, pod: Pod) -> None:
        """A pod was added or changed."""
        if pod.scheduler_name not in self.names:
            return
        self.on_pod(pod)
        if pod.uid in self.binding:
            return
        if pod.node_name or pod.finished or pod.terminating:
            self.queue.drop(pod.uid)
            self.give_back(pod.uid, used=pod.node_name)
            return
        if pod.uid not in self.queue or self.stands_by():
            # A nomination from before a restart, or by another server; our own ones are up to date.
            self._kept_for(pod, (pod.status or NO_STATUS).nominated_node_name or "")
        self.queue.put(pod)
        self.wake.set()

    def pod_gone(self, pod: Pod) -> None:
        """A pod was deleted."""
        # Even if a reload took its scheduler name away: nothing may remember the pod for ever.
        self.queue.drop(pod.uid)
        self.give_back(pod.uid)
        self._on_gone(pod.uid)

    def failed(self, waiting: Waiting) -> None:
        """Retry a pod after its backoff, and wake the loop, which waits for the next backoff to end."""
        self.queue.failed(waiting)
        self.wake.set()

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str]) -> None:
        """Let a refused pod wait for events, or for its backoff if one came meanwhile."""
        self.queue.refused(waiting, helped_by=helped_by, by=by)
        self.wake.set()

    def let_in(self, waiting: Waiting, ticket: int, *, key: Any) -> bool:
        """No gate keeps the pod out; False if the ticket is out of date."""
        self.wake.set()
        return self.queue.let_in(waiting, ticket, key=key)

    def told(self, what: frozenset[str]) -> None:
        """Announce an event that pods may have waited for."""
        if self.queue.tell(what):
            self.wake.set()

    def _kept_for(self, pod: Pod, node: str) -> None:
        known = self.nominations.of(pod.uid)
        if node and (known is None or known.node != node):
            self.keep(pod, node)
        elif not node:
            self.give_back(pod.uid)

    def keep(self, pod: Pod, node: str, victims: Collection[str] = ()) -> None:
        """Nominate the node for the pod, whose victims leave it; releases an earlier nomination."""
        self.give_back(pod.uid, used=node)
        self.nominations.keep(pod, node, victims)

    def give_back(self, uid: str, *, used: str = "") -> None:
        """Release the pod's nominated node, and tell other pods, unless the node is ``used``."""
        kept = self.nominations.of(uid)
        if kept is not None:
            self.nominations.drop(uid)
            if kept.node != used:
                # No pod left a node, so no watch event will come.
                self.told(news.PODS)
