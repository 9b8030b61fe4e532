"""`bayplan serve` as a process of its own, with the obedient policy."""

import contextlib
import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.runtimes.extender.obedient import write_config

BAYPLAN = Path(sys.executable).parent / "bayplan"
START_SECONDS = 20.0


class Served:
    """A running `bayplan serve`."""

    def __init__(self, folder: Path, *flags: str, **options: Any) -> None:
        self.port, self.ops_port = free_port(), free_port()
        config = write_config(folder, **options)
        addresses = [f"--listen=127.0.0.1:{self.port}", f"--ops-listen=127.0.0.1:{self.ops_port}"]
        addresses.append("--page-listen=off")
        self.child = Child(
            "bayplan serve", [BAYPLAN, "serve", "--config", config, *addresses, *flags], log=folder / "log"
        )
        self.child.wait_until(lambda: self.probe("/readyz") == 200, START_SECONDS)

    def ask(self, verb: str, body: Any, *, timeout_seconds: float = 10.0) -> Any:
        """The answer to one request; it must have status 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_seconds)
        with contextlib.closing(connection):
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", f"/{verb}", content)
            response = connection.getresponse()
            assert response.status == 200
            return json.loads(response.read())

    def look(self, path: str, *, timeout_seconds: float = 1.0) -> tuple[int, str]:
        """Status and text of a page of the other port."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=timeout_seconds)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def probe(self, path: str) -> int | None:
        """The status, as a kubelet asks with its timeout of one second; ``None`` for no answer."""
        try:
            return self.look(path)[0]
        except OSError:
            return None

    def resident_bytes(self) -> int:
        """Memory that the process has in use."""
        fields = Path(f"/proc/{self.child.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def terminate(self) -> None:
        """Ask it to end, as Kubernetes does."""
        os.kill(self.child.pid, signal.SIGTERM)


@contextlib.contextmanager
def served(folder: Path, *flags: str, **options: Any) -> Iterator[Served]:
    """A server that is gone when the block ends."""
    running = Served(folder, *flags, **options)
    try:
        yield running
    finally:
        running.child.stop()
