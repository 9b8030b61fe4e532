"""NodePorts: a port of a node is taken once.

Filter   rejects nodes on which another pod has a port of the node that this pod wants.
Reads    ``hostPort``, ``hostIP`` and ``protocol`` of the pod's containers and of those on the nodes.
"""

from itertools import compress

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Reason, Verdict
from bayplan.blocks import HostPort, PodCondition, PodKinds

TAKEN = Reason(
    "node(s) didn't have free ports for the requested pod ports",
    preemptible=True,
    helped_by=frozenset({"nodes", "pods"}),
)
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not bound to


@bayplan.policy
class NodePorts:
    """A port of a node is taken once."""

    @bayplan.filter(recheck=True, reads="pods")
    def free(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """Refuse nodes that have given away a port that the pod wants."""
        wanted = pod.host_ports
        if not wanted:
            return None
        taken = nodes.count(_holding(wanted)) > 0
        return TAKEN.where(taken) if taken.any() else None


def _holding(wanted: tuple[HostPort, ...]) -> PodCondition:
    """The pods that have one of these ports, at the same address or at every one."""

    def choose(kinds: PodKinds, count: int) -> NDArray[np.bool_]:
        held = kinds.facts("host ports", count, lambda kind: kind.host_ports)
        there = np.zeros(count, dtype=np.bool_)
        # Few of thousands of kinds have any.
        for number in compress(range(count), held):
            there[number] = any(_same(port, other) for port in held[number] for other in wanted)
        return there

    return PodCondition(f"holds {wanted}", choose)


def _same(one: HostPort, other: HostPort) -> bool:
    if (one[0], one[2]) != (other[0], other[2]):
        return False
    return one[1] == other[1] or _EVERY_ADDRESS in (one[1], other[1])
