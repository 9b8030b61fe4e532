"""Allocations that somebody rewrote after the bind: such a pod holds what it was given and what it says now.

A pod's devices are chosen once, at the bind, and its containers keep them. But whoever may write a pod's
annotations can let it name other devices, and so have its own counted as free. What it was given is known
only to a server that saw the pod before: the next one to start can but believe the annotation.

Both count, and not only what the pod was given: after etcd was restored from a backup, another server may
have bound the same pod anew.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod
from bayplan.snapshot.units import ALLOCATION, with_taken

log = logging.getLogger(__name__)

_TOLD = 200
"""So many letters of an annotation are logged: it may be of any length."""


@dataclass(frozen=True)
class _Bind:
    """A bind of a pod, and what the pod was given with it."""

    uid: str
    node: str
    given: str

    def of(self, pod: Pod) -> bool:
        """Whether this is still the same bind of the same pod."""
        return (pod.uid, pod.node_name) == (self.uid, self.node)


class Rewritten:
    """The bound pods whose allocation was rewritten, as long as they live."""

    def __init__(self) -> None:
        self._binds: dict[str, _Bind] = {}
        self._differs: set[str] = set()

    @property
    def keys(self) -> list[str]:
        """The keys of the pods whose allocation says something else now than at their bind."""
        return sorted(self._differs)

    def see(self, pod: Pod, known: Pod | None) -> Pod:
        """The pod as it counts, from what the watch reports of it and what was ``known`` before."""
        bind = self._binds.get(pod.key)
        if bind is None:
            if known is None or not _is_rewritten(known, pod):
                return pod
            bind = self._binds[pod.key] = _Bind(pod.uid, pod.node_name, known.annotations[ALLOCATION])
            # Once for each pod: its owner could rewrite it each second.
            log.warning(
                "pod %s was given %s, and somebody wrote %s on it: both count",
                pod.key,
                bind.given[:_TOLD],
                (pod.annotations.get(ALLOCATION) or "nothing")[:_TOLD],
                extra={"pod": pod.key, "node": pod.node_name},
            )
        if not bind.of(pod) or pod.finished:
            self.drop(pod.key)
            return pod
        if pod.annotations.get(ALLOCATION) == bind.given:
            self._differs.discard(pod.key)
            return pod
        self._differs.add(pod.key)
        return _with_both(pod, bind)

    def drop(self, key: str) -> None:
        """Forget a pod that is gone."""
        self._binds.pop(key, None)
        self._differs.discard(key)

    def shown(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods of a fresh list as they count, to compare them with the view."""
        found = []
        for pod in pods:
            bind = self._binds.get(pod.key)
            found.append(_with_both(pod, bind) if bind is not None and bind.of(pod) else pod)
        return found


def _is_rewritten(known: Pod, pod: Pod) -> bool:
    given = known.annotations.get(ALLOCATION)
    if given is None or given == pod.annotations.get(ALLOCATION) or not pod.node_name:
        return False
    return (known.uid, known.node_name) == (pod.uid, pod.node_name)


def _with_both(pod: Pod, bind: _Bind) -> Pod:
    now = pod.annotations.get(ALLOCATION, "")
    both = bind.given if now == bind.given else with_taken(bind.given, now)
    metadata = msgspec.structs.replace(
        pod.metadata or NO_META, annotations={**pod.annotations, ALLOCATION: both}
    )
    shown = msgspec.structs.replace(pod, metadata=metadata)
    # The pod's cached properties do not depend on its annotations.
    shown.__dict__.update(pod.__dict__)
    return shown
