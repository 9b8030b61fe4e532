"""What a type checker sees is what there is: ``mypy`` reads this file, and the tests run it."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, Label, Node, NodeAnnotation, NodeTable, Pod, Reason, Strings, Units, Verdict
from bayplan.testing import make_cluster, make_node, make_pod

Floats = NDArray[np.float64]

GPU = Units("example.com/gpu", capacity=NodeAnnotation("example.com/gpus"))
FULL = Reason("too full", detail="{free}m free")


class Settings(Args):
    """What a policy may be told."""

    most: int = 10


@bayplan.filter(recheck=True)
def roomy(pod: Pod, nodes: NodeTable, args: Settings) -> Verdict:
    free = nodes["cpu.free"]
    return FULL.where(free - pod.cpu_milli < args.most, free=free)


@bayplan.filter
def usable(nodes: NodeTable) -> NDArray[np.bool_]:
    return nodes["ready"] & ~nodes["unschedulable"] & (nodes["zone"] == "a")


@bayplan.score(range=(0, 100))
def left(pod: Pod, nodes: NodeTable) -> Floats:
    return 100 * (nodes["cpu.free"] - pod.cpu_milli) / nodes["cpu.allocatable"]


@bayplan.score
def by_node(node: Node) -> int:
    return node["example.com/gpu.free"] + len(node["zone"] or "")


@bayplan.policy
class Whole:
    """A class with an argument."""

    def __init__(self, args: Settings) -> None:
        self.most = args.most

    @bayplan.filter
    def fits(self, pod: Pod, nodes: NodeTable) -> Verdict:
        """As a method."""
        return FULL.where(nodes["pods.free"] < self.most, free=nodes["pods.free"])


NODE = make_node(
    "one",
    cpu="4",
    labels={"topology.kubernetes.io/zone": "a", "rack": "r1"},
    annotations={"example.com/gpus": "1000"},
)
CLUSTER = make_cluster([NODE])


def test_columns_are_of_the_type_that_their_name_says() -> None:
    nodes = CLUSTER.nodes

    assert assert_type(nodes["cpu.free"], NDArray[np.int64]).dtype == np.int64
    assert assert_type(nodes["example.com/gpu.capacity"], NDArray[np.int64]).dtype == np.int64
    assert assert_type(nodes[GPU], NDArray[np.int64]).dtype == np.int64
    assert assert_type(nodes["ready"], NDArray[np.bool_]).dtype == np.bool_
    assert isinstance(assert_type(nodes["zone"], Strings), Strings)
    assert isinstance(nodes[Label("rack")], Strings)


def test_values_of_a_node_are_plain() -> None:
    node = CLUSTER.nodes.row("one")

    assert assert_type(node["cpu.free"], int) == 4000
    assert assert_type(node["zone"], str | None) == "a"
    assert assert_type(node["ready"], bool) is True
    assert assert_type(node[GPU], NDArray[np.int64]).tolist() == [1000]


def test_a_decorated_function_is_called_as_it_was_written() -> None:
    nodes, pod = CLUSTER.nodes, make_pod(cpu="1")

    assert assert_type(roomy(pod, nodes, Settings(most=1)), Verdict).rejected_names(nodes) == []
    assert assert_type(usable(nodes), NDArray[np.bool_]).tolist() == [True]
    assert assert_type(left(pod, nodes), Floats).tolist() == [75.0]
    assert assert_type(by_node(nodes.row(0)), int) == 1
    assert assert_type(Whole(Settings()), Whole).fits(pod, nodes).rejected_names(nodes) == []
