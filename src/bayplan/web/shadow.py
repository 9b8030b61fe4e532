"""A candidate beside the live configuration: how often it would decide otherwise, and the last times."""

from collections import Counter

from bayplan.engine.differ import Difference, NodeDifference, Said, Word
from bayplan.engine.shadowing import Example, ShadowReport
from bayplan.web.frame import facts, frame, heading, notice
from bayplan.web.markup import Child, Html, tag
from bayplan.web.plots import agreement
from bayplan.web.series import Moment, every_step

_HOW: list[Child] = [
    "No candidate. To see what another configuration would decide before it counts, start the server with ",
    tag("code", "--shadow candidate.yaml"),
    ", or write ",
    tag("code", "shadow: {config: candidate.yaml}"),
    " into its configuration.",
]
_WORDS = {
    "same": "the same",
    "refuses_more": "refuses more",
    "accepts_more": "accepts more",
    "mixed": "other nodes pass",
    "other_node": "other best node",
    "failed": "failed",
    "skipped": "skipped",
}
_MARKS = {"refuses_more": "refused", "accepts_more": "good", "mixed": "refused", "other_node": "plain"}
_TURNS = {"refused": "the pod would have no node", "admitted": "the pod would have a node"}


def shadow_page(report: ShadowReport, *, now: float, version: str) -> Html:
    """The whole page."""
    content = _content(report, now) if report.candidate else [notice(_HOW, class_="notice empty")]
    problem = report.problem and notice(
        "The last change was not taken over: ", report.problem, class_="notice bad"
    )
    return frame(
        "Shadow",
        heading("Shadow"),
        tag("div", problem or None, content, id="shadow", data_live="2000"),
        here="/shadow",
        version=version,
    )


def _content(report: ShadowReport, now: float) -> list[Child]:
    moments = {
        at: Moment(at, results=Counter(same=count - apart, different=apart))
        for at, count, apart in report.steps
    }
    failed = notice("It failed, the last time with: ", report.last_failure) if report.last_failure else None
    return [
        tag("p", _told(report), class_="lead"),
        failed,
        tag(
            "section",
            tag("div", _facts(report), class_="card"),
            agreement(every_step(moments, now)),
            class_="overview",
        ),
        tag("h2", "Where they disagree"),
        _examples(report),
    ]


def _told(report: ShadowReport) -> Child:
    if report.rate is None:
        return [tag("b", report.candidate), " has not judged anything yet"]
    return [
        tag("b", report.candidate),
        f" disagrees in {report.disagreed:,} of {report.compared:,} calls, ",
        tag("b", _percent(report)),
    ]


def _percent(report: ShadowReport) -> str:
    rate = 100 * (report.rate or 0)
    return f"{rate:.2g} %" if 0 < rate < 10 else f"{rate:.0f} %"


def _facts(report: ShadowReport) -> Html:
    counted = {_WORDS[name]: f"{count:,}" for name, count in report.results.items() if count}
    sources = [f"{name}: {problem}" if problem else name for name, problem in report.sources.items()]
    return facts(
        {
            "Policies": ", ".join(report.policies),
            "Generation": f"{report.generation}, beside live generation {report.live_generation}",
            "Since": tag("time", report.since.replace("T", " ").rstrip("Z"), datetime=report.since),
            "Calls looked at": "all" if report.sample_ratio >= 1 else f"{100 * report.sample_ratio:g} %",
            **{word.capitalize(): count for word, count in counted.items()},
            "Pods it would refuse": f"{report.refused_pods:,}" if report.refused_pods else "",
            "Pods it would admit": f"{report.admitted_pods:,}" if report.admitted_pods else "",
            "Waiting": report.waiting or "",
            "Sources of its own": ", ".join(sources),
        }
    )


def _examples(report: ShadowReport) -> Html:
    if not report.examples:
        return notice("They never did.", class_="notice empty")
    head = [
        tag("th", title, scope="col")
        for title in ("Pod", "Verb", "Candidate", "Live says", "It says", "Nodes")
    ]
    head.append(tag("th", "Time", scope="col", class_="number"))
    caption = tag("caption", f"The last {len(report.examples)}, the newest first")
    body = tag("tbody", [_example(example) for example in report.examples])
    return tag("table", caption, tag("thead", tag("tr", head)), body, class_="decisions examples")


def _example(example: Example) -> Html:
    namespace, _, name = example.pod.partition("/")
    address = f"/decisions/{example.decision}" if example.decision else None
    who = [tag("span", f"{namespace}/", class_="quiet"), name]
    found = example.difference
    badge = tag("span", _WORDS[found.result], class_=f"mark {_MARKS[found.result]}")
    turn = tag("b", _TURNS[found.turn], class_="turn") if found.turn else None
    return tag(
        "tr",
        tag("td", tag("a", who, href=address, data_key=f"{address}") if address else who, class_="pod"),
        tag("td", example.verb),
        tag("td", badge, " ", turn),
        tag("td", _said(found, found.live), class_="side", data_side="live: "),
        tag("td", _said(found, found.candidate), class_="side", data_side="candidate: "),
        tag("td", [_node(each) for each in found.nodes], _more(found), class_="why"),
        tag("td", tag("time", example.at[11:19], datetime=example.at), class_="number"),
    )


def _said(found: Difference, said: Said) -> Child:
    if said.best_count:
        more = f" and {said.best_count - len(said.best):,} more" if said.best_count > len(said.best) else ""
        return ["best: ", tag("b", ", ".join(said.best)), more]
    return f"{said.passed:,} of {found.offered:,} pass"


def _node(each: NodeDifference) -> Html:
    return tag("div", tag("b", each.node), ": ", _word(each.live), " → ", _word(each.candidate))


def _word(word: Word) -> Child:
    if word.score is not None:
        return f"score {word.score}"
    if word.passes:
        return "passes"
    detail = f" ({word.detail})" if word.detail else ""
    return [word.reason, detail, tag("span", f" by {word.policy}", class_="quiet")]


def _more(found: Difference) -> Child:
    hidden = found.refused + found.accepted - len(found.nodes)
    return (
        tag("div", f"and {hidden:,} more", class_="quiet")
        if hidden > 0 and found.refused + found.accepted
        else None
    )
