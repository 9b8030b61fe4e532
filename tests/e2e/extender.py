"""One running ``bayplan serve``, and how kube-scheduler is told about it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from types import TracebackType
from typing import Any, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.api import PATIENCE_SECONDS, Api
from tests.controlplane.certs import Authority, KeyPair
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.e2e.nobodys_lease import leave_lease

Json = dict[str, Any]

READY_SECONDS = 60.0
COMMAND = Path(sys.executable).with_name("bayplan")


class Extender:
    """The command ``bayplan serve``, running inside its ``with`` block.

    The ports are the same each time the block is entered: it can be down first and up later.
    """

    child: Child

    def __init__(
        self,
        api: Api,
        directory: Path,
        policy: str | Path,
        *,
        name: str = "policy",
        kubeconfig: Path | None = None,
        failure_policy: str = "",
        config: Mapping[str, Any] | None = None,
        flags: Sequence[str] = (),
        ready_at: str = "/readyz",
    ) -> None:
        """Write ``name.py``, unless `policy` is a file already, and ``bayplan.yaml`` if one is needed.

        With a `kubeconfig` the server knows the cluster, and kube-scheduler is told to send names.
        `ready_at` is what must answer 200 before the block begins.
        """
        self._api = api
        self._directory = directory / name
        self._directory.mkdir()
        self._names_only = kubeconfig is not None
        self._ready_at = ready_at
        self.name = name
        self.port = free_port()
        self.ops_port = free_port()
        self.page_port = free_port()
        section = (config or {}).get("extender", {})
        self._tls = "tls" in section
        self._leased = kubeconfig is not None and "--no-lease" not in flags
        self._lease = section.get("lease", {}).get("name", "bayplan")
        self._argv: list[str | Path] = [
            COMMAND,
            "serve",
            *self._policies(policy, config, failure_policy),
            f"--listen=127.0.0.1:{self.port}",
            f"--ops-listen=127.0.0.1:{self.ops_port}",
            f"--page-listen=127.0.0.1:{self.page_port}",
            *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
            *flags,
        ]

    def __enter__(self) -> Self:
        """Start it, and return when it is ready."""
        if self._leased:
            leave_lease(self._api, self._lease)
        self.child = Child(f"bayplan serve {self.name}", self._argv, log=self._directory / "bayplan.log")
        try:
            self.child.wait_until(lambda: self._answers(self._ready_at), READY_SECONDS)
        except BaseException:
            self.child.stop()
            raise
        self._api.watched.append(self.child)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it, unless it was killed."""
        if self.child in self._api.watched:
            self._api.watched.remove(self.child)
        self.child.stop()

    def kill(self) -> None:
        """End it as a crash does; nobody shall wonder that it is gone."""
        self._api.watched.remove(self.child)
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait_ended()

    @property
    def url(self) -> str:
        """The ``urlPrefix`` for kube-scheduler."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def entry(
        self,
        *,
        preempt: bool = True,
        bind: bool = False,
        weight: int = 1,
        ignorable: bool = False,
        managed: Sequence[str] = (),
        server_ca: Authority | None = None,
        client: KeyPair | None = None,
    ) -> Json:
        """What belongs under ``extenders:`` in kube-scheduler's configuration."""
        found: Json = {
            "urlPrefix": self.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": weight,
            "nodeCacheCapable": self._names_only,
            "ignorable": ignorable,
        }
        if preempt:
            found["preemptVerb"] = "preempt"
        if bind:
            found["bindVerb"] = "bind"
        if managed:
            found["managedResources"] = [{"name": resource} for resource in managed]
        if server_ca and client:
            files = {"caFile": server_ca.cert, "certFile": client.cert, "keyFile": client.key}
            found["enableHTTPS"] = True
            found["tlsConfig"] = {key: str(path) for key, path in files.items()}
        return found

    def call(self, verb: str, body: object) -> Any:
        """Call a verb as kube-scheduler would; the decoded answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", f"/{verb}", body=json.dumps(body).encode())
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        assert response.status == 200, answer
        return json.loads(answer)

    def ops(self, path: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> tuple[int, str]:
        """Ask the port of health and metrics; status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=timeout_seconds)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def metric(self, sample: str, **labels: str) -> float:
        """The sum of the samples that have these labels; 0 where there is none."""
        _, text = self.ops("/metrics")
        return sum(
            found.value
            for family in text_string_to_metric_families(text)
            for found in family.samples
            if found.name == sample and labels.items() <= found.labels.items()
        )

    def requests(self, verb: str, **labels: str) -> int:
        """How many requests it has answered."""
        return int(self.metric("bayplan_requests_total", verb=verb, **labels))

    def wait_metric(self, at_least: float, sample: str, **labels: str) -> float:
        """Wait until a metric has grown to `at_least`."""

        def grown() -> float | None:
            for child in self._api.watched:
                child.check()
            value = self.metric(sample, **labels)
            return value if value >= at_least else None

        return wait_until(
            grown,
            PATIENCE_SECONDS,
            what=f"{sample} {labels} is at least {at_least:g}",
            explain=lambda: "\n".join(child.log_tail() for child in self._api.watched),
        )

    def wait_ready(self) -> None:
        """Wait until it is ready, where it was not or is not any more."""
        self.child.wait_until(lambda: self._answers("/readyz"), READY_SECONDS)

    def log(self) -> str:
        """Everything it has logged so far; also after it has ended."""
        return self.child.log()

    def _policies(
        self, policy: str | Path, config: Mapping[str, Any] | None, failure_policy: str
    ) -> list[str | Path]:
        if isinstance(policy, str):
            path = self._directory / f"{self.name}.py"
            path.write_text(dedent(policy))
        else:
            path = policy
        if config is None and not failure_policy:
            return [path]
        entry = {"use": str(path), **({"failurePolicy": failure_policy} if failure_policy else {})}
        document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "policies": [entry]}
        file = self._directory / "bayplan.yaml"
        file.write_text(yaml.safe_dump({**document, **(config or {})}))
        return [f"--config={file}"]

    def _answers(self, path: str) -> bool:
        try:
            return self.ops(path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False
