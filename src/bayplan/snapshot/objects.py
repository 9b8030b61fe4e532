"""Objects of other kinds than Node and Pod in a snapshot, as far as scheduling looks at them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.meta import NamedObject
from bayplan.kube.volumes import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from bayplan.kube.workloads import PodDisruptionBudget, Service

_STEPS = 64


class ObjectsOfKind(dict[str, Any]):
    """The objects of one kind, by ``namespace/name`` or name, with indices over them."""

    def __init__(
        self,
        objects: Mapping[str, Any] | None = None,
        *,
        after: "ObjectsOfKind | None" = None,
        changed: Collection[str] = (),
    ) -> None:
        """``changed`` are the keys of the objects that differ from those of ``after``."""
        super().__init__(objects or {})
        # A mark stands for the objects, so that old ones are not kept alive.
        self._mark = object()
        self._steps: tuple[tuple[object, frozenset[str]], ...] = ()
        if after is not None:
            self._steps = (*after._steps[1 - _STEPS :], (after._mark, frozenset(changed)))

    def changed_since(self, before: "ObjectsOfKind") -> set[str] | None:
        """The keys of objects added, removed or changed since; ``None`` if ``before`` is too old to tell."""
        keys: set[str] = set()
        if before is self:
            return keys
        for mark, changed in reversed(self._steps):
            keys |= changed
            if mark is before._mark:
                return keys
        return None

    @cached_property
    def by_namespace(self) -> Mapping[str, tuple[Any, ...]]:
        """The objects of each namespace."""
        found: dict[str, list[Any]] = {}
        for one in self.values():
            found.setdefault(one.namespace, []).append(one)
        return {namespace: tuple(objects) for namespace, objects in found.items()}

    @cached_property
    def by_selected(self) -> Mapping[tuple[str, str, str], tuple[Any, ...]]:
        """Objects with a plain selector, such as Services, by namespace and the first label they select."""
        found: dict[tuple[str, str, str], list[Any]] = {}
        for one in self.values():
            for key, value in sorted((one.spec.selector or {}).items())[:1]:
                found.setdefault((one.namespace, key, value), []).append(one)
        return {place: tuple(objects) for place, objects in found.items()}


NOTHING = ObjectsOfKind()


@dataclass(frozen=True)
class Objects:
    """Objects by kind. Frozen; the next snapshot shares the kinds that did not change."""

    by_kind: Mapping[str, ObjectsOfKind] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[tuple[str, NamedObject]]) -> "Objects":
        """Objects from pairs of kind and object; of two with the same key the last one counts."""
        kinds: dict[str, ObjectsOfKind] = {}
        for kind, one in found:
            kinds.setdefault(kind, ObjectsOfKind())[EVERY_KIND[kind].key(one)] = one
        return cls(kinds)

    def of_kind(self, kind: str) -> ObjectsOfKind:
        """The objects of one kind."""
        return self.by_kind.get(kind, NOTHING)

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
        return self.of_kind(kind).by_namespace.get(namespace, ())

    def services_of(self, namespace: str, labels: Mapping[str, str]) -> list[Service]:
        """The Services that select a pod of these labels."""
        places = self.of_kind("Service").by_selected
        candidates = (one for key, value in labels.items() for one in places.get((namespace, key, value), ()))
        return [one for one in candidates if (one.spec.selector or {}).items() <= labels.items()]


NO_OBJECTS = Objects()
