"""Bind is the commit point: who gets what on which node is decided here, in memory, before anybody is asked.

Policies have their last word with everybody in sight who came before; then the pod is *assumed* on its
node, with what it got, so that everybody who judges from then on counts it there. Only then is the API
server asked. A refusal takes the assumption back; the watch makes it a fact; and an outcome that nobody
knows is rolled forward: the same pod to the same node, until the API server settles it. No timer ever
takes an assumption back.

Where several servers could bind, it asks before each request whether it is the one: see `writer`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
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
"""Why the pod may not be bound to the node after all, in that cluster, or what to write on it."""
Prepare = Callable[[Pod, str], Awaitable[object]]
"""Waits for what the last word needs from outside, before it is that pod's turn."""

_ROLL_FORWARD_SECONDS = (0.5, 10.0)
_READ_SECONDS = 2.0


@dataclass
class _Doubt:
    """A bind that may have happened or not."""

    pod: Pod
    """As it was when that was decided."""
    node: str
    term: int
    """Of the policies' last word about it."""


class Ledger:
    """Binds pods, and knows of every bind that is under way."""

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
        """``why_not`` says why we may not bind at this moment; ``""`` when we may.

        ``on_freed`` is called when a place is free again that was kept for a bind. ``term`` is another number
        when somebody else may have bound in between.
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
        # A lock is here for as long as somebody holds it or waits for it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._rolling: dict[str, asyncio.Task[None]] = {}
        self._doubts: dict[str, _Doubt] = {}
        self._sending = 0

    @property
    def term(self) -> int:
        """Another number when somebody else may have bound in between."""
        return self._term()

    @property
    def assumed_count(self) -> int:
        """Pods that count on a node before the watch has told of it."""
        return self._cache.assumed_count

    @property
    def unsettled_count(self) -> int:
        """Binds whose outcome is not known yet."""
        return len(self._cache.unsettled)

    @property
    def sending_count(self) -> int:
        """Binds that the API server has been asked for, and has not answered."""
        return self._sending

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        """Bind the pod; doing it twice is doing it once; `BindRefused` says why it could not be."""
        if problem := self._why_not():
            raise BindRefused(problem)
        # kube-scheduler may ask again while we are still at it: one at a time for each pod.
        turn = self._turns.setdefault(uid, asyncio.Lock())
        async with turn:
            await self._bind(await self._find(namespace, name, uid), node)

    async def bind_assumed(self, pod: Pod, node: str, *, term: int | None = None) -> None:
        """Ask the API server for what is assumed already; a refusal takes the assumption back.

        For whoever decides by himself where pods go: he assumes at once, so that the next pod is judged with
        this one in sight, and many are asked for at a time. ``term`` is that of the decision: in another one
        the place may be somebody else's by now.
        """
        now = self._term()
        try:
            if term not in (None, now):
                raise BindRefused(
                    f"pod {pod.key} is not bound to {node}: another one was the leader meanwhile"
                )
            await self._send(pod, node)
        except BindUnknown:
            self._roll_forward(pod, node, now)
            raise
        except BindRefused:
            self._free(pod)
            raise
        except BaseException:
            # Cancelled, perhaps: what was sent may land all the same.
            self._roll_forward(pod, node, now)
            raise

    def give_up(self, pod: Pod) -> None:
        """Take an assumption back before anybody was asked for it."""
        self._free(pod)

    async def settled(self, uid: str) -> None:
        """Wait until it is known what became of that pod's bind; at once where it is."""
        rolling = self._rolling.get(uid)
        if rolling is not None:
            await asyncio.wait({rolling})

    async def close(self) -> None:
        """Stop rolling forward; whoever starts next finds in the API server what became of it."""
        rolling = list(self._rolling.values())
        for task in rolling:
            task.cancel()
        await asyncio.gather(*rolling, return_exceptions=True)

    async def _bind(self, pod: Pod, node: str) -> None:
        doubt, assumed = self._doubts.get(pod.uid), self._cache.assumes(pod)
        if doubt is not None and doubt.node == node and assumed:
            # Asking again can only bring the answer nearer.
            return await self._send_again(doubt)
        if doubt is not None and (assumed or not pod.node_name):
            raise BindRefused(f"pod {pod.key} may yet be bound to {doubt.node}: the API server has not said")
        if pod.node_name == node:
            return None
        if pod.node_name:
            raise BindRefused(f"pod {pod.key} is already bound to {pod.node_name}")
        term = self._term()
        await self._assume(pod, node)
        return await self.bind_assumed(pod, node, term=term)

    def _free(self, pod: Pod) -> None:
        self._cache.forget(pod)
        self._on_freed()

    async def _assume(self, pod: Pod, node: str) -> None:
        """Count the pod on the node, with what it gets there, if the policies agree.

        One at a time, so that each sees all who came before. It is a matter of a policy's milliseconds,
        and never of a request to the API server.
        """
        if self._commit is None:
            self._cache.assume(pod, node)
            return
        known = self._cache.pod(pod.key) is not None
        if self._prepare is not None:
            await self._prepare(pod, node)
        async with self._committing:
            refusal, annotations = await self._commit(pod, node, self._cache.snapshot())
            if refusal:
                raise BindRefused(refusal)
            # The watch went on meanwhile, and what it said must not be undone by the pod of before.
            now = self._cache.pod(pod.key)
            if now is None and known:
                raise BindRefused(f"pod {pod.key} is gone")
            if now is not None and now.uid != pod.uid:
                raise BindRefused(_another(now, pod.uid))
            if now is not None and now.node_name not in ("", node):
                raise BindRefused(f"pod {pod.key} is already bound to {now.node_name}")
            self._cache.assume(now or pod, node, annotations)

    async def _send(self, pod: Pod, node: str, *, unsure: bool = False) -> None:
        # Asked once more here: the policies' last word takes time, and a paused process loses more.
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
                timeout_seconds=self._timeout_seconds,
            )
        finally:
            self._sending -= 1
        self._cache.bound(pod, time.monotonic())

    async def _find(self, namespace: str, name: str, uid: str) -> Pod:
        """The pod that is meant: from the view, or from the API server where the view is behind."""
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
        """Ask once more for what may have happened; after another term not without another last word."""
        if doubt.term != self._term() and not self._why_not():
            await self._agree_again(doubt)
        await self._send(doubt.pod, doubt.node, unsure=True)

    async def _agree_again(self, doubt: _Doubt) -> None:
        """Have the policies say whether the pod may still be on the node that it was meant for.

        Somebody else may have given its place away, or what it was to get there: then it gets what is free.
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
                # What it was to get is not written down any more: a bind without it must not go out.
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
                # The watch has seen it bound, or gone.
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
                # Whatever it was, it is no answer: given up here, the pod would hold its place for ever.
                log.exception("pod %s is not bound to %s yet", pod.key, node, extra=about)
        del self._doubts[pod.uid]
        self._cache.settle(pod.uid)


def _another(pod: Pod, uid: str) -> str:
    return f"pod {pod.key} is another one now: UID {pod.uid}, asked for {uid}"
