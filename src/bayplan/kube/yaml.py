"""YAML read the way Kubernetes means it: strict, no dates, and every value knows its line.

``sigs.k8s.io/yaml`` turns YAML into JSON, so a timestamp is a string; duplicate keys are refused.
A key beside a merge (``<<``) wins over what is merged.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import yaml

Path = tuple[str | int, ...]

# Aliases can blow a short text up to any size ("billion laughs"). Without them a text of any size has fewer
# values than characters; with them an honest one stays far below this.
_VALUES_OF_ANY_TEXT = 100_000
_VALUES_PER_CHARACTER = 4
# libyaml's composer recurses in C without a guard: a file of brackets would end the process.
_DEPTH_LIMIT = 200
_MERGE = "<<"
# A name is looked for among those that somebody else sent, a hundred thousand of them if he likes.
_LOOKED_AT = 20_000
_COMPARED = 1_000
# With more names than this, the word says too little.
_LONGER_LIMIT = 4


class YamlError(ValueError):
    """The file cannot be read; the text says where and what to do."""


class _Loader(yaml.CSafeLoader):
    """Resolves scalars to what JSON has, so that a date stays the string it was written as."""

    _depth = 0

    def descend_resolver(self, *_: Any) -> None:
        """Called by the composer on its way into every node; the only place to count them."""
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Called by the composer on its way out."""
        self._depth -= 1


_TAG = "tag:yaml.org,2002:"
_NOT_IN_JSON = {f"{_TAG}timestamp", f"{_TAG}merge", f"{_TAG}value"}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag not in _NOT_IN_JSON]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _as_written(loader: _Loader, node: Any) -> Any:
    return loader.construct_scalar(node)


_Loader.add_constructor(f"{_TAG}timestamp", _as_written)
_Loader.add_constructor(f"{_TAG}binary", _as_written)


@dataclass(frozen=True)
class Document:
    """One YAML document: its data, and the line of every path in it."""

    source: str
    data: Any
    lines: dict[Path, int]

    def line(self, path: Path) -> int:
        """The line of the value at ``path``, or of the nearest parent that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return 1


def read_documents(text: str | bytes, *, source: str) -> Iterator[Document]:
    """The documents of a YAML (or JSON) text, empty ones left out."""
    try:
        builder = _Builder(source, _VALUES_OF_ANY_TEXT + _VALUES_PER_CHARACTER * len(text))
        for root in yaml.compose_all(text, Loader=_Loader):
            if root is not None:
                document = builder.document(root)
                if document.data is not None:
                    yield document
    except yaml.YAMLError as error:
        raise YamlError(_explain(error, source, text)) from error
    except RecursionError as error:
        raise YamlError(f"{source}: nested too deeply") from error


def suggest(word: str, known: Iterable[str]) -> str:
    """A tail for an error message: ``; did you mean 'x'?``, or the few names that exist."""
    names = list(islice(known, _LOOKED_AT))
    if close := did_you_mean(word, names):
        return close
    if 0 < len(names) <= 24:
        return f"; known here: {', '.join(sorted(names))}"
    return ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a name is close or longer; else nothing.

    For ``max`` these are ``maxSkew`` and ``maxPerDomain``. Of very many names some are looked at.
    """
    names = list(islice(known, _LOOKED_AT))
    if len(names) > _COMPARED:
        # Whoever mistypes a name mostly has its first letter right.
        names = [name for name in names if name[:1] == word[:1]][:_COMPARED]
    close = difflib.get_close_matches(word, sorted(names), n=1, cutoff=0.6)
    meant = dict.fromkeys([*close, *_longer(word, names)])
    return f"; did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def _longer(word: str, names: list[str]) -> list[str]:
    """The few names that have ``word`` as their first words, as ``maxSkew`` has ``max``."""
    found = sorted(name for name in names if name.startswith(word) and name[len(word) :][:1].isupper())
    return found if word and len(found) <= _LONGER_LIMIT else []


def _line(text: str | bytes, number: int) -> str:
    raw = text.encode(errors="replace") if isinstance(text, str) else text
    # The end of the text counts as a line of its own.
    return b"".join(raw.split(b"\n")[number : number + 1]).decode(errors="replace")


def _explain(error: yaml.YAMLError, source: str, text: str | bytes) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    if mark:
        begun = getattr(error, "context_mark", None) or mark
        problem = _in_words(problem, _line(text, mark.line), mark.column, since=begun.line + 1)
    return f"{where}: not valid YAML: {problem}"


def _in_words(problem: str, line: str, column: int, *, since: int) -> str:
    """What libyaml says, and what to do about it; most who meet it wrote an expression without quotes.

    ``since`` is the number of the line where the value began that could not be read.
    """
    before, first = line[:column].rstrip(), line[column : column + 1]
    if problem == _NO_START and line.lstrip(" ").startswith("\t"):
        return "a tab, where YAML wants spaces"
    if problem == _NO_KEY and before.endswith(("'", '"')):
        quote = before[-1]
        return f"text after the closing {quote}; a text with {quote} in it needs the other quotes around it"
    # Mostly an expression, `a ? b : c`, or a line that stands a space too far to the right.
    if problem == "mapping values are not allowed in this context":
        return "a `: ` where no key can be; a text that has one needs quotes, and keys one indentation"
    advice = _ADVICE.get(problem)
    return f"{problem}; {advice.format(first=first, since=since)}" if advice else problem


_NO_START = "found character that cannot start any token"
_NO_KEY = "did not find expected key"
_QUOTES = "a text that begins with {first} needs quotes"
_ADVICE = {
    _NO_START: _QUOTES,
    _NO_KEY: "keys of one mapping need one indentation",
    "did not find expected alphabetic or numeric character": _QUOTES.format(first="* or &"),
    "found undefined alias": _QUOTES.format(first="*"),
    "found unexpected end of stream": "a quote of line {since} is not closed",
    "found unknown escape character": (
        "between double quotes a backslash is written twice, between single quotes once"
    ),
}


class _Builder:
    """Turns composed nodes into plain values and notes their lines."""

    def __init__(self, source: str, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._lines: dict[Path, int] = {}
        self._scalars = _Loader("")
        self._built = 0

    def document(self, root: Any) -> Document:
        """One of the documents of the text; the limit is for all of them."""
        self._lines = {}
        return Document(self._source, self._build(root, ()), self._lines)

    def _count(self) -> None:
        self._built += 1
        if self._built > self._limit:
            raise YamlError(f"{self._source}: more than {self._limit} values; too many aliases?")

    def _build(self, node: Any, path: Path) -> Any:
        self._count()
        self._lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node)
            if key == _MERGE:
                merged = self._merged(value_node, path) | merged
                continue
            if key in values:
                raise YamlError(
                    f"{self._source}:{line}: key {key!r} is given twice"
                    f" (first on line {self._lines.get((*path, key), '?')}); keep one of them"
                )
            values[key] = self._build(value_node, (*path, key))
            self._lines[(*path, key)] = line
        return merged | values

    def _merged(self, node: Any, path: Path) -> dict[str, Any]:
        """The mapping, or the list of mappings with the first one strongest, that is merged in."""
        merged: dict[str, Any] = {}
        for number, part in enumerate(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            # What is merged may be empty, and is work all the same.
            self._count()
            if not isinstance(part, yaml.MappingNode):
                line = part.start_mark.line + 1
                raise YamlError(f"{self._source}:{line}: only a mapping can be merged with <<")
            merged = self._mapping(part, (*path, _MERGE, number)) | merged
        return merged

    def _key(self, node: Any) -> str:
        value = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(value, str):
            line = node.start_mark.line + 1
            raise YamlError(f"{self._source}:{line}: a key must be text; put quotes around it")
        return value

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if ":" in node.value and node.tag in (f"{_TAG}int", f"{_TAG}float"):
            # To YAML 1.1 12:30 is a number to the base of 60; to Go and to people it is a text.
            return node.value
        line = node.start_mark.line + 1
        try:
            return self._scalars.construct_object(node)
        except yaml.constructor.ConstructorError as error:
            quotes = f"; {_QUOTES.format(first='!')}" if not node.tag.startswith(_TAG) else ""
            raise YamlError(f"{self._source}:{line}: tag {node.tag!r} is not allowed{quotes}") from error
        except (ValueError, LookupError) as error:
            kind = node.tag.removeprefix(_TAG)
            raise YamlError(f"{self._source}:{line}: {node.value[:60]!r} is no {kind}") from error
