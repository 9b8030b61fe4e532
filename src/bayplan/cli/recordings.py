"""What the commands about recordings print."""

from typing import TYPE_CHECKING

from rich.markup import escape

from bayplan.cli.render import console, counted, folded, print_json

if TYPE_CHECKING:
    from bayplan.runtimes.simulator.compare import Comparison, Placement
    from bayplan.runtimes.simulator.export import ExportedTest
    from bayplan.runtimes.simulator.replay import Replay

_SHOWN = 20


def show_replay(found: "Replay", *, output: str) -> None:
    """How many answers are the same, and where the others part."""
    if output == "json":
        print_json(
            {
                "total": found.total,
                "equal": found.equal,
                "differences": found.differences,
                "unjudged": found.unjudged,
                "warnings": found.warnings,
            }
        )
        return
    out = console()
    for warning in found.warnings:
        out.print(f"[yellow]warning[/yellow] {escape(warning)}", highlight=False)
    for each in found.differences[:_SHOWN]:
        out.print(
            f"[red]different[/red] {each.number}: {each.verb} {escape(each.pod)} at {each.at}\n"
            f"  recorded {escape(each.recorded)}\n  replayed {escape(each.replayed)}",
            highlight=False,
        )
    if len(found.differences) > _SHOWN:
        out.print(f"and {len(found.differences) - _SHOWN} more", highlight=False)
    if found.unjudged:
        out.print(
            f"{counted(found.unjudged, 'request was', 'requests were')} answered without the policies,"
            " and not asked again",
            highlight=False,
        )
    verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(found.equal.items()))
    word = "" if found.differences else "[green]ok[/green]: "
    if found.warnings:
        # Nobody knows what the part would have said that cannot be read.
        word = "as far as it can be read, "
    same = found.total - len(found.differences)
    if not found.total:
        out.print("nothing to compare: no answer of the policies was recorded", highlight=False)
        return
    out.print(
        f"{word}{same} of {found.total} answers are the same, byte for byte{f' ({verbs})' if verbs else ''}",
        highlight=False,
    )


def show_comparison(found: "Comparison", *, output: str) -> None:
    """The figures side by side, then the pods that change."""
    from bayplan.runtimes.simulator.report import figures

    if output == "json":
        changed = [
            {"pod": p.pod, "at": p.at, "change": p.change, "first": _json(p.first), "second": _json(p.second)}
            for p in found.different
        ]
        print_json(
            {
                "configurations": found.names,
                "pods": len(found.pods),
                "changes": dict(found.changes),
                "figures": {name: [one, other] for name, one, other in figures(found)},
                "changed": changed,
                "warnings": found.warnings,
            }
        )
        return
    out = console()
    for warning in found.warnings:
        out.print(f"[yellow]warning[/yellow] {escape(warning)}", highlight=False)
    table = folded(["", *map(escape, found.names)])
    for line in figures(found):
        table.add_row(*line)
    out.print(table, highlight=False)
    if found.different:
        headings = [f"\n{escape(text)}" for text in ("pod", "change", *found.names)]
        pods = folded(headings)
        for pod in found.different[:_SHOWN]:
            pods.add_row(escape(pod.pod), pod.change, _where(pod.first), _where(pod.second))
        out.print(pods, highlight=False)
        if len(found.different) > _SHOWN:
            out.print(f"and {len(found.different) - _SHOWN} more", highlight=False)
    changes = ", ".join(f"{count} {change}" for change, count in found.changes.most_common())
    out.print(f"\n{counted(len(found.pods), 'pod', 'pods')}: {changes or 'none'}", highlight=False)


def show_exported(found: "ExportedTest") -> None:
    """Where the files are."""
    out = console()
    out.print(f"{found.test} and {found.data}", highlight=False, markup=False)
    if found.whole_cluster:
        out.print(
            "all nodes are in it: the policies look beyond those that were asked about", highlight=False
        )
    out.print(f"run it with: pytest {found.test}", highlight=False, markup=False)


def _where(placement: "Placement") -> str:
    return escape(f"{placement.node} ({placement.score:.0f})" if placement.node else placement.reason)


def _json(placement: "Placement") -> dict[str, object]:
    if not placement.node:
        return {"reason": placement.reason}
    return {"node": placement.node, "score": placement.score}
