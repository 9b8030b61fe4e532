"""The cluster as a heat map: a small square a node, coloured by any column, in groups."""

from collections.abc import Sequence
from html import escape

import numpy as np
from msgspec import Struct

from bayplan.engine.entry import Entry
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import LABELS, Column
from bayplan.snapshot.strings import Strings
from bayplan.snapshot.units import Units
from bayplan.web.frame import choice, frame, heading, notice, table
from bayplan.web.heat import MISSING, STEPS, Heat, choices, read
from bayplan.web.markup import Child, Html, tag

_LARGE, _MEDIUM = 120, 1200
_MAX_GROUPS = 40
_EXTREMES = 10
_FIRST = "cpu.free"
_NO_GROUP = "none"
_GROUPS = ("zone", "region", "instance-type", "arch", "os")
_NO_CLUSTER = "No cluster is known: only the nodes that requests bring."
_NO_PODS = "Pods are not followed here (cluster.nodesOnly): what is free on nodes is not known."


class HeatQuery(Struct, frozen=True, kw_only=True):
    """What the map shows."""

    column: str = ""
    by: str = ""


def cluster_page(
    cluster: Snapshot | None,
    query: HeatQuery,
    *,
    declared: Sequence[Column | Units],
    entries: Sequence[Entry],
    problem: str,
    version: str,
) -> Html:
    """The whole page; ``problem`` is why the view of the cluster cannot be relied on."""
    if cluster is None or (problem and not len(cluster.nodes)):
        why = f"No cluster to show: {problem}." if problem else _NO_CLUSTER
        content: list[Child] = [tag("div", notice(why), id="unknown", data_live="2000")]
    else:
        content = _content(cluster, query, declared, entries, problem)
    return frame("Cluster", heading("Cluster"), *content, here="/cluster", version=version)


def _content(
    cluster: Snapshot,
    query: HeatQuery,
    declared: Sequence[Column | Units],
    entries: Sequence[Entry],
    problem: str,
) -> list[Child]:
    known = choices(cluster.nodes, declared)
    title = (
        query.column if query.column in known else next(iter([c for c in (_FIRST,) if c in known] or known))
    )
    by = query.by if query.by in (*_GROUPS, _NO_GROUP) else "zone"
    form = tag(
        "form",
        choice("column", "Colour by", list(known), title, any_=""),
        choice("by", "Group by", [*_GROUPS, _NO_GROUP], by, any_=""),
        tag("div", tag("button", "Show"), class_="buttons"),
        method="get",
        action="/cluster",
        class_="filters",
        data_auto=True,
    )
    old = notice("This may be out of date: ", problem, class_="notice bad") if problem else None
    return [
        form,
        tag(
            "output",
            "Point at a square, or go through them with the arrow keys.",
            id="cell",
            class_="quiet",
            hidden=True,
        ),
        tag("div", old, _seen(cluster, known[title], entries, by, title), id="map", data_live="5000"),
    ]


def _seen(
    cluster: Snapshot, column: str | Column, entries: Sequence[Entry], by: str, title: str
) -> list[Child]:
    if not len(cluster.nodes):
        return [notice("The cluster has no nodes.")]
    heat = read(cluster, column, entries)
    if heat is None:
        return [notice(f"The source of {title} has not answered yet, or its values are too old.")]
    no_pods = None if cluster.pods_known else notice(_NO_PODS)
    return [no_pods, _legend(heat), _map(cluster, heat, by, title), _extremes(cluster, heat, title)]


def _map(cluster: Snapshot, heat: Heat, by: str, title: str) -> list[Html]:
    names = cluster.nodes.names
    size = "large" if len(names) <= _LARGE else "medium" if len(names) <= _MEDIUM else "small"
    drawn = []
    for group, rows in _grouped(cluster, by):
        squares = "".join(
            _square(names[row], heat.texts[row], int(heat.steps[row]), bool(heat.kinds)) for row in rows
        )
        said = f"{title} of {len(rows)} nodes{f' in {group}' if group else ''}"
        count = tag("span", f" {len(rows):,} nodes", class_="quiet")
        drawn.append(
            tag(
                "section",
                tag("h2", group, count) if group else None,
                tag(
                    "div",
                    Html(squares),
                    class_=f"heat {size}",
                    role="img",
                    aria_label=said,
                    tabindex="0",
                    data_key=f"heat {group}",
                ),
            )
        )
    return drawn


def _square(name: str, text: str, step: int, kinds: bool) -> str:
    # Five thousand of them: written straight away, each part escaped.
    style = "none" if step == MISSING else f"kind-{step}" if kinds else f"heat-{step}"
    return f'<i class="{style}" title="{escape(name)}: {escape(text or "none")}"></i>'


def _grouped(cluster: Snapshot, by: str) -> list[tuple[str, list[int]]]:
    everything = [("", list(range(len(cluster.nodes))))]
    if by == _NO_GROUP:
        return everything
    values = cluster.nodes[LABELS[by]]
    if not isinstance(values, Strings) or not values.present.any():
        return everything
    groups = [
        (text, np.flatnonzero(values.codes == code).tolist()) for code, text in enumerate(values.values)
    ]
    groups = sorted((text, rows) for text, rows in groups if rows)
    without = np.flatnonzero(~values.present).tolist()
    if without:
        groups.append((f"no {by}", without))
    return groups if len(groups) <= _MAX_GROUPS else everything


def _legend(heat: Heat) -> Html:
    if heat.kinds:
        entries = [tag("li", tag("i", class_=f"kind-{kind}"), name) for kind, name in enumerate(heat.kinds)]
    else:
        scale = [tag("i", class_=f"heat-{step}") for step in range(STEPS)]
        entries = [tag("li", heat.low, tag("span", scale, class_="scale"), heat.high)] if heat.low else []
    if (heat.steps == MISSING).any():
        entries.append(tag("li", tag("i", class_="none"), "no value"))
    return tag("ul", entries, class_="legend")


def _extremes(cluster: Snapshot, heat: Heat, title: str) -> Child:
    """The lowest and highest values as a table: what the colours say, for those who do not see them."""
    if heat.values is None:
        return None
    known = np.flatnonzero(heat.steps != MISSING)
    ranked = known[np.argsort(heat.values[known], kind="stable")].tolist()
    few = ranked[:_EXTREMES]
    many = ranked[::-1][:_EXTREMES]
    names = cluster.nodes.names
    rows: list[list[Child]] = [
        [
            tag("span", names[a], class_="name"),
            tag("td", heat.texts[a], class_="number"),
            tag("span", names[b], class_="name"),
            tag("td", heat.texts[b], class_="number"),
        ]
        for a, b in zip(few, many, strict=True)
    ]
    head: list[Child] = [
        "Lowest",
        tag("th", title, scope="col", class_="number"),
        "Highest",
        tag("th", title, scope="col", class_="number"),
    ]
    return table(head, rows, caption=f"Nodes with the least and the most of {title}")
