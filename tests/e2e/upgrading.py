"""What an upgrade is tried on: servers that end as Kubernetes ends them, and pods that arrive meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.client import Client
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.scheduler import Scheduler
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender
from tests.e2e.installed import render
from tests.e2e.service_stand_in import Service
from tests.e2e.steady_caller import SteadyCaller

NODES = [f"n{number}" for number in range(6)]
EVEN = """
    import bayplan

    ODD = bayplan.Reason("odd nodes are for others")

    @bayplan.filter
    def even(pod, node):
        if int(node.name[-1]) % 2:
            return ODD

    @bayplan.score(range=(0, 10))
    def first(pod, node):
        return 10 if node.name == "n0" else 0
"""
EVERY_SECONDS = 0.05
BURST = 10


def create_nodes(cluster: ControlPlane) -> None:
    """Nodes with room for every pod that comes."""
    for name in NODES:
        cluster.api.create_node(name, cpu="1000", pods=10000)


@dataclass(frozen=True)
class Kubelet:
    """How pods end, as the printed manifests say."""

    pause_seconds: float
    grace_seconds: float
    probe_seconds: float
    failure_threshold: int

    @classmethod
    def of(cls, *arguments: str | Path) -> Kubelet:
        """Read from what ``bayplan render service`` prints."""
        (spec,) = [
            each["spec"]["template"]["spec"]
            for each in yaml.safe_load_all(render("service", *arguments))
            if each["kind"] == "Deployment"
        ]
        (container,) = spec["containers"]
        probe = container["readinessProbe"]
        return cls(
            pause_seconds=container["lifecycle"]["preStop"]["sleep"]["seconds"],
            grace_seconds=spec["terminationGracePeriodSeconds"],
            probe_seconds=probe["periodSeconds"],
            failure_threshold=probe["failureThreshold"],
        )

    def service(self) -> Service:
        """A Service whose endpoints are probed in this way."""
        return Service(probe_seconds=self.probe_seconds, failure_threshold=self.failure_threshold)

    def end(self, service: Service, *extenders: Extender) -> None:
        """Delete pods: endpoints and processes hear of it on ways of their own."""
        for extender in extenders:
            service.delete(extender)
        # The pause of the manifest, and nothing that could be waited for otherwise.
        threading.Event().wait(self.pause_seconds)
        for extender in extenders:
            os.kill(extender.child.pid, signal.SIGTERM)
        for extender in extenders:
            assert extender.child.wait_ended(self.grace_seconds - self.pause_seconds) == 0


class Site:
    """A cluster, a Service, and kube-scheduler that asks there."""

    def __init__(self, cluster: ControlPlane, directory: Path, stack: ExitStack, kubelet: Kubelet) -> None:
        self.cluster = cluster
        self.kubelet = kubelet
        self.service = kubelet.service()
        self._directory = directory
        self._stack = stack
        stack.enter_context(self.service.running())

    def start(self, name: str, config: Mapping[str, Any] | None = None, *, ready: bool = True) -> Extender:
        """One more server behind the Service."""
        made = Extender(
            self.cluster.api,
            self._directory,
            "" if config else EVEN,
            name=name,
            kubeconfig=self.cluster.kubeconfig,
            config=config,
            ready_at="/readyz" if ready else "/livez",
        )
        made.__enter__()
        # Some of them end before the test does, and nobody shall wonder.
        self.cluster.api.watched.remove(made.child)
        self._stack.callback(made.child.stop)
        self.service.add(made)
        if ready:
            self.service.wait_ready(made)
        return made

    def scheduler(self, one: Extender) -> Scheduler:
        """kube-scheduler, asking the Service."""
        entry = {**one.entry(bind=True), "urlPrefix": f"http://127.0.0.1:{self.service.port}"}
        return self._stack.enter_context(self.cluster.scheduler(extenders=[entry]))


@contextmanager
def arriving(cluster: ControlPlane, *, rest_seconds: float = 0, **settings: Any) -> Iterator[list[str]]:
    """Pods for kube-scheduler, one after the other while the block runs; their names.

    After each `BURST` of them there is a rest, in which connections may become idle.
    """
    names: list[str] = []
    ending = threading.Event()

    def create() -> None:
        with Client(cluster.server, cluster.ca.cert, token=cluster.admin_token) as client:
            while not ending.wait(EVERY_SECONDS):
                name = f"p{len(names)}"
                client.create("pods", pod_manifest(name, **settings))
                names.append(name)
                if len(names) % BURST == 0:
                    ending.wait(rest_seconds)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield names
    finally:
        ending.set()
        thread.join()


def attempts(scheduler: Scheduler) -> Counter[str]:
    """How often kube-scheduler has tried, by what came of it."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(scheduler.metrics()):
        for sample in family.samples:
            if sample.name == "scheduler_schedule_attempts_total":
                found[sample.labels["result"]] += int(sample.value)
    return found


def scheduled(cluster: ControlPlane) -> Counter[str]:
    """How often each pod was bound, as kube-scheduler's events say."""
    events = cluster.api.items("events", fields="reason=Scheduled")
    return Counter(event["involvedObject"]["name"] for event in events)


def wait_scheduled(cluster: ControlPlane, names: list[str]) -> None:
    """Each of them is bound, and once."""
    wait_until(
        lambda: len(scheduled(cluster)) >= len(names), 60, what="every pod has its event", poll_seconds=0.2
    )
    assert scheduled(cluster) == Counter(names)


def wait_bound(cluster: ControlPlane, names: list[str]) -> set[str]:
    """Each of them is bound, and said so once; but for those whose answer was lost, which are returned.

    Where the server is killed between the API server's answer and its own, kube-scheduler has seen an error
    (``Post ".../bind": EOF``). It finds the pod bound, leaves it so, and never writes that it is Scheduled.
    """

    def cut() -> set[str]:
        failed = cluster.api.items("events", fields="reason=FailedScheduling")
        asked = {event["involvedObject"]["name"] for event in failed if '/bind": ' in event["message"]}
        bound = {pod["metadata"]["name"] for pod in cluster.api.items("pods") if pod["spec"].get("nodeName")}
        return asked & bound - scheduled(cluster).keys()

    wait_until(
        lambda: scheduled(cluster).keys() | cut() >= set(names),
        60,
        what="every pod is bound, and has its event or an error",
        poll_seconds=0.2,
    )
    lost = cut()
    assert scheduled(cluster) == Counter(name for name in names if name not in lost)
    return lost


def wait_more_scheduled(cluster: ControlPlane, count: int) -> None:
    """So many pods more are bound than there are now."""
    known = len(scheduled(cluster))
    wait_until(
        lambda: len(scheduled(cluster)) >= known + count, 60, what=f"{count} pods more", poll_seconds=0.2
    )


def check_places(cluster: ControlPlane, caller: SteadyCaller) -> None:
    """Pods are where the policy wants them, and those of the caller where it was told."""
    places = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.api.items("pods")}
    assert {name: places[name] for name in caller.bound} == caller.bound
    assert set(filter(None, places.values())) <= set(NODES[::2])
