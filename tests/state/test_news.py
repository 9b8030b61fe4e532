"""What a change means for pods that wait; heartbeats and status mean nothing."""

from typing import Any

import msgspec
import pytest

from bayplan import Pod
from bayplan.kube.node import NodeObject
from bayplan.state.news import NODES, NOTHING, PLACED, PODS, of_node, of_pod
from bayplan.testing import make_pod


def pod(**changes: Any) -> Pod:
    return make_pod("pod", **{"uid": "u", "cpu": 2, "node": "a", **changes})


def going(found: Pod) -> Pod:
    assert found.metadata is not None
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp="2026-11-15T12:00:00Z")
    return msgspec.structs.replace(found, metadata=metadata)


@pytest.mark.parametrize(
    ("before", "now", "news"),
    [
        pytest.param(None, pod(node=None), NOTHING, id="a pod that waits"),
        pytest.param(None, pod(), PLACED, id="a pod on a node"),
        pytest.param(pod(node=None), pod(), PLACED, id="a pod that got its node"),
        pytest.param(pod(), pod(), NOTHING, id="nothing that a rule looks at"),
        pytest.param(pod(), None, PODS, id="a pod that is gone"),
        pytest.param(pod(), pod(phase="Succeeded"), PODS, id="a pod that has ended"),
        pytest.param(pod(phase="Succeeded"), None, NOTHING, id="an ended pod that is gone"),
        pytest.param(pod(), pod(cpu=1), PODS, id="a pod that asks for less"),
        pytest.param(pod(), pod(cpu=3), NOTHING, id="a pod that asks for more"),
        pytest.param(pod(), pod(labels={"app": "b"}), PODS | PLACED, id="another label"),
        pytest.param(pod(), going(pod()), PODS | PLACED, id="a pod that is being deleted"),
        pytest.param(going(pod()), going(pod()), NOTHING, id="still being deleted"),
        pytest.param(pod(), pod(node="b"), PODS | PLACED, id="another pod of that name elsewhere"),
    ],
)
def test_of_a_pod(before: Pod | None, now: Pod | None, news: frozenset[str]) -> None:
    assert of_pod(before, now) == news


READY = [{"type": "Ready", "status": "True"}]


def node(*, labels: Any = None, spec: Any = None, **status: Any) -> NodeObject:
    body = {
        "metadata": {"name": "n", "labels": labels or {}, "resourceVersion": str(id(status))},
        "spec": spec or {},
        "status": {"allocatable": {"cpu": "4"}, "conditions": READY, **status},
    }
    return msgspec.convert(body, NodeObject)


@pytest.mark.parametrize(
    ("now", "news"),
    [
        pytest.param(node(), NOTHING, id="a heartbeat"),
        pytest.param(node(labels={"zone": "a"}), NODES, id="a label"),
        pytest.param(node(spec={"unschedulable": True}), NODES, id="cordoned"),
        pytest.param(node(spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}), NODES, id="a taint"),
        pytest.param(node(allocatable={"cpu": "8"}), NODES, id="more room"),
        pytest.param(node(conditions=[]), NODES, id="not ready"),
        pytest.param(node(declaredFeatures=["New"]), NODES, id="something that it declares"),
        pytest.param(None, NODES, id="gone"),
    ],
)
def test_of_a_node(now: NodeObject | None, news: frozenset[str]) -> None:
    assert of_node(node(), now) == news
    assert of_node(None, node()) == NODES
