"""One running ``bayplan schedule``."""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.api import PATIENCE_SECONDS, Api
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.e2e.extender import COMMAND, READY_SECONDS
from tests.e2e.nobodys_lease import leave_lease

NAME = "bayplan-scheduler"


class SecondScheduler:
    """The command ``bayplan schedule``, running inside its ``with`` block, which can be entered again."""

    child: Child

    def __init__(
        self,
        api: Api,
        directory: Path,
        *policies: str | Path,
        kubeconfig: Path,
        name: str = "schedule",
        flags: Sequence[str] = (),
        env: Mapping[str, str] = {},
        lease: str = NAME,
    ) -> None:
        """``lease`` is there when it starts, as in a cluster where it ran before; ``""``: none need be."""
        self._api = api
        self._lease = lease
        self._env = env
        self._directory = directory / name
        self._directory.mkdir()
        self.ops_port = free_port()
        self.page_port = free_port()
        self.argv: list[str | Path] = [
            COMMAND,
            "schedule",
            *policies,
            f"--kubeconfig={kubeconfig}",
            f"--ops-listen=127.0.0.1:{self.ops_port}",
            f"--page-listen=127.0.0.1:{self.page_port}",
            "--qps=5000",
            "--burst=5000",
            *flags,
        ]

    def __enter__(self) -> Self:
        """Start it, and return when it has the cluster in view."""
        if self._lease:
            leave_lease(self._api, self._lease)
        self.child = Child("bayplan schedule", self.argv, log=self._directory / "bayplan.log", env=self._env)
        try:
            self.child.wait_until(lambda: self._answers("/readyz"), READY_SECONDS)
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
        self.child.stop(grace_seconds=20.0)

    def kill(self) -> None:
        """End it as a crash does; nobody shall wonder that it is gone."""
        self._api.watched.remove(self.child)
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait_ended()

    def ops(self, path: str) -> tuple[int, str]:
        """Ask the port of health and metrics; status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=PATIENCE_SECONDS)
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

    def log(self) -> str:
        """Everything it has logged so far; also after it has ended."""
        return self.child.log()

    def _answers(self, path: str) -> bool:
        try:
            return self.ops(path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False
