"""How many pods a second: ``bayplan schedule`` and kube-scheduler, on the same API server and etcd.

Every pod waits when a scheduler starts, and both have the limit of their client raised. The time goes from
the first bind to the last, as the scheduler's own counter tells it. What is measured includes the API server,
which shares the machine with the scheduler.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.binaries import find_or_build
from tests.controlplane.client import Client
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.second_scheduler import NAME, SecondScheduler

_CLIENTS = 4
_LIMIT_SECONDS = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """What one scheduler took."""

    who: str
    pods: int
    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        rate, cost = self.pods / self.seconds, 1000 * self.cpu_seconds / self.pods
        return f"{self.who:16} {self.seconds:8.1f} {rate:8.0f} {cost:12.2f}"


def main() -> None:
    """Measure both, some times, in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--only", choices=["bayplan", "kube-scheduler"])
    options = parser.parse_args()
    print(f"{options.nodes} nodes, {options.pods} pods, {os.cpu_count()} cores")
    print(f"{'':16} {'seconds':>8} {'pods/s':>8} {'CPU ms/pod':>12}")
    with ControlPlane(find_or_build()) as plane, tempfile.TemporaryDirectory() as folder:
        _each(plane, options.nodes, lambda c, n: c.create("nodes", node_manifest(f"n{n}", cpu="16")))
        for number in range(options.runs):
            if options.only != "kube-scheduler":
                print(_bayplan(plane, options.pods, Path(folder) / f"run-{number}"), flush=True)
            if options.only != "bayplan":
                print(_kube_scheduler(plane, options.pods), flush=True)


def _bayplan(plane: ControlPlane, pods: int, folder: Path) -> Run:
    folder.mkdir()
    _create_pods(plane, pods, scheduler=NAME)
    scheduler = SecondScheduler(
        plane.api, folder, kubeconfig=plane.kubeconfig, flags=["--log-level=warning", "--no-leader-elect"]
    )
    with scheduler:
        seconds = _time(lambda: scheduler.metric("bayplan_schedule_attempts_total", result="scheduled"), pods)
        cpu_seconds = _cpu_seconds(scheduler.child.pid)
    _delete_pods(plane)
    return Run("bayplan", pods, seconds, cpu_seconds)


def _kube_scheduler(plane: ControlPlane, pods: int) -> Run:
    _create_pods(plane, pods, scheduler="default-scheduler")
    with plane.scheduler() as scheduler:

        def scheduled() -> float:
            families = text_string_to_metric_families(scheduler.metrics())
            return sum(
                sample.value
                for family in families
                for sample in family.samples
                if sample.name == "scheduler_schedule_attempts_total"
                and sample.labels["result"] == "scheduled"
            )

        seconds = _time(scheduled, pods)
        cpu_seconds = _cpu_seconds(scheduler.pid)
    _delete_pods(plane)
    return Run("kube-scheduler", pods, seconds, cpu_seconds)


def _time(count: Callable[[], float], pods: int) -> float:
    """Seconds a pod, from the first look that finds some bound to the last, for all of them."""
    seen: list[tuple[float, float]] = []

    def done() -> bool:
        bound = count()
        if bound:
            seen.append((time.monotonic(), bound))
        return bound >= pods

    wait_until(done, _LIMIT_SECONDS, what=f"{pods} pods are bound", poll_seconds=0.5)
    (start, before), (end, after) = seen[0], seen[-1]
    return (end - start) / max(1.0, after - before) * pods


def _create_pods(plane: ControlPlane, count: int, *, scheduler: str) -> None:
    def create(client: Client, number: int) -> object:
        labels = {"app": f"app-{number % 50}"}
        manifest = pod_manifest(
            f"p{number}", cpu="250m", memory="256Mi", labels=labels, scheduler_name=scheduler
        )
        return client.create("pods", manifest)

    _each(plane, count, create)


def _delete_pods(plane: ControlPlane) -> None:
    plane.api.delete_all("pods", "default")
    plane.api.delete_all("events", "default")
    wait_until(lambda: not plane.api.items("pods"), 120, what="the pods are gone", poll_seconds=0.5)


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
