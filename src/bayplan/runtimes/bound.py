"""Calls the ``bound`` hooks of policies in the background, after a pod was bound.

Each hook is called at most once per bind: calls that still wait when the server ends are dropped, and so are
calls over the limit.
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
    """The queue of ``bound`` hooks to call."""

    def __init__(
        self,
        workers: Workers,
        *,
        cluster: Callable[[], Snapshot | None],
        ran: Callable[[Attempt], object] = lambda _: None,
        on_dropped: Callable[[], object] = lambda: None,
        limit: int = _LIMIT,
    ) -> None:
        """``ran`` gets each attempt that called hooks; ``on_dropped`` is called for each dropped call."""
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
        """Queue the ``bound`` hooks of the policies that apply to this pod."""
        hooks = [hook for policy in interested(policies, pod) for hook in policy.of_kind("bound")]
        for hook in hooks:
            if len(self._waiting) >= self._limit:
                self._drop(hook, "too many wait to be told")
                continue
            self._waiting.append(_News(hook, pod, node))
            self._some.set()
            self._idle.clear()

    async def run(self) -> None:
        """Call queued hooks until cancelled."""
        while True:
            await self._some.wait()
            batch = deque(self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting))))
            await self._tell(batch)
            if not self._waiting:
                self._some.clear()
                self._idle.set()

    async def close(self, *, timeout_seconds: float) -> None:
        """Wait until all hooks were called, at most ``timeout_seconds``."""
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
                # Not one hook was called: the rest would fail in the same way.
                for news in batch:
                    self._drop(news.hook, why)
                return

    def _work(self, batch: deque[_News], cluster: Snapshot | None) -> Callable[[Attempt], None]:
        last: _News | None = None

        def work(attempt: Attempt) -> None:
            nonlocal last
            if last is not None:
                # The last hook overran: count that. A new attempt calls the others, which are not to blame.
                if last.hook.policy in attempt.given_up:
                    self._call(last, cluster, attempt)
            else:
                while batch:
                    # Removed before the call: whatever happens, no hook is called twice.
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
