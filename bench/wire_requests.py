"""What the wire benchmark sends: nodes as a cloud has them, and requests as kube-scheduler makes them.

A third of the nodes has an SSD. A full node is about 12.4 KB: 50 images with two names each, and 22 labels.
The names come in several orders, since kube-scheduler begins elsewhere each time.
"""

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IMAGES, _LABELS = 50, 22
_ORDERS = 4
_SINCE = "2026-01-01T00:00:00Z"
_CONDITIONS = {
    "MemoryPressure": "kubelet has sufficient memory available",
    "DiskPressure": "kubelet has no disk pressure",
    "PIDPressure": "kubelet has sufficient PID available",
    "Ready": "kubelet is posting ready status",
}


def make_node(number: int, *, images: bool) -> dict[str, Any]:
    """A node as the API server has it."""
    name = node_name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"region-1{'abc'[number % 3]}",
        "disk": "ssd" if number % 3 == 0 else "hdd",
        "example.com/points": str(number * 7 % 11),
    }
    labels |= {f"example.com/label-{n:02}": f"value-{number % (n + 2)}" for n in range(_LABELS - len(labels))}
    room = {"cpu": "64", "memory": "263856132Ki", "pods": "110", "ephemeral-storage": "203056560Ki"}
    return {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": _SINCE,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"cloud:///{name}"},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [
                {
                    "type": kind,
                    "status": str(kind == "Ready"),
                    "lastHeartbeatTime": _SINCE,
                    "lastTransitionTime": _SINCE,
                    "reason": "Kubelet",
                    "message": message,
                }
                for kind, message in _CONDITIONS.items()
            ],
            "addresses": [
                {"type": "InternalIP", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": f"{number:032x}",
                "systemUUID": f"{number:032x}",
                "bootID": f"{number:032x}",
                "kernelVersion": "6.12.0",
                "osImage": "Linux",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": "v1.36.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "images": [_image(number + n) for n in range(_IMAGES)] if images else [],
        },
    }


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:05}.region-1.example.internal"


def write_snapshot(file: Path, nodes: list[dict[str, Any]]) -> None:
    """The nodes in a file, as kubectl prints them."""
    items = [{"kind": "Node", "apiVersion": "v1", **node} for node in nodes]
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))


@dataclass(frozen=True)
class Requests:
    """Bodies of one size: the pod is another one each time."""

    names: list[str]
    rests: list[bytes]
    """What follows the pod, in each order."""

    def bodies(self, start: int = 0) -> Iterator[tuple[bytes, bytes]]:
        """The two parts of one request after the other, for ever."""
        number = start
        while True:
            yield _pod(number), self.rests[number % len(self.rests)]
            number += 1


def names_only(nodes: list[dict[str, Any]]) -> Requests:
    """What kube-scheduler sends with ``nodeCacheCapable: true``."""
    names = [node["metadata"]["name"] for node in nodes]
    orders = [random.Random(seed).sample(names, len(names)) for seed in range(_ORDERS)]  # noqa: S311
    rests = [f',"Nodes":null,"NodeNames":{_compact(order)}}}'.encode() for order in orders]
    return Requests(names, rests)


def full_nodes(nodes: list[dict[str, Any]]) -> Requests:
    """What it sends without."""
    names = [node["metadata"]["name"] for node in nodes]
    rest = f',"Nodes":{{"metadata":{{}},"items":{_compact(nodes)}}},"NodeNames":null}}'
    return Requests(names, [rest.encode()])


def _pod(number: int) -> bytes:
    """No two of them are alike: each is of an application of its own."""
    pod = {
        "metadata": {
            "name": f"web-{number:08}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-9000-{number:012}",
            "resourceVersion": "207",
            "creationTimestamp": _SINCE,
            "labels": {"app": f"web-{number}"},
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "example.com/web:1",
                    "resources": {"requests": {"cpu": "1", "memory": "128Mi"}},
                    "imagePullPolicy": "Always",
                }
            ],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "priority": 0,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return f'{{"Pod":{_compact(pod)}'.encode()


def _image(number: int) -> dict[str, Any]:
    name = f"registry.example.com/team-{number % 40}/service-{number % 300}"
    digest = hashlib.sha256(str(number % 300).encode()).hexdigest()
    return {"names": [f"{name}@sha256:{digest}", f"{name}:v1.{number % 30}.0"], "sizeBytes": 10**7 + number}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
