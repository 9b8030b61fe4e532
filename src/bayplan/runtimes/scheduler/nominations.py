"""Nominated nodes: kept for pods whose victims are terminating.

Until such a pod is bound, it counts on its nominated node for every pod that is not more important.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from bayplan.kube.pod import Pod


@dataclass(frozen=True)
class Nomination:
    """A node that is kept for a pod."""

    pod: Pod
    node: str
    victims: frozenset[str] = frozenset()
    """UIDs of the pods that were evicted for it."""


class Nominations:
    """All nominations, by pod."""

    def __init__(self) -> None:
        self._kept: dict[str, Nomination] = {}

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self._kept.values()))

    def keep(self, pod: Pod, node: str, victims: Collection[str] = ()) -> None:
        """Nominate the node for the pod, in place of an earlier nomination."""
        self._kept[pod.uid] = Nomination(pod, node, frozenset(victims))

    def drop(self, uid: str) -> bool:
        """Remove the pod's nomination; whether there was one."""
        return self._kept.pop(uid, None) is not None

    def of(self, uid: str) -> Nomination | None:
        """The pod's nomination."""
        return self._kept.get(uid)

    def before(self, pod: Pod) -> dict[str, list[Pod]]:
        """Other nominated pods of equal or higher priority, by node: their room is not for this pod."""
        found: dict[str, list[Pod]] = {}
        for kept in self._kept.values():
            if kept.pod.uid != pod.uid and kept.pod.priority >= pod.priority:
                found.setdefault(kept.node, []).append(kept.pod)
        return found

    def after(self, pod: Pod, node: str) -> list[Pod]:
        """Less important pods nominated on the node, which must look for another one."""
        return [
            kept.pod
            for kept in self._kept.values()
            if kept.node == node and kept.pod.uid != pod.uid and kept.pod.priority < pod.priority
        ]
