"""What a candidate costs the live answers: the same calls to three servers, one of them without one.

    make bench-shadow

Each server is a process of its own and knows 5,000 nodes from a file. Blocks of calls go to one after the
other, so that what else the machine does is spread over all of them. A pod is a filter and a prioritize call
with the names of all nodes; one follows the other at once, and the next pod comes at once, or at a pace.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from bayplan.testing import make_node, make_pod
from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child

_BAYPLAN = Path(sys.executable).parent / "bayplan"
_BLOCK = 50


def configuration(headroom: int, **more: Any) -> str:
    """Four built-ins, and how much CPU is to stay free."""
    policies = [
        {"use": "MostAvailableCPU", "args": {"headroomMilli": headroom}},
        {"use": "LeastAllocated"},
        {"use": "BalancedAllocation"},
        {"use": "Cost", "args": {"priceLabel": "example.com/price"}},
    ]
    head = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration"}
    return yaml.safe_dump({**head, "policies": policies, **more})


def write_cluster(file: Path, nodes: int) -> list[str]:
    """Nodes of four sizes and prices, a tenth of them full; their names."""
    made = [
        make_node(
            f"node-{number:04}",
            cpu=2 ** (2 + number % 4),
            labels={"example.com/price": f"{0.5 + number % 16 / 10:.2f}"},
        )
        for number in range(nodes)
    ]
    pods = [make_pod(f"full-{n}", cpu=2, node=f"node-{n:04}", uid=f"full-{n}") for n in range(0, nodes, 10)]
    items = [{"kind": "Node", **msgspec.to_builtins(node.object)} for node in made]
    items += [{"kind": "Pod", **msgspec.to_builtins(pod)} for pod in pods]
    file.write_bytes(msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": items}))
    return [node.name for node in made]


class Measured:
    """A server, and how long its answers took."""

    def __init__(self, folder: Path, name: str, **shadow: Any) -> None:
        self.name = name
        self.seconds: dict[str, list[float]] = {"filter": [], "prioritize": []}
        self.port, self.ops_port = free_port(), free_port()
        config = folder / f"{name.replace(' ', '-')}.yaml"
        config.write_text(configuration(0, **({"shadow": shadow} if shadow else {})))
        flags = [f"--listen=127.0.0.1:{self.port}", f"--ops-listen=127.0.0.1:{self.ops_port}"]
        flags += ["--page-listen=off", f"--snapshot={folder / 'cluster.json'}", "--log-level=warning"]
        self.child = Child(name, [_BAYPLAN, "serve", "--config", config, *flags], log=folder / f"{name}.log")
        self.child.wait_until(lambda: b"ok" in self.look("/readyz"), 60)
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def look(self, path: str) -> bytes:
        """A page of its other port; nothing where nobody is there yet."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", path)
            return connection.getresponse().read()
        return b""

    def place(self, number: int, names: list[str], *, note: bool) -> None:
        """Filter and prioritize one pod."""
        pod = msgspec.to_builtins(make_pod(f"web-{number}", uid=f"web-{number}", cpu="500m"))
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names})
        for verb in ("filter", "prioritize"):
            start = time.perf_counter()
            self._connection.request("POST", f"/{verb}", body)
            answer = self._connection.getresponse()
            answer.read()
            assert answer.status == 200
            if note:
                self.seconds[verb].append(time.perf_counter() - start)

    def results(self) -> str:
        """What became of the calls, by the server's own count."""
        found: dict[str, float] = {}
        for line in self.look("/metrics").decode().splitlines():
            if line.startswith("bayplan_shadow_decisions_total{"):
                result = line.partition('result="')[2].partition('"')[0]
                found[result] = found.get(result, 0) + float(line.rpartition(" ")[2])
        return ", ".join(f"{count:.0f} {result}" for result, count in found.items() if count)


@contextlib.contextmanager
def servers(folder: Path, nodes: int) -> Iterator[tuple[list[Measured], list[str]]]:
    """The three of them, and the names of their nodes; gone when the block ends."""
    names = write_cluster(folder / "cluster.json", nodes)
    (folder / "candidate.yaml").write_text(configuration(4000))
    with contextlib.ExitStack() as stack:
        started = []
        for name, shadow in (
            ("no candidate", {}),
            ("a candidate", {"config": "candidate.yaml"}),
            ("a tenth of the calls", {"config": "candidate.yaml", "sampleRatio": 0.1}),
        ):
            started.append(Measured(folder, name, **shadow))
            stack.callback(started[-1].child.stop)
        yield started, names


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=300, help="for each server and pace")
    options = parser.parse_args()
    print(f"{options.nodes} nodes, {options.pods} pods, {os.cpu_count()} cores, {platform.python_version()}")
    for pace, pause in (("one pod after the other", 0.0), ("20 pods a second", 0.05)):
        with tempfile.TemporaryDirectory() as made, servers(Path(made), options.nodes) as (started, names):
            for server in started:
                for number in range(_BLOCK):
                    server.place(number, names, note=False)
            for number in range(0, options.pods, _BLOCK):
                for server in started:
                    for one in range(number, number + _BLOCK):
                        server.place(one, names, note=True)
                        time.sleep(pause)
            print(f"\n{pace}")
            for server in started:
                _show(server)


def _show(server: Measured) -> None:
    for verb, seconds in server.seconds.items():
        cuts = statistics.quantiles(seconds, n=100)
        print(f"  {server.name:22} {verb:10} p50 {cuts[49] * 1000:6.1f} ms  p99 {cuts[98] * 1000:6.1f} ms")
    print(f"  {'':22} {server.results()}")


if __name__ == "__main__":
    main()
