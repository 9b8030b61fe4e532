"""VolumeZone: a volume with zone or region labels is used in that zone or region.

First    refuses a pod whose claim or volume is not there.
Filter   rejects nodes whose zone and region labels are not among those of the pod's bound volumes. A node
         without any such label is let pass: a cluster in one zone has none.
Reads    zone and region labels of nodes and volumes, also under their old names.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Label, NodeTable, Pod, Reason, Snapshot, Strings, Verdict
from bayplan.blocks import Objects, PersistentVolume
from bayplan.policies.default_profile.claims import (
    CLAIM_CHANGES,
    claim_not_found,
    class_of,
    find_claim,
    refuse_pod,
    waits_for_pod,
)

OTHER_ZONE = Reason("node(s) had no available volume zone", helped_by=CLAIM_CHANGES | {"nodes"})

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
# Old labels of volumes, and what nodes call the same today.
_RENAMED = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
_KEYS = (*_RENAMED, _ZONE, _REGION)
_BETWEEN_ZONES = "__"


@dataclass(frozen=True)
class _Places:
    """Where the pod's volumes are; or what is wrong with one of them."""

    allowed: tuple[tuple[str, frozenset[str]], ...] = ()
    problem: str = ""


@bayplan.policy
class VolumeZone:
    """A volume with zone or region labels is used in that zone or region."""

    @bayplan.prepare
    def places(self, pod: Pod, cluster: Snapshot) -> _Places | None:
        """Zones and regions of the pod's bound volumes; ``None`` where it has no claims."""
        return _places(pod, cluster.objects) if pod.volumes else None

    @bayplan.filter(first=True, reads="node")
    def volumes_exist(self, nodes: NodeTable, prepared: _Places | None) -> Verdict | None:
        """Refuse a pod whose claim or volume is not there."""
        return refuse_pod(nodes, prepared.problem) if prepared and prepared.problem else None

    @bayplan.filter(reads="node")
    def in_zone(self, nodes: NodeTable, prepared: _Places | None) -> Verdict | None:
        """Refuse nodes in another zone or region than a volume."""
        if not prepared or not prepared.allowed:
            return None
        labelled = np.zeros(len(nodes), dtype=np.bool_)
        for key in _KEYS:
            labelled |= _label(nodes, key).present
        there = np.ones(len(nodes), dtype=np.bool_)
        for key, values in prepared.allowed:
            there &= _has_one(nodes, key, values)
        return OTHER_ZONE.where(labelled & ~there)


def _places(pod: Pod, objects: Objects) -> _Places:
    allowed: list[tuple[str, frozenset[str]]] = []
    for volume in pod.volumes:
        if volume.persistent_volume_claim is None:
            continue
        found = _volume_of(pod, volume.persistent_volume_claim.claim_name, objects)
        if isinstance(found, str):
            return _Places(problem=found)
        if found is not None:
            allowed += _labels_of(found)
    return _Places(tuple(allowed))


def _volume_of(pod: Pod, name: str, objects: Objects) -> PersistentVolume | str | None:
    """The volume that a claim is bound to, ``None`` for one that waits for the pod, or what is wrong."""
    if not name:
        return "PersistentVolumeClaim had no name"
    claim = find_claim(pod, name, objects)
    if claim is None:
        return claim_not_found(name)
    if bound := claim.spec.volume_name:
        return objects.volumes.get(bound) or f'persistentvolume "{bound}" not found'
    storage_class = class_of(claim)
    if not storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    if storage_class not in objects.storage_classes:
        return f'storageclass.storage.k8s.io "{storage_class}" not found'
    return None if waits_for_pod(claim, objects) else "PersistentVolume had no name"


def _labels_of(volume: PersistentVolume) -> list[tuple[str, frozenset[str]]]:
    """Each zone or region label with its values; one with an empty value among them does not count."""
    split = ((key, volume.labels[key].split(_BETWEEN_ZONES)) for key in _KEYS if key in volume.labels)
    named = ((key, frozenset(part.strip() for part in parts)) for key, parts in split)
    return [(key, values) for key, values in named if "" not in values]


def _has_one(nodes: NodeTable, key: str, values: frozenset[str]) -> NDArray[np.bool_]:
    label = _label(nodes, key)
    if key not in _RENAMED:
        return label.isin(values)
    return np.where(label.present, label.isin(values), _label(nodes, _RENAMED[key]).isin(values))


def _label(nodes: NodeTable, key: str) -> Strings:
    values = nodes[Label(key)]
    assert isinstance(values, Strings)
    return values
