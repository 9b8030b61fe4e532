"""Finds out what an expression reads, by walking its tree along the schema of the objects.

Nodes with equal values of these parts get the same answer, so the expression runs once per distinct set.
A field that Bayplan does not keep is an error here, and never an empty value later.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from bayplan.authoring.cel.schema import Entries, Items, Object, Scalar, Schema, element, joined, schema_of
from bayplan.authoring.cel.tree import (
    Call,
    Comprehension,
    Constant,
    Expr,
    Ident,
    ListOf,
    MapOf,
    Select,
    Tree,
)
from bayplan.kube.yaml import did_you_mean
from bayplan.snapshot.columns import ASPECTS, FLAGS, LABELS, NATIVE_RESOURCES, split_resource

Path = tuple[str, ...]

OBJECTS = ("pod", "node", "victim")
COLUMN = "column"
_COLUMN_NAMES = (*(f"{r}.{a}" for r in NATIVE_RESOURCES for a in ASPECTS), *LABELS, *FLAGS)


class BadPlace(Exception):
    """An error in an expression, and the id of the part that it is about."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.at = at


@dataclass(frozen=True)
class Reads:
    """The parts of its variables that an expression reads."""

    paths: Mapping[str, frozenset[Path]]
    """Paths by variable, such as ``("metadata", "labels", "rack")``."""
    tested: frozenset[tuple[str, str]]
    """Fields that ``has()`` or ``.?`` tests, by struct: if unset, they must be absent, not empty."""
    columns: tuple[str, ...]
    schemas: Mapping[int, Schema]
    """The schemas of the tree's parts that come from an object, by id."""


def find_reads(tree: Tree, variables: Sequence[str]) -> Reads:
    """What the expression reads; raises `BadPlace` for a field that Bayplan does not keep."""
    walk = _Walk(variables)
    walk.use(tree.root, {})
    return Reads(
        {name: frozenset(paths) for name, paths in walk.paths.items()},
        frozenset(walk.tested),
        tuple(sorted(walk.columns)),
        walk.schemas,
    )


@dataclass(frozen=True)
class _Place:
    """A value inside an object; ``path`` while it is one part of a variable."""

    schema: Schema | None
    variable: str = ""
    path: Path | None = None

    @property
    def title(self) -> str:
        return ".".join((self.variable, *self.path)) if self.path is not None else "it"


_NOWHERE = _Place(None)
_Scope = Mapping[str, _Place]


class _Walk:
    def __init__(self, variables: Sequence[str]) -> None:
        self._objects = [name for name in variables if name in OBJECTS]
        self.paths: dict[str, set[Path]] = {name: set() for name in self._objects}
        self.tested: set[tuple[str, str]] = set()
        self.columns: set[str] = set()
        self.schemas: dict[int, Schema] = {}

    def use(self, expr: Expr, scope: _Scope) -> Schema | None:
        """Walk a part whose whole value is needed, and note what it reads."""
        place = self._visit(expr, scope)
        if place.path is not None:
            if isinstance(place.schema, Object):
                known = ", ".join(place.schema.fields)
                raise BadPlace(f"{place.title} is a whole object; read one of its fields: {known}", expr.id)
            self.paths[place.variable].add(place.path)
        elif place.variable == COLUMN:
            raise BadPlace("name the column, as in column['cpu.free']", expr.id)
        return place.schema

    def _visit(self, expr: Expr, scope: _Scope) -> _Place:
        place = self._place(expr, scope)
        if place.schema is not None:
            self.schemas[expr.id] = place.schema
        return place

    def _place(self, expr: Expr, scope: _Scope) -> _Place:
        match expr:
            case Ident(name=name):
                return scope.get(name) or self._variable(name)
            case Select(operand=operand, field=field, test_only=test_only):
                return self._step(self._visit(operand, scope), field, expr, tested=test_only)
            case Call():
                return self._call(expr, scope)
            case ListOf(items=items):
                return _Place(Items(self._any_of(items, scope)))
            case MapOf(keys=keys, values=values):
                self._any_of(keys, scope)
                return _Place(Entries(self._any_of(values, scope)))
        return self._comprehension(expr, scope) if isinstance(expr, Comprehension) else _NOWHERE

    def _call(self, expr: Call, scope: _Scope) -> _Place:
        match expr:
            case Call(function="_?._", args=(operand, Constant(text=str(field)))):
                return self._step(self._visit(operand, scope), field, expr, tested=True)
            case Call(function="_[_]" | "_[?_]" as function, args=(operand, key)):
                return self._index(operand, key, expr, scope, tested=function == "_[?_]")
            case Call(function="@in", args=(Constant(text=str(text)), container)):
                return self._contains(container, text, scope)
            case Call(function="_?_:_", args=(condition, *branches)):
                self.use(condition, scope)
                return _Place(self._any_of(branches, scope))
        # The result may be one of the arguments, as with `orValue` and `+`.
        return _Place(self._any_of(expr.args, scope))

    def _variable(self, name: str) -> _Place:
        if name in self._objects:
            return _Place(schema_of(name), name, ())
        return _Place(None, COLUMN) if name == COLUMN else _NOWHERE

    def _step(self, place: _Place, name: str, expr: Expr, *, tested: bool) -> _Place:
        """``place.name``, which is a field of an object or a key of a map."""
        if place.variable == COLUMN and place.path is None:
            return self._named_column(name, expr)
        schema = place.schema
        if isinstance(schema, Object):
            if name not in schema.fields:
                raise BadPlace(_not_kept(place, name, schema), expr.id)
            if tested:
                self.tested.update((struct, name) for struct in schema.names)
            inner: Schema | None = schema.fields[name].schema
        elif isinstance(schema, Items | Scalar):
            kind = "a list; name one, as in [0], or ask all(...) or exists(...)"
            kind = kind if isinstance(schema, Items) else "no object"
            raise BadPlace(f"{place.title} has no field {name!r}: it is {kind}", expr.id)
        else:
            inner = element(schema)
        found = _Place(inner, place.variable, None if place.path is None else (*place.path, name))
        if tested and isinstance(expr, Select):
            # The result of has() is a bool, but the tested field is read too.
            if found.path is not None:
                self.paths[found.variable].add(found.path)
            return _NOWHERE
        return found

    def _index(self, operand: Expr, key: Expr, expr: Expr, scope: _Scope, *, tested: bool) -> _Place:
        place = self._visit(operand, scope)
        if isinstance(key, Constant) and key.text is not None and not isinstance(place.schema, Items):
            return self._step(place, key.text, expr, tested=tested)
        self.use(key, scope)
        return _Place(element(self.use(operand, scope)))

    def _contains(self, container: Expr, key: str, scope: _Scope) -> _Place:
        place = self._visit(container, scope)
        if isinstance(place.schema, Entries) and place.path is not None:
            self.paths[place.variable].add((*place.path, key))
        elif place.variable == COLUMN and place.path is None:
            self._named_column(key, container)
        else:
            self.use(container, scope)
        return _NOWHERE

    def _any_of(self, parts: Iterable[Expr], scope: _Scope) -> Schema | None:
        return reduce(joined, [self.use(part, scope) for part in parts], None)

    def _comprehension(self, expr: Comprehension, scope: _Scope) -> _Place:
        # In optMap the variable is the accumulator.
        for name in (expr.variable, expr.accumulator):
            if name in (*OBJECTS, COLUMN):
                # A name with a leading dot would still mean our variable, and its reads would be missed.
                raise BadPlace(
                    f"{name!r} is a variable already; call the one of this macro otherwise", expr.id
                )
        over = self.use(expr.range, scope)
        items = _Place(element(over) if isinstance(over, Items) else None)
        start = _Place(self.use(expr.start, scope))
        inner = {**scope, expr.variable: items, expr.accumulator: start}
        self.use(expr.condition, inner)
        total = joined(start.schema, self.use(expr.step, inner))
        return _Place(self.use(expr.result, {**inner, expr.accumulator: _Place(total)}))

    def _named_column(self, name: str, expr: Expr) -> _Place:
        if name not in FLAGS and name not in LABELS and split_resource(name) is None:
            other = "; `bayplan columns` lists them. Expressions read no sources: that is for Load, or Python"
            raise BadPlace(f"no column {name!r}{did_you_mean(name, _COLUMN_NAMES) or other}", expr.id)
        self.columns.add(name)
        return _NOWHERE


def _not_kept(place: _Place, name: str, schema: Object) -> str:
    owner = place.title if place.path is not None else " or ".join(schema.names)
    hint = _one_level_deeper(owner, name, schema) or did_you_mean(name, schema.fields)
    if not hint:
        hint = f"; these are: {', '.join(schema.fields)}"
    return f"{owner}.{name} is not kept by Bayplan{hint}"


def _one_level_deeper(owner: str, name: str, schema: Object) -> str:
    """``; did you mean node.metadata.labels?`` where ``node.labels`` is written, as Python policies do."""
    inner = {field: below.schema for field, below in schema.fields.items()}
    found = [field for field, below in inner.items() if isinstance(below, Object) and name in below.fields]
    return f"; did you mean {' or '.join(f'{owner}.{field}.{name}' for field in found)}?" if found else ""
