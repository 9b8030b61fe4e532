"""Edits a YAML or JSON text in place, and leaves everything else, comments included, unchanged.

A value is found by the parser's marks; nothing else is rewritten.
"""

import json
from dataclasses import replace
from typing import Any

import yaml

from bayplan.doctor.finding import Put, Remove, Rename, Repair
from bayplan.kube.yaml import Path, YamlError, read_documents

_NULL = "tag:yaml.org,2002:null"
Pair = tuple[yaml.Node, yaml.Node]


class CannotEdit(Exception):
    """The text cannot be edited in place."""


def edited(text: str, document: int, repair: Repair) -> str:
    """The text with one change in one of its documents; raises `CannotEdit`.

    The result is parsed again: a text in which anything else changed is refused.
    """
    try:
        new = _attempt(text, document, repair)
        before, after = ([page.data for page in read_documents(each, source="")] for each in (text, new))
        before[document] = _applied(before[document], repair)
        same = json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True)
    except (YamlError, ValueError, IndexError) as error:
        raise CannotEdit(f"it cannot be done in place: {error}") from error
    # A value with an anchor is used in several places, which would all change.
    if not same and not ("&" in text and "*" in text):
        raise CannotEdit("something else would change")
    return new


def _applied(data: Any, repair: Repair) -> Any:
    """The data as it should be afterwards; keys stay in their places."""
    if len(repair.path) > 1:
        step, rest = repair.path[0], replace(repair, path=repair.path[1:])
        if isinstance(data, list):
            return [_applied(item, rest) if n == step else item for n, item in enumerate(data)]
        return {key: _applied(item, rest) if key == step else item for key, item in data.items()}
    key = str(repair.path[0])
    if isinstance(repair, Rename):
        return {repair.name if k == key else k: item for k, item in data.items()}
    if isinstance(repair, Remove):
        return {k: item for k, item in data.items() if k != key}
    return {**data, key: repair.value}


def _attempt(text: str, document: int, repair: Repair) -> str:
    root = _document(text, document)
    parent = _node(root, repair.path[:-1])
    if not isinstance(parent, yaml.MappingNode):
        raise CannotEdit("it is no mapping")
    pair = _pair(parent, str(repair.path[-1]))
    if isinstance(repair, Rename):
        return _spliced(text, _there(pair)[0], _key(repair.name, parent))
    if isinstance(repair, Remove):
        return _without(text, parent, _there(pair))
    if pair is not None:
        if not isinstance(pair[1], yaml.ScalarNode):
            raise CannotEdit("it is no plain value")
        return _replaced(text, pair, _value(repair.value, pair[1], parent))
    return _added(text, parent, repair)


def _document(text: str, number: int) -> yaml.Node:
    roots = [
        root
        for root in yaml.compose_all(text, Loader=yaml.CSafeLoader)
        if root is not None and root.tag != _NULL
    ]
    if number >= len(roots):
        raise CannotEdit("there is no such document")
    root: yaml.Node = roots[number]
    return root


def _node(root: yaml.Node, path: Path) -> yaml.Node:
    for step in path:
        if isinstance(step, int) and isinstance(root, yaml.SequenceNode) and step < len(root.value):
            root = root.value[step]
        elif isinstance(root, yaml.MappingNode):
            root = _there(_pair(root, str(step)))[1]
        else:
            raise CannotEdit("the path leads nowhere")
    return root


def _pair(mapping: yaml.MappingNode, key: str) -> Pair | None:
    return next((pair for pair in mapping.value if pair[0].value == key), None)


def _there(pair: Pair | None) -> Pair:
    if pair is None:
        raise CannotEdit("it is merged in from elsewhere")
    return pair


def _offset(text: str, mark: Any) -> int:
    """Where a mark is; lines end as YAML ends them, and columns count characters."""
    start = 0
    for _ in range(mark.line):
        start = _line_end(text, start)
    return start + int(mark.column)


def _line_end(text: str, start: int) -> int:
    """Where the next line begins."""
    end = text.find("\n", start)
    return len(text) if end < 0 else end + 1


def _spliced(text: str, node: yaml.Node, new: str) -> str:
    return text[: _offset(text, node.start_mark)] + new + text[_offset(text, node.end_mark) :]


def _replaced(text: str, pair: Pair, new: str) -> str:
    """A value that is empty, as in ``weight:``, has no place of its own: it goes behind the colon."""
    key, value = pair
    start, end = _offset(text, value.start_mark), _offset(text, value.end_mark)
    if start == end:
        after = text.index(":", _offset(text, key.end_mark)) + 1
        return f"{text[:after]} {new}{text[after:]}"
    if text[start] in "|>":
        raise CannotEdit("it is a block of text")
    return text[:start] + new + text[end:]


def _added(text: str, parent: yaml.MappingNode, put: Put) -> str:
    """Behind a key whose value is on one line, in the style of the mapping."""
    key, value = _there(_pair(parent, put.after) or (parent.value[0] if parent.value else None))
    flow = parent.flow_style
    name = _key(str(put.path[-1]), parent)
    new = f"{name}: {_value(put.value, value, parent)}"
    if flow:
        at = _offset(text, value.end_mark)
        return f"{text[:at]}, {new}{text[at:]}"
    if not isinstance(value, yaml.ScalarNode) or value.start_mark.line != value.end_mark.line:
        # Inserted before it: the end of a list or a mapping is hard to tell.
        at = _offset(text, key.start_mark)
        return f"{text[:at]}{new}{_newline(text)}{' ' * key.start_mark.column}{text[at:]}"
    at = _line_end(text, _offset(text, value.end_mark))
    line = f"{' ' * key.start_mark.column}{new}{_newline(text)}"
    ended = text[:at] if text[:at].endswith("\n") else text[:at] + _newline(text)
    return ended + line + text[at:]


def _without(text: str, parent: yaml.MappingNode, pair: Pair) -> str:
    place = parent.value.index(pair)
    start, end = _offset(text, pair[0].start_mark), _offset(text, pair[1].end_mark)
    if parent.flow_style:
        if place + 1 < len(parent.value):
            end = _offset(text, parent.value[place + 1][0].start_mark)
        elif place:
            start = _offset(text, parent.value[place - 1][1].end_mark)
        return text[:start] + text[end:]
    if not isinstance(pair[1], yaml.ScalarNode):
        raise CannotEdit("it is no plain value")
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].strip():
        # The first key behind "- ": the next one takes its place.
        if place + 1 >= len(parent.value):
            raise CannotEdit("nothing else is in the mapping")
        return text[:start] + text[_offset(text, parent.value[place + 1][0].start_mark) :]
    if len(parent.value) == 1:
        # An empty text remains, which is null; the API takes that for an empty mapping.
        return f"{text[:start]}{{}}{text[end:]}"
    return text[:line] + text[_line_end(text, max(start, end - 1)) :]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _key(name: str, parent: yaml.MappingNode) -> str:
    quoted = parent.flow_style and any(key.style == '"' for key, _ in parent.value)
    return json.dumps(name) if quoted else name


def _value(value: Any, old: yaml.Node, parent: yaml.MappingNode) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    plain = (
        yaml.safe_load(value) == value if value and not set(value) & set(":#{}[],&*!|>'\"%@`\\ ") else False
    )
    json_like = parent.flow_style and any(key.style == '"' for key, _ in parent.value)
    if json_like or getattr(old, "style", None) == '"':
        return json.dumps(value, ensure_ascii=False)
    if plain or (_is_url(value) and not parent.flow_style):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_url(value: str) -> bool:
    return value.startswith(("http://", "https://")) and not set(value) & set(" #,[]{}'\"\\")
