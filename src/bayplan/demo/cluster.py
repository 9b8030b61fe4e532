"""Forty mixed nodes in three zones, and the pods that want to run on them. The same each time."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

_ZONES = ("north-a", "north-b", "north-c")
# kind, how many, CPU, memory, price an hour, labels, other resources
_KINDS: tuple[tuple[str, int, int, str, float, dict[str, str], dict[str, str]], ...] = (
    ("general", 16, 8, "32Gi", 0.38, {}, {}),
    ("spot", 10, 8, "32Gi", 0.11, {"capacity": "spot"}, {}),
    ("memory", 8, 8, "64Gi", 0.50, {"disk": "ssd"}, {}),
    ("gpu", 6, 16, "64Gi", 3.06, {"disk": "ssd"}, {"nvidia.com/gpu": "2"}),
)
# workload, how often, CPU, memory, labels, other requests
_WORKLOADS: tuple[tuple[str, int, str, str, dict[str, str], dict[str, str]], ...] = (
    ("web", 45, "500m", "512Mi", {"tier": "web"}, {}),
    ("batch", 30, "2", "2Gi", {"tier": "batch"}, {}),
    ("db", 13, "1", "8Gi", {"tier": "db", "disk": "ssd"}, {}),
    ("train", 18, "4", "16Gi", {"tier": "ml"}, {"nvidia.com/gpu": "1"}),
)


def make_nodes() -> list[NodeObject]:
    """The nodes of the demo."""
    nodes = []
    for kind, count, cpu, memory, price, labels, extended in _KINDS:
        for number in range(1, count + 1):
            quantities = {"cpu": str(cpu), "memory": memory, "pods": "110", **extended}
            body: dict[str, Any] = {
                "metadata": {
                    "name": f"{kind}-{number:02}",
                    "labels": {
                        "kubernetes.io/hostname": f"{kind}-{number:02}",
                        "topology.kubernetes.io/zone": _ZONES[number % len(_ZONES)],
                        "node.kubernetes.io/instance-type": kind,
                        "example.com/price-per-hour": str(price),
                        **labels,
                    },
                },
                "status": {
                    "allocatable": quantities,
                    "capacity": quantities,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            nodes.append(msgspec.convert(body, NodeObject))
    return nodes


def make_pods(count: int, *, seed: int = 7) -> Iterator[Pod]:
    """A stream of pods, mixed by the weights above."""
    dice = random.Random(seed)  # noqa: S311 - the same stream each time is the point
    weights = [workload[1] for workload in _WORKLOADS]
    for number in range(1, count + 1):
        name, _, cpu, memory, labels, extended = dice.choices(_WORKLOADS, weights)[0]
        requests = {"cpu": cpu, "memory": memory, **extended}
        body = {
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": "demo",
                "uid": f"00000000-0000-4000-8000-{number:012}",
                "labels": {"app": name, **labels},
            },
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
            "status": {"phase": "Pending"},
        }
        yield msgspec.convert(body, Pod)
