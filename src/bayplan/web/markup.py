"""HTML that is escaped by construction: everything that was not made by `tag` is escaped as text."""

from collections.abc import Iterable
from html import escape
from urllib.parse import urlencode


class Html(str):
    """Text that is markup already; all other text is escaped."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]
Attribute = str | int | float | bool | None

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


def esc(text: object) -> Html:
    """Escape text; `Html` stays as it is."""
    return text if isinstance(text, Html) else Html(escape(str(text), quote=True))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element; ``aria_label`` is ``aria-label``, ``class_`` is ``class``; ``None`` is left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{together(children)}</{name}>")


def together(children: Iterable[Child]) -> Html:
    """Concatenate pieces; lists are flattened, ``None`` is skipped."""
    return Html("".join(map(_piece, children)))


def link(path: str, **query: object) -> str:
    """A URL with these parameters, without the empty ones."""
    given = {key: value for key, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given)}" if given else path


def _piece(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str | int | float):
        return esc(child)
    return together(child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{esc(str(value))}"'
