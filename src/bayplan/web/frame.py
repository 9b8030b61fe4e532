"""What every page has around it: head, navigation, and pieces that look the same everywhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.web.markup import Child, Html, link, tag, together

_PLACES = (("/", "Decisions"), ("/cluster", "Cluster"), ("/shadow", "Shadow"), ("/state", "State"))
_MARKS = {
    "ok": "good",
    "passed": "good",
    "fine": "good",
    "refused": "refused",
    "error": "error",
    "look": "error",
}
_BAR = 100
_STEPS = (("s", 1), ("ms", 1e-3), ("µs", 1e-6))


def frame(title: str, *content: Child, here: str, version: str) -> Html:
    """A whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · Bayplan"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/page.css"),
        tag("script", src="/static/page.js", type="module"),
    )
    places = [
        tag("a", text, href=path, aria_current="page" if path == here else None) for path, text in _PLACES
    ]
    header = tag(
        "header",
        tag("a", "Skip to content", href="#main", class_="skip"),
        tag("a", "Bayplan", href="/", class_="brand"),
        tag("nav", places, aria_label="Pages"),
        tag("span", id="live", class_="live", role="status"),
        tag("button", "Pause", id="pause", type="button", hidden=True),
        class_="top",
    )
    footer = tag("footer", f"Bayplan {version}".strip(), " · times are UTC")
    main = tag("main", *content, id="main", tabindex="-1")
    body = tag("body", header, main, footer)
    return together([Html("<!doctype html>"), tag("html", head, body, lang="en")])


def mark(result: str) -> Html:
    """A result as a badge: a word and a colour."""
    return tag("span", result, class_=f"mark {_MARKS.get(result, 'plain')}")


def choice(name: str, label: str, options: Sequence[str], chosen: str, *, any_: str = "any") -> Html:
    """A labelled select; what is chosen stays there even where it is no option any more."""
    known = [*options, chosen] if chosen and chosen not in options else list(options)
    entries = [tag("option", any_, value="")] if any_ else []
    entries += [tag("option", text, value=text, selected=text == chosen) for text in known]
    return tag("label", tag("span", label), tag("select", entries, name=name))


def field(name: str, label: str, value: str, *, hint: str = "") -> Html:
    """A labelled line of text."""
    typed = tag("input", type="search", name=name, value=value, placeholder=hint, autocomplete="off")
    return tag("label", tag("span", label), typed)


def facts(pairs: Mapping[str, Child]) -> Html:
    """Names with what they stand for; those without a value are left out."""
    given = [(name, value) for name, value in pairs.items() if value not in ("", None)]
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in given], class_="facts")


def table(head: Sequence[Child], rows: Sequence[Sequence[Child]], *, caption: str, class_: str = "") -> Html:
    """A table; a cell is what stands in it, or a whole ``td``, or empty markup for none."""
    titles = tag("tr", [_cell("th", each, scope="col") for each in head])
    body = [tag("tr", [_cell("td", each) for each in row]) for row in rows]
    made = tag("table", tag("caption", caption), tag("thead", titles), tag("tbody", body), class_=class_)
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def pages(path: str, query: Mapping[str, Any], *, page: int, last: int) -> Html:
    """Links to the pages before and after."""
    if last <= 1:
        return Html("")
    before = tag("a", "← Previous", href=link(path, **{**query, "page": page - 1})) if page > 1 else None
    after = tag("a", "Next →", href=link(path, **{**query, "page": page + 1})) if page < last else None
    return tag(
        "nav",
        before,
        tag("span", f"page {page} of {last}"),
        after,
        class_="pages",
        aria_label="Pages of nodes",
    )


def bar(parts: Sequence[tuple[str, float]]) -> Html:
    """A bar of parts side by side, 100 wide."""
    drawn, left = [], 0.0
    for style, width in parts:
        drawn.append(
            tag("rect", x=f"{left:.1f}", width=f"{width:.1f}", y=0, height=10, class_=f"bar {style}")
        )
        left += width
    ground = tag("rect", x=0, y=0, width=_BAR, height=10, class_="ground")
    return tag(
        "svg",
        ground,
        *drawn,
        viewBox=f"0 0 {_BAR} 10",
        class_="part",
        aria_hidden="true",
        preserveAspectRatio="none",
    )


def duration(seconds: float) -> str:
    """``1.3 ms``; nothing where it was not taken."""
    if seconds <= 0:
        return ""
    unit, size = next((step for step in _STEPS if seconds >= step[1]), _STEPS[-1])
    return f"{seconds / size:.3g} {unit}"


def _cell(name: str, content: Child, **attributes: str) -> Html:
    if isinstance(content, Html) and (not content or content.startswith(("<td", "<th"))):
        return content
    return tag(name, content, **attributes)


def notice(*content: Child, class_: str = "notice") -> Html:
    """A sentence that stands out."""
    return tag("p", *content, class_=class_)


def heading(text: Child, *more: Child) -> Html:
    """The title of a page."""
    return together([tag("h1", text), *more])
