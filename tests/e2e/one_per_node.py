"""The rule that faults are tried on: at most one pod of an app on a node, checked again at bind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json

ONE_PER_NODE = """
    import bayplan

    APP = bayplan.PodLabel("app")
    TAKEN = bayplan.Reason("another one is on the node")

    @bayplan.filter(recheck=True)
    def alone(pod, nodes):
        return TAKEN.where(nodes.count(APP.same_as(pod)) > 0)
"""
TAKEN = "another one is on the node"
SINGLE = {"app": "single"}


def free_for(bayplan: Extender, pod: Json, nodes: Sequence[str]) -> list[str]:
    """Those of the nodes that pass the filter, asked as kube-scheduler asks."""
    said = bayplan.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
    assert said["Error"] == ""
    names: list[str] = said["NodeNames"]
    return names


def bind(bayplan: Extender, pod: Json, node: str) -> str:
    """Bind a pod as kube-scheduler does; what was wrong, or nothing."""
    metadata = pod["metadata"]
    body = {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }
    said: str = bayplan.call("bind", body)["Error"]
    return said


def placed(cluster: ControlPlane) -> dict[str, str]:
    """Node by pod, of those that have one."""
    pods = cluster.api.items("pods")
    return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}


def check_one_each(cluster: ControlPlane, *, nodes: int, waiting: int) -> int:
    """Every node has one pod, none was bound twice, the others say why; how many have their event.

    Where the reply of a bind was lost for good, kube-scheduler learns from its watch that the pod is
    bound, and writes no event.
    """
    where = placed(cluster)
    assert len(where) == nodes
    assert max(Counter(where.values()).values()) == 1
    events = cluster.api.items("events", fields="reason=Scheduled")
    told = Counter(event["involvedObject"]["uid"] for event in events)
    assert not told or max(told.values()) == 1
    names = [pod["metadata"]["name"] for pod in cluster.api.items("pods")]
    for event in events:
        # Events outlive their pods.
        if (name := event["involvedObject"]["name"]) in names:
            assert event["message"].endswith(f"default/{name} to {where[name]}")
    left = [name for name in names if name not in where]
    assert len(left) == waiting
    for name in left:
        cluster.api.wait_unschedulable(name, containing=f"{nodes} {TAKEN}")
    return len(told)


def wait_placed(cluster: ControlPlane, count: int, timeout_seconds: float = 60) -> None:
    """Wait until so many pods have a node."""
    wait_until(
        lambda: len(placed(cluster)) >= count,
        timeout_seconds,
        what=f"{count} pods have a node",
        explain=lambda: f"{len(placed(cluster))} have\n{_waiting(cluster)}",
        poll_seconds=0.05,
    )


def wait_view(bayplan: Extender, cluster: ControlPlane) -> None:
    """Wait until the server sees as many nodes and pods as there are."""
    want = len(cluster.api.items("nodes")), len(cluster.api.items("pods"))

    def seen() -> tuple[float, float]:
        return bayplan.metric("bayplan_view_nodes"), bayplan.metric("bayplan_view_pods")

    wait_until(
        lambda: seen() == want, 30, what=f"the view has {want} nodes and pods", explain=lambda: str(seen())
    )


def _waiting(cluster: ControlPlane) -> str:
    pods = [pod for pod in cluster.api.items("pods") if not pod["spec"].get("nodeName")]
    logs = [child.log_tail(60) for child in cluster.api.watched]
    return "\n".join([*(f"{pod['metadata']['name']}: {pod['status']}" for pod in pods[:5]), *logs])
