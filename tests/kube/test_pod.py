"""Pods and nodes read well, whatever was left out of them."""

from typing import Any

import msgspec
import pytest

from bayplan.kube.meta import OwnerReference
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.taint import Taint
from bayplan.testing import make_cluster, make_node, make_pod


def pod(**parts: Any) -> Pod:
    return msgspec.convert(parts, Pod)


def node(**parts: Any) -> NodeObject:
    return msgspec.convert(parts, NodeObject)


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param({}, id="no parts"),
        pytest.param({"metadata": None, "spec": None, "status": None}, id="parts that are null"),
        pytest.param({"metadata": {}, "spec": {}, "status": {}}, id="parts that are empty"),
        pytest.param(
            {
                "metadata": {"name": None, "labels": None, "annotations": None, "ownerReferences": None},
                "spec": {"nodeName": None, "tolerations": None, "containers": None, "priority": None},
                "status": {"phase": None},
            },
            id="fields that are null",
        ),
    ],
)
def test_an_empty_pod_has_empty_values_and_no_none(empty: dict[str, Any]) -> None:
    bare = pod(**empty)

    assert (bare.name, bare.namespace, bare.key, bare.uid) == ("", "default", "default/", "")
    assert dict(bare.labels) == dict(bare.annotations) == dict(bare.node_selector) == {}
    assert (bare.node_name, bare.priority, bare.priority_class_name) == ("", 0, "")
    assert (bare.scheduler_name, bare.service_account_name) == ("default-scheduler", "")
    assert (bare.containers, bare.init_containers, bare.tolerations) == ((), (), ())
    assert (bare.phase, bare.finished, bare.terminating, bare.owner) == ("Pending", False, False, None)
    assert (dict(bare.requests), bare.cpu_milli, bare.memory_bytes) == ({}, 0, 0)


def test_a_full_pod_says_what_it_was_sent_with() -> None:
    full = pod(
        metadata={
            "name": "web-1",
            "namespace": "shop",
            "uid": "u-1",
            "labels": {"app": "web"},
            "annotations": {"note": "x"},
            "ownerReferences": [
                {"kind": "Node", "name": "n", "uid": "u-n"},
                {"kind": "ReplicaSet", "name": "web", "uid": "u-rs", "controller": True},
            ],
        },
        spec={
            "nodeName": "worker",
            "nodeSelector": {"disk": "ssd"},
            "priority": 10,
            "priorityClassName": "high",
            "schedulerName": "custom",
            "serviceAccountName": "robot",
            "containers": [
                {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1", "memory": "1Ki"}}}
            ],
            "initContainers": [{"name": "i"}],
        },
        status={"phase": "Running"},
    )

    assert (full.key, full.uid, full.labels["app"], full.annotations["note"]) == (
        "shop/web-1",
        "u-1",
        "web",
        "x",
    )
    assert full.owner == OwnerReference(kind="ReplicaSet", name="web", uid="u-rs", controller=True)
    assert (full.node_name, full.node_selector, full.priority) == ("worker", {"disk": "ssd"}, 10)
    assert (full.priority_class_name, full.scheduler_name) == ("high", "custom")
    assert (full.service_account_name, full.phase) == ("robot", "Running")
    assert [c.image for c in full.containers] == ["nginx"]
    assert [c.name for c in full.init_containers] == ["i"]
    assert (full.cpu_milli, full.memory_bytes, full.request("example.com/gpu")) == (1000, 1024, 0)


@pytest.mark.parametrize(
    ("phase", "finished"),
    [
        pytest.param("Pending", False, id="a waiting pod"),
        pytest.param("Running", False, id="a running pod"),
        pytest.param("Unknown", False, id="a pod on a lost node"),
        pytest.param("Succeeded", True, id="a pod that succeeded"),
        pytest.param("Failed", True, id="a pod that failed"),
    ],
)
def test_finished(phase: str, finished: bool) -> None:
    assert make_pod(phase=phase).finished is finished


def test_a_pod_with_a_deletion_timestamp_is_terminating() -> None:
    assert pod(metadata={"deletionTimestamp": "2026-11-15T19:08:22Z"}).terminating


def disrupted(**changes: str) -> dict[str, str]:
    return {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"} | changes


READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-15T19:08:22Z"}


@pytest.mark.parametrize(
    ("conditions", "ending", "preempted"),
    [
        pytest.param([READY, disrupted()], True, True, id="a scheduler evicted it"),
        pytest.param([READY, disrupted()], False, False, id="it was told, and not deleted yet"),
        pytest.param([READY], True, False, id="it was deleted by hand"),
        pytest.param(None, True, False, id="nothing is said"),
        pytest.param([disrupted(reason="EvictionByEvictionAPI")], True, False, id="its node is drained"),
        pytest.param([disrupted(status="False")], True, False, id="it was to be evicted once"),
        pytest.param([disrupted(type="Ready")], True, False, id="that is said of something else"),
    ],
)
def test_a_pod_that_a_scheduler_evicted(conditions: Any, ending: bool, preempted: bool) -> None:
    metadata = {"deletionTimestamp": "2026-11-15T19:08:22Z"} if ending else {}

    assert pod(metadata=metadata, status={"conditions": conditions}).preempted is preempted


def test_of_the_conditions_of_a_pod_only_what_somebody_reads_is_kept() -> None:
    """There are half a dozen of each pod, and a hundred thousand pods."""
    read = msgspec.json.decode(
        msgspec.json.encode({"status": {"conditions": [READY, disrupted(), READY]}}), type=Pod
    )

    assert msgspec.to_builtins(read) == {"status": {"conditions": (disrupted(),)}}
    assert msgspec.to_builtins(pod(status={"conditions": [READY]})) == {"status": {}}


def test_a_pod_tolerates_a_taint_that_one_toleration_covers() -> None:
    batch = Taint(key="batch", effect="NoSchedule")
    visitor = make_pod(
        tolerations=[{"key": "other", "operator": "Exists"}, {"key": "batch", "operator": "Exists"}]
    )

    assert visitor.tolerates(batch)
    assert not make_pod().tolerates(batch)


def test_a_pod_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        make_pod().metadata = None  # type: ignore[misc]


@pytest.mark.parametrize(
    "empty",
    [
        pytest.param({}, id="no parts"),
        pytest.param({"metadata": None, "spec": None, "status": None}, id="parts that are null"),
        pytest.param(
            {
                "metadata": {"labels": None},
                "spec": {"taints": None, "unschedulable": None},
                "status": {"allocatable": None, "capacity": None, "conditions": None},
            },
            id="fields that are null",
        ),
    ],
)
def test_an_empty_node_has_empty_values_and_no_none(empty: dict[str, Any]) -> None:
    bare = node(**empty)

    assert (bare.name, bare.uid, dict(bare.labels), dict(bare.annotations)) == ("", "", {}, {})
    assert (bare.unschedulable, bare.ready, bare.taints) == (False, False, ())
    assert (dict(bare.allocatable), dict(bare.capacity)) == ({}, {})


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    machine = node(status={"capacity": {"cpu": "4"}})

    assert machine.allocatable == {"cpu": 4000}


def test_a_node_offers_what_is_allocatable_and_has_its_capacity() -> None:
    machine = node(status={"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3500m"}})

    assert (machine.allocatable, machine.capacity) == ({"cpu": 3500}, {"cpu": 4000})


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        pytest.param([{"type": "Ready", "status": "True"}], True, id="Ready is True"),
        pytest.param([{"type": "Ready", "status": "False"}], False, id="Ready is False"),
        pytest.param([{"type": "Ready", "status": "Unknown"}], False, id="nobody has heard of it"),
        pytest.param([{"type": "MemoryPressure", "status": "True"}], False, id="another condition is True"),
    ],
)
def test_ready(conditions: list[dict[str, str]], ready: bool) -> None:
    assert node(status={"conditions": conditions}).ready is ready


@pytest.mark.parametrize("what", ["labels", "annotations", "node_selector", "requests"])
def test_what_a_pod_says_cannot_be_changed_by_whoever_reads_it(what: str) -> None:
    """It is the pod of everybody: what it requests is what is counted on its node."""
    own = make_pod(cpu=1, labels={"a": "b"}, annotations={"a": "b"}, spec={"nodeSelector": {"a": "b"}})

    with pytest.raises(TypeError):
        getattr(own, what)["cpu"] = 0


@pytest.mark.parametrize("what", ["labels", "annotations", "allocatable", "capacity", "requested"])
def test_what_a_node_says_cannot_be_changed_either(what: str) -> None:
    cluster = make_cluster(
        [make_node("n", labels={"a": "b"}, annotations={"a": "b"})], [make_pod("p", node="n", cpu=1)]
    )

    with pytest.raises(TypeError):
        getattr(cluster.nodes.row("n"), what)["cpu"] = 0
