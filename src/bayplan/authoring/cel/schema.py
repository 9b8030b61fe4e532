"""The schema of pods and nodes in expressions: the fields that Bayplan decodes, and no others.

The schema is derived from the structs in ``bayplan.kube``, so that a field added there can be used here.
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
    """A text, a number or a bool."""

    zero: Any
    """The value of an unset field; ``None`` if it cannot be read."""
    long: bool = False
    """Whether it may be as long as a document, as annotations may."""


@dataclass(frozen=True)
class Items:
    """A list."""

    of: "Schema | None"


@dataclass(frozen=True)
class Entries:
    """A map with text keys."""

    of: "Schema | None"


@dataclass(frozen=True, eq=False)
class Object:
    """An object with the fields that are kept, by their Kubernetes names."""

    names: tuple[str, ...]
    """The names of the structs that it may be."""
    fields: Mapping[str, "Field"]


@dataclass(frozen=True)
class Field:
    """One field of an object: its name in the struct, and its schema."""

    attribute: str
    schema: "Schema"


Schema = Scalar | Items | Entries | Object

TEXT = Scalar("")
# Kubernetes distinguishes "unset" from 0 in these (`priority`, `tolerationSeconds`), so 0 would be wrong.
NUMBER = Scalar(None)
FLAG = Scalar(False)
ANNOTATIONS = Entries(Scalar("", long=True))


# Of these only what kube-scheduler's own plugins need is decoded; an expression would take it for the whole.
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
    """The schema of ``pod``, ``victim`` or ``node``."""
    return _schema(inspect.type_info(NodeObject if variable == "node" else Pod))


def element(schema: Schema | None) -> Schema | None:
    """The schema of a list's or a map's elements; ``None`` if unknown."""
    return schema.of if isinstance(schema, Items | Entries) else None


def joined(first: Schema | None, second: Schema | None) -> Schema | None:
    """The schema of a value that may be either; of two objects, with the fields of both."""
    if first is None or second is None or first is second:
        return first or second
    if isinstance(first, Object) and isinstance(second, Object):
        return Object(first.names + second.names, {**second.fields, **first.fields})
    if isinstance(first, Items) and isinstance(second, Items):
        return Items(joined(first.of, second.of))
    if isinstance(first, Entries) and isinstance(second, Entries):
        return Entries(joined(first.of, second.of))
    # Of a text and an object only the object has fields.
    return second if isinstance(first, Scalar) else first


def _schema(info: Any) -> Schema:
    if isinstance(info, inspect.UnionType):
        types = [_schema(kind) for kind in info.types if not isinstance(kind, inspect.NoneType)]
        # A manifest written by hand may have a number as a quantity; it reads as a text.
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
    """The `Object` of a struct; cached, so that equal schemas are the same object."""
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
