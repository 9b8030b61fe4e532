"""The store of watched objects of other kinds than Node and Pod, frozen on demand.

What we are about to write on an object is *assumed*: snapshots show it until the watch reports a newer
version, or the assumption is taken back.
"""

import time
from collections.abc import Callable, Iterable

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.meta import NO_META, NamedObject
from bayplan.snapshot.objects import NO_OBJECTS, Objects, ObjectsOfKind

Key = tuple[str, str]
Listener = Callable[[str, NamedObject | None], None]
"""Called with the kind and the object that was added, changed or removed; ``None`` for all of the kind."""


class ObjectStore:
    """The objects of each kind, with assumptions; frozen states share the kinds that did not change."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, NamedObject]] = {}
        self._assumed: dict[Key, NamedObject] = {}
        # The watch's state of each object in _assumed.
        self._told: dict[Key, NamedObject] = {}
        # When the API server confirmed the write of each object in _assumed.
        self._written_at: dict[Key, float] = {}
        # Keys of the objects that changed since the last freeze; None for a kind that was replaced as a
        # whole.
        self._changed: dict[str, set[str] | None] = {}
        self._frozen = NO_OBJECTS
        self.listeners: list[Listener] = []

    def put(self, kind: str, one: NamedObject) -> None:
        """Add or update an object."""
        key = OBJECT_KINDS[kind].key(one)
        if not self._still_assumed((kind, key), one):
            self._show(kind, key, one)
        self._tell(kind, one)

    def drop(self, kind: str, one: NamedObject) -> None:
        """Remove an object and the assumption about it."""
        key = OBJECT_KINDS[kind].key(one)
        self._end((kind, key))
        self._show(kind, key, None)
        self._tell(kind, one)

    def replace(self, kind: str, objects: Iterable[NamedObject]) -> None:
        """Replace all objects of a kind."""
        fresh = {OBJECT_KINDS[kind].key(one): one for one in objects}
        for assumed in [each for each in self._assumed if each[0] == kind]:
            key = assumed[1]
            if key not in fresh:
                self._end(assumed)
            elif self._still_assumed(assumed, fresh[key]):
                fresh[key] = self._assumed[assumed]
        self._by_kind[kind] = fresh
        self._changed[kind] = None
        self._tell(kind, None)

    def assume(self, kind: str, one: NamedObject) -> None:
        """Show an object as we are about to write it, or as the API server has just returned it."""
        key = OBJECT_KINDS[kind].key(one)
        told = self.told(kind, key)
        if told is None or told == one or version_of(told) > version_of(one):
            # Deleted meanwhile, or the watch was faster and already has this version or a newer one.
            return
        self._assumed[kind, key], self._told[kind, key] = one, told
        if version_of(one) > version_of(told):
            self._written_at[kind, key] = time.monotonic()
        self._show(kind, key, one)

    def forget(self, kind: str, one: NamedObject) -> None:
        """Take this assumption back; a later assumption about the same object stays."""
        key = OBJECT_KINDS[kind].key(one)
        if self._assumed.get((kind, key)) is one:
            self._show(kind, key, self._told[kind, key])
            self._end((kind, key))
            self._tell(kind, one)

    def end_assumptions(self, kind: str, before: float) -> None:
        """End assumptions written ``before`` a list of the latest state was requested: the list has them.

        If the list lacks such a write, etcd was restored from a backup, and no watch would ever report it.
        """
        for which in [each for each, at in self._written_at.items() if each[0] == kind and at < before]:
            self._end(which)

    def told(self, kind: str, key: str) -> NamedObject | None:
        """The object as the watch reported it, without any assumption."""
        return self._told.get((kind, key)) or self._by_kind.get(kind, {}).get(key)

    @property
    def assumed_count(self) -> int:
        """The number of objects with an assumption."""
        return len(self._assumed)

    def freeze(self) -> Objects:
        """The objects now; the same `Objects` as before if nothing has changed."""
        if self._changed:
            fresh = {kind: self._freeze(kind, keys) for kind, keys in self._changed.items()}
            self._frozen = Objects({**self._frozen.by_kind, **fresh})
            self._changed.clear()
        return self._frozen

    def _freeze(self, kind: str, keys: set[str] | None) -> ObjectsOfKind:
        now = self._by_kind.get(kind, {})
        if keys is None or kind not in self._frozen.by_kind:
            return ObjectsOfKind(now)
        return ObjectsOfKind(now, after=self._frozen.of_kind(kind), changed=keys)

    def _still_assumed(self, which: Key, told: NamedObject) -> bool:
        """Whether an assumption outlives a report of the watch: not if the report is newer or equal."""
        assumed = self._assumed.get(which)
        if assumed is None:
            return False
        if told == assumed or version_of(told) > version_of(assumed):
            self._end(which)
            return False
        self._told[which] = told
        return True

    def _end(self, which: Key) -> None:
        self._assumed.pop(which, None)
        self._told.pop(which, None)
        self._written_at.pop(which, None)

    def _show(self, kind: str, key: str, one: NamedObject | None) -> None:
        shown = self._by_kind.setdefault(kind, {})
        if one is None:
            shown.pop(key, None)
        else:
            shown[key] = one
        keys = self._changed.setdefault(kind, set())
        if keys is not None:
            keys.add(key)

    def _tell(self, kind: str, one: NamedObject | None) -> None:
        for listener in self.listeners:
            listener(kind, one)


def version_of(one: NamedObject) -> int:
    """``metadata.resourceVersion`` as a number: it grows with each change of an object."""
    text = (one.metadata or NO_META).resource_version or ""
    return int(text) if text.isdecimal() else 0


class KindStore:
    """The informer's `Store` for one kind of an `ObjectStore`; ``tell`` is called after each change."""

    def __init__(self, objects: ObjectStore, kind: str, tell: Callable[[], None]) -> None:
        self._objects = objects
        self._kind = kind
        self._tell = tell

    def replace(self, objects: Iterable[NamedObject]) -> None:
        """Replace all objects of the kind."""
        self._objects.replace(self._kind, objects)
        self._tell()

    def put(self, one: NamedObject) -> None:
        """Add or update an object."""
        self._objects.put(self._kind, one)
        self._tell()

    def drop(self, one: NamedObject) -> None:
        """Remove an object."""
        self._objects.drop(self._kind, one)
        self._tell()
