"""The ledger binds pods: it decides in memory which pod gets what on which node, then asks the API server.

1. Policies check the pod again, with all pods in view that were assumed before it (the *commit*).
2. The pod is *assumed* on its node, with its allocation: every later verdict counts it there.
3. The API server is asked to bind it.

If the API server refuses, the assumption is taken back. If the watch reports the bind, the assumption ends.
If the outcome is unknown, the bind is *rolled forward*: the ledger sends the same pod to the same node until
the API server settles it. No timer ever takes an assumption back.

Where several servers could bind, the ledger asks before each request whether it may: see `writer`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from weakref import WeakValueDictionary

from bayplan.client.bind import BindRefused, BindUnknown, bind_pod
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.cache import Cache

log = logging.getLogger(__name__)

Commit = Callable[[Pod, str, Snapshot], Awaitable[tuple[str, Mapping[str, str]]]]
"""The policies' last check of a pod on a node: a refusal or ``""``, and the allocation as annotations."""
Prepare = Callable[[Pod, str], Awaitable[object]]
"""Fetches what the commit needs from outside, such as per-pod sources, before the commit lock is taken."""

_ROLL_FORWARD_SECONDS = (0.5, 10.0)
_READ_SECONDS = 2.0


@dataclass
class _Doubt:
    """A bind with an unknown outcome."""

    pod: Pod
    """The pod as it was at the decision."""
    node: str
    term: int
    """The term in which the policies last agreed to it."""


class Ledger:
    """Binds pods, and tracks every bind that is under way."""

    def __init__(
        self,
        cache: Cache,
        client: ApiClient,
        *,
        commit: Commit | None,
        timeout_seconds: float,
        why_not: Callable[[], str] = lambda: "",
        on_freed: Callable[[], None] = lambda: None,
        prepare: Prepare | None = None,
        term: Callable[[], int] = lambda: 0,
    ) -> None:
        """``why_not`` says why this server may not bind at this moment; ``""`` when it may.

        ``on_freed`` is called when an assumption is taken back. ``term`` is the number of the Lease's term:
        if it has changed, another server may have bound pods in between.
        """
        self._cache = cache
        self._client = client
        self._commit = commit
        self._why_not = why_not
        self._on_freed = on_freed
        self._prepare = prepare
        self._term = term
        self._committing = asyncio.Lock()
        self._timeout_seconds = timeout_seconds
        # One lock for each pod, by UID; weak, so that it goes when nobody holds it or waits for it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._rolling: dict[str, asyncio.Task[None]] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._sending = 0

    @property
    def term(self) -> int:
        """The Lease's term: if it has changed, another server may have bound pods in between."""
        return self._term()

    @property
    def assumed_count(self) -> int:
        """The number of pods that are assumed on a node and not yet reported there by the watch."""
        return self._cache.assumed_count

    @property
    def unsettled_count(self) -> int:
        """The number of binds with an unknown outcome."""
        return len(self._cache.unsettled)

    @property
    def sending_count(self) -> int:
        """The number of bind requests that the API server has not answered yet."""
        return self._sending

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod; idempotent; raises `BindRefused` with the reason if it cannot.

        Nothing is sent once the caller's time is over: kube-scheduler has given the pod's place away by then.
        """
        if problem := self._why_not():
            raise BindRefused(problem)
        deadline = time.monotonic() + self._timeout_seconds
        what = f"binding {namespace}/{name} to {node}"
        # kube-scheduler may repeat the call while the first is still running: one at a time for each pod.
        turn = self._turns.setdefault(uid, asyncio.Lock())
        async with self._in_turn(turn, what, deadline):
            await self._bind(await self._find(namespace, name, uid), node, deadline)

    @contextlib.asynccontextmanager
    async def _in_turn(self, lock: asyncio.Lock, what: str, deadline: float) -> AsyncIterator[None]:
        """Hold the lock; raises `BindRefused` if it is not free in time."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await lock.acquire()
        except TimeoutError:
            late = f"it was not its turn within {self._timeout_seconds:g} s"
            raise BindRefused(f"{what}: {late}, and nothing was sent") from None
        try:
            yield
        finally:
            lock.release()

    async def bind_assumed(
        self, pod: Pod, node: str, *, term: int | None = None, deadline: float | None = None
    ) -> None:
        """Bind a pod that is assumed already; a refusal takes the assumption back.

        The scheduler calls this: it assumes each pod at once, so that the next decision counts it, and sends
        many binds at a time. ``term`` is the term of the decision: in a later term the place may be taken.
        ``deadline`` is of the monotonic clock, by default the timeout from now.
        """
        now = self._term()
        try:
            if term not in (None, now):
                raise BindRefused(
                    f"pod {pod.key} is not bound to {node}: another one was the leader meanwhile"
                )
            await self._send(pod, node, deadline=deadline)
        except BindUnknown:
            self._roll_forward(pod, node, now)
            raise
        except BindRefused:
            self._free(pod)
            raise
        except BaseException:
            # Perhaps cancelled: the request may still have its effect.
            self._roll_forward(pod, node, now)
            raise

    def give_up(self, pod: Pod) -> None:
        """Take an assumption back before the bind was sent."""
        self._free(pod)

    async def settled(self, uid: str) -> None:
        """Wait until the outcome of that pod's bind is known; returns at once if it is."""
        rolling = self._rolling.get(uid)
        if rolling is not None:
            await asyncio.wait({rolling})

    async def close(self) -> None:
        """Stop rolling binds forward; the next server reads their outcome from the API server."""
        rolling = list(self._rolling.values())
        for task in rolling:
            task.cancel()
        await asyncio.gather(*rolling, return_exceptions=True)

    async def _bind(self, pod: Pod, node: str, deadline: float) -> None:
        doubt, assumed = self._doubts.get(pod.uid), self._cache.assumes(pod)
        if doubt is not None and doubt.node == node and assumed:
            # The same bind again is harmless, and its answer may settle the outcome.
            return await self._send_again(doubt)
        if doubt is not None and (assumed or not pod.node_name):
            raise BindRefused(f"pod {pod.key} may yet be bound to {doubt.node}: the API server has not said")
        if pod.node_name == node:
            return None if assumed else await self._confirm(pod, node)
        if pod.node_name:
            raise BindRefused(f"pod {pod.key} is already bound to {pod.node_name}")
        term = self._term()
        await self._assume(pod, node, deadline)
        return await self.bind_assumed(pod, node, term=term, deadline=deadline)

    async def _confirm(self, pod: Pod, node: str) -> None:
        """Ask the API server whether a pod is bound that is bound in view; else raise `BindRefused`.

        Who is told that a pod is bound never asks again. If etcd was restored from a backup, and we have not
        noticed yet, the pod may not be bound any more.
        """
        try:
            now = await self._client.pod(pod.namespace, pod.name, timeout_seconds=_READ_SECONDS)
        except ConnectError as error:
            log.info("%s; in view it is bound to %s", error, node, extra={"pod": pod.key, "node": node})
            return
        except ApiError as error:
            raise BindRefused(str(error)) from error
        if now.uid != pod.uid:
            raise BindRefused(_another(now, pod.uid))
        if now.node_name != node:
            raise BindRefused(
                f"pod {pod.key} is bound to {now.node_name or 'no node'}, in view to {node}:"
                " the view is not up to date"
            )

    def _free(self, pod: Pod) -> None:
        self._cache.forget(pod)
        self._on_freed()

    async def _assume(self, pod: Pod, node: str, deadline: float) -> None:
        """Assume the pod on the node, with its allocation, if the policies agree.

        One pod at a time, so that each commit counts all pods before it. The lock is held for the
        milliseconds of a policy, and never for a request to the API server.
        """
        if self._commit is None:
            self._cache.assume(pod, node)
            return
        known = self._cache.pod(pod.key) is not None
        if self._prepare is not None:
            await self._prepare(pod, node)
        async with self._in_turn(self._committing, f"binding {pod.key} to {node}", deadline):
            refusal, annotations = await self._commit(pod, node, self._cache.snapshot())
            if refusal:
                raise BindRefused(refusal)
            # The watch may have reported the pod meanwhile: assume its newest state, not the one we began
            # with.
            now = self._cache.pod(pod.key)
            if now is None and known:
                raise BindRefused(f"pod {pod.key} is gone")
            if now is not None and now.uid != pod.uid:
                raise BindRefused(_another(now, pod.uid))
            if now is not None and now.node_name not in ("", node):
                raise BindRefused(f"pod {pod.key} is already bound to {now.node_name}")
            self._cache.assume(now or pod, node, annotations)

    async def _send(
        self, pod: Pod, node: str, *, unsure: bool = False, deadline: float | None = None
    ) -> None:
        # Checked again here: the commit takes time, and a paused process even more, in which the Lease runs
        # out.
        if problem := self._why_not():
            raise BindUnknown(problem) if unsure else BindRefused(problem)
        self._sending += 1
        try:
            await bind_pod(
                self._client,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                node=node,
                annotations=self._cache.assumed_annotations(pod),
                unsure=unsure,
                timeout_seconds=self._timeout_seconds if deadline is None else deadline - time.monotonic(),
            )
        finally:
            self._sending -= 1
        self._cache.bound(pod, time.monotonic())

    async def _find(self, namespace: str, name: str, uid: str) -> Pod:
        """The pod with this name and UID: from the cache, or from the API server if the cache lacks it."""
        pod = self._cache.pod(f"{namespace}/{name}")
        if pod is None or pod.uid != uid:
            try:
                pod = await self._client.pod(namespace, name, timeout_seconds=_READ_SECONDS)
            except (ApiError, ConnectError) as error:
                raise BindRefused(str(error)) from error
        if pod.uid != uid:
            raise BindRefused(_another(pod, uid))
        return pod

    async def _send_again(self, doubt: _Doubt) -> None:
        """Send a bind with an unknown outcome again; after a change of term, commit it again first."""
        if doubt.term != self._term() and not self._why_not():
            await self._commit_again(doubt)
        await self._send(doubt.pod, doubt.node, unsure=True)

    async def _commit_again(self, doubt: _Doubt) -> None:
        """Have the policies check again whether the pod may still go to its node.

        Another server may have given its place, or its devices, to another pod. The pod then gets a new
        allocation from what is free.
        """
        pod, node = doubt.pod, doubt.node
        async with self._committing:
            term = self._term()
            if self._commit is not None and doubt.term != term:
                refusal, annotations = await self._commit(pod, node, self._cache.snapshot())
                if refusal:
                    raise BindRefused(refusal)
                if self._cache.assumes(pod):
                    self._cache.assume_anew(pod, annotations)
            if not self._cache.assumes(pod):
                # The assumption has ended, and the allocation with it: no bind may be sent without that.
                raise BindUnknown(f"pod {pod.key}: what became of its bind to {node} is known just now")
            doubt.term = term

    def _roll_forward(self, pod: Pod, node: str, term: int) -> None:
        if pod.uid in self._doubts:
            return
        self._cache.doubt(pod.uid, node)
        doubt = self._doubts[pod.uid] = _Doubt(pod, node, term)
        task = asyncio.create_task(self._until_settled(doubt))
        self._rolling[pod.uid] = task
        task.add_done_callback(lambda _: self._rolling.pop(pod.uid, None))

    async def _until_settled(self, doubt: _Doubt) -> None:
        pod, node = doubt.pod, doubt.node
        pause, longest = _ROLL_FORWARD_SECONDS
        about = {"pod": pod.key, "node": node}
        while True:
            await asyncio.sleep(pause)
            pause = min(longest, pause * 2)
            if not self._cache.assumes(pod):
                # The watch reported the pod bound, or gone.
                break
            try:
                await self._send_again(doubt)
                log.info("pod %s is bound to %s after all", pod.key, node, extra=about)
                break
            except BindUnknown as error:
                log.warning("%s", error, extra=about)
            except BindRefused as error:
                log.info("pod %s was not bound to %s: %s", pod.key, node, error, extra=about)
                self._free(pod)
                break
            except Exception:
                # The outcome is still unknown: to stop here would keep the pod's place for ever.
                log.exception("pod %s is not bound to %s yet", pod.key, node, extra=about)
        del self._doubts[pod.uid]
        self._cache.settle(pod.uid)


def _another(pod: Pod, uid: str) -> str:
    return f"pod {pod.key} is another one now: UID {pod.uid}, asked for {uid}"
