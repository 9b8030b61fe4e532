"""More pods than slices: every slice is owned once, and a slice that is freed finds a new owner."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

pytestmark = pytest.mark.e2e

MEMORY = "example.com/gpu-memory"
NODES, DEVICES, SLICES_A_DEVICE, PODS = 5, 2, 4, 60
SLICES = NODES * DEVICES * SLICES_A_DEVICE

CONFIG = {
    "policies": [
        {"use": "SharedResource", "args": {"resource": MEMORY, "capacity": "example.com/gpus"}},
    ]
}


def test_slices_are_owned_once_and_given_back(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    for number in range(NODES):
        api.create_node(
            f"n{number}",
            annotations={"example.com/gpus": ",".join(["1000"] * DEVICES)},
            extended={MEMORY: "1000000"},
        )
    for number in range(PODS):
        api.create_pod(f"p{number}", limits={MEMORY: "250"})

    extender = Extender(api, tmp_path, "", kubeconfig=cluster.kubeconfig, config=CONFIG)
    with extender as bayplan, cluster.scheduler(extenders=[bayplan.entry(bind=True)]):
        wait_until(lambda: len(owners(cluster)) == SLICES, 90, what="every slice has an owner")
        assert_owned_once(cluster)
        waiting = next(f"p{number}" for number in range(PODS) if f"p{number}" not in owners(cluster))
        api.wait_event(waiting, "FailedScheduling", containing="5 no device has enough left")

        for name in list(owners(cluster))[:10]:
            api.delete("pods", name)
        wait_until(lambda: len(owners(cluster)) == SLICES, 90, what="the freed slices have owners again")
        assert_owned_once(cluster)
        refused = bayplan.requests("bind", result="error")
        print(f"\n{PODS} pods for {SLICES} slices: each owned once; {refused} binds were refused on the way")


def owners(cluster: ControlPlane) -> dict[str, tuple[str, int]]:
    """Node and device by pod, of those that have one."""
    found = {}
    for pod in cluster.api.items("pods"):
        note = pod["metadata"].get("annotations", {}).get("bayplan.dev/allocation")
        if note and pod["spec"].get("nodeName"):
            ((device, amount),) = json.loads(note)[MEMORY].items()
            assert amount == 250
            found[pod["metadata"]["name"]] = (pod["spec"]["nodeName"], int(device))
    return found


def assert_owned_once(cluster: ControlPlane) -> None:
    bound = [pod for pod in cluster.api.items("pods") if pod["spec"].get("nodeName")]
    assert len(bound) == len(owners(cluster)), "nobody is bound without a slice"
    assert max(Counter(owners(cluster).values()).values()) <= SLICES_A_DEVICE
