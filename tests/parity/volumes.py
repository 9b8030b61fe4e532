"""Storage objects as the API server wants them, and the same as Bayplan reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from bayplan import Reason
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.objects import Objects
from bayplan.snapshot.row import Node
from bayplan.testing import Result

Json = dict[str, Any]

NOTHING: Mapping[str, Any] = {}
DRIVER = "csi.example"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
BOUND = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_STORAGE = "storage.k8s.io/v1"


def cluster_of(
    nodes: Iterable[Node], manifests: Iterable[Mapping[str, Any]], pods: Iterable[Pod] = ()
) -> Snapshot:
    """A cluster of these nodes and pods, with the storage objects of these manifests."""
    found = ((one["kind"], msgspec.convert(one, OBJECT_KINDS[one["kind"]].part)) for one in manifests)
    return Snapshot.build([node.object for node in nodes], pods, Objects.of(found))


def reason_of(result: Result, row: int = 0) -> Reason:
    """Why the node of that row was refused."""
    refusal = result.filtered.refusal(row)
    assert refusal is not None
    return refusal.reason


def mounting(*claims: str) -> Json:
    """The ``spec`` of a pod that mounts these claims."""
    volumes = [
        {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    return {"volumes": volumes}


def ephemeral(name: str, *, storage_class: str = "waits") -> Json:
    """The ``spec`` of a pod with one volume that is made for it."""
    template = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"volumes": [{"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": template}}}]}


def storage_class(
    name: str = "waits",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    immediate: bool = False,
    zones: Sequence[str] = (),
) -> Json:
    """A StorageClass; ``zones`` are those that it makes volumes in."""
    made: Json = {
        "apiVersion": _STORAGE,
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "Immediate" if immediate else "WaitForFirstConsumer",
    }
    if zones:
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return made


def claim(
    name: str,
    *,
    storage_class: str | None = "waits",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    volume: str = "",
    phase: str = "",
    uid: str = "",
    annotations: Mapping[str, str] = NOTHING,
    owner: Mapping[str, Any] = NOTHING,
    spec: Mapping[str, Any] = NOTHING,
) -> Json:
    """A claim. With ``volume`` it is bound to that one, as a controller leaves it."""
    marks = {BOUND: "yes", **annotations} if volume else dict(annotations)
    made: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec},
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }
    if uid:
        made["metadata"]["uid"] = uid
    if owner:
        made["metadata"]["ownerReferences"] = [dict(owner)]
    if storage_class is not None:
        made["spec"]["storageClassName"] = storage_class
    if volume:
        made["spec"]["volumeName"] = volume
    return made


def volume(
    name: str,
    *,
    storage_class: str = "waits",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    claim: str = "",
    phase: str = "",
    labels: Mapping[str, str] = NOTHING,
    within: Mapping[str, Sequence[str]] = NOTHING,
    driver: str = DRIVER,
    spec: Mapping[str, Any] = NOTHING,
) -> Json:
    """A volume of a CSI driver. ``claim`` has it; ``within`` are labels of the nodes that reach it."""
    made: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": {"phase": phase or ("Bound" if claim else "Available")},
    }
    made["spec"] |= dict(spec) if spec else {"csi": {"driver": driver, "volumeHandle": name}}
    if claim:
        made["spec"]["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": claim,
        }
    if within:
        terms = [{"key": key, "operator": "In", "values": list(values)} for key, values in within.items()]
        made["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    return made


def pair(name: str, **settings: Any) -> list[Json]:
    """A claim and the volume that it is bound to, both of that name; for the settings see `volume`."""
    made = volume(name, claim=name, **settings)
    spec = made["spec"]
    storage = spec["storageClassName"]
    return [claim(name, volume=name, storage_class=storage, modes=spec["accessModes"]), made]


def csi_node(name: str, limits: Mapping[str, int | None], *, migrated: str = "") -> Json:
    """The drivers of a node, each with how many volumes it can attach, or ``None``."""
    drivers: list[Json] = []
    for driver, count in limits.items():
        entry: Json = {"name": driver, "nodeID": name, "topologyKeys": []}
        drivers.append(entry if count is None else {**entry, "allocatable": {"count": count}})
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return {
        "apiVersion": _STORAGE,
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": drivers},
    }


def csi_driver(name: str = DRIVER, *, capacity: bool = True) -> Json:
    """A driver that reports how much room it has, or does not."""
    return {
        "apiVersion": _STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"storageCapacity": capacity, "attachRequired": True},
    }


def capacity(
    name: str,
    *,
    storage_class: str,
    free: str | None = None,
    largest: str | None = None,
    nodes: Mapping[str, Any] | None = None,
) -> Json:
    """A pool of storage that the nodes of a label selector reach."""
    made: Json = {
        "apiVersion": _STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": storage_class,
    }
    more = {"capacity": free, "maximumVolumeSize": largest, "nodeTopology": nodes}
    return made | {key: value for key, value in more.items() if value is not None}


def attachment(name: str, *, node: str, volume: str, driver: str = DRIVER) -> Json:
    """A volume that is attached to a node."""
    return {
        "apiVersion": _STORAGE,
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    }
