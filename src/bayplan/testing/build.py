"""Builders: keyword arguments in, the real objects out."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.kube.pod_keys import mistyped_keys
from bayplan.kube.quantity import amount
from bayplan.kube.yaml import suggest
from bayplan.snapshot.bynode import by_field
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.row import Node
from bayplan.snapshot.sources import Reading, Readings

_uids = itertools.count(1)
_Quantities = Mapping[str, str | int | float]


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: str | int | float | None = None,
    memory: str | int | float | None = None,
    requests: _Quantities | None = None,
    priority: int = 0,
    node: str | None = None,
    phase: str | None = None,
    owner: tuple[str, str] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    spec: Mapping[str, Any] | None = None,
) -> Pod:
    """A pod. ``node`` places it; ``owner`` is ``("Job", "nightly")``; ``spec`` adds anything else."""
    wanted = {"cpu": cpu, "memory": memory, **(requests or {})}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or f"uid-{next(_uids)}",
        "labels": _texts("label", labels),
        "annotations": _texts("annotation", annotations),
    }
    if owner:
        if isinstance(owner, str):
            raise TypeError(f"owner {owner!r}: want kind and name, such as ('Job', {owner!r})")
        reference = {"kind": owner[0], "name": owner[1], "uid": f"uid-of-{owner[0]}-{owner[1]}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    container: dict[str, Any] = {
        "name": "main",
        "resources": {"requests": {k: v for k, v in wanted.items() if v is not None}},
    }
    body: dict[str, Any] = {
        "containers": [container],
        "priority": priority,
        "tolerations": _objects("tolerations", tolerations, {"key": "dedicated", "operator": "Exists"}),
        **({"nodeName": node} if node else {}),
        **(spec or {}),
    }
    for steps, meant in mistyped_keys(body):
        key = ".".join(map(str, steps))
        raise ValueError(f"make_pod(): there is no {key}; did you mean {meant!r}?")
    status = {"phase": phase or ("Running" if node else "Pending")}
    pod = msgspec.convert({"metadata": metadata, "spec": body, "status": status}, Pod)
    _check_amounts(container["resources"]["requests"])
    return pod


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cpu: str | int | float = 4,
    memory: str | int | float = "16Gi",
    pods: int = 110,
    allocatable: _Quantities | None = None,
    taints: Sequence[Mapping[str, Any]] = (),
    unschedulable: bool = False,
    ready: bool = True,
    zone: str | None = None,
) -> Node:
    """A node, ``make_node("a", cpu=8, zone="z1")``: for `make_cluster`, or for a hook that takes ``node``."""
    quantities = {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})}
    every_label = _texts("label", labels)
    if zone is not None:
        every_label["topology.kubernetes.io/zone"] = zone
    body = {
        "metadata": {"name": name, "labels": every_label, "annotations": _texts("annotation", annotations)},
        "spec": {
            "taints": _objects("taints", taints, {"key": "dedicated", "effect": "NoSchedule"}),
            "unschedulable": unschedulable,
        },
        "status": {
            "allocatable": quantities,
            "capacity": quantities,
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }
    node = msgspec.convert(body, NodeObject)
    _check_amounts(quantities)
    return Snapshot.build([node], []).nodes.row(0)


def make_cluster(
    nodes: Iterable[Node | str],
    pods: Iterable[Pod] = (),
    *,
    sources: Mapping[str, Mapping[str, Any]] | None = None,
) -> Snapshot:
    """A cluster of these nodes (a name makes a plain one) with these pods in it.

    ``sources`` are values from outside, by source and node: ``{"p95": {"node-a": 0.2}}``.
    """
    if isinstance(nodes, str | Node):
        raise TypeError(f"make_cluster() wants a list of nodes, such as [{nodes!r}]; got {nodes!r} alone")
    if isinstance(pods, Pod):
        raise TypeError(f"make_cluster() wants a list of pods; got pod {pods.key} alone")
    made = [make_node(node) if isinstance(node, str) else node for node in nodes]
    names = [node.name for node in made]
    for source, values in (sources or {}).items():
        _check_values(source, values, names)
    cluster = Snapshot.build([node.object for node in made], pods)
    before = cluster.nodes.requested_now
    readings = {n: Reading(by_field(values), before=before) for n, values in (sources or {}).items()}
    return cluster.with_readings(Readings(readings))


def _check_amounts(quantities: _Quantities) -> None:
    """Raise `QuantityError` now, not only when a policy reads the value: a test would pass wrongly."""
    for resource, quantity in quantities.items():
        amount(resource, quantity)


def _check_values(source: str, values: Any, names: Sequence[str]) -> None:
    """Raise an error for values of an unknown node, without which a test would pass wrongly."""
    if not isinstance(values, Mapping):
        raise TypeError(f"source {source!r}: want values by node, such as {{'node-a': 0.2}}; got {values!r}")
    for name in values:
        if name not in names:
            hint = suggest(name, names)
            raise ValueError(f"source {source!r} has a value for {name!r}: no such node{hint}")


def _objects(
    what: str, given: Sequence[Mapping[str, Any]], example: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Taints or tolerations; raises ``TypeError`` for the notation of kubectl."""
    for one in given:
        if not isinstance(one, Mapping):
            raise TypeError(f"{what} are written as in a manifest, such as [{example!r}]; got {one!r}")
    return [dict(one) for one in given]


def _texts(what: str, given: Mapping[str, str] | None) -> dict[str, str]:
    """Labels or annotations; raises ``TypeError`` for a value that is no text, as the API server would."""
    found = dict(given or {})
    for key, value in found.items():
        if not isinstance(value, str):
            raise TypeError(f"{what} {key!r} is {value!r}: {what}s are text, write {str(value)!r}")
    return found
