"""Volumes of a generated cluster: classes, drivers and their limits, volumes, claims in every state."""

from __future__ import annotations

from tests.parity.draw import HOST, NAMESPACES, REGION, ZONE, ZONES, Draw, Json
from tests.parity.world import HOLD, World

DRIVER = "csi.example"
_MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
_SIZES = ("1Gi", "5Gi", "10Gi")
STATIC, DYNAMIC, ZONED, NOW = "wait-static", "wait-dynamic", "wait-zoned", "immediate"
_MIGRATED = {
    "pd.csi.storage.gke.io": "kubernetes.io/gce-pd",
    "ebs.csi.aws.com": "kubernetes.io/aws-ebs",
}
"""Drivers that do the work of what was once built in, where a node says so."""
_SELECTED = "volume.kubernetes.io/selected-node"
_DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def storage(draw: Draw, world: World, *, always: bool = False) -> list[Json]:
    """Everything about volumes; nothing in some clusters, if not `always`."""
    if not world.nodes or (not always and draw.chance(50)):
        return []
    found = [*_classes(draw), *_drivers(draw, world), *_capacities(draw)]
    found += [_volume(draw, f"free-{number}", world) for number in range(draw.randint(0, 4))]
    for namespace in NAMESPACES:
        for number in range(draw.randint(1, 3)):
            found += _bound(draw, namespace, f"bound-{number}", world)
        found += [_waiting(draw, namespace, f"waits-{number}", world) for number in range(draw.randint(1, 3))]
        found += _odd_claims(draw, namespace)
    bound = [one for one in found if one["kind"] == "PersistentVolume" and "claimRef" in one["spec"]]
    for number, volume in enumerate(bound):
        if DRIVER in str(volume) and draw.chance(15):
            found.append(_attachment(draw, f"attachment-{number}", volume, world))
    return found


def _classes(draw: Draw) -> list[Json]:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": draw.some(ZONES, 2)}]}]
    return [
        _class(STATIC, "kubernetes.io/no-provisioner"),
        _class(DYNAMIC, DRIVER),
        {**_class(ZONED, "other.example"), "allowedTopologies": topologies},
        {**_class(NOW, DRIVER), "volumeBindingMode": "Immediate"},
    ]


def _class(name: str, provisioner: str) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _drivers(draw: Draw, world: World) -> list[Json]:
    spec = {"attachRequired": True, "storageCapacity": draw.chance(50)}
    group = "storage.k8s.io/v1"
    found: list[Json] = [
        {"apiVersion": group, "kind": "CSIDriver", "metadata": {"name": DRIVER}, "spec": spec}
    ]
    found += [_csi_node(draw, one["metadata"]["name"]) for one in world.nodes if not draw.chance(30)]
    return found


def _csi_node(draw: Draw, name: str) -> Json:
    there = [DRIVER] if draw.chance(90) else []
    annotations = {}
    if draw.chance(50):
        there += draw.some(tuple(_MIGRATED))
        migrated = ",".join(_MIGRATED[driver] for driver in there if driver in _MIGRATED)
        annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    drivers: list[Json] = []
    for driver in there:
        drivers.append({"name": driver, "nodeID": name, "topologyKeys": []})
        if draw.chance(70):
            drivers[-1]["allocatable"] = {"count": draw.choice((0, 1, 1, 2, 5))}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": drivers},
    }


def _capacities(draw: Draw) -> list[Json]:
    found = []
    for number in range(draw.randint(0, 3)):
        one: Json = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"capacity-{number}", "namespace": "default"},
            "storageClassName": DYNAMIC,
            "capacity": draw.choice(("0", "1Gi", "5Gi", "100Gi")),
        }
        if draw.chance(80):
            one["nodeTopology"] = {"matchLabels": {ZONE: draw.choice(ZONES)}}
        if draw.chance(30):
            one["maximumVolumeSize"] = draw.choice(("1Gi", "10Gi"))
        found.append(one)
    return found


def _volume(draw: Draw, name: str, world: World) -> Json:
    """A volume that is not bound."""
    spec: Json = {
        "capacity": {"storage": draw.choice(_SIZES)},
        "accessModes": draw.some(("ReadWriteOnce", "ReadOnlyMany"), 2),
        "storageClassName": draw.choice((STATIC, STATIC, DYNAMIC)),
        "persistentVolumeReclaimPolicy": "Retain",
    }
    labels: dict[str, str] = {}
    if draw.chance(60):
        spec["csi"] = {"driver": DRIVER, "volumeHandle": name}
    else:
        disk = {"gcePersistentDisk": {"pdName": name}, "awsElasticBlockStore": {"volumeID": name}}
        kind = draw.choice(tuple(disk))
        spec[kind] = disk[kind]
        if draw.chance(60):
            labels[draw.choice((ZONE, ZONE, REGION))] = draw.choice((*ZONES, "__".join(ZONES[:2]), "r1"))
    if draw.chance(55):
        hosts = [one["metadata"]["name"] for one in world.nodes]
        key, values = draw.choice(((ZONE, list(ZONES)), (HOST, hosts)))
        expression = {
            "key": key,
            "operator": draw.choice(("In", "In", "NotIn")),
            "values": draw.some(values, 2),
        }
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if draw.chance(15):
        spec["volumeMode"] = "Block"
    if draw.chance(30):
        labels["tier"] = "gold"
    if draw.chance(10) and "csi" in spec:
        spec["volumeAttributesClassName"] = "fast"
    if draw.chance(15):
        spec["claimRef"] = {"namespace": draw.choice(NAMESPACES), "name": "waits-0"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels, "finalizers": [HOLD] if draw.chance(4) else []},
        "spec": spec,
        "status": {"phase": "Available" if draw.chance(85) else "Released"},
    }


def _claim(namespace: str, name: str, draw: Draw, *, storage_class: str) -> Json:
    spec: Json = {
        "accessModes": [draw.choice(_MODES)],
        "resources": {"requests": {"storage": draw.choice(_SIZES)}},
        "storageClassName": storage_class,
    }
    if draw.chance(10):
        spec["volumeMode"] = "Block"
    if draw.chance(12):
        spec["selector"] = {"matchLabels": {"tier": draw.choice(("gold", "tin"))}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _waiting(draw: Draw, namespace: str, name: str, world: World) -> Json:
    """A claim whose volume is found, or made, when its pod is placed."""
    claim = _claim(namespace, name, draw, storage_class=draw.choice((STATIC, DYNAMIC, ZONED)))
    if draw.chance(15):
        claim["metadata"]["annotations"] = {_SELECTED: draw.choice(world.nodes)["metadata"]["name"]}
    if draw.chance(10):
        claim["spec"]["volumeAttributesClassName"] = "fast"
    return claim


def _bound(draw: Draw, namespace: str, name: str, world: World) -> list[Json]:
    """A claim with its volume, as a controller leaves them; of some the volume is missing."""
    claim = _claim(namespace, name, draw, storage_class=draw.choice((STATIC, DYNAMIC, NOW)))
    volume = _volume(draw, f"{namespace}-{name}", world)
    if draw.chance(15):
        claim["spec"]["accessModes"] = volume["spec"]["accessModes"] = ["ReadWriteOncePod"]
    claim["metadata"]["annotations"] = dict(_DONE)
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    claim["spec"].pop("volumeMode", None)
    claim["status"] = {"phase": "Bound"}
    volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    volume["spec"]["storageClassName"] = claim["spec"]["storageClassName"]
    volume["status"] = {"phase": "Bound"}
    return [claim] if draw.chance(8) else [claim, volume]


def _odd_claims(draw: Draw, namespace: str) -> list[Json]:
    """Claims that something is wrong with."""
    found = []
    if draw.chance(40):
        found.append(_claim(namespace, "at-once", draw, storage_class=NOW))
    if draw.chance(20):
        lost = _claim(namespace, "lost", draw, storage_class=STATIC)
        found.append({**lost, "status": {"phase": "Lost"}})
    if draw.chance(20):
        going = _claim(namespace, "going", draw, storage_class=STATIC)
        going["metadata"]["finalizers"] = [HOLD]
        found.append(going)
    if draw.chance(15):
        found.append(_claim(namespace, "no-class", draw, storage_class="missing"))
    if draw.chance(15):
        named = _claim(namespace, "half-bound", draw, storage_class=STATIC)
        named["spec"]["volumeName"] = "free-0"
        found.append(named)
    return found


def _attachment(draw: Draw, name: str, volume: Json, world: World) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {
            "attacher": DRIVER,
            "nodeName": draw.choice(world.nodes)["metadata"]["name"],
            "source": {"persistentVolumeName": volume["metadata"]["name"]},
        },
    }
