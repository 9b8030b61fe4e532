"""Tells policies that a pod was bound. It is for them to know, and for nobody to wait for.

Each is told once at the most: what is not told when the server ends, or when too much waits, is never told.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bayplan.authoring.registry import Hook, Policy
from bayplan.engine.cycle import interested
from bayplan.engine.guard import CURRENT_POD, Attempt, guarded
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot

log = logging.getLogger(__name__)

_LIMIT = 10_000
_BATCH = 64


@dataclass(frozen=True)
class _News:
    hook: Hook
    pod: Pod
    node: str


class TellBound:
    """The binds that policies are still to be told of."""

    def __init__(
        self,
        workers: Workers,
        *,
        cluster: Callable[[], Snapshot | None],
        ran: Callable[[Attempt], object] = lambda _: None,
        on_dropped: Callable[[], object] = lambda: None,
        limit: int = _LIMIT,
    ) -> None:
        """``ran`` is told of the hooks that were called; ``on_dropped`` of each that will not be."""
        self._workers = workers
        self._cluster = cluster
        self._ran = ran
        self._on_dropped = on_dropped
        self._limit = limit
        self._waiting: deque[_News] = deque()
        self._some = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._warnings = Sparingly()

    def tell(self, policies: Sequence[Policy], pod: Pod, node: str) -> None:
        """The pod is bound to the node: those of these policies that want to know will be told."""
        hooks = [hook for policy in interested(policies, pod) for hook in policy.of_kind("bound")]
        for hook in hooks:
            if len(self._waiting) >= self._limit:
                self._drop(hook, "too many wait to be told")
                continue
            self._waiting.append(_News(hook, pod, node))
            self._some.set()
            self._idle.clear()

    async def run(self) -> None:
        """Tell what there is to tell, until cancelled."""
        while True:
            await self._some.wait()
            batch = deque(self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting))))
            await self._tell(batch)
            if not self._waiting:
                self._some.clear()
                self._idle.set()

    async def close(self, *, timeout_seconds: float) -> None:
        """Wait until all is told, if that does not take too long."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("policies were not told of %d binds any more", len(self._waiting))

    async def _tell(self, batch: deque[_News]) -> None:
        while batch:
            before, why = len(batch), "no thread was free"
            try:
                await self._workers.run(self._work(batch, self._cluster()))
            except RequestOverrun as error:
                log.warning("telling policies of binds: %s", error)
            except Exception as error:
                log.exception("telling policies of binds failed")
                why = f"telling failed: {type(error).__name__}"
            if len(batch) == before:
                # Nobody came to it: the rest would fare no better.
                for news in batch:
                    self._drop(news.hook, why)
                return

    def _work(self, batch: deque[_News], cluster: Snapshot | None) -> Callable[[Attempt], None]:
        last: _News | None = None

        def work(attempt: Attempt) -> None:
            nonlocal last
            if last is not None:
                # It overran, which is counted. Other calls are not to blame: a new attempt does the rest.
                if last.hook.policy in attempt.given_up:
                    self._call(last, cluster, attempt)
            else:
                while batch:
                    # Taken before it is told: whatever happens then, nobody is told twice.
                    last = batch.popleft()
                    self._call(last, cluster, attempt)
            self._ran(attempt)

        return work

    def _call(self, news: _News, cluster: Snapshot | None, attempt: Attempt) -> None:
        row = cluster.rows.get(news.node) if cluster is not None else None
        if cluster is None or row is None:
            self._drop(news.hook, f"node {news.node} is gone")
            return
        available = {"pod": news.pod, "node": cluster.nodes.row(row), "now": attempt.now}
        token = CURRENT_POD.set(news.pod.key)
        _, failure, _ = guarded(news.hook, attempt, lambda: news.hook.call(available))
        CURRENT_POD.reset(token)
        if failure is not None:
            text = f"{failure.text} (pod {news.pod.key}, bound)"
            self._warnings.warn(log, f"{news.hook.title} {failure.kind}", text, pod=news.pod.key)

    def _drop(self, hook: Hook, why: str) -> None:
        self._on_dropped()
        self._warnings.warn(log, hook.title, f"{hook.title}: not told of a bind: {why}")
