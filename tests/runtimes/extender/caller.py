"""A caller that writes its own bytes: requests that no well-behaved library would send."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.listener import Address

PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Reply:
    """An answer, with header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be JSON."""
        return json.loads(self.body)


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(
        cls, to: "Server | Address", *, tls: ssl.SSLContext | None = None, server_name: str | None = None
    ) -> "Caller":
        """Open a connection to a server, or to an address."""
        host, port = to.listener.address if isinstance(to, Server) else to
        name = (server_name or host) if tls else None
        return cls(*await asyncio.open_connection(host, port, ssl=tls, server_hostname=name))

    async def __aenter__(self) -> "Caller":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Send these bytes and nothing else."""
        self.writer.write(data)
        await self.writer.drain()

    async def post(self, path: str, body: Any) -> Reply:
        """Send a request as kube-scheduler does; its answer."""
        await self.send(request(path, body))
        return await self.reply()

    async def reply(self, *, patience_seconds: float = PATIENCE_SECONDS) -> Reply:
        """The next answer on this connection."""
        async with asyncio.timeout(patience_seconds):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
            }
            assert "transfer-encoding" not in headers, "kube-scheduler does not drain chunked answers"
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(int(head[0].split()[1]), headers, body)

    async def hung_up(self, *, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Whether the server closes the connection, without another byte, before patience runs out."""
        try:
            async with asyncio.timeout(patience_seconds):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def request(path: str, body: Any, *, method: str = "POST", headers: Mapping[str, str] | None = None) -> bytes:
    """A request as kube-scheduler writes it; ``body`` is bytes, or made into JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    every = {
        "Host": "127.0.0.1",
        "User-Agent": "Go-http-client/1.1",
        "Content-Length": str(len(content)),
        "Content-Type": "application/json",
        "Accept-Encoding": "gzip",
        **(headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in every.items())
    return (
        f"{method} {path if path.startswith('/') else '/' + path} HTTP/1.1\r\n{lines}\r\n".encode() + content
    )


async def ask(to: Server | Address, verb: str, body: Any, *, tls: ssl.SSLContext | None = None) -> Reply:
    """One request on a connection of its own."""
    async with await Caller.connect(to, tls=tls) as caller:
        return await caller.post(verb, body)


async def look(server: Server, path: str) -> Reply:
    """What health or metrics say."""
    assert server.ops_listener is not None
    async with await Caller.connect(server.ops_listener.address) as caller:
        await caller.send(request(path, b"", method="GET"))
        return await caller.reply()


async def metric(server: Server, name: str, **labels: str) -> float:
    """One number of the metrics; 0 where it is not there."""
    text = (await look(server, "/metrics")).body.decode()
    for line in text.splitlines():
        if (
            line.startswith(name)
            and line[len(name)] in " {"
            and all(f'{k}="{v}"' in line for k, v in labels.items())
        ):
            return float(line.rpartition(" ")[2])
    return 0.0


def names_request(names: list[str], *, pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """What kube-scheduler sends with ``nodeCacheCapable: true``."""
    return {"Pod": pod or make_pod(), "Nodes": None, "NodeNames": names}


def nodes_request(nodes: list[dict[str, Any]], *, pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """What kube-scheduler sends with ``nodeCacheCapable: false``."""
    return {"Pod": pod or make_pod(), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}


def make_pod(name: str = "web-1", *, namespace: str = "default", **annotations: str) -> dict[str, Any]:
    """A pod; the annotations tell the obedient policy what to do."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Pending"}}


def make_node(name: str, *, fill: int = 0) -> dict[str, Any]:
    """A full node, with ``fill`` bytes that nobody reads."""
    quantities = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name},
            "annotations": {"x": "x" * fill},
        },
        "status": {"allocatable": quantities, "capacity": quantities},
    }
