"""The table of a decision's nodes: sorted by any policy, a page at a time, with bars for what each adds."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs

from bayplan.engine.decision import NOBODY
from bayplan.engine.entry import Entry, Voice
from bayplan.web.frame import bar, choice, field, mark, pages
from bayplan.web.markup import Child, Html, link, tag
from bayplan.web.nodes import Chosen, NodeQuery, shares, speakers

_COLOURS = 6


def node_table(entry: Entry, query: NodeQuery, chosen: Chosen, wire: Sequence[int]) -> Html:
    """One page of nodes, and the form that chooses them; ``wire`` is what kube-scheduler was told, if so."""
    path = f"/decisions/{entry.number}"
    given = {k: v for k, v in structs.asdict(query).items() if k not in ("page", "sort", "order")}
    sorting = {"sort": chosen.sort, "order": chosen.order}
    voices = speakers(entry)
    head: list[Child] = [
        _title("node", "Node", path, given, chosen),
        _title("verdict", "Verdict", path, given, chosen) if entry.total is None else None,
        _title("total", "Total", path, given, chosen, class_="number") if entry.total is not None else None,
        tag("th", "Parts", scope="col") if entry.total is not None else None,
    ]
    colours = _colours(voices)
    for number, voice in voices:
        swatch = tag("i", class_=f"swatch {colours[number]}") if number in colours else None
        text: Child = [swatch, voice.policy, tag("span", f" {voice.hook}", class_="quiet")]
        head.append(_title(f"v{number}", text, path, given, chosen, class_="number"))
    refusals = {number: _refusals(voice) for number, voice in voices}
    rows = [
        _row(entry, place, voices, wire=wire, refusals=refusals, colours=colours) for place in chosen.places
    ]
    titles = tag("tr", head)
    made = tag("table", tag("thead", titles), tag("tbody", [tag("tr", row) for row in rows]), class_="nodes")
    kept = [tag("input", type="hidden", name=name, value=value) for name, value in sorting.items()]
    if query.group:
        kept.append(tag("input", type="hidden", name="group", value=query.group))
    form = tag(
        "form",
        *kept,
        field("node", "Node", query.node, hint="part of its name"),
        choice("show", "Show", ("passed", "refused"), query.show, any_="all")
        if entry.total is None
        else None,
        tag("div", tag("button", "Show"), tag("a", "Clear", href=path + "#nodes"), class_="buttons"),
        method="get",
        action=path + "#nodes",
        class_="filters",
    )
    return tag(
        "section",
        tag("h2", "Nodes", tag("span", f" {chosen.found:,} of {len(entry.rows):,}", class_="quiet")),
        form,
        tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="Nodes"),
        pages(path, {**given, **sorting}, page=chosen.page, last=chosen.last),
        id="nodes",
    )


def _colours(voices: Sequence[tuple[int, Voice]]) -> dict[int, str]:
    """The colour of each voice that scores, by its number; those that are silent take none."""
    scoring = [number for number, voice in voices if voice.normalised is not None]
    return {number: f"colour-{place % _COLOURS}" for place, number in enumerate(scoring)}


def _title(
    key: str, text: Child, path: str, given: Mapping[str, str], chosen: Chosen, *, class_: str = ""
) -> Html:
    """A heading that sorts, and turns the order around when it is the one already."""
    here = chosen.sort == key
    order = ("asc" if chosen.order == "desc" else "desc") if here else ""
    sign = {"asc": "▲", "desc": "▼"}[chosen.order] if here else ""
    said = {"asc": "ascending", "desc": "descending"}[chosen.order] if here else None
    address = link(path, **given, sort=key, order=order) + "#nodes"
    shown = tag("a", text, tag("span", f" {sign}", aria_hidden="true") if sign else None, href=address)
    return tag("th", shown, scope="col", aria_sort=said, class_=class_ or None)


def _row(
    entry: Entry,
    place: int,
    voices: Sequence[tuple[int, Voice]],
    *,
    wire: Sequence[int],
    refusals: Mapping[int, Mapping[int, int]],
    colours: Mapping[int, str],
) -> list[Child]:
    by = int(entry.refused_by[place])
    name = tag("span", entry.names[int(entry.rows[place])], class_="name")
    cells: list[Child] = [tag("th", name, scope="row")]
    if entry.total is None:
        cells.append(tag("td", _verdict(entry, place, by, refusals), class_="verdict"))
    else:
        total = f"{entry.total[place]:.1f}"
        said = "as kube-scheduler was told, 0 to 10"
        told = tag("span", f" → {wire[place]}", class_="quiet", title=said) if wire else None
        parts = [(colours[number], points) for number, points in shares(entry, place)]
        cells += [tag("td", total, told, class_="number"), tag("td", bar(parts))]
    for number, voice in voices:
        cells.append(tag("td", _said(voice, place, refusals[number]), class_="number"))
    return cells


def _verdict(entry: Entry, place: int, by: int, refusals: Mapping[int, Mapping[int, int]]) -> Child:
    if by == NOBODY:
        return mark("passed" if not entry.error else "asked")
    voice = entry.voices[by]
    at = refusals.get(by, {}).get(place)
    if at is None or voice.codes is None:
        return mark("refused")
    detail = voice.detail(at)
    reason = voice.reasons[int(voice.codes[at]) - 1].text
    return [mark("refused"), f" {reason}", tag("span", f" {detail}", class_="quiet") if detail else None]


def _said(voice: Voice, place: int, refused: Mapping[int, int]) -> Child:
    """What one voice said of one node."""
    if voice.normalised is not None:
        value = float(voice.normalised[place])
        raw = None if voice.raw is None else f"{float(voice.raw[place]):g} before it was put on the scale"
        if np.isnan(value):
            return tag("span", "no opinion", class_="quiet")
        behind = voice.behind(place)
        told = tag("span", f" {behind}", class_="quiet") if behind else None
        return [tag("span", f"{value:.1f}", title=raw), told]
    if place not in refused or voice.codes is None:
        return tag("span", "·", class_="quiet", title="did not refuse it")
    at = refused[place]
    reason = voice.reasons[int(voice.codes[at]) - 1].text
    return tag("span", "would refuse" if voice.shadow or voice.void else "refuses", title=reason)


def _refusals(voice: Voice) -> dict[int, int]:
    """Where in the voice's refusals each node is."""
    return {} if voice.rows is None else {place: at for at, place in enumerate(voice.rows.tolist())}
