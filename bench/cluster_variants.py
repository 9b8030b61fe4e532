"""Whom kube-scheduler asks in the cluster benchmark, and how each of them is started.

All extenders get names only, and are asked to filter and to prioritize. Bayplan runs as in production: it
follows the API server, and has its journal, its metrics and its page on, with somebody listening to the page.
The Go extender has none of that, and knows its nodes from a file. The one with ten rules follows the API
server too, with informers. The bare server has its nodes from a file and is nothing to use: it shows how near
we are to the least that a Python process can do.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from bench.peers_built import PEERS, find_go
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.e2e.extender import Extender

NONE, GO, GO_TEN = "none", "go", "go-ten"
_BARE: Mapping[str, Sequence[str]] = {"bare": [], "bare-keep": ["keep"]}
_READY_SECONDS = 120.0


@dataclass(frozen=True)
class Aim:
    """How many times as many pods a second as another variant has."""

    of: str
    ratio: float


@dataclass(frozen=True)
class Variant:
    """One line of the table."""

    key: str
    name: str
    policies: str = ""
    """The file of Bayplan's policies, in ``bench/peers/bayplan``; nothing where it is not Bayplan."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What its configuration says beside the policies."""
    aim: Aim | None = None


def _answer(**keys: Any) -> Mapping[str, Any]:
    return {"extender": {"answer": keys}}


_NODES_ONLY: Mapping[str, Any] = {"cluster": {"nodesOnly": True}}
VARIANTS = (
    Variant(NONE, "no extender"),
    Variant(GO, "Go extender"),
    Variant(GO_TEN, "Go extender, ten rules"),
    Variant("one", "Bayplan, one policy", "policy.py", aim=Aim(GO, 1.3)),
    Variant("asked", "Bayplan, one policy that is asked each time", "asked.py"),
    Variant("each", "Bayplan, functions of one node, asked each time", "each.py"),
    Variant("ten", "Bayplan, ten policies", "ten.py", aim=Aim(GO, 1.3)),
    Variant("nodes-only", "Bayplan, one policy, nodesOnly", "policy.py", _NODES_ONLY, aim=Aim(GO, 1.3)),
    Variant("reasons", "Bayplan, failedNodes: always", "policy.py", _answer(failedNodes="always")),
    Variant("keep", "Bayplan, keep: 1", "policy.py", _answer(keep=1), aim=Aim(NONE, 1.0)),
    Variant(
        "keep-nodes-only",
        "Bayplan, keep: 1, nodesOnly",
        "policy.py",
        {**_answer(keep=1), **_NODES_ONLY},
        aim=Aim(NONE, 1.0),
    ),
    Variant("bare", "a bare server in Python"),
    Variant("bare-keep", "a bare server in Python, the best node alone"),
)


@dataclass(frozen=True)
class Asked:
    """An extender that runs: what kube-scheduler is told of it, and its process."""

    entry: Mapping[str, Any]
    child: Child


@contextlib.contextmanager
def asked(variant: Variant, plane: ControlPlane, *, folder: Path, nodes: Path) -> Iterator[Asked | None]:
    """Start whom kube-scheduler shall ask, if anybody; gone when the block ends."""
    if variant.policies:
        with _bayplan(variant, plane, folder) as running:
            yield running
    elif variant.key == GO:
        with _peer(
            "Go extender", [find_go(), "-listen=127.0.0.1:{port}", f"-nodes={nodes}"], folder
        ) as running:
            yield running
    elif variant.key == GO_TEN:
        follows = f"-kubeconfig={plane.kubeconfig}"
        ten: list[str | Path] = [find_go("ten"), "-listen=127.0.0.1:{port}", follows]
        with _peer("Go extender with ten rules", ten, folder) as running:
            yield running
    elif variant.key in _BARE:
        argv: list[str | Path] = [
            sys.executable,
            PEERS / "bare" / "server.py",
            "{port}",
            nodes,
            *_BARE[variant.key],
        ]
        with _peer("bare server", argv, folder) as running:
            yield running
    else:
        yield None


@contextlib.contextmanager
def _bayplan(variant: Variant, plane: ControlPlane, folder: Path) -> Iterator[Asked]:
    extender = Extender(
        plane.api,
        folder,
        PEERS / "bayplan" / variant.policies,
        name=variant.key,
        kubeconfig=plane.kubeconfig,
        config=variant.config,
    )
    with extender, socket.create_connection(("127.0.0.1", extender.page_port)) as page:
        _listen_to(page)
        yield Asked(extender.entry(preempt=False), extender.child)


@contextlib.contextmanager
def _peer(name: str, argv: Sequence[str | Path], folder: Path) -> Iterator[Asked]:
    """A peer that answers at ``/filter`` and ``/prioritize``; ``{port}`` in its arguments is where."""
    port = free_port()
    words = [str(word).replace("{port}", str(port)) for word in argv]
    child = Child(name, words, log=folder / "peer.log")
    try:
        child.wait_until(lambda: _is_healthy(port), _READY_SECONDS)
        entry = {
            "urlPrefix": f"http://127.0.0.1:{port}",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "nodeCacheCapable": True,
        }
        yield Asked(entry, child)
    finally:
        child.stop()


def _listen_to(page: socket.socket) -> None:
    """Be the person who has the page open; until somebody hangs up."""
    page.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % page.getpeername()[1])
    assert page.recv(65536).startswith(b"HTTP/1.1 200 "), "the page tells no news"

    def listen() -> None:
        with contextlib.suppress(OSError):
            while page.recv(65536):
                pass

    Thread(target=listen, daemon=True).start()


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    return False
