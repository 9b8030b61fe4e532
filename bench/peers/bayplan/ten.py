"""Ten small policies over whole columns, such as a cluster has: together they let the same nodes pass as one.

An SSD is all that matters to the filters here, since no node is full, cordoned or about to go. They have to
look all the same.
"""

import numpy as np
from numpy.typing import NDArray

import bayplan

DISK = bayplan.Label("disk")
POINTS = bayplan.Label("example.com/points", int, default=0)
RETIRING = bayplan.Label("example.com/retiring")
LEVEL = bayplan.Label("example.com/label-05")
APP = bayplan.PodLabel("app")

NO_SSD = bayplan.Reason("node has no SSD")
NOT_IN_SERVICE = bayplan.Reason("node is not in service", helped_by=frozenset({"nodes"}))
GOING = bayplan.Reason("node is to be taken away")
NO_HEADROOM = bayplan.Reason("memory would be over 95 %", preemptible=True)
CROWDED = bayplan.Reason("node has 100 pods", preemptible=True)

Numbers = NDArray[np.float64]


@bayplan.policy
class OnSsd:
    """Only nodes with an SSD."""

    @bayplan.filter(reads="node")
    def ssd(self, nodes: bayplan.NodeTable) -> bayplan.Verdict:
        """By the label."""
        return NO_SSD.where(nodes[DISK] != "ssd")


@bayplan.policy
class Points:
    """As many as the label says."""

    @bayplan.score(range=(0, 10), reads="node")
    def points(self, nodes: bayplan.NodeTable) -> Numbers:
        """By the label."""
        found: Numbers = nodes[POINTS]
        return found


@bayplan.policy
class InService:
    """Ready, and not cordoned."""

    @bayplan.filter(reads="node")
    def in_service(self, nodes: bayplan.NodeTable) -> bayplan.Verdict:
        """By condition and spec."""
        return NOT_IN_SERVICE.where(~nodes["ready"] | nodes["unschedulable"])


@bayplan.policy
class Staying:
    """Nodes that are to be taken away get no new pods."""

    @bayplan.filter(reads="node")
    def staying(self, nodes: bayplan.NodeTable) -> bayplan.Verdict:
        """By the label."""
        return GOING.where(nodes[RETIRING] == "true")


@bayplan.policy
class Headroom:
    """A twentieth of the memory stays free."""

    @bayplan.filter(reads="pods")
    def headroom(self, pod: bayplan.Pod, nodes: bayplan.NodeTable) -> bayplan.Verdict:
        """With the pod on the node."""
        left = nodes["memory.free"] - pod.request("memory")
        return NO_HEADROOM.where(left < 0.05 * nodes["memory.allocatable"])


@bayplan.policy
class NotCrowded:
    """A node has fewer pods than it could."""

    @bayplan.filter(reads="pods")
    def crowded(self, nodes: bayplan.NodeTable) -> bayplan.Verdict:
        """By number."""
        return CROWDED.where(nodes["pods.requested"] >= 100)


@bayplan.policy
class LeastRequested:
    """Nodes with much CPU left are better."""

    @bayplan.score(range=(0, 1), reads="pods")
    def free(self, nodes: bayplan.NodeTable) -> Numbers:
        """What is left of what there was."""
        share: Numbers = nodes["cpu.free"] / nodes["cpu.allocatable"]
        return share


@bayplan.policy
class EvenZones:
    """Zones with few pods are better."""

    @bayplan.score(best="low")
    def in_zone(self, nodes: bayplan.NodeTable) -> Numbers:
        """All pods count."""
        return nodes.count(by="zone").astype(np.float64)


@bayplan.policy
class ApartFromItself:
    """Nodes with few pods of the same application are better."""

    @bayplan.score(best="low", reads="pods")
    def of_the_same(self, pod: bayplan.Pod, nodes: bayplan.NodeTable) -> Numbers:
        """By the pod's label."""
        return nodes.count(APP.same_as(pod)).astype(np.float64)


@bayplan.policy
class NewerHardware:
    """Nodes of the newest kind are a little better."""

    @bayplan.score(range=(0, 1), reads="node")
    def newest(self, nodes: bayplan.NodeTable) -> Numbers:
        """By the label."""
        newest: Numbers = (nodes[LEVEL] == "value-0").astype(np.float64)
        return newest
