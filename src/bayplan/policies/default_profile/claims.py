"""The claims that pods mount: what the policies about volumes share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan import NodeTable, Pod, Reason, Verdict
from bayplan.blocks import Objects, PersistentVolume, PersistentVolumeClaim, PodColumn, Volume

CLAIM_CHANGES = frozenset({"PersistentVolumeClaim", "PersistentVolume", "StorageClass"})
"""What can make a claim usable that is not."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""On a claim: where its volume is to be made."""
_BOUND = "pv.kubernetes.io/bind-completed"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The name of the claim behind a volume of the pod; ``None`` where no claim is.

    The claim of an ephemeral volume is made for the pod, under a name made of both.
    """
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.name}-{volume.name}" if volume.ephemeral is not None else None


def find_claim(pod: Pod, name: str, objects: Objects) -> PersistentVolumeClaim | None:
    """The pod's claim of that name, where there is one."""
    return objects.claims.get(f"{pod.namespace}/{name}")


def made_for(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether the pod is the controller of the claim, as it is of one made for its ephemeral volume."""
    owners = (claim.metadata.owner_references if claim.metadata else None) or ()
    controller = next((owner for owner in owners if owner.controller), None)
    return controller is not None and controller.uid == pod.uid


def class_of(owner: PersistentVolumeClaim | PersistentVolume) -> str:
    """The StorageClass of a claim or a volume; the old annotation counts before the field."""
    named = owner.annotations.get(_CLASS_ANNOTATION)
    return (owner.spec.storage_class_name or "") if named is None else named


def waits_for_pod(claim: PersistentVolumeClaim, objects: Objects) -> bool:
    """Whether the claim is bound only once a pod needs it: ``WaitForFirstConsumer``."""
    storage = objects.storage_classes.get(class_of(claim))
    return storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"


def fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume, and a controller has said so."""
    return bool(claim.spec.volume_name) and _BOUND in claim.annotations


def claim_not_found(name: str) -> str:
    """What kube-scheduler says of a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def refuse_pod(nodes: NodeTable, text: str) -> Verdict:
    """No node will do, since something is wrong with the pod itself."""
    return Reason(text, of_pod=True, helped_by=CLAIM_CHANGES).where(np.ones(len(nodes), dtype=np.bool_))


@dataclass(frozen=True)
class _PlacedVolumes(PodColumn):
    """The volumes of the pods on each node, each with its pod: a tuple a node."""

    @property
    def title(self) -> str:
        return "PLACED_VOLUMES"

    @property
    def meaning(self) -> str:
        return "claims and disks of the pods on the node, each with its pod"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        rows = np.empty(len(pods), dtype=np.object_)
        for row, there in enumerate(pods):
            rows[row] = tuple((pod, volume) for pod in there for volume in pod.volumes)
        return rows


@dataclass(frozen=True)
class _VolumeCount(PodColumn):
    """How many volumes the pods on each node have."""

    @property
    def title(self) -> str:
        return "VOLUME_COUNT"

    @property
    def meaning(self) -> str:
        return "how many claims and disks the pods on the node have"

    def read_pods(self, pods: Sequence[Iterable[Pod]]) -> NDArray[Any]:
        return np.array([sum(len(pod.volumes) for pod in there) for there in pods], dtype=np.int64)


PLACED_VOLUMES = _PlacedVolumes()
VOLUME_COUNT = _VolumeCount()


def placed_volumes(nodes: NodeTable, row: int, but: Pod) -> Iterable[tuple[Pod, Volume]]:
    """The volumes on the node of that row, without those of the pod that is asked about."""
    there = nodes[PLACED_VOLUMES][row]
    return ((pod, volume) for pod, volume in there if pod.uid != but.uid)
