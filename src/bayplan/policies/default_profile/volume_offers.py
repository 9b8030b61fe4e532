"""The volumes that are there for claims to be bound to, by StorageClass, sorted once for many pods.

There may be tens of thousands, and one changes with each pod that gets its volume. So what is known of a
class is carried on: a volume that changed is taken out of its place and put into the new one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bayplan.blocks import NodeSelector, ObjectsOfKind, PersistentVolume, PersistentVolumeClaim, amount
from bayplan.policies.default_profile.claims import class_of
from bayplan.policies.default_profile.reach import Numbers, Places

# More changes at once than so many, and it is quicker to begin anew.
_FEW = 50


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
    place_numbers: Mapping[NodeSelector | None, int]

    @classmethod
    def of(cls, volumes: Iterable[PersistentVolume]) -> "Offer":
        """What volumes of one class have to offer; one that is being deleted has nothing."""
        there = [each for each in volumes if not _deleted(each)]
        free = sorted((each for each in there if _free(each)), key=_by_size)
        forms: dict[Form, int] = {}
        places: dict[NodeSelector | None, int] = {}
        form_of = [forms.setdefault(Form.of(each), len(forms)) for each in free]
        place_of = [places.setdefault(volume_affinity(each), len(places)) for each in free]
        promised: dict[str, tuple[PersistentVolume, ...]] = {}
        for each in there:
            if (key := _keeper(each)) is not None:
                promised[key] = (*promised.get(key, ()), each)
        return cls(
            free=tuple(free),
            sizes=np.array([storage_of(each) for each in free], dtype=np.int64),
            forms=tuple(forms),
            form_of=np.array(form_of, dtype=np.intp),
            places=Places(places),
            place_of=np.array(place_of, dtype=np.intp),
            promised=promised,
            place_numbers=places,
        )

    def without(self, volume: PersistentVolume) -> "Offer":
        """The offer once a volume is gone."""
        if (key := _keeper(volume)) is not None:
            left = tuple(each for each in self.promised.get(key, ()) if each.name != volume.name)
            promised = {**self.promised, key: left}
            if not left:
                del promised[key]
            return replace(self, promised=promised)
        row = bisect_left(self.free, _by_size(volume), key=_by_size)
        if row == len(self.free) or self.free[row].name != volume.name:
            return self
        return replace(
            self,
            free=self.free[:row] + self.free[row + 1 :],
            sizes=np.delete(self.sizes, row),
            form_of=np.delete(self.form_of, row),
            place_of=np.delete(self.place_of, row),
        )

    def with_(self, volume: PersistentVolume) -> "Offer":
        """The offer with one more volume."""
        if _deleted(volume):
            return self
        if (key := _keeper(volume)) is not None:
            return replace(self, promised={**self.promised, key: (*self.promised.get(key, ()), volume)})
        if not _free(volume):
            return self
        grown = self._knowing(Form.of(volume), volume_affinity(volume))
        row = bisect_left(grown.free, _by_size(volume), key=_by_size)
        form, place = grown.forms.index(Form.of(volume)), grown.place_numbers[volume_affinity(volume)]
        return replace(
            grown,
            free=(*grown.free[:row], volume, *grown.free[row:]),
            sizes=np.insert(grown.sizes, row, storage_of(volume)),
            form_of=np.insert(grown.form_of, row, form),
            place_of=np.insert(grown.place_of, row, place),
        )

    def _knowing(self, form: Form, place: NodeSelector | None) -> "Offer":
        """The same offer, with numbers for this form and place; they stay when their last volume goes."""
        grown = self if form in self.forms else replace(self, forms=(*self.forms, form))
        if place in grown.place_numbers:
            return grown
        numbers = {**grown.place_numbers, place: len(grown.places)}
        return replace(grown, places=grown.places.also(place), place_numbers=numbers)


class Offers:
    """Offers of all classes; one is made when it is first asked for."""

    def __init__(self, volumes: ObjectsOfKind, made: Mapping[str, Offer] | None = None) -> None:
        self._volumes = volumes
        self._made = dict(made or {})

    def of(self, storage_class: str) -> Offer:
        """What there is of a class."""
        made = self._made.get(storage_class)
        if made is None:
            volumes: Iterable[PersistentVolume] = self._volumes.values()
            made = Offer.of(each for each in volumes if class_of(each) == storage_class)
            self._made[storage_class] = made
        return made

    def followed_by(self, volumes: ObjectsOfKind) -> "Offers":
        """The offers of a later moment: what did not change is shared."""
        if volumes is self._volumes:
            return self
        changed = volumes.changed_since(self._volumes)
        if changed is None or len(changed) > _FEW:
            return Offers(volumes)
        made = dict(self._made)
        for name in changed:
            before, now = self._volumes.get(name), volumes.get(name)
            if before is not None and (known := made.get(class_of(before))) is not None:
                made[class_of(before)] = known.without(before)
            if now is not None and (known := made.get(class_of(now))) is not None:
                made[class_of(now)] = known.with_(now)
        return Offers(volumes, made)


def _deleted(volume: PersistentVolume) -> bool:
    return bool(volume.metadata and volume.metadata.deletion_timestamp)


def _free(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is None and volume.status.phase == "Available"


def _keeper(volume: PersistentVolume) -> str | None:
    """The key of the claim that the volume is kept for."""
    keeper = volume.spec.claim_ref
    return None if keeper is None else f"{keeper.namespace}/{keeper.name}"


def _by_size(volume: PersistentVolume) -> tuple[int, str]:
    return storage_of(volume), volume.name


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
