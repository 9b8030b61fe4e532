"""The servers of the scale benchmark: one for each size, all there at once: rounds go over all sizes."""

from __future__ import annotations

import contextlib
import http.client
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers_built import PEERS
from bench.raw_http import Caller
from bench.wire_requests import Requests, make_node, names_only, write_snapshot
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child

_READY_SECONDS = 180.0
# As the first policy, but by a label of its own; that refuses nobody: answers stay the same, however many. It
# says that it may read anything: stored results would take the same time with any number of policies.
_ANOTHER = """
import numpy as np
import bayplan

MINE = bayplan.Label("example.com/label-{number:02}")
NOT_MINE = bayplan.Reason("not one of policy {number}")

@bayplan.filter(reads="cluster")
def mine(nodes):
    return NOT_MINE.where(nodes[MINE] == "nobody has this")

@bayplan.score(range=(0, 10), reads="cluster")
def some(nodes):
    return np.where(nodes[MINE] == "value-1", 10.0, 0.0)
"""


@dataclass(frozen=True)
class Sized:
    """A server of one size, and what to ask it."""

    size: int
    caller: Caller
    bodies: Iterator[tuple[bytes, bytes]]
    child: Child

    def place(self) -> tuple[float, float]:
        """Filter and prioritize another pod with all nodes; the seconds of both."""
        first, rest = next(self.bodies)
        return self.caller.call("filter", first, rest), self.caller.call("prioritize", first, rest)


@contextlib.contextmanager
def servers(folder: Path, sizes: Mapping[int, tuple[int, int]], *, asked: bool) -> Iterator[list[Sized]]:
    """One for each size, which means so many nodes and so many policies; gone when the block ends.

    With ``asked`` the policies are called for each pod; else one policy is answered from stored results.
    """
    nodes = [make_node(number, images=False) for number in range(max(count for count, _ in sizes.values()))]
    with contextlib.ExitStack() as stack:
        started = []
        for size, (count, policies) in sizes.items():
            file = folder / f"{size}-nodes.json"
            write_snapshot(file, nodes[:count])
            child, port = _start(folder, f"{size}", file, policy_files(folder, policies, asked=asked))
            stack.callback(child.stop)
            caller = stack.enter_context(Caller(port))
            requests = names_only(nodes[:count])
            _check(caller, requests, nodes[:count])
            started.append(Sized(size, caller, requests.bodies(), child))
        yield started


def policy_files(folder: Path, count: int, *, asked: bool) -> list[Path]:
    """The policy of the wire benchmark, and so many others that there are ``count``."""
    files = [PEERS / "bayplan" / ("asked.py" if asked else "policy.py")]
    for number in range(count - 1):
        file = folder / f"policy_{number:02}.py"
        file.write_text(_ANOTHER.format(number=number))
        files.append(file)
    return files


def _start(folder: Path, name: str, nodes: Path, policies: Sequence[Path]) -> tuple[Child, int]:
    port, ops_port = free_port(), free_port()
    argv: list[str | Path] = [
        Path(sys.executable).with_name("bayplan"),
        "serve",
        *policies,
        f"--listen=127.0.0.1:{port}",
        f"--ops-listen=127.0.0.1:{ops_port}",
        f"--page-listen=127.0.0.1:{free_port()}",
        f"--snapshot={nodes}",
    ]
    child = Child(f"bayplan serve {name}", argv, log=folder / f"{name}.log")
    try:
        child.wait_until(lambda: _ready(ops_port), _READY_SECONDS)
    except BaseException:
        child.stop()
        raise
    return child, port


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    return False


def _check(caller: Caller, requests: Requests, nodes: list[dict[str, Any]]) -> None:
    """Whether each node is judged: a fast wrong answer is worth nothing."""
    ssd = {node["metadata"]["name"] for node in nodes if node["metadata"]["labels"]["disk"] == "ssd"}
    first, rest = next(requests.bodies())
    caller.call("filter", first, rest)
    said = json.loads(caller.answer)
    assert not said.get("Error"), said["Error"]
    assert set(said["NodeNames"]) == ssd, "other nodes pass"
    caller.call("prioritize", first, rest)
    assert len(json.loads(caller.answer)) == len(nodes), "not every node has a score"
