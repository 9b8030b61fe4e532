"""A tree printed as a Helm template: what `evaluate` fills in here, Helm fills in there."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

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

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9 ./_-]*[A-Za-z0-9]|[A-Za-z]")
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_MAPPINGS = (dict, Block, Shared, Merged)


def print_template(tree: Tree, *, indent: int = 0) -> str:
    """The tree as lines of a template, each with its newline."""
    return "".join(f"{line}\n" for line in _block(tree, indent))


def print_condition(condition: Condition) -> str:  # noqa: C901, PLR0911 - one line a kind
    """A condition as an argument of ``if``."""
    match condition:
        case Is(path, text):
            return f"(eq .Values.{path} {json.dumps(text)})"
        case Given(path):
            return f".Values.{path}"
        case MoreThan(path, number):
            return f"(gt (int .Values.{path}) {number})"
        case AtLeast(minor):
            return f'(semverCompare ">=1.{minor}.0-0" (include "bayplan.kubernetesVersion" .))'
        case InNamespace(name):
            return f"(eq .Release.Namespace {json.dumps(name)})"
        case Configured(path):
            steps = " ".join(json.dumps(step) for step in path.split("."))
            return f"(dig {steps} false .Values.config)"
        case Known(name):
            return f'(include "bayplan.{name}" .)'
        case ByHelm():
            return "true"
        case Not(inner):
            return f"(not {print_condition(inner)})"
        case All() | Either():
            word = "and" if isinstance(condition, All) else "or"
            return f"({word} {' '.join(map(print_condition, condition.conditions))})"


def _block(tree: Tree, indent: int) -> Iterator[str]:
    """The lines of a mapping or a list, from their own line on."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _spread(key, indent) if isinstance(key, Spread) else _entry(key, value, indent)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from _spread(item, indent) if isinstance(item, Spread) else _item(item, indent)
    else:
        yield f"{' ' * indent}{_inline(tree)}" if not isinstance(tree, _MAPPINGS) else _piped(tree, indent)


def _entry(key: str, value: Tree, indent: int) -> Iterator[str]:
    pad, name = " " * indent, _scalar(key)
    if isinstance(value, When):
        yield from _choice(
            value,
            list(_entry(key, value.then, indent)),
            list(_entry(key, value.otherwise, indent)) if value.otherwise is not None else [],
        )
    elif isinstance(value, AsText):
        yield f"{pad}{name}: |"
        yield from _block(value.tree, indent + 2)
    elif isinstance(value, dict | list | tuple) and value:
        yield f"{pad}{name}:"
        yield from _block(value, indent if isinstance(value, list | tuple) else indent + 2)
    elif isinstance(value, Block | Shared | Merged):
        yield f"{pad}{name}:"
        yield _piped(value, indent + 2)
    else:
        yield f"{pad}{name}: {_inline(value)}"


def _item(item: Tree, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(item, When):
        yield from _choice(
            item,
            list(_item(item.then, indent)),
            list(_item(item.otherwise, indent)) if item.otherwise is not None else [],
        )
    elif isinstance(item, dict):
        first, *rest = _block(item, indent + 2)
        assert not first.lstrip().startswith("{{"), "the first key of an item stands behind its dash"
        yield f"{pad}- {first.lstrip()}"
        yield from rest
    elif isinstance(item, Shared):
        yield f"{pad}-"
        yield _piped(item, indent + 2)
    else:
        yield f"{pad}- {_inline(item)}"


def _choice(node: When, then: Sequence[str], otherwise: Sequence[str]) -> Iterator[str]:
    yield f"{{{{- if {print_condition(node.condition)} }}}}"
    yield from then
    if otherwise:
        yield "{{- else }}"
        yield from otherwise
    yield "{{- end }}"


def _spread(node: Spread, indent: int) -> Iterator[str]:
    yield f"{{{{- with .Values.{node.path} }}}}"
    yield f"{{{{- toYaml . | nindent {indent} }}}}"
    yield "{{- end }}"


def _piped(node: Any, indent: int) -> str:
    """A mapping or list that Helm itself writes, on lines of its own."""
    match node:
        case Block(path):
            text = f"toYaml .Values.{path}"
        case Shared(name):
            text = f'include "bayplan.{name}" .'
        case Merged(layers):
            parts = " ".join(
                f'(include "bayplan.{layer.name}" . | fromYaml)'
                if isinstance(layer, Shared)
                else f"(deepCopy .Values.{layer.path})"
                for layer in layers
            )
            text = f"mergeOverwrite {parts} | toYaml"
    return f"{{{{- {text} | nindent {indent} }}}}"


@singledispatch
def _inline(node: Tree) -> str:
    return _scalar(node)


@_inline.register
def _value(node: Value) -> str:
    return f"{{{{ .Values.{node.path} | toJson }}}}"


@_inline.register
def _named(node: Named) -> str:
    return f'{{{{ include "bayplan.{node.name}" . | quote }}}}'


@_inline.register
def _number(node: Number) -> str:
    return f'{{{{ include "bayplan.{node.name}" . }}}}'


@_inline.register
def _text(node: Text) -> str:
    parts = " ".join(
        f'(include "bayplan.{part.name}" .)' if isinstance(part, Named) else f"(toString .Values.{part.path})"
        for part in node.parts
    )
    return f"{{{{ printf {json.dumps(node.pattern.replace('{}', '%s'))} {parts} | quote }}}}"


@_inline.register
def _digest(node: Digest) -> str:
    parts = " ".join(f'(include (print $.Template.BasePath "/{name}") .)' for name in node.templates)
    return f"{{{{ print {parts} | sha256sum }}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value, ensure_ascii=False)
