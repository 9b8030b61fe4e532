"""The cluster that the cluster benchmark runs on: its nodes, the pods that wait, and the way back to before.

After each run the cluster is as it was: no pods, no Events, a history in etcd that is compacted, and an API
server that does nothing. Otherwise who comes later would have a larger etcd to work with.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.process import cpu_seconds
from bench.wire_requests import make_node, write_snapshot
from tests.controlplane.client import Client
from tests.controlplane.manifests import pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until

APISERVER_FLAGS = (
    # It would compact whenever five minutes are over, in the middle of somebody's run.
    "--etcd-compaction-interval=0",
    # With 100, the default, a scheduler that has more binds under way opens connections for the rest, and all
    # of them want one at once: up to 466 TLS handshakes were counted in a run, and none in another.
    "--http2-max-streams-per-connection=2000",
)

APISERVER_ENV = {
    # It would collect garbage once, twice or three times in a run, which takes as much CPU as hundreds of
    # binds. With this it is never due: each run begins after a collection.
    "GOGC": "600",
}

_CLIENTS = 8
_PATIENCE_SECONDS = 300.0
_LOOK_SECONDS, _QUIET_CORES = 0.5, 0.1
# Etcd's gateway takes keys in base64; the end is the first key that does not begin with `/registry/events/`.
_EVENTS, _EVENTS_END = (b64encode(key).decode() for key in (b"/registry/events/", b"/registry/events0"))
_SET_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp")


@dataclass(frozen=True)
class World:
    """A control plane with nodes, and the same nodes in a file."""

    plane: ControlPlane
    file: Path
    ssd: frozenset[str]
    """The nodes that may be used, a third of all."""

    @contextmanager
    def waiting_pods(self, count: int) -> Iterator[None]:
        """Pods that wait inside the block, the same ones each time; after it nothing is left of them."""
        self._each(count, lambda client, number: client.create("pods", make_pod(number)))
        self._collect_garbage()
        self._wait_quiet()
        yield
        self._clear()

    def places(self) -> list[str | None]:
        """The nodes of all pods."""
        with self._client() as client:
            return [pod["spec"].get("nodeName") for pod in client.items("pods")]

    def events(self) -> int:
        """How many Events are written, as etcd counts them: the API server would have to read them all."""
        answer = self._etcd("range", {"key": _EVENTS, "range_end": _EVENTS_END, "count_only": True})
        return int(answer.get("count", 0))

    def served_seconds(self) -> float:
        """CPU that the API server and etcd have used so far."""
        return cpu_seconds(self.plane.apiserver.pid) + cpu_seconds(self.plane.etcd.pid)

    def collections(self) -> int:
        """How often the API server has collected garbage so far."""
        with self._client() as client:
            page = client.text("GET", "/metrics")
        found = re.search(r"^go_gc_duration_seconds_count (\d+)$", page, re.MULTILINE)
        assert found, "the API server does not count its collections"
        return int(found[1])

    def make_nodes(self, nodes: list[dict[str, Any]]) -> None:
        """Create them all."""

        def create(client: Client, number: int) -> object:
            node = nodes[number]
            metadata = {key: node["metadata"][key] for key in node["metadata"].keys() - _SET_BY_THE_SERVER}
            return client.create("nodes", {**node, "metadata": metadata})

        self._each(len(nodes), create)

    def _clear(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self._delete_all, ("pods", "events")))
        self._compact()
        self._wait_quiet()

    def _delete_all(self, resource: str) -> None:
        with self._client() as client:

            def gone() -> bool:
                # Again and again: what the API server was writing may come after the list to be deleted.
                client.delete_all(resource)
                return not client.items(resource)

            wait_until(gone, _PATIENCE_SECONDS, what=f"the {resource} are gone")

    def _collect_garbage(self) -> None:
        """Have the API server do it now; it has answered when that is done."""
        with self._client() as client:
            client.read("GET", "/debug/pprof/heap?gc=1")

    def _compact(self) -> None:
        """Have etcd forget what was; it has answered when that is done."""
        revision = self._etcd("range", {"key": "AA=="})["header"]["revision"]
        self._etcd("compaction", {"revision": revision, "physical": True})

    def _etcd(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        address = urlsplit(self.plane.etcd_url)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=_PATIENCE_SECONDS
        )
        with closing(connection):
            connection.request("POST", f"/v3/kv/{method}", body=json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.load(response)
        assert response.status == 200, answer
        return answer

    def _wait_quiet(self) -> None:
        """Until API server and etcd have nothing to do."""

        def quiet() -> bool:
            before, start = self.served_seconds(), time.monotonic()
            time.sleep(_LOOK_SECONDS)
            return self.served_seconds() - before < _QUIET_CORES * (time.monotonic() - start)

        wait_until(quiet, _PATIENCE_SECONDS, what="the API server is quiet")

    def _each(self, count: int, work: Callable[[Client, int], object]) -> None:
        """Do something many times, on a few connections."""

        def some(first: int) -> None:
            with self._client() as client:
                for number in range(first, count, _CLIENTS):
                    work(client, number)

        with ThreadPoolExecutor(_CLIENTS) as pool:
            list(pool.map(some, range(_CLIENTS)))

    def _client(self) -> Client:
        token, patience = self.plane.admin_token, _PATIENCE_SECONDS
        return Client(self.plane.server, self.plane.ca.cert, token=token, timeout_seconds=patience)


def make_world(plane: ControlPlane, folder: Path, *, nodes: int) -> World:
    """The control plane with so many nodes; a third of them has an SSD."""
    made = [make_node(number, images=False) for number in range(nodes)]
    file = folder / "nodes.json"
    write_snapshot(file, made)
    ssd = [node for node in made if node["metadata"]["labels"]["disk"] == "ssd"]
    found = World(plane, file, frozenset(node["metadata"]["name"] for node in ssd))
    found.make_nodes(made)
    return found


def make_pod(number: int) -> dict[str, Any]:
    """A pod of one of 50 applications."""
    labels = {"app": f"app-{number % 50}"}
    return pod_manifest(f"pod-{number:05}", cpu="250m", memory="256Mi", labels=labels)
