"""Parts of a byte that several containers ask for: both round the sum, and agree to the byte."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import ControlPlane
from tests.parity.draw import Json
from tests.parity.run import both
from tests.parity.world import World


def _node(name: str, memory: str) -> Json:
    amounts = {"cpu": "4", "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": amounts, "allocatable": amounts, "images": []},
    }


@pytest.mark.e2e
def test_the_sum_is_rounded_and_not_its_parts(cluster: ControlPlane) -> None:
    tenth = {"image": "registry.example/none", "resources": {"requests": {"memory": "0.1Gi"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "tenths", "namespace": "default"},
        "spec": {"containers": [{"name": "one", **tenth}, {"name": "two", **tenth}]},
    }
    # Twice 107374182.4 bytes.
    world = World((_node("enough", "214748365"), _node("too-small", "214748364")))

    with both(cluster, seed=0) as run:
        kube, ours, differences = run.judge(world, pod)

    assert differences == []
    assert kube.feasible == ours.feasible == {"enough"}
