"""Nodes that are kept for pods whose victims are on their way out.

Until such a pod has its node, it counts there for every pod that is not more important than it.
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
    """UIDs of those who leave for it."""


class Nominations:
    """Every node that is kept for somebody."""

    def __init__(self) -> None:
        self._kept: dict[str, Nomination] = {}

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self._kept.values()))

    def keep(self, pod: Pod, node: str, victims: Collection[str] = ()) -> None:
        """Keep the node for the pod, and no other one."""
        self._kept[pod.uid] = Nomination(pod, node, frozenset(victims))

    def drop(self, uid: str) -> bool:
        """The pod has a node, is gone, or has to look elsewhere; whether one was kept for it."""
        return self._kept.pop(uid, None) is not None

    def of(self, uid: str) -> Nomination | None:
        """What is kept for a pod."""
        return self._kept.get(uid)

    def before(self, pod: Pod) -> dict[str, list[Pod]]:
        """Others, by node, who are as important as the pod or more: their room is not for it."""
        found: dict[str, list[Pod]] = {}
        for kept in self._kept.values():
            if kept.pod.uid != pod.uid and kept.pod.priority >= pod.priority:
                found.setdefault(kept.node, []).append(kept.pod)
        return found

    def after(self, pod: Pod, node: str) -> list[Pod]:
        """Those who counted on the node and are less important than the pod: they have to look again."""
        return [
            kept.pod
            for kept in self._kept.values()
            if kept.node == node and kept.pod.uid != pod.uid and kept.pod.priority < pod.priority
        ]
