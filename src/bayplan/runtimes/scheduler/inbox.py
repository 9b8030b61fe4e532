"""Follows the cluster for the queue: which pods are ours to place, and what happened that they waited for."""

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
    """Puts pods into the queue and takes them out, as the watch tells."""

    def __init__(
        self,
        names: Collection[str],
        queue: PodQueue,
        nominations: Nominations,
        *,
        on_gone: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``names`` are those of our schedulers; ``on_gone`` is told the UID of a pod that is deleted."""
        self.names = frozenset(names)
        self.queue = queue
        self.nominations = nominations
        self.wake = asyncio.Event()
        """Set when there may be something to do."""
        self.asking = asyncio.Event()
        """Set when policies may have to be asked whether a pod comes in."""
        queue.on_ask = self.asking.set
        self.binding: set[str] = set()
        """UIDs of the pods whose bind is under way: what becomes of them is not for the watch to say."""
        self._on_gone = on_gone
        self.on_pod: Callable[[Pod], object] = lambda _: None
        """Told of each pod of ours that is there, with a node or without one."""
        self.stands_by: Callable[[], bool] = lambda: False
        """Whether somebody else schedules: which nodes he keeps is said in the status of pods."""

    def serve(self, names: Collection[str], waiting: Iterable[Pod]) -> None:
        """Our schedulers have these names from now on; ``waiting`` are the pods that have no node."""
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
        """A pod is there, or is different."""
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
            # From before a restart, or by somebody else. What we keep ourselves, we know better.
            self._kept_for(pod, (pod.status or NO_STATUS).nominated_node_name or "")
        self.queue.put(pod)
        self.wake.set()

    def pod_gone(self, pod: Pod) -> None:
        """A pod is not there any more."""
        # Also where it is not ours any more, since a reload: whoever knew of it must not keep it for ever.
        self.queue.drop(pod.uid)
        self.give_back(pod.uid)
        self._on_gone(pod.uid)

    def failed(self, waiting: Waiting) -> None:
        """A pod comes again after its pause: whoever waits for news must know how long that is."""
        self.queue.failed(waiting)
        self.wake.set()

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str]) -> None:
        """A pod waits for news, or for the end of its pause where there was some by now."""
        self.queue.refused(waiting, helped_by=helped_by, by=by)
        self.wake.set()

    def let_in(self, waiting: Waiting, ticket: int, *, key: Any) -> bool:
        """No policy keeps the pod out: it is there to be judged, unless it is another one by now."""
        self.wake.set()
        return self.queue.let_in(waiting, ticket, key=key)

    def told(self, what: frozenset[str]) -> None:
        """Something happened that pods may have waited for."""
        if self.queue.tell(what):
            self.wake.set()

    def _kept_for(self, pod: Pod, node: str) -> None:
        known = self.nominations.of(pod.uid)
        if node and (known is None or known.node != node):
            self.keep(pod, node)
        elif not node:
            self.give_back(pod.uid)

    def keep(self, pod: Pod, node: str, victims: Collection[str] = ()) -> None:
        """Keep the node for the pod, whose victims leave it; one that was kept before is for others."""
        self.give_back(pod.uid, used=node)
        self.nominations.keep(pod, node, victims)

    def give_back(self, uid: str, *, used: str = "") -> None:
        """The node that is kept for a pod is not, any more: others may have it, unless it is ``used``."""
        kept = self.nominations.of(uid)
        if kept is not None:
            self.nominations.drop(uid)
            if kept.node != used:
                # No pod left a node, so nobody else tells.
                self.told(news.PODS)
