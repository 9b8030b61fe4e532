"""Stands in for an API server with a large cluster: sends it to whoever watches, and then what happens.

    python -m bench.state_stand_in PORT CERT KEY NODES PODS

Filling a real one with 150,000 pods takes many minutes. This one has every byte ready before anybody asks, so
that what is measured is whoever reads. `tests/e2e/test_first_sync.py` does the same with a real one.
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from bench.state_cluster import changing_pods, end_of_list, event, home_of, node_bytes, pod_bytes

HAPPEN = "/happen"
_BLOCK = 32
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines as HTTP carries them, a chunk each as the API server does it, several to a write."""
    each = iter(lines)
    while block := [b"%x\r\n%b\r\n" % (len(line), line) for line in islice(each, _BLOCK)]:
        yield b"".join(block)


@dataclass
class StandIn:
    """The cluster, and who watches its pods."""

    nodes: int
    pods: int
    watchers: list[asyncio.StreamWriter] = field(default_factory=list)

    def __post_init__(self) -> None:
        each_node = [event("ADDED", node_bytes(number)) for number in range(self.nodes)]
        each_pod = (self._pod("ADDED", number) for number in range(self.pods))
        self._lists: Mapping[str, Sequence[bytes]] = {
            "/api/v1/nodes": list(chunks([*each_node, end_of_list("Node")])),
            "/api/v1/pods": [*chunks(each_pod), *chunks([end_of_list("Pod")])],
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the caller hangs up."""
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()
            if writer in self.watchers:
                self.watchers.remove(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).decode().split(" ", 2)[1]
        url = urlsplit(target)
        asked = parse_qs(url.query)
        if url.path == HAPPEN:
            await self._happen(int(asked["events"][0]))
            writer.write(_whole(b"200 OK"))
        elif url.path in self._lists and "sendInitialEvents" in asked:
            writer.write(_STREAM)
            for block in self._lists[url.path]:
                writer.write(block)
                await writer.drain()
            if url.path.endswith("pods"):
                self.watchers.append(writer)
        else:
            writer.write(_whole(b"404 Not Found"))

    async def _happen(self, count: int) -> None:
        """So many pods change, in no order; then there is one more, so that somebody can see the end."""
        # From the first one on each time: everybody is told the same.
        pods = islice(changing_pods(self.nodes, self.pods), max(0, count - 1))
        changed = [*(event("MODIFIED", pod) for pod in pods), self._pod("ADDED", self.pods)]
        for block in list(chunks(changed)):
            for watcher in self.watchers:
                watcher.write(block)
            await asyncio.gather(*(watcher.drain() for watcher in self.watchers))

    def _pod(self, kind: str, number: int) -> bytes:
        return event(kind, pod_bytes(number, node=home_of(number, self.nodes)))


def _whole(status: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}" % status


def let_happen(port: int, ca: Path, events: int) -> None:
    """Have pods change; returns when whoever watches has been sent all of it."""
    context = ssl.create_default_context(cafile=str(ca))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=120, context=context)
    connection.request("GET", f"{HAPPEN}?events={events}")
    assert connection.getresponse().status == 200
    connection.close()


async def _main(port: int, cert: str, key: str, *, nodes: int, pods: int) -> None:
    stand_in = StandIn(nodes, pods)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", port, ssl=context)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    place, its_cert, its_key, how_many_nodes, how_many_pods = sys.argv[1:]
    asyncio.run(_main(int(place), its_cert, its_key, nodes=int(how_many_nodes), pods=int(how_many_pods)))
