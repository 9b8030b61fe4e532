"""Nodes and pods as the API server wants them, from a few keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]

NOTHING: Mapping[str, str] = {}


def node_manifest(
    name: str,
    *,
    labels: Mapping[str, str] = NOTHING,
    annotations: Mapping[str, str] = NOTHING,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: int = 110,
    extended: Mapping[str, str] = NOTHING,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    ready: bool = True,
    internal_ip: str | None = None,
) -> Json:
    """A Node with its status: a kubelet, too, registers with both in one request."""
    amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **extended}
    addresses = [{"type": "Hostname", "address": name}]
    if internal_ip is not None:
        addresses.append({"type": "InternalIP", "address": internal_ip})
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "made for a test",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **labels},
            "annotations": dict(annotations),
        },
        "spec": {"unschedulable": unschedulable, "taints": [dict(taint) for taint in taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [condition],
            "addresses": addresses,
        },
    }


def pod_manifest(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] = NOTHING,
    annotations: Mapping[str, str] = NOTHING,
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, str] = NOTHING,
    limits: Mapping[str, str] = NOTHING,
    priority_class: str | None = None,
    scheduler_name: str = "default-scheduler",
    node_name: str | None = None,
    node_selector: Mapping[str, str] = NOTHING,
    tolerations: Sequence[Mapping[str, str]] = (),
    scheduling_gates: Sequence[str] = (),
    spec: Mapping[str, Any] = NOTHING,
) -> Json:
    """A pod with one container; `spec` is laid over what the other arguments make.

    Extended resources that are requested are limited to the same amount, as Kubernetes demands.
    The grace period is 0: nobody here would end a longer one, so victims would never go away.
    """
    asked = {"cpu": cpu, "memory": memory, **requests}
    wanted = {key: amount for key, amount in asked.items() if amount is not None}
    extended = {key: amount for key, amount in wanted.items() if "/" in key}
    container = {
        "name": "main",
        "image": "registry.example/none",
        "resources": {"requests": wanted, "limits": {**extended, **limits}},
    }
    built: Json = {
        "containers": [container],
        "schedulerName": scheduler_name,
        "nodeSelector": dict(node_selector),
        "terminationGracePeriodSeconds": 0,
        "tolerations": [dict(toleration) for toleration in tolerations],
        "schedulingGates": [{"name": gate} for gate in scheduling_gates],
    }
    if priority_class is not None:
        built["priorityClassName"] = priority_class
    if node_name is not None:
        built["nodeName"] = node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
        "spec": {**built, **spec},
    }
