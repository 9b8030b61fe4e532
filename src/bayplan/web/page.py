"""The first page: the last decisions, filters over them, and how it went over time."""

import re
from collections.abc import Mapping, Sequence

from msgspec import structs

from bayplan.web.api import Summary, Wanted
from bayplan.web.frame import choice, duration, field, frame, heading, mark, notice
from bayplan.web.markup import Child, Html, link, tag
from bayplan.web.plots import plots
from bayplan.web.series import Moment

RESULTS = ("ok", "refused", "error")
DOES = ("bind", "gate", "evict", "evicted")
VERBS = ("filter", "keep", "prioritize", "preempt", "recheck", *DOES)
PAGE_LINES = 50
_SHOWN_REASONS = 3
_SHOWN_PROBLEMS = 4
_CLOCK = re.compile(r"T(\d\d:\d\d:\d\d)")


def list_page(
    lines: Sequence[Summary],
    wanted: Wanted,
    *,
    kept: int,
    policies: Sequence[str],
    moments: Sequence[Moment],
    problems: Mapping[str, str],
    stands_by: str = "",
    schedules: bool,
    version: str,
) -> Html:
    """The last decisions that are wanted; ``schedules`` where Bayplan places pods itself.

    ``stands_by`` says who does so while this server stands by.
    """
    newest = not wanted.before
    content: list[Child] = [
        heading("Decisions"),
        tag("div", _problems(problems), _stands_by(stands_by), id="problems", data_live="5000"),
        tag("section", plots(moments), id="plots", class_="plots", data_live="5000", aria_label="Over time"),
        _form(wanted, policies),
        tag(
            "div",
            _list(lines, wanted, kept, schedules=schedules),
            id="list",
            data_live="500" if newest else None,
        ),
    ]
    return frame("Decisions", *content, here="/", version=version)


def _problems(problems: Mapping[str, str]) -> Child:
    """What is wrong with the server: whoever looks for the reason of a decision has to know it."""
    if not problems:
        return None
    lines = [
        tag("div", tag("b", name), f": {text}") for name, text in list(problems.items())[:_SHOWN_PROBLEMS]
    ]
    left = len(problems) - len(lines)
    more = f"and {left} more: " if left else ""
    return tag("div", lines, more, tag("a", "State of the server", href="/state"), class_="notice bad")


def _stands_by(who_binds: str) -> Child:
    """Why decisions are few or old here; that a server stands by is no problem."""
    return notice("This server stands by: ", who_binds, class_="notice calm") if who_binds else None


def _form(wanted: Wanted, policies: Sequence[str]) -> Html:
    return tag(
        "form",
        field("pod", "Pod", wanted.pod, hint="namespace/name"),
        field("namespace", "Namespace", wanted.namespace),
        choice("policy", "Refused by", policies, wanted.policy),
        field("reason", "Reason", wanted.reason, hint="part of it"),
        choice("result", "Result", RESULTS, wanted.result),
        choice("verb", "Verb", VERBS, wanted.verb),
        tag("div", tag("button", "Filter"), tag("a", "Clear", href="/"), class_="buttons"),
        method="get",
        action="/",
        class_="filters",
        role="search",
    )


def _list(lines: Sequence[Summary], wanted: Wanted, kept: int, *, schedules: bool) -> Html:
    if not lines:
        said = "No decision fits these filters." if kept else _nothing_yet(schedules)
        return notice(said, class_="notice empty")
    head = [
        tag("th", "Pod", scope="col"),
        tag("th", "Verb", scope="col"),
        tag("th", "Result", scope="col"),
        tag("th", "Nodes passed", scope="col", class_="number"),
        tag("th", "Why", scope="col"),
        tag("th", "Took", scope="col", class_="number wide"),
        tag("th", "Time", scope="col", class_="number"),
    ]
    caption = tag("caption", f"{len(lines)} decisions, the newest first; {kept:,} are kept")
    body = tag("tbody", [_line(line) for line in lines])
    made = tag("table", caption, tag("thead", tag("tr", head)), body, class_="decisions")
    return tag("div", made, _older(lines, wanted))


def _nothing_yet(schedules: bool) -> Child:
    if schedules:
        return "No decision yet: no pod has come."
    return [
        "No decision yet: kube-scheduler has not asked. If pods wait, ",
        tag("code", "bayplan doctor"),
        " finds mistakes in its configuration.",
    ]


def _line(line: Summary) -> Html:
    namespace, _, name = line.pod.partition("/")
    address = f"/decisions/{line.decision}"
    shown = [tag("span", f"{namespace}/", class_="quiet"), name]
    pod = tag("a", shown, href=address, data_key=address, class_="name")
    judged = (
        f"{line.passed:,} / {line.offered:,}"
        if line.verb in ("filter", "recheck") and not line.error
        else f"{line.kept:,} / {line.offered:,}"
        if line.verb == "keep"
        else f"{line.offered:,}"
        if line.offered
        else ""
    )
    return tag(
        "tr",
        tag("td", pod, class_="pod"),
        tag("td", line.verb, tag("span", " observed", class_="quiet") if line.observe else None),
        tag("td", mark(line.result)),
        tag("td", judged, class_="number"),
        tag("td", _why(line), class_="why"),
        tag("td", duration(line.seconds), class_="number wide"),
        tag("td", tag("time", _clock(line.at), datetime=line.at), class_="number"),
    )


def done(line: Summary) -> Child:
    """What was done, of a verb that judges no nodes."""
    if line.verb == "bind":
        return ["bound to ", tag("b", line.best)]
    if line.verb == "gate":
        return "kept out of the queue" if line.error else "let into the queue"
    others = ", ".join(line.others)
    if line.verb == "evict":
        return [others, " must leave ", tag("b", line.best), " for it"]
    return ["must leave ", tag("b", line.best), f" for {others}"]


def _why(line: Summary) -> Child:
    if line.error:
        return line.error
    if line.verb in DOES:
        return done(line)
    if line.verb == "keep":
        return ["kept: ", tag("b", line.best), f" and {line.kept - 1:,} more" if line.kept > 1 else ""]
    if line.best:
        return ["best: ", tag("b", line.best)]
    most = sorted(line.reasons.items(), key=lambda each: -each[1])
    shown: list[Child] = [
        tag("span", tag("b", f"{count:,}"), f" {reason} ", class_="reason")
        for reason, count in most[:_SHOWN_REASONS]
    ]
    more = f"and {len(most) - _SHOWN_REASONS} more" if len(most) > _SHOWN_REASONS else None
    return [shown, more]


def _older(lines: Sequence[Summary], wanted: Wanted) -> Child:
    newest = tag("a", "← Newest", href=link("/", **_query(wanted))) if wanted.before else None
    older = None
    if len(lines) >= PAGE_LINES:
        older = tag("a", "Older →", href=link("/", **_query(wanted), before=lines[-1].decision))
    return (
        tag("nav", newest, older, class_="pages", aria_label="Older and newer") if newest or older else None
    )


def _query(wanted: Wanted) -> dict[str, str]:
    given = structs.asdict(wanted)
    return {name: given[name] for name in ("pod", "namespace", "policy", "reason", "result", "verb")}


def _clock(at: str) -> str:
    found = _CLOCK.search(at)
    return found[1] if found else at
