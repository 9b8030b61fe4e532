"""How ``bayplan doctor`` shows what it found: one paragraph a finding, the worst first."""

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from bayplan.cli.render import console, counted, print_json, write

if TYPE_CHECKING:
    from bayplan.doctor.finding import Finding
    from bayplan.doctor.fix import Fixed
    from bayplan.doctor.run import Report

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def show_report(report: "Report", *, output: str) -> None:
    """Every finding, then how many of which kind."""
    if output == "json":
        print_json(report.told())
        return
    out = console()
    for finding in report.findings:
        _print(out, finding)
    out.print(_summary(report), highlight=False)


def show_fixed(fixed: "Fixed", report: "Report") -> None:
    """The corrected file, and to stderr what was done and what is left to people."""
    write(fixed.text.encode())
    aside = Console(stderr=True, soft_wrap=True)
    for finding in fixed.done:
        # Questions are for those who have to do it themselves.
        what = finding.what.partition("; did you mean")[0]
        line = (
            f"[green]fixed in the output[/green] {escape(str(finding.where))}: {finding.id}: {escape(what)}"
        )
        aside.print(line, highlight=False)
    for remark in fixed.remarks:
        aside.print(f"[yellow]mind[/yellow] {escape(remark)}", highlight=False)
    for finding in report.findings:
        _print(aside, finding)
    sys.stderr.flush()


def _print(out: Console, finding: "Finding") -> None:
    colour = _COLOURS[finding.severity]
    head = f"[{colour}]{finding.severity}[/{colour}] [bold]{finding.id}[/bold]"
    out.print(f"{head} {escape(str(finding.where))}", highlight=False, soft_wrap=True)
    trap = finding.trap
    lines = (("", finding.what), ("why: ", trap.why), ("versions: ", trap.versions), ("fix: ", trap.fix))
    for word, text in lines:
        out.print(f"    {word}{escape(text)}", highlight=False, soft_wrap=True)


def _summary(report: "Report") -> str:
    if not report.findings:
        but = "; no configuration of kube-scheduler was given" if report.without_scheduler else ""
        return f"[green]ok[/green]: no trap found, for {_kubernetes(report)}{but}"
    numbers = [
        counted(number, name, f"{name}s")
        for name in ("error", "warning", "note")
        if (number := report.count(name))
    ]
    fixable = sum(finding.fixable for finding in report.findings)
    tail = f"; --fix corrects {fixable} of them" if fixable else ""
    return f"{', '.join(numbers)}, for {_kubernetes(report)}{tail}"


def _kubernetes(report: "Report") -> str:
    said = report.setting.version_from
    return f"Kubernetes {report.version}" + (f" ({escape(said)})" if said else "")
