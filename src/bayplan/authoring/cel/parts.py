"""Extracts the parts of an object that an expression reads, as one text.

Objects with equal texts get the same answer, so the expression runs once for each text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from bayplan.authoring.cel.reads import Path
from bayplan.authoring.cel.schema import Entries, Items, Object, Scalar, Schema, element, schema_of
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.strings import Strings

# Which parts of a value are wanted: some of its fields or keys, or all of it.
_Wanted = Mapping[str, "_Wanted | None"]
_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True)
class Parts:
    """Some parts of a pod or of a node; for nodes a column, which the table keeps."""

    variable: str
    paths: frozenset[Path]
    tested: frozenset[tuple[str, str]] = frozenset()

    @property
    def title(self) -> str:
        """Its name in errors."""
        return ", ".join(sorted(".".join((self.variable, *path)) for path in self.paths))

    @property
    def meaning(self) -> str:
        """One line of description."""
        return "what an expression reads of the node"

    def read(self, nodes: list[NodeObject]) -> Strings:
        """The text of each node."""
        return Strings.intern(map(self.text, nodes))

    def text(self, thing: Pod | NodeObject) -> str:
        """The parts as canonical JSON."""
        return _encode(self._pick(thing, schema_of(self.variable), self._wanted)).decode()

    @cached_property
    def _wanted(self) -> _Wanted:
        wanted: dict[str, Any] = {}
        for path in sorted(self.paths, key=len):
            _want(wanted, path, schema_of(self.variable))
        return wanted

    def _pick(self, value: Any, schema: Schema | None, wanted: _Wanted | None) -> Any:
        if isinstance(schema, Object):
            return dict(self._fields(value, schema, wanted))
        if isinstance(schema, Entries):
            keys: Iterable[str] = value if wanted is None else wanted.keys() & value.keys()
            return {key: self._pick(value[key], schema.of, None) for key in keys}
        if isinstance(schema, Items):
            return [self._pick(item, schema.of, None) for item in value]
        if isinstance(schema, Scalar) and schema.zero == "" and not isinstance(value, str):
            # A manifest written by hand may have a number as a quantity.
            return repr(value)
        return value

    def _fields(self, value: Any, schema: Object, wanted: _Wanted | None) -> Iterable[tuple[str, Any]]:
        """The fields that are set, and the others as empty, unless the expression tests their presence."""
        for name in schema.fields if wanted is None else wanted:
            field = schema.fields[name]
            inner = None if value is None else getattr(value, field.attribute)
            if (schema.names[0], name) in self.tested and _is_unset(inner):
                continue
            if inner is None and not isinstance(field.schema, Object):
                inner = _zero(field.schema)
                if inner is None:
                    continue
            yield name, self._pick(inner, field.schema, None if wanted is None else wanted[name])


def _want(wanted: dict[str, Any], path: Path, schema: Schema | None) -> None:
    """Add a path; shorter paths come first, and include all paths below them."""
    below: dict[str, Any] | None = wanted
    for number, step in enumerate(path):
        if below is None:
            return
        schema = schema.fields[step].schema if isinstance(schema, Object) else element(schema)
        # Of an object only single fields are read; its presence can be tested.
        whole = number == len(path) - 1 and not isinstance(schema, Object)
        below = below.setdefault(step, None if whole else {})


def _is_unset(value: Any) -> bool:
    """Whether the field is unset; a 0 that the API server sends was given explicitly."""
    return value is None or value is False or (not value and not isinstance(value, int | float))


def _zero(schema: Schema) -> Any:
    """The value of an unset field."""
    if isinstance(schema, Items):
        return []
    if isinstance(schema, Entries):
        return {}
    assert isinstance(schema, Scalar)
    return schema.zero
