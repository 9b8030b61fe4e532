"""GPU sharing on the real kube-scheduler: parts of GPUs, several to a pod, and never more than there is."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json
from tests.e2e.slices import check_verified

pytestmark = pytest.mark.e2e

MILLI, MEMORY, COUNT = "example.com/gpu-milli", "example.com/gpu-memory", "example.com/gpu-count"
INDEX = "example.com/gpu-index"
ARGS = {
    "resource": MILLI,
    "capacity": MILLI,
    "also": [{"resource": MEMORY, "capacity": MEMORY}],
    "deviceCount": {"resource": COUNT},
    "indexAnnotation": INDEX,
}


def extender(cluster: ControlPlane, directory: Path, **args: Any) -> Extender:
    config = {"policies": [{"use": "SharedResource", "args": {**ARGS, **args}}]}
    return Extender(cluster.api, directory, "", kubeconfig=cluster.kubeconfig, config=config)


def entry(bayplan: Extender) -> Json:
    """The extender as the page shows it: kube-scheduler leaves counting to us."""
    managed = [{"name": name, "ignoredByScheduler": True} for name in (MILLI, MEMORY, COUNT)]
    return {**bayplan.entry(bind=True), "managedResources": managed}


def create_gpu_node(cluster: ControlPlane, name: str, *, milli: str, memory: str) -> None:
    cluster.api.create("nodes", node_manifest(name, annotations={MILLI: milli, MEMORY: memory}))


def create_gpu_pod(cluster: ControlPlane, name: str, milli: int, memory: int, **given: Any) -> None:
    devices = given.pop("devices", 0)
    limits = {MILLI: str(milli), MEMORY: str(memory), **({COUNT: str(devices)} if devices else {})}
    cluster.api.create("pods", pod_manifest(name, limits=limits, **given))


def held(cluster: ControlPlane) -> dict[str, tuple[str, str, Json]]:
    """Node, index annotation and allocation of each pod that is bound."""
    found = {}
    for pod in cluster.api.items("pods"):
        if node := pod["spec"].get("nodeName"):
            notes = pod["metadata"]["annotations"]
            found[pod["metadata"]["name"]] = (node, notes[INDEX], json.loads(notes["bayplan.dev/allocation"]))
    return found


def test_a_pod_gets_parts_of_two_gpus_and_the_plugin_is_told_which(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    create_gpu_node(cluster, "one-gpu", milli="1000", memory="16000")
    create_gpu_node(cluster, "three-gpus", milli="3x1000", memory="8000,16000,16000")

    with extender(cluster, tmp_path) as bayplan, cluster.scheduler(extenders=[entry(bayplan)]):
        create_gpu_pod(cluster, "wide", 500, 12000, devices=2)

        assert cluster.api.wait_bound("wide") == "three-gpus"
        assert held(cluster)["wide"] == (
            "three-gpus",
            "1,2",
            {MILLI: {"1": 500, "2": 500}, MEMORY: {"1": 12000, "2": 12000}},
        )
        create_gpu_pod(cluster, "too-wide", 500, 12000, devices=2)
        said = cluster.api.wait_event("too-wide", "FailedScheduling")
        assert "1 no device has enough left, 1 too few devices have enough left" in said
        check_verified(bayplan)


def test_forty_pods_at_once_never_get_more_of_a_gpu_than_it_has(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    for number in range(3):
        create_gpu_node(cluster, f"n{number}", milli="2x1000", memory="2x600")
    for number in range(40):
        create_gpu_pod(cluster, f"p{number}", 250, 150)

    with extender(cluster, tmp_path) as bayplan, cluster.scheduler(extenders=[entry(bayplan)]):
        wait_until(lambda: len(held(cluster)) >= 24, 60, what="six GPUs have four pods each")
        for name in {f"p{number}" for number in range(40)} - held(cluster).keys():
            cluster.api.wait_event(name, "FailedScheduling", containing="3 no device has enough left")
        used: Counter[tuple[str, str, str]] = Counter()
        for node, index, allocation in held(cluster).values():
            for resource, devices in allocation.items():
                assert set(devices) == {index}
                used.update({(node, resource, device): amount for device, amount in devices.items()})

        assert len(held(cluster)) == 24
        assert {(resource, amount) for (_, resource, _), amount in used.items()} == {
            (MILLI, 1000),
            (MEMORY, 600),
        }
        check_verified(bayplan)


def test_a_mistyped_annotation_is_told_to_whoever_wrote_it(cluster: ControlPlane, tmp_path: Path) -> None:
    create_gpu_node(cluster, "n1", milli="4x1000", memory="4x16000")
    by_annotation = {"deviceCount": {"annotation": COUNT}}

    with (
        extender(cluster, tmp_path, **by_annotation) as bayplan,
        cluster.scheduler(extenders=[entry(bayplan)]),
    ):
        create_gpu_pod(cluster, "mistyped", 500, 100, annotations={"example.com/gpu-cuont": "2"})
        create_gpu_pod(cluster, "right", 500, 100, annotations={COUNT: "2"})

        said = cluster.api.wait_event("mistyped", "FailedScheduling")
        assert f"1 pod has no annotation {COUNT}, but one that is nearly it" in said
        assert cluster.api.wait_bound("right") == "n1"
        assert held(cluster)["right"][1] == "0,1"
