"""Example nodes and pods for a dry run."""

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot


def example_cluster(count: int) -> Snapshot:
    """A few plain nodes with a pod on each."""
    pods = [plain_pod(f"victim-{number}", node=f"rehearsal-{number}") for number in range(count)]
    return Snapshot.build([_node(number) for number in range(count)], pods)


def plain_pod(name: str = "rehearsal", *, node: str | None = None) -> Pod:
    """A pod with small requests, and neither labels nor an owner."""
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"containers": [container], "nodeName": node, "priority": 0},
            "status": {"phase": "Running" if node else "Pending"},
        },
        Pod,
    )


def _node(number: int) -> NodeObject:
    quantities = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": f"rehearsal-{number}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 2}",
    }
    return msgspec.convert(
        {
            "metadata": {"name": f"rehearsal-{number}", "uid": f"node-{number}", "labels": labels},
            "status": {
                "allocatable": quantities,
                "capacity": quantities,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        NodeObject,
    )
