"""A stand-in for a Service: connections go to ready servers, and endpoints change a while after the fact.

As with kube-proxy, a connection stays with the server that it was given to, whatever happens to the endpoint;
and those that are being deleted are used only where there is no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

LATE_SECONDS = 1.0
"""From the API server's word that a pod is being deleted to the last node that has heard it."""


@dataclass
class _Endpoint:
    extender: Extender
    ready: bool = False
    terminating: bool = False
    failures: int = 0


class Service:
    """Endpoints behind one port."""

    def __init__(self, *, probe_seconds: float, failure_threshold: int) -> None:
        self._probe_seconds = probe_seconds
        self._failure_threshold = failure_threshold
        self._endpoints: list[_Endpoint] = []
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self.port = 0

    def add(self, extender: Extender) -> None:
        """A pod that is there; connections go to it once it is ready."""
        self._endpoints.append(_Endpoint(extender))

    def wait_ready(self, extender: Extender, *, ready: bool = True) -> None:
        """Wait until connections may go to it, or may not any more."""
        (endpoint,) = [each for each in self._endpoints if each.extender is extender]
        wait_until(lambda: endpoint.ready == ready, 60, what=f"{extender.name} as an endpoint: {ready=}")

    def delete(self, extender: Extender) -> None:
        """A pod that is being deleted: from a while later on, new connections go to others."""
        (endpoint,) = [each for each in self._endpoints if each.extender is extender]
        self._loop.call_soon_threadsafe(
            self._loop.call_later, LATE_SECONDS, setattr, endpoint, "terminating", True
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Open while the block runs."""
        thread = threading.Thread(target=self._loop.run_forever)
        thread.start()
        opened = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._close(*opened), self._loop).result(10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _open(self) -> tuple[asyncio.Server, asyncio.Task[None]]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        return server, asyncio.create_task(self._probe())

    async def _close(self, server: asyncio.Server, probing: asyncio.Task[None]) -> None:
        server.close()
        # Who was let in just now is on the way to a task of its own, which can be told to end.
        for _ in range(5):
            await asyncio.sleep(0)
        probing.cancel()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # What was cut off is closed when the loop comes by again.
        await asyncio.sleep(0)

    async def _probe(self) -> None:
        """As the kubelet does it: one success makes a server ready, several failures unmake it."""
        while True:
            for endpoint in list(self._endpoints):
                if await asyncio.to_thread(_is_ready, endpoint.extender):
                    endpoint.ready, endpoint.failures = True, 0
                    continue
                endpoint.failures += 1
                if endpoint.failures >= self._failure_threshold:
                    endpoint.ready = False
            await asyncio.sleep(self._probe_seconds)

    def _choose(self) -> _Endpoint | None:
        ready = [each for each in self._endpoints if each.ready]
        usable = [each for each in ready if not each.terminating] or ready
        return usable[next(self._turns) % len(usable)] if usable else None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not as a task that ends cancelled, of which asyncio complains.
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await self._connect(reader, writer)
            finally:
                # Also where it was told to end before anybody was at the other end.
                writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        endpoint = self._choose()
        if endpoint is None:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", endpoint.extender.port)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_pipe(reader, back), _pipe(there, writer))
        finally:
            back.transport.abort()


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Everything from the one to the other, and the end of it."""
    with contextlib.suppress(OSError):
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        finally:
            sink.close()


def _is_ready(extender: Extender) -> bool:
    try:
        return extender.ops("/readyz", timeout_seconds=2)[0] == 200
    except (OSError, http.client.HTTPException):
        return False
