"""What every Kubernetes object carries: a name, labels, annotations, owners."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

EMPTY: Mapping[str, Any] = MappingProxyType({})


class OwnerReference(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The object that made this one, such as a ReplicaSet or a Job."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel"):
    """The ``metadata`` of an object, as sent: Go writes ``null`` where Python has a default."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


NO_META = ObjectMeta()
