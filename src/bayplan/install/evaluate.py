"""A tree filled in with the values of one installation: plain objects, ready to be written."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import singledispatch
from typing import Any

import yaml

from bayplan.install.names import Release, worked_out
from bayplan.install.tree import (
    All,
    AsText,
    AtLeast,
    Block,
    ByHelm,
    Condition,
    Configured,
    Digest,
    Either,
    Given,
    InNamespace,
    Is,
    Known,
    Merged,
    MoreThan,
    Named,
    Not,
    Number,
    Shared,
    Spread,
    Text,
    Tree,
    Value,
    When,
)

NOTHING = object()
"""The value of a node whose condition does not hold: its key or item is left out."""


class _Dumper(yaml.SafeDumper):
    """Plain YAML: no aliases, lists under their key without indentation, texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - as the library calls it
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(data: Any) -> str:
    """An object as YAML, its keys in the order they have."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True))


def evaluate(tree: Tree, release: Release) -> Any:
    """The tree with every gap filled in; `NOTHING` for one whose condition does not hold."""
    if isinstance(tree, dict):
        return dict(_entries(tree, release))
    if isinstance(tree, list | tuple):
        return list(_items(tree, release))
    return _fill(tree, release)


def holds(condition: Condition, release: Release) -> bool:  # noqa: C901, PLR0911 - one line a kind
    """Whether a condition holds for this installation."""
    match condition:
        case Is(path, text):
            return bool(release.value(path) == text)
        case Given(path):
            return bool(release.value(path))
        case MoreThan(path, number):
            return bool(release.value(path) > number)
        case AtLeast(minor):
            return release.minor >= minor
        case InNamespace(name):
            return release.namespace == name
        case Configured(path):
            return bool(release.configured(path))
        case Known(name):
            return bool(worked_out(name, release))
        case ByHelm():
            return False
        case Not(inner):
            return not holds(inner, release)
        case All():
            return all(holds(each, release) for each in condition.conditions)
        case Either():
            return any(holds(each, release) for each in condition.conditions)


def _entries(tree: Mapping[Any, Tree], release: Release) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(key, Spread):
            yield from release.value(key.path).items()
            continue
        found = evaluate(value, release)
        if found is not NOTHING:
            yield key, found


def _items(tree: list[Tree] | tuple[Tree, ...], release: Release) -> Iterator[Any]:
    for item in tree:
        if isinstance(item, Spread):
            yield from release.value(item.path)
            continue
        found = evaluate(item, release)
        if found is not NOTHING:
            yield found


@singledispatch
def _fill(node: Tree, release: Release) -> Any:  # noqa: ARG001 - nodes need it
    return node


@_fill.register(Value)
@_fill.register(Block)
def _value(node: Value | Block, release: Release) -> Any:
    return release.value(node.path)


@_fill.register
def _named(node: Named, release: Release) -> Any:
    return worked_out(node.name, release)


@_fill.register
def _number(node: Number, release: Release) -> Any:
    return int(worked_out(node.name, release))


@_fill.register
def _shared(node: Shared, release: Release) -> Any:
    return evaluate(node.tree, release)


@_fill.register
def _with_gaps(node: Text, release: Release) -> Any:
    return node.pattern.format(*(evaluate(part, release) for part in node.parts))


@_fill.register
def _when(node: When, release: Release) -> Any:
    if holds(node.condition, release):
        return evaluate(node.then, release)
    return NOTHING if node.otherwise is None else evaluate(node.otherwise, release)


@_fill.register
def _merged(node: Merged, release: Release) -> Any:
    found: dict[str, Any] = {}
    for layer in node.layers:
        found = over(found, evaluate(layer, release))
    return found


@_fill.register
def _as_text(node: AsText, release: Release) -> Any:
    return to_yaml(evaluate(node.tree, release))


@_fill.register
def _digest(node: Digest, release: Release) -> Any:
    found = [evaluate(tree, release) for tree in node.trees]
    text = json.dumps([each for each in found if each is not NOTHING], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """``top`` laid over ``base``; lists are taken whole."""
    found = dict(base)
    for key, value in top.items():
        known = found.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        found[key] = over(known, value) if both else value  # type: ignore[arg-type]
    return found
