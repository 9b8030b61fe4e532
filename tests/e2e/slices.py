"""The resource that faults are tried on: slices of a node's devices, one for each pod."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender, Json

MEMORY = "example.com/gpu-memory"
SLICE = 250
NO_SLICE = "no device has enough left"
ARGS = {"resource": MEMORY, "capacity": "example.com/gpus"}
SHARED = {"use": "SharedResource", "args": ARGS}

Slice = tuple[str, int]
"""The node, and the number of the device on it: a device has room for one pod."""


def bayplan_with_slices(
    cluster: ControlPlane,
    directory: Path,
    *,
    kubeconfig: Path | None = None,
    nodes: Literal["pack", "spread"] = "pack",
    also: Sequence[Mapping[str, Any]] = (),
    limits: Mapping[str, str] | None = None,
    nudge: bool = False,
) -> Extender:
    """A server that hands out slices; `also` are further policies."""
    config: Json = {"policies": [{**SHARED, "args": {**ARGS, "nodes": nodes}}, *also]}
    if limits:
        config["extender"] = {"limits": dict(limits)}
    if nudge:
        config["cluster"] = {"nudge": {"enabled": True, "qps": 50, "interval": "1s"}}
    return Extender(cluster.api, directory, "", kubeconfig=kubeconfig or cluster.kubeconfig, config=config)


def create_slices(cluster: ControlPlane, *, nodes: int, each: int) -> int:
    """So many nodes with so many slices each; how many slices there are.

    Of the resource itself, which kube-scheduler counts, there is plenty: Bayplan alone keeps count.
    """
    for number in range(nodes):
        devices = {"example.com/gpus": f"{each}x{SLICE}"}
        manifest = node_manifest(
            f"n{number}", annotations=devices, extended={MEMORY: "1000000"}, cpu="1000", pods=1000
        )
        cluster.api.create("nodes", manifest)
    return nodes * each


def create_owners(cluster: ControlPlane, numbers: range) -> None:
    """Pods that want a slice each, on a connection of their own."""
    with Client(cluster.server, cluster.ca.cert, token=cluster.admin_token) as client:
        for number in numbers:
            client.create("pods", pod_manifest(f"p{number}", limits={MEMORY: str(SLICE)}))


def owners(cluster: ControlPlane) -> dict[str, Slice]:
    """The slice of each pod that is bound; nobody may be bound without one."""
    found = {}
    for pod in cluster.api.items("pods"):
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        note = pod["metadata"].get("annotations", {}).get("bayplan.dev/allocation")
        assert bool(note) == bool(node), f"{name} is on {node or 'no node'} with {note or 'no slice'}"
        if note:
            ((device, amount),) = json.loads(note)[MEMORY].items()
            assert amount == SLICE
            found[name] = (node, int(device))
    return found


def wait_owners(cluster: ControlPlane, count: int, timeout_seconds: float = 60) -> dict[str, Slice]:
    """Wait until so many slices have an owner; each has one only."""

    def explain() -> str:
        told = list(reasons(cluster).items())[:3]
        logs = [child.log_tail(40) for child in cluster.api.watched]
        return "\n".join([f"{len(owners(cluster))} have; some that wait: {told}", *logs])

    wait_until(
        lambda: len(owners(cluster)) >= count,
        timeout_seconds,
        what=f"{count} slices have an owner",
        explain=explain,
        poll_seconds=0.1,
    )
    return check_owned_once(cluster, count)


def check_owned_once(cluster: ControlPlane, count: int) -> dict[str, Slice]:
    """Exactly so many slices have an owner, and no slice has two."""
    found = owners(cluster)
    assert len(found) == count, f"{len(found)} slices have an owner, want {count}"
    twice = [there for there, pods in Counter(found.values()).items() if pods > 1]
    assert not twice, f"owned twice: {twice}"
    return found


def reasons(cluster: ControlPlane) -> dict[str, str]:
    """What kube-scheduler says on each pod that waits; ``""`` where it has said nothing yet."""
    found = {}
    for pod in cluster.api.items("pods"):
        if not pod["spec"].get("nodeName"):
            said = {each["type"]: each for each in pod["status"].get("conditions", [])}
            found[pod["metadata"]["name"]] = said.get("PodScheduled", {}).get("message", "")
    return found


def wait_told(cluster: ControlPlane, *, waiting: int, nodes: int, timeout_seconds: float = 60) -> None:
    """Wait until every pod that waits says that no node has a slice for it."""
    want = f"{nodes} {NO_SLICE}"

    def untold() -> dict[str, str]:
        return {name: said for name, said in reasons(cluster).items() if want not in said}

    wait_until(
        lambda: not untold(),
        timeout_seconds,
        what=f"every pod that waits says {want!r}",
        explain=lambda: str(list(untold().items())[:5]),
        poll_seconds=0.1,
    )
    assert (found := len(reasons(cluster))) == waiting, f"{found} pods wait, want {waiting}"


def check_verified(bayplan: Extender) -> None:
    """The server's view is what the API server has, and nothing is in the air."""
    wait_until(
        lambda: bayplan.metric("bayplan_assumed_pods") == 0,
        30,
        what="every assumption has become a fact",
        explain=bayplan.child.log_tail,
    )
    status, text = bayplan.ops("/verify")
    assert status == 200, text
    drift = json.loads(text)["drift"]
    assert not drift, drift[:5]
