"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach there.

Filter   rejects nodes where the pod's volumes, with those of the pods there and those still attached, are
         more than the driver's limit. A volume that several pods share counts once.
Reads    limits in CSINodes, VolumeAttachments, claims, volumes, classes, and volumes of the pods on each
         node.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import Objects, PersistentVolumeClaim, Volume
from bayplan.policies.default_profile.attachments import NO_ATTACHMENTS, Attached
from bayplan.policies.default_profile.claims import (
    CLAIM_CHANGES,
    VOLUME_COUNT,
    claim_name,
    claim_not_found,
    class_of,
    find_claim,
    made_for,
    placed_volumes,
)
from bayplan.policies.default_profile.last_time import LastTime
from bayplan.policies.default_profile.migrated_disks import DRIVERS, NOT_COUNTED, driver_and_handle

_CHANGES = frozenset({"pods", "nodes", "CSINode", "VolumeAttachment"})
TOO_MANY = Reason("node(s) exceed max volume count", preemptible=True, helped_by=_CHANGES)

ByDriver = Mapping[str, Mapping[str, int]]
"""Something of each node, by driver and name."""

_NO_LIMIT = np.iinfo(np.int64).max
# No driver calls a volume so: a claim that has none yet is told from others by its name.
_CLAIM_TO_BE = "\0"


@bayplan.policy
class NodeVolumeLimits:
    """No node gets more volumes of a CSI driver than the driver can attach there."""

    def __init__(self) -> None:
        self._limits: LastTime[ByDriver] = LastTime()
        self._attachments = NO_ATTACHMENTS
        self._spare: LastTime[dict[str, NDArray[np.int64]]] = LastTime()

    @bayplan.filter(reads="node")
    def within_limits(self, pod: Pod, nodes: NodeTable, cluster: Snapshot) -> Verdict | None:
        """Refuse nodes whose limit the pod's volumes would exceed."""
        if not pod.volumes:
            return None
        objects = cluster.objects
        if missing := _missing_claim(pod, objects):
            text = f"looking up PVC {pod.namespace}/{missing}: {claim_not_found(missing)}"
            return Reason(text, helped_by=CLAIM_CHANGES).where(np.ones(len(nodes), dtype=np.bool_))
        wanted = _attached(((pod, volume) for volume in pod.volumes), objects)
        limited = self._limits.of(objects.csi_nodes, work_out=lambda: _limits(objects))
        limits = {driver: limited[driver] for driver, _ in wanted if driver in limited}
        if not limits:
            return None
        attachments = self._attachments = self._attachments.followed_by(objects)
        # A few nodes at preemption must not push out what is kept of all.
        kept = self._spare if nodes is cluster.nodes else LastTime()
        on_node = attachments.on_node
        spare = kept.of(nodes.names, limited, on_node, work_out=dict)
        most = nodes[VOLUME_COUNT] + len(wanted)
        near = np.zeros(len(nodes), dtype=np.bool_)
        for driver, limit in limits.items():
            if driver not in spare:
                spare[driver] = _spare(nodes, limit, on_node)
            near |= most > spare[driver]
        # Most nodes are far from their limit, and need no counting one by one.
        refused = np.zeros(len(nodes), dtype=np.bool_)
        for row in np.flatnonzero(near).tolist():
            there = _attached(placed_volumes(nodes, row, pod), objects)
            still = on_node.get(nodes.names[row], frozenset())
            refused[row] = _exceeded(nodes.names[row], wanted, there, still - there, limits)
        return TOO_MANY.where(refused)


def _spare(
    nodes: NodeTable, limit: Mapping[str, int], on_node: Mapping[str, frozenset[Attached]]
) -> NDArray[np.int64]:
    """How many volumes fit beside those attached, or fewer: attached ones of other drivers count too."""
    none: frozenset[Attached] = frozenset()
    return np.array(
        [limit.get(name, _NO_LIMIT) - len(on_node.get(name, none)) for name in nodes.names],
        dtype=np.int64,
    )


def _exceeded(
    node: str,
    wanted: frozenset[Attached],
    there: frozenset[Attached],
    still: frozenset[Attached],
    limits: ByDriver,
) -> bool:
    """Whether one of the drivers would have too many on the node.

    A volume that is attached already and used by no pod there counts twice: as what it is, and as the pod's.
    """
    new = wanted - there
    for driver, limit in limits.items():
        count = _of_driver(new, driver)
        held = _of_driver(there, driver) + _of_driver(still, driver)
        if count and held + count > limit.get(node, _NO_LIMIT):
            return True
    return False


def _of_driver(volumes: frozenset[Attached], driver: str) -> int:
    return sum(1 for each, _ in volumes if each == driver)


def _missing_claim(pod: Pod, objects: Objects) -> str | None:
    names = (claim_name(pod, volume) for volume in pod.volumes)
    return next((name for name in names if name and find_claim(pod, name, objects) is None), None)


def _attached(volumes: Iterable[tuple[Pod, Volume]], objects: Objects) -> frozenset[Attached]:
    """The CSI volumes behind volumes of pods; what cannot be told is not counted."""
    found = (_behind(pod, volume, objects) for pod, volume in volumes)
    return frozenset(each for each in found if each is not None)


def _behind(pod: Pod, volume: Volume, objects: Objects) -> Attached | None:
    name = claim_name(pod, volume)
    if name is None:
        return driver_and_handle(volume)
    claim = find_claim(pod, name, objects)
    if claim is None or (volume.ephemeral is not None and not made_for(pod, claim)):
        return None
    bound = objects.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if bound is None:
        return _to_be_provisioned(claim, objects)
    if bound.spec.csi is None:
        return driver_and_handle(bound)
    driver, handle = bound.spec.csi.driver, bound.spec.csi.volume_handle
    return (driver, handle) if driver and handle else None


def _to_be_provisioned(claim: PersistentVolumeClaim, objects: Objects) -> Attached | None:
    """What a claim without a volume will count as: one more of its class' driver."""
    storage = objects.storage_classes.get(class_of(claim))
    if storage is None or not storage.provisioner or storage.provisioner in NOT_COUNTED:
        return None
    return DRIVERS.get(storage.provisioner, storage.provisioner), _CLAIM_TO_BE + claim.key


def _limits(objects: Objects) -> ByDriver:
    """How many volumes each driver can attach, by driver and node; nothing where it does not say."""
    found: dict[str, dict[str, int]] = {}
    for name, node in objects.csi_nodes.items():
        for driver in node.spec.drivers or ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                found.setdefault(driver.name, {})[name] = driver.allocatable.count
    return found
