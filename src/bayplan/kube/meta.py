"""The metadata of Kubernetes objects: name, labels, annotations, owners."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct

Value = TypeVar("Value")
EMPTY: Mapping[str, Any] = MappingProxyType({})
"""An empty read-only map. Objects are shared, so their maps are read-only."""


def only_read(found: Mapping[str, Value] | None) -> Mapping[str, Value]:
    """A read-only view of the map; an empty one for ``None``."""
    return MappingProxyType(found) if found else EMPTY


class OwnerReference(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The object that made this one, such as a ReplicaSet or a Job."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""


class ObjectMeta(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The ``metadata`` of an object as sent; Go may write ``null`` for any field."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


NO_META = ObjectMeta()


class NamedObject(Struct, frozen=True, omit_defaults=True):
    """The base of objects of other kinds than Node and Pod; subclasses add the fields that are read."""

    metadata: ObjectMeta | None = None

    @property
    def name(self) -> str:
        """``metadata.name``."""
        return (self.metadata or NO_META).name or ""

    @property
    def namespace(self) -> str:
        """``metadata.namespace``; ``default`` where a manifest leaves it out."""
        return (self.metadata or NO_META).namespace or "default"

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def uid(self) -> str:
        """``metadata.uid``."""
        return (self.metadata or NO_META).uid or ""

    @property
    def labels(self) -> Mapping[str, str]:
        """``metadata.labels``."""
        return only_read((self.metadata or NO_META).labels)

    @property
    def annotations(self) -> Mapping[str, str]:
        """``metadata.annotations``."""
        return only_read((self.metadata or NO_META).annotations)
