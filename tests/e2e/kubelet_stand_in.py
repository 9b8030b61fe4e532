"""A stand-in for the controllers and the kubelet that run an installation; the tests' cluster has neither.

It waits for our Deployment or DaemonSet, takes everything from the API server as a kubelet would, starts the
containers of each pod as processes on loopback, and writes into the status when their probes answer.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.e2e.installed import Installed

Json = dict[str, Any]

NAMESPACE = "kube-system"
_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
_FILES = f"/api/v1/namespaces/{NAMESPACE}"
_LOOK_SECONDS = 0.2
_START_SECONDS = 90.0


class KubeletStandIn:
    """Runs what is installed, inside its ``with`` block."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        # A client is not for several threads.
        self._cluster = copy.copy(cluster)
        self._cluster.api = Api(cluster.server, cluster.ca.cert, token=cluster.admin_token)
        self._directory = directory
        self._stop = threading.Event()
        self._up = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self.pods: list[Installed] = []
        self.processes: list[Child] = []

    def __enter__(self) -> Self:
        self._directory.mkdir()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._cluster.api.close()
        if self._problem is not None:
            raise self._problem

    def wait_up(self) -> list[Installed]:
        """Wait until every container is ready; the pods."""
        wait_until(
            lambda: self._up.is_set() or not self._thread.is_alive(),
            _START_SECONDS,
            what="all pods are ready",
        )
        if self._problem is not None:
            raise self._problem
        return self.pods

    def _run(self) -> None:
        try:
            while not self._stop.wait(_LOOK_SECONDS):
                if workload := self._workload():
                    self._keep_up(workload)
                    return
        except BaseException as problem:
            self._problem = problem

    def _workload(self) -> Json | None:
        for kind in ("deployments", "daemonsets"):
            for one in self._cluster.api.request("GET", f"{_APPS}/{kind}")["items"]:
                return {**one, "kind": "Deployment" if kind == "deployments" else "DaemonSet"}
        return None

    def _keep_up(self, workload: Json) -> None:
        text = yaml.safe_dump_all([workload, *self._files("ConfigMap"), *self._files("Secret")])
        with ExitStack() as stack:
            for number in range(workload["spec"].get("replicas", 1)):
                folder = self._directory / f"pod-{number}"
                folder.mkdir()
                pod = Installed(self._cluster, folder, text)
                self._start(stack, pod, workload["spec"]["template"]["spec"])
                self.pods.append(pod)
            if workload["kind"] == "Deployment":
                self._write_status(workload)
            self._up.set()
            self._stop.wait()

    def _start(self, stack: ExitStack, pod: Installed, spec: Mapping[str, Any]) -> None:
        names = {one["name"] for one in (*spec.get("initContainers", ()), *spec["containers"])}
        with_scheduler = "kube-scheduler" in names
        last = {"group": "storage.k8s.io", "resource": "csinodes"} if with_scheduler else {"resource": "pods"}
        account = pod.account(may={"verb": "list", **last}, name=spec["serviceAccountName"])
        self.processes.append(stack.enter_context(pod.bayplan(account)))
        if with_scheduler:
            config = (pod.files("bayplan-scheduler-config") / "kube-scheduler.yaml").read_text()
            self.processes.append(stack.enter_context(pod.kube_scheduler(account, config)).child)

    def _files(self, kind: str) -> list[Json]:
        found = self._cluster.api.request("GET", f"{_FILES}/{kind.lower()}s")["items"]
        return [{**one, "kind": kind, "data": one.get("data", {})} for one in found]

    def _write_status(self, workload: Json) -> None:
        count = workload["spec"]["replicas"]
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        status = {"observedGeneration": workload["metadata"]["generation"], **dict.fromkeys(counts, count)}
        path = f"{_APPS}/deployments/{workload['metadata']['name']}/status"
        kind = "application/merge-patch+json"
        self._cluster.api.request("PATCH", path, body={"status": status}, content_type=kind)
