"""Follows the cluster for the queue: which pods are ours to place, and what happened that they waited for."""

import asyncio
from collections.abc import Callable, Collection

from bayplan.kube.pod import NO_STATUS, Pod
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import News, PodQueue, Waiting


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
        self.binding: set[str] = set()
        """UIDs of the pods whose bind is under way: what becomes of them is not for the watch to say."""
        self._on_gone = on_gone

    def pod_is(self, pod: Pod) -> None:
        """A pod is there, or is different."""
        if pod.scheduler_name not in self.names or pod.uid in self.binding:
            return
        if pod.node_name or pod.finished or pod.terminating:
            self.queue.drop(pod.uid)
            self.nominations.drop(pod.uid)
            return
        kept_for_it = (pod.status or NO_STATUS).nominated_node_name
        if kept_for_it and pod.uid not in self.queue:
            # From before a restart. Later we know better than what the watch brings back to us.
            self.nominations.keep(pod, kept_for_it)
        self.queue.put(pod)
        self.wake.set()

    def pod_gone(self, pod: Pod) -> None:
        """A pod is not there any more."""
        if pod.scheduler_name in self.names:
            self.queue.drop(pod.uid)
            self.nominations.drop(pod.uid)
            self._on_gone(pod.uid)

    def failed(self, waiting: Waiting) -> None:
        """A pod comes again after its pause: whoever waits for news must know how long that is."""
        self.queue.failed(waiting)
        self.wake.set()

    def refused(self, waiting: Waiting, *, helped_by: News, by: Collection[str]) -> None:
        """A pod waits for news, or for the end of its pause where there was some by now."""
        self.queue.refused(waiting, helped_by=helped_by, by=by)
        self.wake.set()

    def told(self, news: frozenset[str]) -> None:
        """Something happened that pods may have waited for."""
        if self.queue.tell(news):
            self.wake.set()
