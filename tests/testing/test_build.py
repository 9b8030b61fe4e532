"""Builders take keyword arguments and return the real objects."""

import re
from collections.abc import Callable

import pytest

import bayplan
from bayplan import Node, Pod, Snapshot, Taint
from bayplan.testing import bind, make_cluster, make_node, make_pod


@bayplan.filter
def _anything_goes(pod: Pod, node: Node) -> None:
    """Refuse nobody."""


def test_a_plain_pod_waits_and_asks_for_nothing() -> None:
    pod = make_pod()

    assert isinstance(pod, Pod)
    assert (pod.key, pod.node_name, pod.phase, dict(pod.requests)) == ("default/pod", "", "Pending", {})


def test_a_pod_has_what_it_was_given() -> None:
    pod = make_pod(
        "web",
        namespace="shop",
        uid="u-web",
        labels={"app": "web"},
        annotations={"note": "x"},
        cpu="250m",
        memory="1Ki",
        requests={"example.com/gpu": 1},
        priority=7,
        node="worker",
        owner=("Job", "nightly"),
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    )

    assert (pod.key, pod.uid, pod.labels["app"], pod.annotations["note"]) == ("shop/web", "u-web", "web", "x")
    assert pod.requests == {"cpu": 250, "memory": 1024, "example.com/gpu": 1}
    assert (pod.priority, pod.node_name, pod.phase) == (7, "worker", "Running")
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("Job", "nightly")
    assert pod.tolerates(Taint(key="gpu", effect="NoSchedule"))


def test_the_spec_of_a_pod_may_say_anything_else() -> None:
    pod = make_pod(spec={"nodeSelector": {"disk": "ssd"}, "schedulerName": "custom"})

    assert (pod.node_selector, pod.scheduler_name) == ({"disk": "ssd"}, "custom")


def test_every_pod_has_a_uid_of_its_own() -> None:
    assert make_pod("twin").uid != make_pod("twin").uid


def test_a_plain_node_is_ready_and_empty() -> None:
    node = make_node()

    assert isinstance(node, Node)
    assert (node.name, node.ready, node.unschedulable, node.pods) == ("node", True, False, ())
    assert node.free == {"cpu": 4000, "memory": 16 * 2**30, "pods": 110}


def test_a_node_has_what_it_was_given() -> None:
    node = make_node(
        "worker",
        labels={"rack": "r1"},
        annotations={"note": "x"},
        cpu="1500m",
        memory="1Gi",
        pods=10,
        allocatable={"example.com/gpu": 2},
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        unschedulable=True,
        ready=False,
        zone="z1",
    )

    assert (node.name, node.labels["rack"], node.annotations["note"], node.zone) == (
        "worker",
        "r1",
        "x",
        "z1",
    )
    assert node.allocatable == {"cpu": 1500, "memory": 2**30, "pods": 10, "example.com/gpu": 2}
    assert node.taints == (Taint(key="gpu", effect="NoSchedule"),)
    assert (node.unschedulable, node.ready) == (True, False)


def test_a_cluster_holds_nodes_and_pods() -> None:
    cluster = make_cluster([make_node("big", cpu=8), "plain"], [make_pod(cpu=1, node="big")])

    assert isinstance(cluster, Snapshot)
    assert list(cluster.nodes.names) == ["big", "plain"]
    assert cluster.nodes["cpu.free"].tolist() == [7000, 4000]
    assert cluster.pods_known


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(
            lambda: make_node(labels={"generation": 3}),  # type: ignore[dict-item]
            "label 'generation' is 3: labels are text, write '3'",
            id="a label of a node",
        ),
        pytest.param(
            lambda: make_pod(annotations={"devices": 2}),  # type: ignore[dict-item]
            "annotation 'devices' is 2: annotations are text, write '2'",
            id="an annotation of a pod",
        ),
        pytest.param(lambda: make_pod(cpu="1x"), "'1x' is not a quantity", id="a quantity"),
        pytest.param(
            lambda: make_cluster(["a"], sources={"load": [0.1]}),  # type: ignore[dict-item]
            "source 'load': want values by node",
            id="a source",
        ),
        pytest.param(
            lambda: make_cluster(["node-a"], sources={"load": {"node-a": 0.1, "nod-b": 0.2}}),
            "source 'load' has a value for 'nod-b': no such node; did you mean 'node-a'?",
            id="a source with a value for a node that is not there",
        ),
        pytest.param(lambda: make_node(cpu="4cores"), "'4cores' is not a quantity", id="a node's quantity"),
        pytest.param(
            lambda: make_node(allocatable={"example.com/gpu": "two"}),
            "'two' is not a quantity",
            id="a node's extended resource",
        ),
        pytest.param(
            lambda: make_node(taints=["gpu=yes:NoSchedule"]),  # type: ignore[list-item]
            "taints are written as in a manifest, such as [{'key': 'dedicated', 'effect': 'NoSchedule'}];"
            " got 'gpu=yes:NoSchedule'",
            id="a taint as kubectl takes it",
        ),
        pytest.param(
            lambda: make_pod(owner="nightly"),  # type: ignore[arg-type]
            "owner 'nightly': want kind and name, such as ('Job', 'nightly')",
            id="an owner without a kind",
        ),
        pytest.param(
            lambda: make_pod(spec={"nodeSelectr": {"disk": "ssd"}}),
            "make_pod(): there is no nodeSelectr; did you mean 'nodeSelector'?",
            id="a key of the spec",
        ),
        pytest.param(
            lambda: make_pod(tolerations=[{"keyy": "gpu", "operator": "Exists"}]),
            "make_pod(): there is no tolerations.0.keyy; did you mean 'key'?",
            id="a key of a toleration",
        ),
        pytest.param(
            lambda: make_cluster("abc"),
            "make_cluster() wants a list of nodes, such as ['abc']; got 'abc' alone",
            id="a name in place of a list",
        ),
        pytest.param(
            lambda: make_cluster(make_node("a")),  # type: ignore[arg-type]
            "make_cluster() wants a list of nodes, such as [Node('a')]; got Node('a') alone",
            id="a node in place of a list",
        ),
        pytest.param(
            lambda: make_cluster(["a"], make_pod("p")),  # type: ignore[arg-type]
            "make_cluster() wants a list of pods; got pod default/p alone",
            id="a pod in place of a list",
        ),
        pytest.param(
            lambda: bind(_anything_goes, make_pod(), "nod-a", make_cluster(["node-a"])),
            "bind() to 'nod-a': no such node; did you mean 'node-a'?",
            id="a bind to a node that is not there",
        ),
    ],
)
def test_what_cannot_be_is_an_error_where_it_is_written(make: Callable[[], object], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        make()
