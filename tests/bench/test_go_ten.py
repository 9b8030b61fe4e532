"""The extender in Go with ten rules says what Bayplan says with the ten policies that it is compared with."""

from __future__ import annotations

import contextlib
import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.cluster_variants import GO_TEN, VARIANTS, Asked, asked
from tests.bench.go_peer import require_go
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane

SSD = {"disk": "ssd"}


def _nodes() -> list[dict[str, Any]]:
    """Nodes that differ in whatever the rules look at."""
    plain = [
        node_manifest(
            f"node-{number}",
            labels={
                "disk": "ssd" if number % 4 else "hdd",
                "topology.kubernetes.io/zone": "ab"[number % 2],
                "example.com/points": str(number % 13),
                "example.com/label-05": f"value-{number % 3}",
            },
            cpu=str(8 + number % 3),
        )
        for number in range(20)
    ]
    return [
        *plain,
        node_manifest("bare", labels=SSD),
        node_manifest("cordoned", labels=SSD, unschedulable=True),
        node_manifest("down", labels=SSD, ready=False),
        node_manifest("going", labels={**SSD, "example.com/retiring": "true"}),
        node_manifest("small", labels=SSD, memory="200Mi"),
        node_manifest("crowded", labels=SSD, pods=200),
    ]


def _pods() -> list[dict[str, Any]]:
    """Pods on them; two have ended, and one waits."""
    on_nodes = [
        pod_manifest(
            f"pod-{number}",
            cpu="500m",
            memory="1Gi",
            labels={"app": f"app-{number % 2}"},
            node_name=f"node-{number % 9}",
        )
        for number in range(30)
    ]
    crowd = [pod_manifest(f"crowd-{number}", node_name="crowded") for number in range(100)]
    return [*on_nodes, *crowd, pod_manifest("waits", cpu="4")]


@pytest.mark.e2e
def test_both_answer_alike(cluster: ControlPlane, tmp_path: Path) -> None:
    require_go("ten")
    nodes = _nodes()
    for node in nodes:
        cluster.api.create("nodes", node)
    for pod in _pods():
        cluster.api.create("pods", pod)
    for name in ("pod-3", "pod-4"):
        cluster.api.set_phase(name, "Succeeded")
    names = [node["metadata"]["name"] for node in nodes]

    ours, theirs = (_answers(cluster, key, names, tmp_path / key) for key in ("ten", GO_TEN))

    assert theirs == ours
    assert set(theirs["refused"].values()) == {
        "node has no SSD",
        "node is not in service",
        "node is to be taken away",
        "memory would be over 95 %",
        "node has 100 pods",
    }
    assert len(set(theirs["scores"].values())) > 3, "scores that tell nodes apart"


def _answers(plane: ControlPlane, key: str, names: list[str], folder: Path) -> dict[str, Any]:
    """Who passes, why others do not, and how good those are that pass."""
    folder.mkdir()
    variant = next(variant for variant in VARIANTS if variant.key == key)
    with asked(variant, plane, folder=folder, nodes=folder) as peer:
        assert peer is not None
        filtered = _post(peer, "filter", [*names])
        # Asked again: what nobody reads is told to whoever comes a second time.
        filtered = _post(peer, "filter", [*names])
        scored = _post(peer, "prioritize", filtered["NodeNames"])
    unresolvable = filtered.get("FailedAndUnresolvableNodes") or {}
    return {
        "passed": filtered["NodeNames"],
        "refused": {**filtered["FailedNodes"], **unresolvable},
        "scores": {line["Host"]: line["Score"] for line in scored},
    }


def _post(peer: Asked, verb: str, names: list[str]) -> Any:
    address = urlsplit(peer.entry["urlPrefix"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    pod = pod_manifest("asks", cpu="1", memory="256Mi", labels={"app": "app-1"})
    pod["metadata"]["uid"] = "uid-of-asks"
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
    with contextlib.closing(connection):
        connection.request("POST", f"/{peer.entry[f'{verb}Verb']}", body)
        return json.load(connection.getresponse())
