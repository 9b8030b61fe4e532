"""One running kube-scheduler, with the configuration that a test gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.controlplane.api import Api
from tests.controlplane.certs import Authority
from tests.controlplane.client import ApiError, Client, Json
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child

READY_SECONDS = 60.0


def scheduler_configuration(
    *,
    extenders: Sequence[Mapping[str, Any]] = (),
    profiles: Sequence[Mapping[str, Any]] | None = None,
    percentage_of_nodes_to_score: int | None = None,
    scheduler_name: str = "default-scheduler",
    pod_max_backoff_seconds: int = 1,
) -> Json:
    """A KubeSchedulerConfiguration; `profiles` replaces the single one of `scheduler_name`.

    The backoff is a second and not ten, so that a retried pod does not slow a test down; the
    client's limit is 5000 and not 50 requests per second.
    """
    document: Json = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": pod_max_backoff_seconds,
        "profiles": list(profiles or [{"schedulerName": scheduler_name}]),
        "extenders": list(extenders),
    }
    if percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = percentage_of_nodes_to_score
    return document


class Scheduler:
    """A kube-scheduler, running inside its ``with`` block."""

    child: Child

    def __init__(
        self,
        binary: Path,
        directory: Path,
        *,
        configuration: Json,
        kubeconfig: Path,
        ca: Authority,
        admin_token: str,
        api: Api,
        flags: Sequence[str] = (),
    ) -> None:
        self._binary = binary
        self._directory = directory
        self._configuration = configuration
        self._kubeconfig = kubeconfig
        self._ca = ca
        self._token = admin_token
        self._api = api
        self._flags = flags
        self.port = free_port()

    def __enter__(self) -> Self:
        """Start it, and return when it has seen every object and schedules."""
        self._directory.mkdir(parents=True)
        config = self._directory / "configuration.json"
        config.write_text(json.dumps(self._configuration, indent=2))
        serving = self._ca.issue("kube-scheduler", ips=["127.0.0.1"], server=True)
        self._client = Client(f"https://127.0.0.1:{self.port}", self._ca.cert, token=self._token)
        self.child = Child(
            f"kube-scheduler {self._directory.name}",
            [
                self._binary,
                f"--config={config}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--tls-cert-file={serving.cert}",
                f"--tls-private-key-file={serving.key}",
                # Who may read /metrics is for the API server to say. The lookup is for a
                # front proxy, which there is not, and fills the log with its failures.
                "--authentication-skip-lookup",
                f"--authentication-kubeconfig={self._kubeconfig}",
                f"--authorization-kubeconfig={self._kubeconfig}",
                *self._flags,
            ],
            log=self._directory / "kube-scheduler.log",
        )
        try:
            self.child.wait_until(self._ready, READY_SECONDS)
        except BaseException:
            self._end()
            raise
        self._api.watched.append(self.child)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self._api.watched.remove(self.child)
        self._end()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.child.pid

    def log(self) -> str:
        """Everything it has logged so far; also after it has ended."""
        return self.child.log()

    def metrics(self) -> str:
        """Its /metrics page."""
        return self._client.text("GET", "/metrics")

    def _ready(self) -> bool:
        """Ask /readyz, which says ok once every event handler has got the first list.

        It answers 500 before; nobody listens before that.
        """
        try:
            return self._client.text("GET", "/readyz") == "ok"
        except (ApiError, OSError):
            return False

    def _end(self) -> None:
        self._client.close()
        self.child.stop()
