"""Which parts of a pod and a node an expression may read: those that Bayplan decodes, no others.

The schema is read off the structs in ``bayplan.kube``, so a field that is added there can be used here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from bayplan.kube.meta import ObjectMeta
from bayplan.kube.node import NodeObject, NodeStatus
from bayplan.kube.pod import Pod, PodSpec
from bayplan.kube.resources import Container


@dataclass(frozen=True)
class Scalar:
    """A text, a number, or true or false."""

    zero: Any
    """What a field that is not set reads as; ``None`` where it cannot be read."""
    long: bool = False
    """Whether it may be a whole document, as annotations may."""


@dataclass(frozen=True)
class Items:
    """A list."""

    of: "Schema | None"


@dataclass(frozen=True)
class Entries:
    """A map, from texts."""

    of: "Schema | None"


@dataclass(frozen=True, eq=False)
class Object:
    """An object with the fields that are kept, by Kubernetes' spelling."""

    names: tuple[str, ...]
    """The structs that it may be."""
    fields: Mapping[str, "Field"]


@dataclass(frozen=True)
class Field:
    """One field of an object: what the struct calls it, and what is in it."""

    attribute: str
    schema: "Schema"


Schema = Scalar | Items | Entries | Object

TEXT = Scalar("")
# Kubernetes tells "not set" from 0 in these (`priority`, `tolerationSeconds`), so 0 would be a lie.
NUMBER = Scalar(None)
FLAG = Scalar(False)
ANNOTATIONS = Entries(Scalar("", long=True))


# Only what kube-scheduler's own rules need of these is read, and a part would pass for the whole.
_READ_IN_PART: Mapping[type, tuple[str, ...]] = {
    Container: ("ports", "restartPolicyRules"),
    NodeStatus: ("declaredFeatures",),
    PodSpec: (
        "affinity",
        "topologySpreadConstraints",
        "volumes",
        "schedulingGates",
        "resourceClaims",
        "hostUsers",
    ),
}


@cache
def schema_of(variable: str) -> Schema:
    """What ``pod``, ``victim`` or ``node`` is made of."""
    return _schema(inspect.type_info(NodeObject if variable == "node" else Pod))


def element(schema: Schema | None) -> Schema | None:
    """What is in a list or a map; ``None`` where nobody knows."""
    return schema.of if isinstance(schema, Items | Entries) else None


def joined(first: Schema | None, second: Schema | None) -> Schema | None:
    """What a value is that may be either: with the fields of both, where both are objects."""
    if first is None or second is None or first is second:
        return first or second
    if isinstance(first, Object) and isinstance(second, Object):
        return Object(first.names + second.names, {**second.fields, **first.fields})
    if isinstance(first, Items) and isinstance(second, Items):
        return Items(joined(first.of, second.of))
    if isinstance(first, Entries) and isinstance(second, Entries):
        return Entries(joined(first.of, second.of))
    # Of a text and an object only the object has parts that could be read.
    return second if isinstance(first, Scalar) else first


def _schema(info: Any) -> Schema:
    if isinstance(info, inspect.UnionType):
        types = [_schema(kind) for kind in info.types if not isinstance(kind, inspect.NoneType)]
        # A quantity may be a number in a manifest that was written by hand; it reads as a text.
        return types[0] if len(types) == 1 else TEXT
    if isinstance(info, inspect.StructType):
        return _object(info.cls)
    if isinstance(info, inspect.ListType):
        return Items(_schema(info.item_type))
    if isinstance(info, inspect.DictType):
        return Entries(_schema(info.value_type))
    if isinstance(info, inspect.BoolType):
        return FLAG
    return NUMBER if isinstance(info, inspect.IntType | inspect.FloatType) else TEXT


@cache
def _object(cls: type[msgspec.Struct]) -> Object:
    """One `Object` a struct, so that two of them are equal when they are the same."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    fields = {
        f.encode_name: Field(f.name, _schema(f.type))
        for f in info.fields
        if f.encode_name not in _READ_IN_PART.get(cls, ())
    }
    if cls is ObjectMeta:
        fields["annotations"] = Field("annotations", ANNOTATIONS)
    return Object((cls.__name__,), fields)
