"""Views give the current snapshot of the cluster: `FixedView` of a file, `LiveView` of a watched cluster."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import NODES, NODES_WITH_IMAGES, PODS, ApiClient, object_resource
from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects, ObjectsOfKind
from bayplan.state.cache import Cache
from bayplan.state.complaints import Complaints
from bayplan.state.informer import Informer
from bayplan.state.objects import KindStore
from bayplan.state.stores import Follower, NodeStore, PodStore

log = logging.getLogger(__name__)

_READ_SECONDS = 1.0
_READ_AT_ONCE = 16
_READ_AGAIN_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = (0.5, 10.0)
# How long a refusal on every node waits for news: normally; for the first pod, as a share of the budget; the
# budget; and how much of each second that passes is added to the budget.
_PATIENCE_SECONDS = 0.05
_PATIENCE_FIRST = 0.4
_PATIENCE_LIMIT_SECONDS = 0.5
_PATIENCE_SHARE = 0.2
_REFUSED_LIMIT = 20_000
# We may not read objects of this kind, or the API server has no such kind.
_NOT_FOR_US = (403, 404)


class View(Protocol):
    """Gives the current snapshot of the cluster. Only the event loop's thread may call it."""

    @property
    def current(self) -> Snapshot | None:
        """The cluster now; ``None`` if only the nodes of a request are known."""
        ...

    @property
    def same_nodes(self) -> Snapshot | None:
        """The last snapshot, if only pods have changed since; otherwise ``None``."""
        ...

    @property
    def age_seconds(self) -> float:
        """How far behind the cluster the view may be; 0 while its watches are open."""
        ...

    def problem(self) -> str:
        """Why the view cannot be relied on; ``""`` if it can."""
        ...

    async def read(self, names: Sequence[str]) -> bool:
        """Read nodes that a request names and the view lacks; whether one was found."""
        ...

    async def news_for(self, pod: Pod, seen: Snapshot) -> bool:
        """Wait a moment for a change that may help a refused pod; whether one came since ``seen``."""
        ...


class FixedView:
    """A view of one snapshot, which changes only by `replace`."""

    def __init__(self, current: Snapshot | None = None) -> None:
        self._current = current
        self._replaced_at = time.monotonic()

    @property
    def current(self) -> Snapshot | None:
        """The snapshot."""
        return self._current

    @property
    def same_nodes(self) -> Snapshot | None:
        """The snapshot: neither nodes nor pods change."""
        return self._current

    @property
    def age_seconds(self) -> float:
        """How long ago the snapshot was set."""
        return time.monotonic() - self._replaced_at

    def problem(self) -> str:
        """Always ``""``."""
        return ""

    def replace(self, snapshot: Snapshot) -> None:
        """Show another snapshot from now on."""
        snapshot.nodes.moves_on()
        self._current = snapshot
        self._replaced_at = time.monotonic()

    async def read(self, names: Sequence[str]) -> bool:
        """Always false: there is no API server to ask."""
        del names
        return False

    async def news_for(self, pod: Pod, seen: Snapshot) -> bool:
        """Whether the snapshot was replaced since ``seen``; does not wait."""
        del pod
        return self._current is not seen


class LiveView:
    """A view of a live cluster, which is listed once and then watched."""

    def __init__(
        self,
        client: ApiClient,
        *,
        max_age_seconds: float,
        on_news: Callable[[], None] = lambda: None,
        on_relist: Callable[[], None] = lambda: None,
        follower: Follower | None = None,
        objects: Collection[str] = (),
        images: bool = False,
        nodes_only: bool = False,
    ) -> None:
        """``on_news`` is called after a change that waiting pods may have waited for.

        ``on_relist`` is called when pods were listed again, after the first time. ``objects`` are further
        kinds to watch. With ``images`` the images of nodes are read; with ``nodes_only`` no pods are watched.
        """
        self._client = client
        self._on_news = on_news
        self._on_relist = on_relist
        self._max_age_seconds = max_age_seconds
        self._cache = Cache(nodes_only=nodes_only)
        self._news = asyncio.Event()
        self._follower = follower
        self._node_store = NodeStore(self._cache, self._tell, self._node_gone, follower)
        complaints = Complaints()
        self._nodes = Informer[NodeObject](
            client, NODES_WITH_IMAGES if images else NODES, self._node_store, complaints=complaints
        )
        # The first list must have what we bound before a restart: a lagging server would lack it.
        self._pod_store = PodStore(self._cache, self._tell, self._listed_pods, follower)
        self._pods = Informer(
            client,
            PODS,
            self._pod_store,
            consistent=True,
            complaints=complaints,
            on_latest=self._cache.end_assumptions,
        )
        self._nodes_only = nodes_only
        self._objects = {
            kind: Informer(
                client,
                object_resource(kind),
                self._store(kind),
                complaints=complaints,
                on_latest=partial(self._cache.objects.end_assumptions, kind),
            )
            for kind in objects
        }
        self._looked_for: dict[str, float] = {}
        # By name, the last request for a node, until its answer is here or would be too old.
        self._reading: dict[str, object] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._versions: WeakKeyDictionary[Snapshot, int] = WeakKeyDictionary()
        # By pod UID: the cache's version and the pod's resourceVersion at its last refusal on every node.
        self._refused: dict[str, tuple[int, str | None]] = {}
        self._patience_seconds = _PATIENCE_LIMIT_SECONDS
        self._patience_at = time.monotonic()
        self._was_complete = False

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    @property
    def _informers(self) -> "list[Informer[Any]]":
        pods = [] if self._nodes_only else [self._pods]
        return [self._nodes, *pods, *self._objects.values()]

    def _store(self, kind: str) -> KindStore:
        return KindStore(self._cache.objects, kind, partial(self._object, kind))

    def _object(self, kind: str) -> None:
        what = frozenset({kind})
        if self._follower is not None:
            self._follower.told(what)
        self._tell(what)

    def _tell(self, what: frozenset[str]) -> None:
        """Wake those who wait for news; ``what`` may help pods that wait in the queue."""
        self._news.set()
        if what:
            self._on_news()

    @property
    def cache(self) -> Cache:
        """The cache that the watches fill; the ledger adds its assumptions to it."""
        return self._cache

    @property
    def current(self) -> Snapshot | None:
        """The cluster now; ``None`` until everything was listed once."""
        if not self._complete:
            return None
        snapshot = self._cache.snapshot()
        self._versions[snapshot] = self._cache.version
        return snapshot

    @property
    def same_nodes(self) -> Snapshot | None:
        """The last snapshot, if only pods have changed since; otherwise ``None``."""
        return self._cache.same_nodes if self._complete else None

    async def listed(self) -> float:
        """Wait for the first list of each kind; the time up to which all binds are in view."""
        for informer in self._informers:
            await informer.synced.wait()
        return self._pods.as_of

    def list_again(self) -> None:
        """List everything again, since the view is wrong."""
        for informer in self._informers:
            informer.list_again()

    @property
    def age_seconds(self) -> float:
        """0 while all watches are open; else how long the longest-broken one has been broken."""
        return max(informer.age_seconds for informer in self._informers)

    def problem(self) -> str:
        """Why the view cannot be relied on: not listed yet, or cut off for too long; ``""`` if it can."""
        if not self._complete:
            return f"the cluster is not listed yet{self._why()}"
        if self.age_seconds > self._max_age_seconds:
            return f"cut off from the API server for {self.age_seconds:.0f} s{self._why()}"
        return ""

    def blind(self) -> str:
        """Why another server should hold the Lease: this one is cut off for too long; ``""`` otherwise.

        A first list that is slow, but has met no error, is no reason.
        """
        if self.age_seconds <= self._max_age_seconds:
            return ""
        return self.problem() if self._complete or self._why() else ""

    @property
    def _complete(self) -> bool:
        # Once complete, always complete.
        self._was_complete = self._was_complete or all(i.synced.is_set() for i in self._informers)
        return self._was_complete

    def _why(self) -> str:
        errors = (informer.last_error for informer in self._informers)
        error = next(filter(None, errors), "")
        return f": {error}" if error else ""

    async def read(self, names: Sequence[str]) -> bool:
        """Ask the API server for nodes that kube-scheduler knows and we do not, each once in a while."""
        now = time.monotonic()
        self._looked_for = {
            name: when for name, when in self._looked_for.items() if now - when < _READ_AGAIN_SECONDS
        }
        # No node has a name of dots only. In a path it means another object: "" is the list of all nodes.
        wanted = [name for name in names if name not in self._looked_for and name.strip(".")][:_READ_AT_ONCE]
        self._looked_for |= dict.fromkeys(wanted, now)
        return any(await asyncio.gather(*(self._read_node(name) for name in wanted)))

    async def news_for(self, pod: Pod, seen: Snapshot) -> bool:
        """Wait a moment for a change that may help a refused pod; whether one came since ``seen``.

        A change wakes a waiting pod in kube-scheduler, which may ask us before our own watch reports the
        change. Refused by the old view, the pod would wait for five minutes. So we wait when a pod comes
        again and is refused on every node again, although nothing has changed in view. kube-scheduler asks
        for one pod after another, so all waiting is kept to a small share of the time. The first pod waits
        longest, since news helps all pods after it.
        """
        cache = self._cache
        if self._versions.get(seen) != cache.version:
            return True
        now = cache.version, (pod.metadata or NO_META).resource_version
        before = self._refused.pop(pod.uid, None)
        self._refused[pod.uid] = now
        if len(self._refused) > _REFUSED_LIMIT:
            del self._refused[next(iter(self._refused))]
        if before is None or before[0] != cache.version or not self._may_wait():
            return False
        longest = _PATIENCE_SECONDS
        if before == now:
            # If the pod itself has changed, that may be why it comes again: kube-scheduler from 1.32 on
            # retries a pod when the watch reports what kube-scheduler itself has written on it.
            longest = max(longest, _PATIENCE_FIRST * self._patience_seconds)
        start = time.monotonic()
        self._news.clear()
        try:
            async with asyncio.timeout(longest):
                await self._news.wait()
        except TimeoutError:
            return False
        finally:
            self._patience_seconds -= time.monotonic() - start
        return True

    def _may_wait(self) -> bool:
        now = time.monotonic()
        earned = (now - self._patience_at) * _PATIENCE_SHARE
        self._patience_seconds = min(_PATIENCE_LIMIT_SECONDS, self._patience_seconds + earned)
        self._patience_at = now
        return self._patience_seconds > 0

    async def _read_node(self, name: str) -> bool:
        asked = self._reading[name] = object()
        try:
            found = await self._client.node(name, timeout_seconds=_READ_SECONDS)
            counts = self._reading.get(name) is asked
        except (ApiError, ConnectError) as error:
            # A node that is gone again is normal; a missing right to read nodes is for an operator to mend.
            level = logging.WARNING if isinstance(error, ApiError) and error.status == 403 else logging.INFO
            log.log(
                level, "node %s is not in view, and cannot be read: %s", name, error, extra={"node": name}
            )
            return False
        finally:
            if self._reading.get(name) is asked:
                del self._reading[name]
        if found.name != name:
            log.warning("node %s is not in view, and the API server's answer is another object", name)
            return False
        if self._cache.node(name) is not None:
            # The watch was faster: its state of the node may be newer than the answer.
            return True
        if counts:
            self._node_store.put(found)
        return counts

    async def _look_for(self, key: str) -> None:
        """Ask the API server whether an assumed pod exists that the last list lacked."""
        namespace, _, name = key.partition("/")
        pause, longest = _LOOK_AGAIN_SECONDS
        while key in self._cache.doubtful:
            meant = self._cache.pod(key)
            try:
                pod = await self._client.pod(namespace, name)
            except ApiError as error:
                if error.status == 404:
                    # Drop the pod that we asked for, not a new one of its name that the watch has reported.
                    if key in self._cache.doubtful and meant is not None:
                        self._pod_store.drop(meant)
                    self._cache.doubtful.discard(key)
                    return
                log.warning("%s", error)
            except ConnectError as error:
                log.warning("%s", error)
            else:
                if key in self._cache.doubtful:
                    self._cache.doubtful.discard(key)
                    # If the watch has reported the pod meanwhile, that may be newer than the answer. If the
                    # pod has the UID that we meant, it was created after the list: the watch will report it
                    # from its creation on, and it must keep its assumed node until the watch reports the
                    # bind.
                    if self._cache.pod(key) is meant and (meant is None or meant.uid != pod.uid):
                        if meant is not None:
                            self._pod_store.drop(meant)
                        self._pod_store.put(pod)
                return
            await asyncio.sleep(pause)
            pause = min(longest, pause * 2)

    def _listed_pods(self) -> None:
        if self._pods.synced.is_set():
            self._on_relist()
        for key in self._cache.doubtful:
            task = asyncio.get_running_loop().create_task(self._look_for(key))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    def _node_gone(self, name: str | None) -> None:
        """A node was deleted while it was being read, perhaps: it must not come back with the answer.

        ``None`` after a list: any may be gone that it does not have, and no watch will tell of that.
        """
        if name is None:
            self._reading.clear()
        else:
            self._reading.pop(name, None)


async def list_cluster(
    client: ApiClient,
    *,
    nodes_only: bool = False,
    kinds: Iterable[str] = (),
    images: bool = False,
    shown: Callable[[list[Pod]], list[Pod]] = list,
) -> Snapshot:
    """A snapshot from fresh lists of nodes, then of pods, then of ``kinds``; with the pods as ``shown``.

    A kind that may not be read is left out: the snapshot then has no list of it, not even an empty one.
    """
    nodes, _ = await client.list(NODES_WITH_IMAGES if images else NODES)
    pods = None if nodes_only else shown((await client.list(PODS))[0])
    found = {kind: listed for kind in kinds if (listed := await _listed(client, kind)) is not None}
    return await asyncio.to_thread(Snapshot.build, nodes, pods, Objects(found))


async def _listed(client: ApiClient, kind: str) -> ObjectsOfKind | None:
    try:
        objects, _ = await client.list(object_resource(kind))
    except ApiError as error:
        if error.status not in _NOT_FOR_US:
            raise
        return None
    return ObjectsOfKind({EVERY_KIND[kind].key(one): one for one in objects})
