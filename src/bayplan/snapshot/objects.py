"""What there is in a cluster beside nodes and pods, as far as scheduling looks at it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.meta import EMPTY, NamedObject
from bayplan.kube.volumes import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from bayplan.kube.workloads import PodDisruptionBudget


@dataclass(frozen=True)
class Objects:
    """Objects by kind, and by ``namespace/name`` or name. Frozen: another cluster has others."""

    by_kind: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[tuple[str, NamedObject]]) -> "Objects":
        """These objects, each with its kind; of two with one name the last one counts."""
        kinds: dict[str, dict[str, Any]] = {}
        for kind, one in found:
            kinds.setdefault(kind, {})[OBJECT_KINDS[kind].key(one)] = one
        return cls(kinds)

    def of_kind(self, kind: str) -> Mapping[str, Any]:
        """The objects of one kind."""
        return self.by_kind.get(kind, EMPTY)

    @property
    def claims(self) -> Mapping[str, PersistentVolumeClaim]:
        """PersistentVolumeClaims, by ``namespace/name``."""
        return self.of_kind("PersistentVolumeClaim")

    @property
    def volumes(self) -> Mapping[str, PersistentVolume]:
        """PersistentVolumes, by name."""
        return self.of_kind("PersistentVolume")

    @property
    def storage_classes(self) -> Mapping[str, StorageClass]:
        """StorageClasses, by name."""
        return self.of_kind("StorageClass")

    @property
    def csi_nodes(self) -> Mapping[str, CSINode]:
        """CSINodes, by the name of the node."""
        return self.of_kind("CSINode")

    @cached_property
    def namespace_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of each Namespace."""
        return {name: one.labels for name, one in self.of_kind("Namespace").items()}

    @cached_property
    def budgets(self) -> tuple[PodDisruptionBudget, ...]:
        """Every PodDisruptionBudget."""
        return tuple(self.of_kind("PodDisruptionBudget").values())

    def in_namespace(self, kind: str, namespace: str) -> tuple[Any, ...]:
        """The objects of one kind in a namespace."""
        return self._by_namespace.get((kind, namespace), ())

    @cached_property
    def _by_namespace(self) -> Mapping[tuple[str, str], tuple[Any, ...]]:
        found: dict[tuple[str, str], tuple[Any, ...]] = {}
        for kind, objects in self.by_kind.items():
            for one in objects.values() if OBJECT_KINDS[kind].namespaced else ():
                place = (kind, one.namespace)
                found[place] = (*found.get(place, ()), one)
        return found


NO_OBJECTS = Objects()
