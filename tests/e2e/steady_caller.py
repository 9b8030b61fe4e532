"""A caller that never rests: pod after pod through filter, prioritize and bind, as kube-scheduler does it.

Like kube-scheduler's transport it keeps its connection, sees when the other side has closed it, does not use
one that was told to end, and never sends a request twice.
"""

from __future__ import annotations

import http.client
import itertools
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.controlplane.client import Client
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane

SCHEDULER_NAME = "steady-caller"
TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True)
class Failure:
    """A call that was not answered with 200 and without an error."""

    at: float
    verb: str
    text: str


class SteadyCaller:
    """Calls in threads of their own, while its block runs."""

    def __init__(
        self,
        cluster: ControlPlane,
        port: int,
        *,
        nodes: list[str],
        tls: Callable[[], ssl.SSLContext] | None = None,
        calls_a_connection: int | None = None,
        limits: dict[str, str] | None = None,
    ) -> None:
        """Call `port`; `tls` makes the context of each new connection, from the files of that time.

        A connection is kept as long as it lasts, or for so many calls. `limits` are those of its pods.
        """
        self._cluster = cluster
        self._port = port
        self._nodes = nodes
        self._tls = tls
        self._calls_a_connection = calls_a_connection
        self._limits = limits or {}
        self._numbers = itertools.count()
        self._ending = threading.Event()
        self.answered = 0
        self.connected = 0
        self.failures: list[Failure] = []
        self.bound: dict[str, str] = {}
        """Pods that were bound, and where to."""

    @contextmanager
    def running(self, threads: int = 2) -> Iterator[None]:
        """Call while the block runs."""
        started = [threading.Thread(target=self._run) for _ in range(threads)]
        for thread in started:
            thread.start()
        try:
            yield
        finally:
            self._ending.set()
            for thread in started:
                thread.join()

    def _run(self) -> None:
        line = _Line(self._open, calls=self._calls_a_connection)
        with Client(self._cluster.server, self._cluster.ca.cert, token=self._cluster.admin_token) as client:
            while not self._ending.is_set():
                name = f"steady-{next(self._numbers)}"
                manifest = pod_manifest(name, cpu="1m", scheduler_name=SCHEDULER_NAME, limits=self._limits)
                self._schedule(line, client.create("pods", manifest))
        line.close()

    def _schedule(self, line: _Line, pod: dict[str, Any]) -> None:
        asked = {"Pod": pod, "NodeNames": self._nodes}
        filtered = self._call(line, "filter", asked)
        if filtered is None:
            return
        scores = self._call(line, "prioritize", {**asked, "NodeNames": filtered["NodeNames"]})
        if scores is None:
            return
        meta = pod["metadata"]
        highest = max(int(each["Score"]) for each in scores)
        equals = [each["Host"] for each in scores if int(each["Score"]) == highest]
        # By turns, as kube-scheduler draws lots: on a fast machine one node alone would be full in the end.
        best = equals[int(meta["name"].rpartition("-")[2]) % len(equals)]
        binding = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": best}
        if self._call(line, "bind", binding) is not None:
            self.bound[meta["name"]] = best

    def _call(self, line: _Line, verb: str, body: object) -> Any:
        try:
            status, answer = line.ask(verb, json.dumps(body).encode())
            said = json.loads(answer) if status == 200 else None
            wrong = said.get("Error", "") if isinstance(said, dict) else ""
            wrong = wrong if said is not None else f"status {status}"
        except (OSError, http.client.HTTPException) as error:
            line.close()
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            self.failures.append(Failure(time.monotonic(), verb, wrong))
            return None
        self.answered += 1
        return said

    def _open(self) -> http.client.HTTPConnection:
        self.connected += 1
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_SECONDS)
        return http.client.HTTPSConnection(
            "127.0.0.1", self._port, timeout=TIMEOUT_SECONDS, context=self._tls()
        )


class _Line:
    """One connection after the other."""

    def __init__(self, make: Callable[[], http.client.HTTPConnection], *, calls: int | None) -> None:
        self._make = make
        self._calls = calls
        self._called = 0
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        connection = self._usable()
        connection.request("POST", f"/{verb}", body=body, headers={"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        self._called += 1
        if response.will_close or self._called == self._calls:
            self.close()
        return response.status, answer

    def close(self) -> None:
        """Done with it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _usable(self) -> http.client.HTTPConnection:
        known = self._connection
        # Somebody who has nothing to say and yet can be read from has hung up.
        if known is not None and not select.select([known.sock], [], [], 0)[0]:
            return known
        self.close()
        self._called = 0
        self._connection = self._make()
        self._connection.connect()
        return self._connection
