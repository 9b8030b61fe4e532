"""How many pods a second: ``bayplan schedule`` and kube-scheduler, on the same API server and etcd.

Every pod waits when a scheduler starts, and both have the limit of their client raised. The time goes from
the first bind that is seen to the last, as the scheduler's own counter tells it; the runs of both alternate,
and the middle one of each counts. What is measured includes the API server, which shares the machine.

Bayplan writes its Events after the binds, as far as it can: how late they are is told, too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from prometheus_client.parser import text_string_to_metric_families

from bench.curves import Curve, draw
from tests.controlplane.binaries import find_or_build
from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.second_scheduler import NAME, SecondScheduler

BAYPLAN, KUBE = "bayplan schedule", "kube-scheduler"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events?limit=1"
_CLIENTS = 4
_LIMIT_SECONDS = 900.0
_QUIET_SECONDS = 5.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """What one scheduler took."""

    who: str
    pods: int
    bound: tuple[tuple[float, float], ...]
    """Seconds since the first look that found some bound, and how many there were."""
    cpu_seconds: float
    """Of the scheduler, from that look to the last bind."""
    served_seconds: float
    """Of the API server and etcd."""
    events: int
    """That were written when the last pod was bound."""
    events_seconds: float
    """From then until all were."""

    @property
    def rate(self) -> float:
        """Pods a second."""
        (start, before), (end, after) = self.bound[0], self.bound[-1]
        return (after - before) / max(end - start, 1e-9)

    def cells(self) -> list[float]:
        """A line of the table."""
        (_, before), (_, after) = self.bound[0], self.bound[-1]
        placed = max(1.0, after - before) / 1000
        written = 100 * self.events / self.pods
        return [
            self.rate,
            self.cpu_seconds / placed,
            self.served_seconds / placed,
            written,
            self.events_seconds,
        ]


def main() -> None:
    """Measure both, some times, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plot", type=Path, help="write a picture of the runs (SVG)")
    options = parser.parse_args()
    title = f"{options.pods:,} pods on {options.nodes:,} nodes, {os.cpu_count()} cores"
    print(title)
    print(f"{'':18}{'pods/s':>8}{'CPU ms/pod':>12}{'API+etcd':>10}{'Events':>9}{'rest after':>12}")
    runs: list[Run] = []
    with ControlPlane(find_or_build()) as plane, tempfile.TemporaryDirectory() as folder:
        _each(plane, options.nodes, lambda c, n: c.create("nodes", node_manifest(f"n{n}", cpu="16")))
        for number in range(options.runs):
            for run in (_bayplan, _kube_scheduler):
                runs.append(run(plane, options.pods, Path(folder) / f"run-{number}"))
                print(_line(runs[-1].who, runs[-1].cells()), flush=True)
    _summary(runs)
    if options.plot is not None:
        options.plot.write_text(draw(title, [Curve(run.who, run.bound) for run in runs]))


def _summary(runs: Sequence[Run]) -> None:
    print("the middle of each:")
    middle = {}
    for who in (BAYPLAN, KUBE):
        cells = [run.cells() for run in runs if run.who == who]
        middle[who] = [median(column) for column in zip(*cells, strict=True)]
        print(_line(who, middle[who]))
    print(f"Bayplan places {middle[BAYPLAN][0] / max(middle[KUBE][0], 1e-9):.2f} times as many pods a second")


def _line(who: str, cells: Sequence[float]) -> str:
    rate, cpu, served, written, late = cells
    return f"{who:18}{rate:8.0f}{cpu:12.2f}{served:10.2f}{written:8.0f}%{late:11.1f}s"


def _bayplan(plane: ControlPlane, pods: int, folder: Path) -> Run:
    folder.mkdir(exist_ok=True)
    _create_pods(plane, pods, scheduler=NAME)
    flags = ["--log-level=warning", "--no-leader-elect"]
    scheduler = SecondScheduler(plane.api, folder, kubeconfig=plane.kubeconfig, flags=flags)
    with scheduler, _cleaned(plane):
        return _measure(
            plane,
            BAYPLAN,
            pods,
            pid=scheduler.child.pid,
            count=lambda: scheduler.metric("bayplan_schedule_attempts_total", result="scheduled"),
        )


def _kube_scheduler(plane: ControlPlane, pods: int, _: Path) -> Run:
    _create_pods(plane, pods, scheduler="default-scheduler")
    with plane.scheduler() as scheduler, _cleaned(plane):

        def scheduled() -> float:
            families = text_string_to_metric_families(scheduler.metrics())
            return sum(
                sample.value
                for family in families
                for sample in family.samples
                if sample.name == "scheduler_schedule_attempts_total"
                and sample.labels["result"] == "scheduled"
            )

        return _measure(plane, KUBE, pods, pid=scheduler.pid, count=scheduled)


def _measure(plane: ControlPlane, who: str, pods: int, *, pid: int, count: Callable[[], float]) -> Run:
    seen: list[tuple[float, float]] = []
    began: list[tuple[float, float]] = []

    def used() -> tuple[float, float]:
        return _cpu_seconds(pid), _cpu_seconds(plane.apiserver.pid) + _cpu_seconds(plane.etcd.pid)

    def done() -> bool:
        bound = count()
        if bound:
            seen.append((time.monotonic(), bound))
            began.append(used())
        return bound >= pods

    wait_until(done, _LIMIT_SECONDS, what=f"{pods} pods are bound", poll_seconds=0.5)
    ended, events = time.monotonic(), _events(plane)
    wait_until(
        lambda: _events(plane) >= pods, _LIMIT_SECONDS, what="all Events are written", poll_seconds=0.5
    )
    start = seen[0][0]
    return Run(
        who,
        pods,
        tuple((at - start, bound) for at, bound in seen),
        cpu_seconds=began[-1][0] - began[0][0],
        served_seconds=began[-1][1] - began[0][1],
        events=min(events, pods),
        events_seconds=time.monotonic() - ended,
    )


def _wait_for_events(plane: ControlPlane, pods: int) -> None:
    """Until all are written, or none is written any more: a scheduler may drop some."""
    known, since = -1, time.monotonic()

    def settled() -> bool:
        nonlocal known, since
        count = _events(plane)
        if count != known:
            known, since = count, time.monotonic()
        return count >= pods or time.monotonic() - since > _QUIET_SECONDS

    wait_until(settled, _LIMIT_SECONDS, what="the Events are written", poll_seconds=0.5)


def _events(plane: ControlPlane) -> int:
    found = plane.api.request("GET", _EVENTS)
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


def _create_pods(plane: ControlPlane, count: int, *, scheduler: str) -> None:
    def create(client: Client, number: int) -> object:
        labels = {"app": f"app-{number % 50}"}
        manifest = pod_manifest(
            f"p{number}", cpu="250m", memory="256Mi", labels=labels, scheduler_name=scheduler
        )
        return client.create("pods", manifest)

    _each(plane, count, create)


@contextmanager
def _cleaned(plane: ControlPlane) -> Iterator[None]:
    """The pods and what was said of them are gone after the block."""
    yield
    plane.api.delete_all("pods", "default")
    plane.api.delete_all("events", "default")
    wait_until(lambda: not plane.api.items("pods"), 300, what="the pods are gone", poll_seconds=0.5)


def _each(plane: ControlPlane, count: int, work: Callable[[Client, int], object]) -> None:
    """Do something many times, on a few connections."""

    def some(first: int) -> None:
        with Client(plane.server, plane.ca.cert, token=plane.admin_token) as client:
            for number in range(first, count, _CLIENTS):
                work(client, number)

    with ThreadPoolExecutor(_CLIENTS) as pool:
        list(pool.map(some, range(_CLIENTS)))


def _cpu_seconds(pid: int) -> float:
    """What a process has used of the processors so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main()
