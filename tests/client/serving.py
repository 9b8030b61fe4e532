"""Small servers on loopback for the tests of the client: an API server, and a proxy in front of it."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from bayplan.client.connect import from_kubeconfig
from bayplan.client.rest import ApiClient
from bayplan.client.retry import Retry
from tests.controlplane.certs import Authority

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server with this handler; its URL."""
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def server_tls(ca: Authority, *, dns: str = "", ip: str = "", ask: bool = False) -> ssl.SSLContext:
    """A server's context, which asks for a client certificate or does not."""
    name = dns or ip
    pair = ca.issue(name, dns=[dns] if dns else [], ips=[ip] if ip else [], server=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca.cert))
    context.load_cert_chain(pair.cert, pair.key)
    context.verify_mode = ssl.CERT_OPTIONAL if ask else ssl.CERT_NONE
    return context


def write_kubeconfig(folder: Path, *, cluster: dict[str, Any], user: dict[str, Any] | None = None) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def client_of(path: Path, *, retry: Retry | None = None) -> ApiClient:
    """A client with that kubeconfig, which does not wait between tries."""
    return ApiClient(from_kubeconfig(path), retry=retry or Retry(sleep=no_sleep))


async def no_sleep(seconds: float) -> None:
    """Time for others, and no more."""
    await asyncio.sleep(0)


async def no_nodes(request: web.BaseRequest) -> web.StreamResponse:
    """A list of nothing."""
    return web.json_response({"metadata": {"resourceVersion": "7"}, "items": []})


@dataclass
class Script:
    """Answers one request after the other: a status, with headers perhaps, or a cut; then 200."""

    answers: list[int | str | tuple[int, dict[str, str]]] = field(default_factory=list)
    asked: list[web.BaseRequest] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request)
        content = await request.read()
        self.bodies.append(json.loads(content) if content else None)
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, str):
            assert request.transport is not None
            request.transport.abort()
        status, headers = (
            answer if isinstance(answer, tuple) else (answer if isinstance(answer, int) else 200, {})
        )
        return web.json_response({"metadata": {"name": "found"}}, status=status, headers=headers)


@dataclass
class ConnectProxy:
    """A proxy that knows CONNECT, and writes down what it was asked."""

    refuse_with: str = ""
    heads: list[str] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @contextlib.asynccontextmanager
    async def running(self, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Until the end of the block; ``host:port``."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        try:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            if self.refuse_with:
                writer.write(f"HTTP/1.1 {self.refuse_with}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            host, _, port = head.split()[1].rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(far_writer):
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
