"""Ways to bind a pod: straight at the API server, and through servers that check or hand out at bind."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.bind_caller import Answer, Place, post
from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.parallel import in_parallel
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender

DIRECT, CHECKS, HANDS_OUT = "API server alone", "Bayplan, checks at bind", "Bayplan, hands out devices"
APPS = 50
_RESOURCE, _CAPACITY = "example.com/gpu-memory", "example.com/gpus"
# Large enough for every pod of the benchmark: a refusal would be a bind that costs nothing.
_DEVICES, _ROOM, _MOST = "8x64000", "10", 10_000
_CHECK = f"""
    import bayplan

    APP = bayplan.PodLabel("app")
    ENOUGH = bayplan.Reason("enough pods of the app are on the node")

    @bayplan.filter(recheck=True)
    def not_too_many(pod, nodes):
        return ENOUGH.where(nodes.count(APP.same_as(pod)) >= {_MOST})
"""


@dataclass(frozen=True)
class Pod:
    """A pod that is there and waits, and the node it is to be bound to."""

    name: str
    uid: str
    node: str


@dataclass(frozen=True)
class Way:
    """How to bind."""

    name: str
    place: Place
    request: Callable[[Pod], bytes]
    check: Callable[[Answer], str]
    """What is wrong with an answer; nothing where the pod is bound."""
    pid: int | None
    """Of the server between the caller and the API server, where there is one."""
    devices: bool = False
    """Whether its pods ask for some of a device. A device that others gave away is nobody's to count."""


class World:
    """A cluster with nodes that have devices, and pods as they are needed."""

    def __init__(self, plane: ControlPlane, nodes: int) -> None:
        self._plane = plane
        self._nodes = nodes
        self._extenders: list[Extender] = []
        self.made = 0

        def create(client: Client, number: int) -> None:
            manifest = node_manifest(f"n{number}", annotations={_CAPACITY: _DEVICES}, pods=10_000)
            client.create("nodes", manifest)

        in_parallel(plane, range(nodes), create)

    @contextlib.contextmanager
    def ways(self, folder: Path) -> Iterator[list[Way]]:
        """All of them, with their servers."""
        shared = {"use": "SharedResource", "args": {"resource": _RESOURCE, "capacity": _CAPACITY}}
        with contextlib.ExitStack() as stack:
            checks = self._extender(folder, "checks", _CHECK)
            hands_out = self._extender(folder, "hands-out", "", policies=[shared])
            for extender in (checks, hands_out):
                self._extenders.append(stack.enter_context(extender))
            yield [
                self._direct(),
                _through(CHECKS, checks),
                replace(_through(HANDS_OUT, hands_out), devices=True),
            ]

    def create_pods(self, count: int, *, devices: bool) -> list[Pod]:
        """So many that wait."""

        def create(client: Client, number: int) -> Pod:
            manifest = pod_manifest(
                f"p{number}",
                cpu="10m",
                labels={"app": f"app-{number % APPS}"},
                requests={_RESOURCE: _ROOM} if devices else {},
                scheduler_name="nobody",
            )
            uid = client.create("pods", manifest)["metadata"]["uid"]
            return Pod(f"p{number}", uid, f"n{number % self._nodes}")

        pods = in_parallel(self._plane, range(self.made, self.made + count), create)
        self.made += count
        return pods

    def wait_seen(self) -> None:
        """Until all servers know all pods, and were asked to filter, as kube-scheduler asks before a bind."""
        pod = self._plane.api.get("pods", f"p{self.made - 1}")
        names = [f"n{number}" for number in range(self._nodes)]
        pod["spec"]["containers"][0]["resources"] = {"requests": {_RESOURCE: _ROOM}}
        for extender in self._extenders:
            extender.wait_metric(self.made, "bayplan_view_pods")
            said = extender.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
            assert not said["Error"], said["Error"]
            assert len(said["NodeNames"]) == self._nodes, "there is not room for all"

    def bound(self) -> int:
        """How many pods have a node, as the API server has it."""
        return sum(1 for pod in self._plane.api.items("pods") if pod["spec"].get("nodeName"))

    def _extender(self, folder: Path, name: str, policy: str, **config: Any) -> Extender:
        # Each its own Lease: both are there at once, and each is the one that binds.
        lease = {"extender": {"lease": {"name": name}}}
        kubeconfig = self._plane.kubeconfig
        return Extender(
            self._plane.api, folder, policy, name=name, kubeconfig=kubeconfig, config={**lease, **config}
        )

    def _direct(self) -> Way:
        port = int(self._plane.server.rpartition(":")[2])
        place = Place(port, ssl.create_default_context(cafile=str(self._plane.ca.cert)))
        token = self._plane.admin_token

        def request(pod: Pod) -> bytes:
            path = f"/api/v1/namespaces/default/pods/{pod.name}/binding"
            return post(path, binding(pod), port=port, token=token)

        return Way(DIRECT, place, request, lambda said: "" if said.status == 201 else str(said), pid=None)


def binding(pod: Pod) -> bytes:
    """What the API server wants, as kube-scheduler and Bayplan send it."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": "default", "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": pod.node},
    }
    return json.dumps(body).encode()


def _through(name: str, extender: Extender) -> Way:
    def request(pod: Pod) -> bytes:
        body = {"PodName": pod.name, "PodNamespace": "default", "PodUID": pod.uid, "Node": pod.node}
        return post("/bind", json.dumps(body).encode(), port=extender.port)

    return Way(name, Place(extender.port), request, refusal, pid=extender.child.pid)


def refusal(said: Answer) -> str:
    """What a bind verb's answer says is wrong."""
    if said.status != 200:
        return str(said)
    error: str = json.loads(said.body)["Error"]
    return error


def requests_for(way: Way, pods: Sequence[Pod]) -> list[bytes]:
    """The bytes, before any clock runs."""
    return [way.request(pod) for pod in pods]
