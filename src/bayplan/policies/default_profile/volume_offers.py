"""The volumes that are there for claims to be bound to, by StorageClass, sorted once for many pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayplan.blocks import NodeSelector, PersistentVolume, PersistentVolumeClaim, amount
from bayplan.policies.default_profile.claims import class_of
from bayplan.policies.default_profile.reach import Numbers, Places


@dataclass(frozen=True)
class Form:
    """What must agree between a claim and its volume beside size and labels."""

    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]

    @classmethod
    def of(cls, owner: PersistentVolumeClaim | PersistentVolume) -> "Form":
        """The form of a claim or a volume."""
        spec = owner.spec
        attributes = spec.volume_attributes_class_name or ""
        return cls(spec.volume_mode or "Filesystem", attributes, frozenset(spec.access_modes or ()))


@dataclass(frozen=True, eq=False)
class Offer:
    """The volumes of one class."""

    free: tuple[PersistentVolume, ...]
    """Those that are kept for nobody, the smallest first; everything below is about them."""
    sizes: NDArray[np.int64]
    forms: tuple[Form, ...]
    form_of: Numbers
    """Which of the forms each has."""
    places: Places
    place_of: Numbers
    """Which of the places each can be reached from."""
    promised: Mapping[str, tuple[PersistentVolume, ...]]
    """Those that are kept for a claim, by its key."""

    @classmethod
    def of(cls, volumes: Iterable[PersistentVolume]) -> "Offer":
        """What volumes of one class have to offer; one that is being deleted has nothing."""
        there = [each for each in volumes if not (each.metadata and each.metadata.deletion_timestamp)]
        free = [each for each in there if each.spec.claim_ref is None and each.status.phase == "Available"]
        free.sort(key=lambda each: (storage_of(each), each.name))
        forms: dict[Form, int] = {}
        places: dict[NodeSelector | None, int] = {}
        form_of = [forms.setdefault(Form.of(each), len(forms)) for each in free]
        place_of = [places.setdefault(volume_affinity(each), len(places)) for each in free]
        promised: dict[str, tuple[PersistentVolume, ...]] = {}
        for each in there:
            if (keeper := each.spec.claim_ref) is not None:
                key = f"{keeper.namespace}/{keeper.name}"
                promised[key] = (*promised.get(key, ()), each)
        return cls(
            free=tuple(free),
            sizes=np.array([storage_of(each) for each in free], dtype=np.int64),
            forms=tuple(forms),
            form_of=np.array(form_of, dtype=np.intp),
            places=Places(places),
            place_of=np.array(place_of, dtype=np.intp),
            promised=promised,
        )


class Offers:
    """Offers of all classes; one is made when it is first asked for."""

    def __init__(self, volumes: Iterable[PersistentVolume]) -> None:
        self._volumes: dict[str, list[PersistentVolume]] = {}
        self._made: dict[str, Offer] = {}
        for each in volumes:
            self._volumes.setdefault(class_of(each), []).append(each)

    def of(self, storage_class: str) -> Offer:
        """What there is of a class."""
        if storage_class not in self._made:
            self._made[storage_class] = Offer.of(self._volumes.get(storage_class, ()))
        return self._made[storage_class]


def storage_of(owner: PersistentVolumeClaim | PersistentVolume) -> int:
    """Bytes that a claim asks for, or that a volume has."""
    if isinstance(owner, PersistentVolume):
        quantities = owner.spec.capacity
    else:
        quantities = owner.spec.resources.requests if owner.spec.resources else None
    return amount("storage", (quantities or {}).get("storage", 0))


def volume_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Where a volume can be reached from."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity else None
