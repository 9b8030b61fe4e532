"""The stores of the node and pod informers: they write into the cache and tell a follower of each change."""

from collections.abc import Callable, Iterable
from typing import Protocol

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.state import news
from bayplan.state.cache import Cache


class Follower(Protocol):
    """The scheduler's queue: it hears of each pod, and of changes that waiting pods may wait for."""

    def pod_is(self, pod: Pod) -> None:
        """A pod was added or changed."""
        ...

    def pod_gone(self, pod: Pod) -> None:
        """A pod was removed."""
        ...

    def told(self, news: frozenset[str]) -> None:
        """Something changed that pods may wait for; the topics are those of `news`."""
        ...


class NodeStore:
    """The store of the node informer."""

    def __init__(
        self,
        cache: Cache,
        tell: Callable[[frozenset[str]], None],
        gone: Callable[[str | None], None],
        follower: Follower | None,
    ) -> None:
        """``gone`` hears which node was deleted; ``None`` after a list, which may have passed over any."""
        self._cache = cache
        self._tell = tell
        self._gone = gone
        self._follower = follower

    def replace(self, nodes: Iterable[NodeObject]) -> None:
        """Replace all nodes."""
        self._cache.replace_nodes(nodes)
        self._gone(None)
        self._follow(news.NODES)
        self._tell(news.NODES)

    def put(self, node: NodeObject) -> None:
        """Add or update a node."""
        version, before = self._cache.version, self._cache.node(node.name)
        self._cache.put_node(node)
        self._follow(news.of_node(before, node))
        if self._cache.version != version:
            # Otherwise the kubelet only renewed its heartbeat.
            self._tell(news.NODES)

    def drop(self, node: NodeObject) -> None:
        """Remove a node."""
        self._cache.drop_node(node.name)
        self._gone(node.name)
        self._follow(news.NODES)
        self._tell(news.NODES)

    def _follow(self, what: frozenset[str]) -> None:
        if self._follower is not None and what:
            self._follower.told(what)


class PodStore:
    """The store of the pod informer."""

    def __init__(
        self,
        cache: Cache,
        tell: Callable[[frozenset[str]], None],
        listed: Callable[[], None],
        follower: Follower | None,
    ) -> None:
        self._cache = cache
        self._tell = tell
        self._listed = listed
        self._follower = follower

    def replace(self, pods: Iterable[Pod]) -> None:
        """Replace all pods."""
        before = list(self._cache.pods)
        self._cache.replace_pods(pods)
        self._listed()
        if self._follower is not None:
            for pod in before:
                now = self._cache.pod(pod.key)
                if now is None or now.uid != pod.uid:
                    self._follower.pod_gone(pod)
            for pod in self._cache.pods:
                self._follower.pod_is(pod)
            self._follower.told(news.PODS | news.PLACED)
        self._tell(news.PODS | news.PLACED)

    def put(self, pod: Pod) -> None:
        """Add or update a pod."""
        version, before = self._cache.version, self._cache.pod(pod.key)
        self._cache.put_pod(pod)
        if self._follower is not None:
            if before is not None and before.uid != pod.uid:
                self._follower.pod_gone(before)
            self._follower.pod_is(self._cache.pod(pod.key) or pod)
        self._follow(version, before, pod.key)

    def drop(self, pod: Pod) -> None:
        """Remove a pod."""
        version, before = self._cache.version, self._cache.pod(pod.key)
        self._cache.drop_pod(pod.key, pod.uid)
        if self._follower is not None:
            self._follower.pod_gone(pod if before is None or before.uid != pod.uid else before)
        self._follow(version, before, pod.key)

    def _follow(self, version: int, before: Pod | None, key: str) -> None:
        """Tell what has changed for other pods; most updates are of a status, which changes nothing."""
        if self._follower is None and self._cache.version == version:
            return
        what = news.of_pod(before, self._cache.pod(key))
        if self._follower is not None and what:
            self._follower.told(what)
        if self._cache.version != version:
            self._tell(what)
