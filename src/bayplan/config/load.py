"""Reading the configuration: strict, and every error names file, line and the nearest right name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bayplan.config.v1 import BayplanConfiguration
from bayplan.kube.duration import decode_duration
from bayplan.kube.unread import unread
from bayplan.kube.yaml import Document, YamlError, read_documents, suggest

T = TypeVar("T")

_AT = re.compile(r" - at `\$([^`]*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `([^`]*)`")
_ENUM = re.compile(r"^Invalid enum value '([^']*)'")
_MISSING = re.compile(r"^Object missing required field `([^`]*)`")
# What msgspec calls things, and what people call them.
_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "text",
}
_NAME = "|".join(_WORDS)
_TYPES = re.compile(rf"`((?:{_NAME})(?: \| (?:{_NAME}))*)`")
_NOT_TEXT = re.compile(r"^Expected `str(?: \| null)?`, got `(?:bool|int|float)`$")
_TEXT = re.compile(r", got `str`$")
_PATTERN = re.compile(r"matching regex '.*'$")
_NOT_NUMBER = re.compile(r"^Expected `(?:int|float)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ZERO = re.compile(r"(?<=[<>=] )(-?\d+)\.0$")
_ADDRESS = "; write HOST:PORT, such as 127.0.0.1:8888"
_WRITE: dict[tuple[str | int, ...], str] = {
    ("extender", "listen"): _ADDRESS,
    ("extender", "opsListen"): _ADDRESS,
    ("scheduler", "opsListen"): _ADDRESS,
    ("extender", "answer", "keep"): "; write `all`, or the number of nodes, such as 1",
}
_ENTRY = len(("policies", 0))
_MEANT = "; did you mean"
# A key of more sections than that is a word that says nothing, such as `name`.
_FEW = 2
_STEP = re.compile(r"\.([A-Za-z0-9_]+)|\[(\d+)\]|\[\.\.\.\]")


class ConfigError(Exception):
    """The configuration cannot be used; the text says where and what to do."""


class SettingError(ConfigError):
    """The value of one ``key``, such as ``page.listen``, cannot be used; `naming_the_line` tells its line."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}{text}")
        self.key = key
        self.text = text


def load_config(path: Path) -> tuple[BayplanConfiguration, Document]:
    """The configuration in a file, and the document that knows its lines."""
    if path.suffix == ".py":
        raise ConfigError(
            f"{path} is a policy, not a configuration: give it without --config, or name it in one,"
            f" under `policies:`, as `- use: {path.name}`"
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(unread(path, error, or_else="; `bayplan init` writes a first one")) from error
    return parse_config(content, source=str(path))


def parse_config(content: bytes, *, source: str) -> tuple[BayplanConfiguration, Document]:
    """The configuration in a text; ``source`` is how errors call it."""
    try:
        documents = list(read_documents(content, source=source))
    except YamlError as error:
        raise ConfigError(str(error)) from error
    if not documents:
        raise ConfigError(f"{source}: the file is empty; `bayplan init` writes a first one")
    if len(documents) != 1:
        raise ConfigError(f"{source}: want one YAML document, found {len(documents)}")
    return convert(documents[0], BayplanConfiguration), documents[0]


def convert(document: Document, kind: type[T]) -> T:
    """The document as that type, or an error with its line."""
    try:
        return msgspec.convert(document.data, kind, dec_hook=decode_duration)
    except msgspec.ValidationError as error:
        raise explain(error, document, kind) from error


def explain(
    error: msgspec.ValidationError, document: Document, kind: Any, *, base: tuple[str | int, ...] = ()
) -> ConfigError:
    """The same error for people: ``file.yaml:12: policies[0].wieght: unknown key; did you mean ...``."""
    text = str(error)
    at = _AT.search(text)
    steps = _path(at[1]) if at else ()
    path = (*base, *steps)
    message = text[: at.start()] if at else text
    if unknown := _UNKNOWN.match(text):
        here = _walk(kind, steps)
        hint = _further_down(unknown[1], here, path) or _of_an_entry(unknown[1], here)
        hint = hint or suggest(unknown[1], _names(here))
        if path[:1] == ("policies",) and len(path) == _ENTRY and not hint.startswith(_MEANT):
            hint = f"; what the policy itself takes goes under `args`{hint}"
        return ConfigError(place(document, (*path, unknown[1])) + f": unknown key{hint}")
    if invalid := _ENUM.match(text):
        allowed = getattr(_walk(kind, steps), "values", ())
        hint = suggest(invalid[1], [str(value) for value in allowed])
        return ConfigError(f"{place(document, path)}: {invalid[1]!r} is not allowed{_WRITE.get(path, hint)}")
    if missing := _MISSING.match(text):
        hint = _line_to_add(missing[1], _walk(kind, (*steps, missing[1])))
        return ConfigError(f"{place(document, path)}: `{missing[1]}` is missing{hint}")
    if pattern := _PATTERN.search(message):
        wanted = _in_words_of(pattern[0], _walk_to(kind, steps))
        return ConfigError(f"{place(document, path)}: want {wanted}, got {_value(document.data, path)!r}")
    advice = _WRITE.get(path) or _advice(message, document, path)
    return ConfigError(f"{place(document, path)}: {in_words(message)}{advice}")


def _advice(message: str, document: Document, path: tuple[str | int, ...]) -> str:
    """What to do about a value of another type."""
    if message == "Expected `object`, got `null`":
        return "; indent its keys below it, or leave it out"
    # To YAML `no` and `on` are no words.
    if _NOT_TEXT.match(message):
        return "; put it in quotes"
    if _TEXT.search(message):
        written = _value(document.data, path)
        if _NOT_NUMBER.match(message) and isinstance(written, str) and _NUMBER.fullmatch(written):
            return "; leave the quotes out"
        if path[:1] == ("policies",) and len(path) == _ENTRY:
            return f"; write `- use: {written}`"
    return "; each policy begins with a dash, as in `- use: policy.py`" if path == ("policies",) else ""


def _value(data: Any, path: tuple[str | int, ...]) -> Any:
    """What is written at that path; ``None`` if nothing is."""
    for step in path:
        try:
            data = data[step]
        except (IndexError, KeyError, TypeError):
            return None
    return data


def in_words(message: str) -> str:
    """What msgspec says, without its names of types: ``want a list, got a mapping``."""
    text = _TYPES.sub(lambda found: " or ".join(_WORDS[name] for name in found[1].split(" | ")), message)
    text = _ZERO.sub(r"\1", text).replace("Expected ", "want ", 1)
    return f"{text[0].lower()}{text[1:]}"


def _line_to_add(key: str, info: Any) -> str:
    """The whole line, where only one value is allowed."""
    values: tuple[Any, ...] = getattr(info, "values", ())
    return f"; add the line `{key}: {values[0]}`" if len(values) == 1 else ""


def place(document: Document, path: tuple[str | int, ...]) -> str:
    """``file.yaml:12: policies[0].weight``: how errors call a value of the file."""
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    line = f"{document.source}:{document.line(path)}"
    return f"{line}: {dotted}" if dotted else line


def _path(text: str) -> tuple[str | int, ...]:
    return tuple(int(m[2]) if m[2] else m[1] for m in _STEP.finditer(text) if m[1] or m[2])


def _in_words_of(pattern: str, info: Any) -> str:
    """What its author says that a text with a pattern has to be; the pattern itself if he says nothing."""
    for each in getattr(info, "types", (info,)):
        extra = each.extra or {} if isinstance(each, msgspec.inspect.Metadata) else {}
        if "want" in extra:
            return str(extra["want"])
    return f"text {pattern}"


def _walk(kind: Any, steps: tuple[str | int, ...]) -> Any:
    """The type at a path, to know which keys it has."""
    return _without_null(_walk_to(kind, steps))


def _walk_to(kind: Any, steps: tuple[str | int, ...]) -> Any:
    info = msgspec.inspect.type_info(kind)
    for step in steps:
        info = _without_null(info)
        if isinstance(info, msgspec.inspect.StructType):
            info = next((f.type for f in info.fields if f.encode_name == step), info)
        else:
            info = getattr(info, "item_type", info)
    return info


def _without_null(info: Any) -> Any:
    if isinstance(info, msgspec.inspect.Metadata):
        return _without_null(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        return next((t for t in info.types if not isinstance(t, msgspec.inspect.NoneType)), info)
    return info


def _further_down(key: str, info: Any, path: tuple[str | int, ...]) -> str:
    """Where the key belongs, if that is in a section below: ``did you mean 'extender.limits'?``."""
    if any(isinstance(step, int) for step in path):
        return ""
    places = [".".join((*map(str, path), *found)) for found in _places(key, info)]
    return f"{_MEANT} {' or '.join(map(repr, places))}?" if 0 < len(places) <= _FEW else ""


def _of_an_entry(key: str, info: Any) -> str:
    """What to do with a key of a policy, a source or a profile that is written beside their list."""
    for field in getattr(info, "fields", ()):
        entry = getattr(_without_null(field.type), "item_type", None)
        if key in _names(_without_null(entry)):
            return f"; indent it, as a key of an entry of `{field.encode_name}`"
    return ""


def _places(key: str, info: Any) -> Iterator[tuple[str, ...]]:
    """The path of each key of that name in the sections of a type."""
    for field in getattr(info, "fields", ()):
        below = _without_null(field.type)
        if key in _names(below):
            yield (field.encode_name, key)
        yield from ((field.encode_name, *found) for found in _places(key, below))


def _names(info: Any) -> list[str]:
    return [field.encode_name for field in getattr(info, "fields", ())]
