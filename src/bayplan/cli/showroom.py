"""What ``bayplan demo`` shows: a progress bar, where pods went, why others wait, what to try next."""

import shutil
import socket
import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from bayplan.demo.caller import Placement
    from bayplan.kube.pod import Pod
    from bayplan.snapshot.cluster import Snapshot

_NO_ROOM = "Insufficient "
_USUAL_PAGE = "http://127.0.0.1:8890"
_TRY = """{{"Pod":{{"metadata":{{"name":"mine","labels":{{"tier":"db"}}}},\
"spec":{{"containers":[{{"resources":{{"requests":{{"cpu":"1"}}}}}}]}}}},\
"NodeNames":["{a}","{b}"]}}"""


def show_demo(
    *, pods: int, listen: str | None, ops_listen: str | None, page_listen: str | None, once: bool
) -> None:
    """Run the demo and draw it; an address that was not asked for gives way when it is taken."""
    from bayplan.cli.render import console
    from bayplan.demo.run import Demo, run_demo
    from bayplan.runtimes.sections import address

    verbs = address(listen, key="--listen") if listen else _free_or_any(8888)
    ops = address(ops_listen, key="--ops-listen") if ops_listen else _free_or_any(8889)
    page = address(page_listen, key="--page-listen") if page_listen else _free_or_any(8890)
    demo = Demo(pods, verbs, ops, page, once)
    run_demo(demo, _Stage(console(), pods, once=once))


def _free_or_any(port: int) -> tuple[str, int]:
    """The usual port, or any other where somebody has it already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return "127.0.0.1", 0
    return "127.0.0.1", port


def _command() -> str:
    """How we were called: ``bayplan``, or where it is when it is not on the path."""
    return "bayplan" if shutil.which("bayplan") else sys.argv[0]


class _Stage:
    """Draws what happens, then sums it up."""

    def __init__(self, out: Console, pods: int, *, once: bool = False) -> None:
        self._out = out
        self._once = once
        self._placements: list[Placement] = []
        self._url = self._page_url = ""
        self._bar = Progress(
            TextColumn("placing pods"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[last]}"),
            console=out,
            transient=False,
        )
        self._task = self._bar.add_task("pods", total=pods, last="")

    def started(self, url: str, cluster: "Snapshot", *, page_url: str) -> None:
        """Say what is there, and start the bar."""
        self._url, self._page_url = url, page_url
        out = self._out
        out.print(
            f"[bold]Bayplan[/bold] serves five rules to a made-up cluster of {len(cluster.nodes)} nodes.",
            highlight=False,
        )
        out.print(
            f"A caller asks {url}/filter, /prioritize and /bind, as kube-scheduler does.", highlight=False
        )
        # Nobody would be in time to look at a page that goes with the last pod.
        page = "" if self._once else f"Every decision, and why: [bold]{page_url}[/bold]\n"
        out.print(page, highlight=False, soft_wrap=True)
        self._bar.start()

    def placed(self, placement: "Placement") -> None:
        """Move the bar on."""
        self._placements.append(placement)
        where = placement.node or "waiting"
        self._bar.update(self._task, advance=1, last=f"{placement.pod.name} → {where}")

    def finished(self, cluster: "Snapshot", ops_url: str, *, serving: bool) -> None:
        """Tables, and what to try next."""
        self._bar.stop()
        out = self._out
        out.print()
        out.print(self._by_workload(), highlight=False)
        out.print()
        out.print(self._refusals(), highlight=False)
        waiting = [p for p in self._placements if not p.node]
        if waiting:
            name = waiting[0].pod.name
            more = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
            out.print(f"\n[bold]{name}[/bold] waits{more}; its event would say:", highlight=False)
            out.print(f"  {waiting[0].event}", highlight=False)
        seconds = sorted(p.seconds for p in self._placements)
        out.print(
            f"\n{len(self._placements) - len(waiting)} of {len(self._placements)} pods placed;"
            f" filter, prioritize and bind together took {seconds[len(seconds) // 2] * 1000:.1f} ms"
            " at the median.",
            highlight=False,
        )
        if serving:
            self._try_it(cluster, ops_url, (waiting or self._placements)[0].pod)

    def _by_workload(self) -> Table:
        table = Table(
            title="Where pods went", title_justify="left", box=None, pad_edge=False, header_style="bold"
        )
        for heading in ("workload", "pods", "placed", "on", "for example"):
            table.add_column(heading, justify="right" if heading in ("pods", "placed") else "left")
        groups: dict[str, list[Placement]] = defaultdict(list)
        for placement in self._placements:
            groups[placement.pod.labels.get("app", "")].append(placement)
        for app, placements in sorted(groups.items()):
            placed = [p for p in placements if p.node]
            kinds = Counter(p.node.rpartition("-")[0] for p in placed)
            on = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
            example = f"{placed[0].pod.name} → {placed[0].node} ({placed[0].passed} passed)" if placed else ""
            table.add_row(app, str(len(placements)), str(len(placed)), on, example)
        return table

    def _refusals(self) -> Table:
        table = Table(
            title="Why nodes were refused, summed over all pods",
            title_justify="left",
            box=None,
            pad_edge=False,
            header_style="bold",
        )
        table.add_column("nodes", justify="right")
        table.add_column("reason")
        total: Counter[str] = Counter()
        for placement in self._placements:
            total.update(placement.reasons)
        for reason, count in total.most_common():
            # The caller asks about nodes with room alone; that much kube-scheduler sees by itself.
            whose = " (kube-scheduler's own judgement)" if reason.startswith(_NO_ROOM) else ""
            table.add_row(f"{count:,}", reason + whose)
        return table

    def _try_it(self, cluster: "Snapshot", ops_url: str, pod: "Pod") -> None:
        names = cluster.nodes.names
        body = _TRY.format(a=names[0], b=next(name for name in names if name.startswith("memory")))
        out = self._out
        out.print(
            f"\nStill serving. Look at [bold]{self._page_url}[/bold], or try it (Ctrl-C ends):",
            highlight=False,
            soft_wrap=True,
        )
        page = self._page_url.rstrip("/")
        server = "" if page == _USUAL_PAGE else f" --server {page}"
        why = f"{_command()} why -n {pod.namespace} pod/{pod.name}{server}"
        out.print(f"  {why}", highlight=False, soft_wrap=True, markup=False)
        out.print(f"  curl -s {self._url}/filter -d '{body}'", highlight=False, soft_wrap=True, markup=False)
        out.print(f"  curl -s '{ops_url}/readyz?verbose'", highlight=False, soft_wrap=True, markup=False)
        out.print(f"  curl -s {ops_url}/metrics", highlight=False, soft_wrap=True, markup=False)
