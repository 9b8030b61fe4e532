"""One decision in full: who the pod is, who refused what and why, and every node in a table."""

from collections.abc import Sequence

from bayplan.engine.entry import Entry, Voice
from bayplan.engine.why import what_would_help
from bayplan.web.amounts import amount
from bayplan.web.api import Summary
from bayplan.web.frame import bar, duration, facts, frame, heading, mark, notice, table
from bayplan.web.markup import Child, Html, link, tag
from bayplan.web.node_table import node_table
from bayplan.web.nodes import NodeQuery, choose
from bayplan.web.page import DOES, done

_EXAMPLES = 3


def decision_page(
    entry: Entry, line: Summary, query: NodeQuery, *, wire: Sequence[int], version: str
) -> Html:
    """The whole page."""
    return frame(
        f"{line.pod}, decision {entry.number}",
        tag("p", tag("a", "← Decisions", href="/"), class_="back"),
        heading(line.pod, tag("p", mark(line.result), " ", _told(line, wire), class_="lead")),
        notice(line.error, class_="notice bad") if line.error else None,
        notice("Observed only: kube-scheduler was told that every node passes.") if line.observe else None,
        _pod(entry, line),
        _judged_before(entry, line),
        _groups(entry, query),
        _voices(entry),
        node_table(entry, query, choose(entry, query), wire) if len(entry.rows) else None,
        _others(entry),
        here="/",
        version=version,
    )


def _judged_before(entry: Entry, line: Summary) -> Child:
    """A bind is the newest line of a pod, and the one that says least: where the rest is."""
    if line.verb != "bind":
        return None
    others = tag("a", "decisions before it", href=link("/", pod=entry.pod.key))
    return tag("p", "Which nodes were refused, and who preferred this one, is in the pod's ", others, ".")


def _told(line: Summary, wire: Sequence[int]) -> Child:
    if line.verb in ("filter", "recheck"):
        return _passed(line)
    if line.verb == "keep":
        more = f" and {line.kept - 1:,} more" if line.kept > 1 else ""
        return [f"{line.kept:,} of {line.offered:,} nodes that passed kept: ", tag("b", line.best), more]
    if line.verb == "prioritize":
        return [f"{line.offered:,} nodes scored, best: ", tag("b", line.best or "none"), _ties(wire)]
    if line.verb in DOES:
        return done(line)
    if line.verb == "preempt":
        return f"{sum(line.reasons.values()):,} candidates for preemption left out"
    return line.verb


def _ties(wire: Sequence[int]) -> str:
    """The wire has eleven steps: that explains a bind to another node than our best."""
    others = wire.count(max(wire)) - 1 if wire else 0
    nodes = "node" if others == 1 else "nodes"
    return f"; kube-scheduler was told the same score for {others:,} other {nodes}" if others else ""


def _passed(line: Summary) -> str:
    if line.error:
        return f"no answer about {line.offered:,} nodes"
    again = ", looked at again before the bind" if line.verb == "recheck" else ""
    return f"{line.passed:,} of {line.offered:,} nodes passed{again}"


def _pod(entry: Entry, line: Summary) -> Html:
    pod = entry.pod
    labels = [tag("code", f"{key}={value}") for key, value in pod.labels.items()]
    requests = ", ".join(f"{name} {amount(name, value)}" for name, value in pod.requests.items())
    return facts(
        {
            "Decision": f"{entry.number}, {line.verb}",
            "Time": tag("time", line.at.replace("T", " ").rstrip("Z"), datetime=line.at),
            "Took": duration(entry.seconds),
            "Generation": entry.generation,
            "Requests": requests,
            "Labels": tag("span", labels, class_="labels") if labels else "",
            "Priority": pod.priority or "",
            "Scheduler": pod.scheduler,
            "UID": pod.uid,
            "This pod": tag("a", "all its decisions", href=link("/", pod=pod.key)),
        }
    )


def _groups(entry: Entry, query: NodeQuery) -> Child:
    groups = list(entry.groups())
    if not groups:
        return None
    rows: list[list[Child]] = []
    helped = any(what_would_help(reason) for _, reason, _ in groups)
    most = max(len(places) for _, _, places in groups)
    names = entry.nodes
    order = sorted(enumerate(groups), key=lambda each: -len(each[1][2]))
    for number, (voice, reason, places) in order:
        assert voice.rows is not None
        here = query.group == str(number)
        address = link(f"/decisions/{entry.number}", group="" if here else number) + "#nodes"
        examples = ", ".join(names[int(voice.rows[place])] for place in places[:_EXAMPLES])
        more = ", …" if len(places) > _EXAMPLES else ""
        rows.append(
            [
                tag("td", f"{len(places):,}", class_="number"),
                bar([("refused", 100 * len(places) / most)]),
                tag("a", reason.text, href=address, aria_current="true" if here else None),
                voice.policy,
                tag("td", examples, more, class_="quiet wide"),
                tag("td", what_would_help(reason), class_="quiet help") if helped else Html(""),
            ]
        )
    head: list[Child] = [
        tag("th", "Nodes", scope="col", class_="number"),
        tag("th", tag("span", "share", class_="hidden"), scope="col"),
        "Reason",
        "Policy",
        tag("th", "Such as", scope="col", class_="wide"),
        tag("th", "What would help", scope="col") if helped else Html(""),
    ]
    return table(head, rows, caption="Why nodes were refused", class_="groups")


def _voices(entry: Entry) -> Child:
    """Who was asked; columns in which nobody has anything are left out."""
    columns: list[tuple[str, list[Child], bool]] = [
        ("Policy", [voice.policy for voice in entry.voices], False),
        ("Hook", [voice.hook for voice in entry.voices], False),
        ("Kind", [voice.kind for voice in entry.voices], False),
        ("Refused", ["" if v.rows is None else f"{len(v.rows):,}" for v in entry.voices], True),
        ("Weight", [f"{v.weight:g}" if v.weight else "" for v in entry.voices], True),
        ("Took", [duration(voice.seconds) for voice in entry.voices], True),
        ("Note", [_note(voice) for voice in entry.voices], False),
    ]
    shown = [column for column in columns if any(column[1])]
    if not shown:
        return None
    head: list[Child] = [
        tag("th", title, scope="col", class_="number" if number else None) for title, _, number in shown
    ]
    cells = [
        [tag("td", cell, class_="number" if number else None) for cell in column]
        for _, column, number in shown
    ]
    counted = [voice for voice in entry.voices if not (voice.shadow or voice.void)]
    refused = sum(len(voice.rows) for voice in counted if voice.rows is not None)
    several = refused > sum(len(places) for _, _, places in entry.groups())
    caption = "Who was asked; a node that several refuse is counted with each" if several else "Who was asked"
    return table(head, list(zip(*cells, strict=True)), caption=caption)


def _note(voice: Voice) -> str:
    notes = [
        "shadow: does not count" if voice.shadow else "",
        "void: it would have left no node" if voice.void else "",
        voice.failure,
        "ignored" if voice.ignored else "",
    ]
    return ", ".join(note for note in notes if note)


def _others(entry: Entry) -> list[Child]:
    """What there is beside nodes that were judged."""
    found: list[Child] = []
    if entry.not_in_view:
        names = ", ".join(entry.not_in_view[:20])
        more = f" and {len(entry.not_in_view) - 20} more" if len(entry.not_in_view) > 20 else ""
        found.append(notice(f"{len(entry.not_in_view)} nodes are not in our view: {names}{more}"))
    for dropped, said in ((entry.dropped, "were left out"), (entry.would_drop, "a shadow would leave out")):
        if dropped:
            caption = f"Candidates for preemption that {said}"
            rows = [list(each) for each in dropped[:200]]
            found.append(table(["Node", "Policy", "Why"], rows, caption=caption))
    return found
