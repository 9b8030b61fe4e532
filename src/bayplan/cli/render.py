"""What commands print: tables for people, JSON for programs."""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

    from bayplan.authoring.hooks import HookSpec
    from bayplan.config.check import Report
    from bayplan.snapshot.describe import ColumnInfo
    from bayplan.state.verify import Verification

# What type, unit, values and a meaning of a few words take; with less, a table is hard to read.
_BESIDE_A_COLUMN = 75
_BUILT_IN = "bayplan.policies."


class _Console(Console):
    def render(
        self, renderable: "RenderableType", options: "ConsoleOptions | None" = None
    ) -> "Iterable[Segment]":
        """Without what a terminal would obey: names, reasons and annotations are other people's words."""
        for part in super().render(renderable, options):
            if part.control or part.text.isprintable():
                yield part
            else:
                yield part._replace(text=plain_text(part.text))

    def on_broken_pipe(self) -> None:
        """Go on in silence; rich would exit with 1, which means "no" here."""
        _nobody_reads()


def console(*, markup: bool = True) -> Console:
    """The terminal; wide enough for a log when it is none. Without ``markup``, ``[red]`` is a text."""
    terminal = _Console(markup=markup)
    return terminal if terminal.is_terminal else _Console(width=160, soft_wrap=True, markup=markup)


def plain_text(text: str) -> str:
    """The text without what a terminal would obey: some of it comes from annotations."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def show_check(report: "Report", *, output: str) -> None:
    """Policies with their hooks, then what is wrong."""
    if output == "json":
        policies = [
            {
                "name": p.name,
                "weight": p.weight,
                "failurePolicy": p.failure_policy,
                "hooks": [
                    {"name": h.name, "kind": h.spec.kind, "where": h.spec.where, **_reads(h.spec)}
                    for h in p.hooks
                ],
            }
            for p in report.policies
        ]
        found = {"policies": policies, "problems": report.problems, "hints": report.hints}
        print_json({"ok": not report.problems, **found})
        return
    headings = ("policy", "hook", "kind", "called", "reads", "where")
    table = folded(headings)
    for policy in report.policies:
        for hook in policy.hooks:
            spec = hook.spec
            said = _reads(spec)
            reads = f"{said['reads']} ({said['readsFrom']})" if said else ""
            where = "built-in" if hook.function.__module__.startswith(_BUILT_IN) else spec.where
            table.add_row(policy.name, hook.name, spec.kind, _called(spec), reads, where)
    out = console()
    out.print(table, highlight=False)
    for problem in report.problems:
        out.print(f"[red]problem[/red] {_escaped(problem)}", highlight=False)
    for hint in report.hints:
        out.print(f"\n[yellow]hint[/yellow] {_escaped(hint)}", highlight=False)
    if not report.problems:
        out.print(
            f"\n[green]ok[/green]: {counted(len(report.policies), 'policy', 'policies')},"
            f" {_escaped(report.done)}",
            highlight=False,
        )


def folded(headings: Iterable[str]) -> Table:
    """A table that breaks long words in a narrow terminal; by itself rich would cut names off."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def counted(number: int, one: str, more: str) -> str:
    """``1 policy``, ``2 policies``."""
    return f"{number} {one if number == 1 else more}"


def _called(spec: "HookSpec") -> str:
    if spec.kind in ("allocate", "bound"):
        return "at bind" if spec.kind == "allocate" else "after bind"
    how = {"protect": "per victim", "victims": "per candidate"}.get(
        spec.kind, "per node" if spec.per_node else "per pod"
    )
    return f"{how}, and at bind" if spec.recheck else how


def _reads(spec: "HookSpec") -> dict[str, str]:
    """What its answers depend on, and who says so; nothing of hooks that are always asked."""
    if spec.kind not in ("filter", "score"):
        return {}
    reads = "by a function" if callable(spec.reads) else spec.reads
    return {"reads": reads, "readsFrom": spec.reads_from}


def show_columns(rows: "list[ColumnInfo]", *, output: str) -> None:
    """Every column, and the nodes where a typed one cannot be read."""
    if output == "json":
        print_json(rows)
        return
    out = console()
    longest = max((len(row.column) for row in rows), default=0)
    if out.width < longest + _BESIDE_A_COLUMN:
        _print_stacked(out, rows)
    else:
        _print_side_by_side(out, rows, longest)
    for row in rows:
        if row.unreadable:
            out.print(f"[yellow]warning[/yellow] {_escaped(_unreadable(row))}", highlight=False)


def _print_side_by_side(out: Console, rows: "list[ColumnInfo]", longest: int) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    # A name is there to be copied: it stays whole, and the meaning shrinks.
    table.add_column("column", no_wrap=True, overflow="fold", min_width=longest)
    for heading in ("type", "unit", "values", "meaning"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(_escaped(row.column), row.type, row.unit, _escaped(row.values), _escaped(row.meaning))
    out.print(table, highlight=False)


def _print_stacked(out: Console, rows: "list[ColumnInfo]") -> None:
    for row in rows:
        facts = ", ".join(fact for fact in (row.type, row.unit, row.values) if fact)
        line = f"[bold]{_escaped(row.column)}[/bold]  {_escaped(facts)}"
        out.print(line, highlight=False, soft_wrap=True)
        out.print(f"    {_escaped(row.meaning)}", highlight=False, soft_wrap=True)


def _unreadable(row: "ColumnInfo") -> str:
    from bayplan.snapshot.describe import said_unreadable

    return f"{row.column}: {said_unreadable(row.unreadable, str(row.read_as))}"


def show_verification(found: "Verification", *, output: str) -> None:
    """What differs, line by line, or that nothing does."""
    if output == "json":
        print_json(found)
        return
    out = console()
    for line in found.drift:
        out.print(f"[red]drift[/red] {_escaped(line)}", highlight=False)
    for line in found.overcommitted:
        out.print(f"[red]overcommitted[/red] {_escaped(line)}", highlight=False)
    for pod in found.unaccounted:
        out.print(
            f"[yellow]unaccounted[/yellow] pod {_escaped(pod)} was bound by somebody else", highlight=False
        )
    word = "[green]ok[/green]: the view is true" if not found.drift else f"{len(found.drift)} differences"
    pods = "pods are not followed" if found.pods is None else f"{found.pods} pods"
    out.print(f"{word}; {found.nodes} nodes, {pods}, {found.seconds:.2f} s", highlight=False)


def print_json(data: object) -> None:
    """For programs."""
    write(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")


def write(text: bytes) -> None:
    """Print it as it is; in silence where nobody reads any more."""
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        _nobody_reads()


def _nobody_reads() -> None:
    """`bayplan columns | head`: the reader has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
