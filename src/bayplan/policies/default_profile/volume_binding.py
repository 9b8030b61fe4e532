"""VolumeBinding: a pod goes where its claims have a volume, or can get one.

First    refuses a pod with a claim that is missing, lost, being deleted, not the pod's, or not bound yet
         though it does not wait for the pod.
Filter   rejects nodes that a bound volume cannot be reached from; and, for claims that wait for the pod,
         nodes that reach no volume that fits and where none can be made.
Reads    claims, volumes, classes, CSIDrivers, CSIStorageCapacities, and labels of nodes.

Scores nothing: kube-scheduler does so only with the feature gate StorageCapacityScoring.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Snapshot, Verdict
from bayplan.blocks import Objects, ObjectsOfKind, PersistentVolume, PersistentVolumeClaim, named
from bayplan.policies.default_profile.claims import (
    CLAIM_CHANGES,
    SELECTED_NODE,
    claim_name,
    claim_not_found,
    find_claim,
    fully_bound,
    made_for,
    refuse_pod,
    waits_for_pod,
)
from bayplan.policies.default_profile.last_time import LastTime
from bayplan.policies.default_profile.migrated_disks import MIGRATED_PLUGINS, migrated_affinity, plugin_of
from bayplan.policies.default_profile.provisioning import Rooms, provisionable
from bayplan.policies.default_profile.reach import Bools, reachable_from
from bayplan.policies.default_profile.volume_matching import NO_VOLUME, match_claims
from bayplan.policies.default_profile.volume_offers import Offers, storage_of, volume_affinity

# Each is a bit of a node's verdict: several may be said of one node.
_OUT_OF_REACH, _NOTHING_TO_BIND, _NO_SPACE, _VOLUME_GONE = 1, 2, 4, 8
_TEXTS = {
    _OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    _NOTHING_TO_BIND: "node(s) didn't find available persistent volumes to bind",
    _NO_SPACE: "node(s) did not have enough free storage",
    _VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_CHANGES = CLAIM_CHANGES | {"nodes", "CSINode", "CSIDriver", "CSIStorageCapacity"}


def _reason(bits: int) -> Reason:
    text, *also = (text for bit, text in _TEXTS.items() if bits & bit)
    return Reason(text, also=tuple(also), helped_by=_CHANGES)


_REASONS = tuple(_reason(bits) for bits in range(1, 2 * _VOLUME_GONE))


class VolumeBindingArgs(Args):
    """Settings of `VolumeBinding`, as kube-scheduler has them."""

    bind_timeout_seconds: Annotated[int, Meta(ge=0)] = 600
    """How long kube-scheduler waits for volumes to be bound."""
    shape: list[dict[str, Any]] | None = None
    """Only with the feature gate StorageCapacityScoring, which is off."""

    def __post_init__(self) -> None:
        if self.shape is not None:
            raise ValueError(
                "shape is for the feature gate StorageCapacityScoring, which is off; take it away"
            )


@dataclass(frozen=True)
class MountedClaims:
    """The claims of a pod; or what is wrong with one of them."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    problem: str = ""


@bayplan.policy
class VolumeBinding:
    """A pod goes where its claims have a volume, or can get one."""

    def __init__(self, args: VolumeBindingArgs) -> None:
        self.bind_timeout_seconds = args.bind_timeout_seconds
        """For whoever binds volumes; no judgement depends on it."""
        self._offers = Offers(ObjectsOfKind())
        self._rooms: LastTime[Rooms] = LastTime()

    @bayplan.prepare
    def claims(self, pod: Pod, cluster: Snapshot) -> MountedClaims | None:
        """The claims of the pod; ``None`` where it has none."""
        return sort_claims(pod, cluster.objects) if pod.volumes else None

    @bayplan.filter(first=True, reads="node")
    def claims_usable(self, nodes: NodeTable, prepared: MountedClaims | None) -> Verdict | None:
        """Refuse a pod with a claim that no node could make usable."""
        return refuse_pod(nodes, prepared.problem) if prepared and prepared.problem else None

    @bayplan.filter(reads="node")
    def volumes_found(
        self, nodes: NodeTable, cluster: Snapshot, prepared: MountedClaims | None
    ) -> Verdict | None:
        """Refuse nodes without the pod's volumes."""
        if not prepared or not (prepared.bound or prepared.waiting):
            return None
        said = _of_bound(nodes, prepared.bound, cluster.objects)
        if prepared.waiting:
            offers = self._offers = self._offers.followed_by(cluster.objects.of_kind("PersistentVolume"))
            pools = cluster.objects.of_kind("CSIStorageCapacity")
            rooms = self._rooms.of(pools, work_out=lambda: Rooms(pools.values()))
            said |= _of_waiting(nodes, prepared.waiting, cluster.objects, offers=offers, rooms=rooms)
        return Verdict(said.astype(np.int16), _REASONS)


def sort_claims(pod: Pod, objects: Objects) -> MountedClaims:
    """Sort the pod's claims; nothing is sorted where one of them cannot be used at all."""
    mounted = []
    for volume in pod.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim = find_claim(pod, name, objects)
        ephemeral = volume.ephemeral is not None
        if problem := _problem(pod, name, claim, ephemeral=ephemeral):
            return MountedClaims(problem=problem)
        mounted.append(claim)
    claims = [claim for claim in mounted if claim is not None]
    bound = tuple(claim for claim in claims if fully_bound(claim))
    unbound = tuple(claim for claim in claims if claim not in bound)
    # One that names its volume already is bound by a controller, whatever its class says.
    if any(claim.spec.volume_name or not waits_for_pod(claim, objects) for claim in unbound):
        return MountedClaims(problem="pod has unbound immediate PersistentVolumeClaims")
    return MountedClaims(bound, unbound)


def _problem(pod: Pod, name: str, claim: PersistentVolumeClaim | None, *, ephemeral: bool) -> str:
    """Why a claim cannot be used, in kube-scheduler's words; ``""`` where it can."""
    if claim is None:
        waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        return f'{waiting} "{name}"' if ephemeral else claim_not_found(name)
    if claim.status.phase == "Lost":
        gone = claim.spec.volume_name or ""
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{gone}"'
    if claim.metadata is not None and claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if ephemeral and not made_for(pod, claim):
        return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
    return ""


def _of_bound(
    nodes: NodeTable, claims: Sequence[PersistentVolumeClaim], objects: Objects
) -> NDArray[np.int16]:
    """What is wrong with nodes for claims that have a volume; the first claim that fails is told."""
    said = np.zeros(len(nodes), dtype=np.int16)
    for claim in claims:
        volume = objects.volumes.get(claim.spec.volume_name or "")
        if volume is None:
            return np.where(said == 0, np.int16(_VOLUME_GONE), said)
        said[~reachable(nodes, volume, objects)] = _OUT_OF_REACH
    return said


def reachable(nodes: NodeTable, volume: PersistentVolume, objects: Objects) -> Bools:
    """The nodes that a bound volume can be used on."""
    plain = reachable_from(nodes, volume_affinity(volume))
    plugin = plugin_of(volume)
    if plugin is None or not plugin.zone_label:
        return plain
    there = (objects.csi_nodes.get(name) for name in nodes.names)
    annotations = (each.annotations.get(MIGRATED_PLUGINS, "") if each else "" for each in there)
    migrated = np.array([plugin.name in text.split(",") for text in annotations], dtype=np.bool_)
    return np.where(migrated, reachable_from(nodes, migrated_affinity(volume, plugin)), plain)


def _of_waiting(
    nodes: NodeTable,
    claims: Sequence[PersistentVolumeClaim],
    objects: Objects,
    *,
    offers: Offers,
    rooms: Rooms,
) -> NDArray[np.int16]:
    """What is wrong with nodes for claims that wait for the pod."""
    said = np.zeros(len(nodes), dtype=np.int16)
    promised = [claim for claim in claims if SELECTED_NODE in claim.annotations]
    for claim in promised:
        said[~named(nodes, claim.annotations[SELECTED_NODE])] = _NOTHING_TO_BIND
    # In kube-scheduler the smallest claim chooses first; in another order one may be left with nothing.
    choosing = sorted((claim for claim in claims if claim not in promised), key=storage_of)
    picks = match_claims(nodes, choosing, offers)
    everywhere = np.ones(len(nodes), dtype=np.bool_)
    to_make = [(claim, everywhere) for claim in promised]
    to_make += [(claim, pick == NO_VOLUME) for claim, pick in zip(choosing, picks, strict=True)]
    for claim, needed in to_make:
        asked = needed & (said == 0)
        if asked.any():
            allowed, roomy = provisionable(nodes, claim, objects, rooms=rooms)
            said[asked & ~allowed] = _NOTHING_TO_BIND
            said[asked & allowed & ~roomy] = _NO_SPACE
    return said
