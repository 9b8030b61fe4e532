"""Objects beside nodes and pods, as watches tell them; one place a kind, frozen on demand.

What we are about to write on an object is *assumed*: everybody who judges sees it, until the watch brings
something newer, or we take it back.
"""

from collections.abc import Callable, Iterable

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.meta import NO_META, NamedObject
from bayplan.snapshot.objects import NO_OBJECTS, Objects, ObjectsOfKind

Key = tuple[str, str]
Listener = Callable[[str, NamedObject | None], None]
"""Told the kind and the object that came, went or is different; ``None`` for all of the kind."""


class ObjectStore:
    """What is there of each kind; a kind that did not change is shared by what is frozen later."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, NamedObject]] = {}
        self._assumed: dict[Key, NamedObject] = {}
        # What the watch says of an object of which something else is assumed.
        self._told: dict[Key, NamedObject] = {}
        # Keys of what is different since it was frozen last; None for a kind that came as a whole.
        self._changed: dict[str, set[str] | None] = {}
        self._frozen = NO_OBJECTS
        self.listeners: list[Listener] = []

    def put(self, kind: str, one: NamedObject) -> None:
        """An object is there, or is different."""
        key = OBJECT_KINDS[kind].key(one)
        if not self._still_assumed((kind, key), one):
            self._show(kind, key, one)
        self._tell(kind, one)

    def drop(self, kind: str, one: NamedObject) -> None:
        """An object is gone, and with it what was assumed of it."""
        key = OBJECT_KINDS[kind].key(one)
        self._assumed.pop((kind, key), None)
        self._told.pop((kind, key), None)
        self._show(kind, key, None)
        self._tell(kind, one)

    def replace(self, kind: str, objects: Iterable[NamedObject]) -> None:
        """Exactly these are there."""
        fresh = {OBJECT_KINDS[kind].key(one): one for one in objects}
        for assumed in [each for each in self._assumed if each[0] == kind]:
            key = assumed[1]
            if key not in fresh:
                del self._assumed[assumed], self._told[assumed]
            elif self._still_assumed(assumed, fresh[key]):
                fresh[key] = self._assumed[assumed]
        self._by_kind[kind] = fresh
        self._changed[kind] = None
        self._tell(kind, None)

    def assume(self, kind: str, one: NamedObject) -> None:
        """Show an object as it is going to be, or as the API server has just said that it is."""
        key = OBJECT_KINDS[kind].key(one)
        told = self.told(kind, key)
        if told is None or told == one or version_of(told) > version_of(one):
            # Deleted meanwhile, or the watch was faster than the answer: it knows as much, or better.
            return
        self._assumed[kind, key], self._told[kind, key] = one, told
        self._show(kind, key, one)

    def forget(self, kind: str, one: NamedObject) -> None:
        """Take an assumption back; another one of the same object stays."""
        key = OBJECT_KINDS[kind].key(one)
        if self._assumed.get((kind, key)) is one:
            del self._assumed[kind, key]
            self._show(kind, key, self._told.pop((kind, key)))
            self._tell(kind, one)

    def told(self, kind: str, key: str) -> NamedObject | None:
        """The object as the watch told it, whatever is assumed of it."""
        return self._told.get((kind, key)) or self._by_kind.get(kind, {}).get(key)

    @property
    def assumed_count(self) -> int:
        """How many objects are shown as they are going to be."""
        return len(self._assumed)

    def freeze(self) -> Objects:
        """The objects as they are now; the same ones again while nothing happened."""
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
        """Whether what is assumed stands against the word of the watch: not if that is newer, or the same."""
        assumed = self._assumed.get(which)
        if assumed is None:
            return False
        if told == assumed or version_of(told) > version_of(assumed):
            del self._assumed[which], self._told[which]
            return False
        self._told[which] = told
        return True

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
    """One kind of an `ObjectStore`, as an informer wants to keep it; ``tell`` hears of every change."""

    def __init__(self, objects: ObjectStore, kind: str, tell: Callable[[], None]) -> None:
        self._objects = objects
        self._kind = kind
        self._tell = tell

    def replace(self, objects: Iterable[NamedObject]) -> None:
        """Exactly these are there."""
        self._objects.replace(self._kind, objects)
        self._tell()

    def put(self, one: NamedObject) -> None:
        """An object is there, or is different."""
        self._objects.put(self._kind, one)
        self._tell()

    def drop(self, one: NamedObject) -> None:
        """An object is gone."""
        self._objects.drop(self._kind, one)
        self._tell()
