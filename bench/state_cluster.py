"""A large cluster as the API server sends it: lines of a watch, made as they are needed.

A pod is as a Deployment and a kubelet leave it, with who manages which field, some 4.5 KB; a node is one of
the wire benchmark, some 12.4 KB. What differs from one to the next is what differs in a cluster.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from bench.wire_requests import make_node, node_name

APPS, RACKS = 500, 50
_SEED = 7
_SINCE = "2026-01-01T00:00:00Z"
_IMAGE = "registry.example.com/team/service"
_NUMBER, _APP, _NODE, _VERSION, _REVISION = _PLACES = "@number@", "@app@", "@node@", "@version@", "@revision@"


def pod_bytes(number: int, *, node: str, version: int = 1) -> bytes:
    """A pod; odd and even versions of it have different labels."""
    values = {
        _NUMBER: b"%06d" % number,
        _APP: b"%d" % (number % APPS),
        _NODE: node.encode(),
        _VERSION: b"%d" % version,
        _REVISION: b"%d" % (version % 2),
    }
    return b"".join([values.get(place, text) for place, text in _POD])


def changing_pods(nodes: int, pods: int) -> Iterator[bytes]:
    """Pods that change where they are, in no order and without end; each has another label than it had."""
    dice = random.Random(_SEED)  # noqa: S311 - the same each time
    last: dict[int, int] = {}
    version = 1
    while True:
        number = dice.randrange(pods)
        # Odd and even versions have different labels.
        version += 2 if (version + 1) % 2 == last.get(number, 1) % 2 else 1
        last[number] = version
        yield pod_bytes(number, node=home_of(number, nodes), version=version)


def node_bytes(number: int) -> bytes:
    """A node."""
    made = make_node(number, images=True)
    made["metadata"]["labels"]["rack"] = f"r{number % RACKS}"
    return json.dumps({"kind": "Node", "apiVersion": "v1", **made}, separators=(",", ":")).encode()


def home_of(number: int, nodes: int) -> str:
    """The name of the node that a pod is on."""
    return node_name(number % nodes)


def event(kind: str, item: bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), item)


def end_of_list(kind: str) -> bytes:
    """The bookmark that says: this was everything there is."""
    metadata = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
    item = {"kind": kind, "apiVersion": "v1", "metadata": metadata}
    return event("BOOKMARK", json.dumps(item).encode())


def _pod() -> dict[str, Any]:
    metadata = {
        "name": f"app-{_APP}-7d4b9c6f5d-{_NUMBER}",
        "generateName": f"app-{_APP}-7d4b9c6f5d-",
        "namespace": "default",
        "uid": f"00000000-0000-4000-9000-000000{_NUMBER}",
        "resourceVersion": _VERSION,
        "creationTimestamp": _SINCE,
        "labels": {"app": f"app-{_APP}", "pod-template-hash": "7d4b9c6f5d", "revision": _REVISION},
        "annotations": {"example.com/restarted-at": _SINCE},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"app-{_APP}-7d4b9c6f5d",
                "uid": f"00000000-0000-4000-8000-00000000{_APP}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            _managed(
                "kube-controller-manager", ("metadata", "labels"), ("spec", "containers", "tolerations")
            ),
            _managed("kubelet", ("status", "conditions", "containerStatuses"), ("status", "podIP", "podIPs")),
        ],
    }
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": _spec(), "status": _status()}


def _managed(manager: str, *paths: tuple[str, ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for top, *below in paths:
        parts = ("image", "imagePullPolicy", "resources", "terminationMessagePath", "lastTransitionTime")
        inner: dict[str, Any] = {
            f"f:{part}": {".": {}, **{f"f:{each}": {} for each in parts}} for part in below
        }
        fields.setdefault(f"f:{top}", {}).update(inner)
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _SINCE}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields}


def _spec() -> dict[str, Any]:
    token = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - where one is, not what it is
    missing = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute"}
        for why in ("not-ready", "unreachable")
    ]
    container = {
        "name": "main",
        "image": f"{_IMAGE}:v1",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(6)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "kube-api-access", "readOnly": True, "mountPath": token}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    return {
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": []}}],
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "nodeName": _NODE,
        "schedulerName": "default-scheduler",
        "tolerations": [{**each, "tolerationSeconds": 300} for each in missing],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _status() -> dict[str, Any]:
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ran = {
        "name": "main",
        "state": {"running": {"startedAt": _SINCE}},
        "ready": True,
        "restartCount": 0,
        "image": f"{_IMAGE}:v1",
        "imageID": f"{_IMAGE}@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 58}{_NUMBER}",
        "started": True,
    }
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": _SINCE} for kind in kinds],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": _SINCE,
        "containerStatuses": [ran],
        "qosClass": "Burstable",
    }


# Cut where something is filled in: joining is far quicker than formatting.
_CUT = re.split(f"({'|'.join(_PLACES)})", json.dumps(_pod(), separators=(",", ":")))
_POD = [(text, text.encode()) for text in _CUT]
