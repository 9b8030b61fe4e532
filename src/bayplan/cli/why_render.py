"""What ``bayplan why`` prints: calm, aligned, in 80 columns; or all of it as JSON."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bayplan.cli import why_words
from bayplan.cli.render import console, plain_text, print_json, write

if TYPE_CHECKING:
    from bayplan.engine.ranking import Contribution, Ranked
    from bayplan.engine.why import LeftOut, RefusedGroup, Why
    from bayplan.runtimes.extender.ask_why import Reply
    from bayplan.runtimes.simulator.evaluate import Evaluated
    from bayplan.runtimes.simulator.try_gang import GangTried

_WIDTH = 80
_WIDEST = 100
_HISTORY = 6
_GANG_NODES = 20
_TIMES = 5


def show_reply(reply: "Reply", *, output: str) -> None:
    """What a server said, and who else was asked."""
    if output == "json":
        others = msgspec.to_builtins(reply.others)
        said = {"server": reply.server, "others": others, "warnings": reply.warnings}
        print_json({**msgspec.to_builtins(reply.why), **said})
        return
    why = reply.why
    with _paper() as out:
        _show(
            out, why, source=f"decision {why.decision}, generation {why.generation}\ntold by {reply.server}"
        )
        _section(out, "Also asked", [_pair(other.server, other.problem) for other in reply.others])
        _section(out, "Not all could be read", [Text(plain_text(text)) for text in reply.warnings])


def show_evaluated(found: "Evaluated", *, output: str) -> None:
    """What the policies would say, and which sources did not answer."""
    if output == "json":
        more = {"sourceProblems": found.problems, "notes": found.notes}
        gang = {"gang": msgspec.to_builtins(found.gang)} if found.gang is not None else {}
        print_json({**msgspec.to_builtins(found.why), **more, **gang})
        return
    silent = [_pair(name, text) for name, text in found.problems.items()]
    with _paper() as out:
        _show(out, found.why, source="evaluated now, nothing is created")
        if found.gang is not None:
            _section(out, "Gang", _gang(found.gang))
        _section(out, "Sources that do not answer", silent)
        _section(out, "Notes", [Text(plain_text(text)) for text in found.notes])


@contextmanager
def _paper() -> Iterator[Console]:
    """What is printed in the block comes out at its end, without rich's blanks at the ends of lines."""
    out = console(markup=False)
    out.width = min(out.width, _WIDEST) if out.is_terminal else _WIDTH
    out.soft_wrap = False
    with out.capture() as said:
        yield out
    write("".join(f"{line.rstrip()}\n" for line in said.get().splitlines()).encode())


def _show(out: Console, why: "Why", *, source: str) -> None:
    colour = "green" if why.chosen or why.passed else "yellow"
    _print(
        out,
        Text.assemble(
            ("pod ", "bold"), (plain_text(why.pod), "bold"), "  ", (why_words.headline(why), colour)
        ),
    )
    _print(out, Text(f"{why.at}, {source}", style="dim"))
    if why.event:
        _print(out, Text(f"\n{plain_text(why.event)}"))
    # A pod that is kept out, or was let in just now, was judged on no node.
    unjudged = why.kept_out or (why.schedules and why.never_offered is None)
    _section(out, "Nodes", [_counts(why)] if why.offered or not unjudged else [])
    refused = [group for group in why.refused if not group.shadow]
    _section(out, "Refused", [_refused(group) for group in refused])
    _section(out, "Shadow policies would have refused", [_refused(g) for g in why.refused if g.shadow])
    if why.ranking:
        _section(out, "Ranking", [_ranking(why), Text(why_words.points(why), style="dim")])
    _section(out, "Outcome", [Text(plain_text(why_words.outcome(why)))])
    void = [f"{run.policy}.{run.hook}: it would have left no node" for run in why.hooks if run.void]
    _section(out, "Soft rules that did not count", [Text(plain_text(text)) for text in void])
    _section(out, "Errors", _errors(why))
    for shadow, title in (
        (False, "Kept out of preemption"),
        (True, "Shadow policies would have kept out of preemption"),
    ):
        kept_out = [each for each in why.left_out if each.shadow == shadow]
        _section(out, title, [_left_out(each) for each in kept_out])
    _section(out, "Time of policies, ms", [Text(_times(why))] if why.hooks else [])
    _section(out, "History", [_history(why)] if why.history else [])


def _counts(why: "Why") -> Table:
    table = _grid(right=1)
    table.add_row("offered", str(why.offered), why_words.offered(why))
    table.add_row("passed", str(why.passed), "")
    if why.kept:
        table.add_row("kept", str(why.kept), plain_text(why_words.kept(why)))
    # Where a filter failed, nobody was refused and nobody passed.
    unanswered = why.error and not why.passed
    refused = 0 if unanswered else why.offered - why.passed - len(why.not_in_view)
    table.add_row("refused", str(refused), "Bayplan only observes: nothing came of it" if why.observe else "")
    if why.not_in_view:
        table.add_row("not in view", str(len(why.not_in_view)), _some(why.not_in_view, len(why.not_in_view)))
    if why.never_offered is None:
        table.add_row("never offered", "?", "this server was started without a cluster")
    elif why.decision and (why.never_offered or not why.schedules):
        examples = _some(why.never_offered_nodes, why.never_offered)
        text = f"{why_words.never_offered(why)}: {examples}" if examples else ""
        table.add_row("never offered", str(why.never_offered), text)
    return table


def _refused(group: "RefusedGroup") -> RenderableType:
    by = group.policy if group.policy == group.hook else f"{group.policy}, {group.hook}"
    head = Text.assemble((f"{group.count} {plain_text(group.reason)}", "bold"), f"  by {by}")
    lines: list[RenderableType] = [head]
    if len(group.nodes) > 1 and len(set(group.details)) == 1 and group.details[0]:
        # The same for all of them: it is said once.
        lines.append(Padding(Text(plain_text(group.details[0])), (0, 0, 0, 2)))
        lines.append(Padding(Text(_some(group.nodes, group.count)), (0, 0, 0, 2)))
    else:
        nodes = _grid()
        for node, detail in zip(group.nodes, group.details, strict=True):
            nodes.add_row(plain_text(node), plain_text(detail))
        lines.append(Padding(nodes, (0, 0, 0, 2)))
        if group.count > len(group.nodes):
            lines.append(Text(f"  and {group.count - len(group.nodes)} more"))
    change = group.change or "the policy does not say"
    lines.append(Padding(Text(f"to pass: {change}", style="dim"), (0, 0, 0, 2)))
    return Group(*lines)


def _ranking(why: "Why") -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading, justify in (("", "right"), ("node", "left"), ("total", "right")):
        table.add_column(heading, justify=justify, overflow="fold")  # type: ignore[arg-type]
    # Where Bayplan places pods itself, nobody is told.
    both = ("plugins", "sum") if why.plugins else ()
    for heading in () if why.schedules else ("told", "points", *both):
        table.add_column(heading, justify="right")
    table.add_column("total is made of", overflow="fold")
    for node in why.ranking:
        told = ["-", "-"] if why.kept == 1 else [str(node.wire), f"{node.points:g}"]
        if why.plugins:
            theirs = why.plugins[node.node]
            told += [f"{theirs:g}", f"{node.points + theirs:g}"]
        table.add_row(
            str(node.place),
            plain_text(node.node),
            f"{node.total:.1f}",
            *([] if why.schedules else told),
            _parts(node),
            style="green" if node.node == why.chosen else None,
        )
    scored = why.kept if why.kept > 1 else why.passed
    if scored > len(why.ranking):
        table.add_row("", f"and {scored - len(why.ranking)} more")
    return table


def _parts(node: "Ranked") -> str:
    """``cost 67.5 (0.2 an hour) + cpu 22.5``; with the hook's name where a policy has several."""
    names = [part.policy for part in node.contributions]

    def name(part: "Contribution") -> str:
        return part.policy if names.count(part.policy) == 1 else f"{part.policy}.{part.hook}"

    def behind(part: "Contribution") -> str:
        return f" ({part.detail})" if part.detail else ""

    said = [f"{name(part)} {part.points:.1f}{behind(part)}" for part in node.contributions]
    return plain_text(" + ".join(said)) or "no opinion"


def _gang(gang: "GangTried") -> list[RenderableType]:
    """What becomes of the gang as a whole, and which members are where."""
    by_node: dict[str, list[str]] = {}
    for pod, node in gang.nodes.items():
        by_node.setdefault(node, []).append(pod)
    nodes = _grid()
    for node, pods in sorted(by_node.items())[:_GANG_NODES]:
        nodes.add_row(plain_text(node), str(len(pods)), _some(pods, len(pods)))
    if len(by_node) > _GANG_NODES:
        nodes.add_row(f"and {len(by_node) - _GANG_NODES} more")
    return [Text(plain_text(gang.said)), *([nodes] if by_node else [])]


def _left_out(group: "LeftOut") -> Text:
    return _pair(f"{group.count} {group.reason}", f"{group.policy}: {', '.join(group.nodes)}")


def _errors(why: "Why") -> list[RenderableType]:
    lines = [why.error] if why.error else []
    lines += [
        f"{run.policy}.{run.hook}: {run.failure}{' (ignored: the policy abstained)' if run.ignored else ''}"
        for run in why.hooks
        if run.failure and run.failure not in why.error
    ]
    if why.bind_error:
        lines.append(f"bind: {why.bind_error}")
    return [Text(plain_text(line)) for line in lines]


def _times(why: "Why") -> str:
    """``cost 1.20, cpu 0.31``; of many policies those that took longest, and the others together."""
    by_policy: dict[str, float] = {}
    for run in why.hooks:
        by_policy[run.policy] = by_policy.get(run.policy, 0.0) + run.milliseconds
    told = list(by_policy.items())
    if len(told) > _TIMES:
        told.sort(key=lambda found: -found[1])
        told, others = told[:_TIMES], told[_TIMES:]
        told.append((f"{len(others)} more", sum(spent for _, spent in others)))
    return plain_text(", ".join(f"{policy} {spent:.2f}" for policy, spent in told))


def _history(why: "Why") -> Table:
    table = _grid(right=0)
    # A time that is cut in two cannot be copied.
    table.columns[1].no_wrap = True
    for told in why.history[:_HISTORY]:
        table.add_row(str(told.decision), told.at, told.verb, plain_text(told.text))
    return table


def _section(out: Console, title: str, parts: Iterable[RenderableType]) -> None:
    body = list(parts)
    if body:
        _print(out, Text(f"\n{title}", style="bold"))
        _print(out, Padding(Group(*body), (0, 0, 0, 2)))


def _pair(name: str, text: str) -> Text:
    return Text(plain_text(f"{name}: {text}"))


def _grid(*, right: int | None = None) -> Table:
    """Columns that keep to their words; the one of numbers is set to the right."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for column in range(4):
        table.add_column(justify="right" if column == right else "left", overflow="fold")
    return table


def _some(names: list[str], count: int) -> str:
    shown = names[:5]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return plain_text(", ".join(shown) + more)


def _print(out: Console, part: Any) -> None:
    out.print(part, highlight=False)
