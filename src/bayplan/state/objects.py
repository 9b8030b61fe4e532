"""Objects beside nodes and pods, as watches tell them; one place a kind, frozen on demand."""

from collections.abc import Callable, Iterable

from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.meta import NamedObject
from bayplan.snapshot.objects import NO_OBJECTS, Objects, ObjectsOfKind


class ObjectStore:
    """What is there of each kind; a kind that did not change is shared by what is frozen later."""

    def __init__(self) -> None:
        self._by_kind: dict[str, dict[str, NamedObject]] = {}
        self._changed: set[str] = set()
        self._frozen = NO_OBJECTS

    def put(self, kind: str, one: NamedObject) -> None:
        """An object is there, or is different."""
        self._by_kind.setdefault(kind, {})[OBJECT_KINDS[kind].key(one)] = one
        self._changed.add(kind)

    def drop(self, kind: str, one: NamedObject) -> None:
        """An object is gone."""
        self._by_kind.get(kind, {}).pop(OBJECT_KINDS[kind].key(one), None)
        self._changed.add(kind)

    def replace(self, kind: str, objects: Iterable[NamedObject]) -> None:
        """Exactly these are there."""
        self._by_kind[kind] = {OBJECT_KINDS[kind].key(one): one for one in objects}
        self._changed.add(kind)

    def freeze(self) -> Objects:
        """The objects as they are now; the same ones again while nothing happened."""
        if self._changed:
            fresh = {kind: ObjectsOfKind(self._by_kind.get(kind, {})) for kind in self._changed}
            self._frozen = Objects({**self._frozen.by_kind, **fresh})
            self._changed.clear()
        return self._frozen


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
