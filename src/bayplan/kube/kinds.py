"""The kinds of objects, other than Node and Pod, that scheduling looks at, and their API paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bayplan.kube.classes import LimitRange, PriorityClass, RuntimeClass
from bayplan.kube.meta import NamedObject
from bayplan.kube.volumes import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from bayplan.kube.workloads import Namespace, PodDisruptionBudget, ReplicaSet, Service

_CORE, _APPS, _STORAGE = "/api/v1", "/apis/apps/v1", "/apis/storage.k8s.io/v1"


@dataclass(frozen=True)
class ObjectKind:
    """One kind: the part of it that is read, and its path."""

    part: type[NamedObject]
    path: str
    namespaced: bool = True

    def key(self, one: NamedObject) -> str:
        """What tells an object from the others of its kind: ``namespace/name``, or its name."""
        return one.key if self.namespaced else one.name


OBJECT_KINDS: Mapping[str, ObjectKind] = MappingProxyType(
    {
        "CSIDriver": ObjectKind(CSIDriver, f"{_STORAGE}/csidrivers", namespaced=False),
        "CSINode": ObjectKind(CSINode, f"{_STORAGE}/csinodes", namespaced=False),
        "CSIStorageCapacity": ObjectKind(CSIStorageCapacity, f"{_STORAGE}/csistoragecapacities"),
        "Namespace": ObjectKind(Namespace, f"{_CORE}/namespaces", namespaced=False),
        "PersistentVolume": ObjectKind(PersistentVolume, f"{_CORE}/persistentvolumes", namespaced=False),
        "PersistentVolumeClaim": ObjectKind(PersistentVolumeClaim, f"{_CORE}/persistentvolumeclaims"),
        "PodDisruptionBudget": ObjectKind(PodDisruptionBudget, "/apis/policy/v1/poddisruptionbudgets"),
        "ReplicaSet": ObjectKind(ReplicaSet, f"{_APPS}/replicasets"),
        "ReplicationController": ObjectKind(Service, f"{_CORE}/replicationcontrollers"),
        "Service": ObjectKind(Service, f"{_CORE}/services"),
        "StatefulSet": ObjectKind(ReplicaSet, f"{_APPS}/statefulsets"),
        "StorageClass": ObjectKind(StorageClass, f"{_STORAGE}/storageclasses", namespaced=False),
        "VolumeAttachment": ObjectKind(VolumeAttachment, f"{_STORAGE}/volumeattachments", namespaced=False),
    }
)
"""The kinds that a scheduler watches."""

ADMISSION_KINDS: Mapping[str, ObjectKind] = MappingProxyType(
    {
        "LimitRange": ObjectKind(LimitRange, f"{_CORE}/limitranges"),
        "PriorityClass": ObjectKind(
            PriorityClass, "/apis/scheduling.k8s.io/v1/priorityclasses", namespaced=False
        ),
        "RuntimeClass": ObjectKind(RuntimeClass, "/apis/node.k8s.io/v1/runtimeclasses", namespaced=False),
    }
)
"""The kinds that the API server applies when it creates a pod. They need no watch: the pod has the result."""

EVERY_KIND: Mapping[str, ObjectKind] = MappingProxyType({**OBJECT_KINDS, **ADMISSION_KINDS})
"""`OBJECT_KINDS` and `ADMISSION_KINDS`."""
