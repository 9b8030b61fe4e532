"""Two ``bayplan schedule`` with one short Lease, and proxies that write down when who asked to bind."""

from __future__ import annotations

import time
from pathlib import Path

import yaml

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.fault_proxy import Decide, Fault, FaultProxy
from tests.e2e.second_scheduler import NAME, SecondScheduler

LEASE_SECONDS = 4


def short_lease(directory: Path, **cluster: object) -> str:
    """The flag of a configuration whose Lease runs out soon; ``cluster`` is that section of it."""
    lease = {"leaseDuration": f"{LEASE_SECONDS}s"}
    section = {"profiles": [{"schedulerName": NAME}], "leaderElection": lease, "bindTimeout": "1500ms"}
    document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "scheduler": section}
    path = directory / "bayplan.yaml"
    path.write_text(yaml.safe_dump({**document, **({"cluster": cluster} if cluster else {})}))
    return f"--config={path}"


class BindProxy(FaultProxy):
    """Between one scheduler and the API server; `fault` is what `decide` is for others."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(cluster, directory)
        self.fault: Decide = lambda _method, _path: ""
        self.binds: list[tuple[float, str]] = []
        """When it was asked to bind which pod, whatever became of it."""
        self.decide = self._look

    def check_bound_once(self) -> None:
        """The API server has said yes once for each path, or never."""
        done = [path for method, path, status in self.replies if is_bind(method, path) and status == 201]
        assert len(done) == len(set(done))

    def unanswered_patches(self) -> int:
        """How many changes of a pod were asked for and have no answer yet."""
        answered = sum(method == "PATCH" for method, _, _ in list(self.replies))
        return sum(method == "PATCH" for method, _ in list(self.seen)) - answered

    def _look(self, method: str, path: str) -> Fault:
        if is_bind(method, path):
            self.binds.append((time.monotonic(), path.split("/")[-2]))
        return self.fault(method, path)


def is_bind(method: str, path: str) -> bool:
    """Whether that is a request to bind a pod."""
    return method == "POST" and path.endswith("/binding")


def leads(bayplan: SecondScheduler) -> bool:
    """Whether it may bind."""
    return bayplan.metric("bayplan_writer") == 1


def leader_first(*bayplans: SecondScheduler) -> list[SecondScheduler]:
    """Wait until one of them leads; that one, and then the others."""
    wait_until(lambda: any(map(leads, bayplans)), 30, what="one of them leads")
    return sorted(bayplans, key=leads, reverse=True)


def scheduled(bayplan: SecondScheduler) -> int:
    """How many pods it has bound."""
    return int(bayplan.metric("bayplan_schedule_attempts_total", result="scheduled"))
