"""VolumeRestrictions: a disk that one pod alone may use is not given to a second one.

First    refuses a pod with a claim that does not exist.
Filter   rejects nodes where another pod has the pod's GCE, EBS, iSCSI or RBD disk, unless all only read it;
         and every node while another pod has a claim of the pod that is ``ReadWriteOncePod``.
Reads    volumes of the pods on each node, and claims.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import Objects, Volume
from bayplan.policies.default_profile.claims import (
    VOLUME_COUNT,
    claim_not_found,
    find_claim,
    placed_volumes,
    refuse_pod,
)

PODS = frozenset({"pods"})
DISK_IN_USE = Reason("node(s) had no available disk", preemptible=True, helped_by=PODS)
CLAIM_IN_USE = Reason(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod",
    preemptible=True,
    helped_by=PODS,
)


@bayplan.policy
class VolumeRestrictions:
    """A disk that one pod alone may use is not given to a second one."""

    @bayplan.filter(first=True, reads="node")
    def claims_exist(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse a pod whose claim does not exist."""
        for name in _claim_names(pod):
            if find_claim(pod, name, cluster.objects) is None:
                return refuse_pod(nodes, claim_not_found(name))
        return None

    @bayplan.filter(reads="node")
    def disks_free(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse nodes where another pod has the same disk, and all where one has the same claim."""
        if not pod.volumes:
            return None
        disks = [volume for volume in pod.volumes if _is_disk(volume)]
        alone = _read_write_once_pod(pod, cluster.objects)
        if not disks and not alone:
            return None
        in_use = bool(alone) and _claims_used(pod, alone, cluster.nodes)
        claims = CLAIM_IN_USE.where(np.full(len(nodes), in_use, dtype=np.bool_))
        return DISK_IN_USE.where(_conflicts(pod, disks, nodes)) | claims if disks else claims


def conflict(mine: Volume, other: Volume) -> bool:
    """Whether two volumes are one disk which both may not have at once."""
    return any(
        disk is not None and taken is not None and in_each_others_way(disk, taken)
        for kind, in_each_others_way in _CONFLICTS.items()
        for disk, taken in [(getattr(mine, kind), getattr(other, kind))]
    )


def _somebody_writes(disk: Any, taken: Any) -> bool:
    return not (disk.read_only and taken.read_only)


def _same_image(disk: Any, taken: Any) -> bool:
    same = disk.pool == taken.pool and disk.image == taken.image
    return same and not set(disk.monitors or ()).isdisjoint(taken.monitors or ())


_CONFLICTS: dict[str, Callable[[Any, Any], bool]] = {
    "gce_persistent_disk": lambda disk, taken: (
        disk.pd_name == taken.pd_name and _somebody_writes(disk, taken)
    ),
    # Not even for reading is an EBS volume shared.
    "aws_elastic_block_store": lambda disk, taken: disk.volume_id == taken.volume_id,
    "iscsi": lambda disk, taken: disk.iqn == taken.iqn and _somebody_writes(disk, taken),
    "rbd": lambda disk, taken: _same_image(disk, taken) and _somebody_writes(disk, taken),
}


def _is_disk(volume: Volume) -> bool:
    return any(getattr(volume, kind) is not None for kind in _CONFLICTS)


def _claim_names(pod: Pod) -> list[str]:
    """Claims that the pod names itself; those of ephemeral volumes are its own and nobody else's."""
    sources = (volume.persistent_volume_claim for volume in pod.volumes)
    return [source.claim_name for source in sources if source is not None]


def _read_write_once_pod(pod: Pod, objects: Objects) -> set[str]:
    claims = ((name, find_claim(pod, name, objects)) for name in _claim_names(pod))
    return {name for name, claim in claims if claim and "ReadWriteOncePod" in (claim.spec.access_modes or ())}


def _claims_used(pod: Pod, names: set[str], everywhere: NodeTable) -> bool:
    """Whether another pod of the namespace, on whatever node, mounts one of these claims."""
    return any(
        other.namespace == pod.namespace
        and volume.persistent_volume_claim is not None
        and volume.persistent_volume_claim.claim_name in names
        for row in np.flatnonzero(everywhere[VOLUME_COUNT]).tolist()
        for other, volume in placed_volumes(everywhere, row, pod)
    )


def _conflicts(pod: Pod, disks: list[Volume], nodes: NodeTable) -> NDArray[np.bool_]:
    found = np.zeros(len(nodes), dtype=np.bool_)
    for row in np.flatnonzero(nodes[VOLUME_COUNT]).tolist():
        there = placed_volumes(nodes, row, pod)
        found[row] = any(conflict(disk, volume) for _, volume in there for disk in disks)
    return found
