"""Proxies that lose requests and replies when they are told to.

`FaultProxy` is in front of the API server, `AnswerProxy` in front of Bayplan. They speak HTTP on both
sides: they see each request, and a reply can be lost after what was asked has been done.
"""

from __future__ import annotations

import contextlib
import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import SplitResult, urlsplit

from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import Extender, Json

Fault = Literal["", "request lost", "request swallowed", "reply lost", "reply swallowed", "held"]
"""Lost: the connection is cut. Swallowed: it stays open and says nothing. Held: until `release`."""

Decide = Callable[[str, str], Fault]

_PASSED_ON = ("Authorization", "Accept", "Content-Type")
_CHUNK = 65536
_LOOK_SECONDS = 0.05
_Parts = queue.SimpleQueue[tuple[float, bytes]]


class _Proxy(ThreadingHTTPServer):
    """Passes everything on, except where `decide` says otherwise; runs inside its ``with`` block."""

    daemon_threads = False

    def __init__(self, upstream: str, *, trust: ssl.SSLContext | None = None) -> None:
        # On port 0 and not a reserved one: it listens from here to its end.
        super().__init__(("127.0.0.1", 0), _Handler)
        self.decide: Decide = lambda _method, _path: ""
        self.seen: list[tuple[str, str]] = []
        """Method and path, with its query, of each request in order."""
        self.faults = 0
        """How many requests have met with a fault."""
        self.unanswered: list[tuple[str, str]] = []
        """Method and path of each request that was sent on whole and has no reply yet."""
        self.replies: list[tuple[str, str, int]] = []
        """Method, path and status of each request that has one."""
        self.lag_seconds = 0.0
        """How much later than they come the parts of a watch are passed on."""
        self.released = threading.Event()
        self.closing = threading.Event()
        self._upstream = urlsplit(upstream)
        self._trust = trust
        self._open: set[socket.socket] = set()
        self._silent: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Cut every connection, and return when the last thread has ended."""
        self.closing.set()
        self.released.set()
        self.shutdown()
        self._thread.join()
        self.cut()
        self.server_close()

    def cut(self) -> None:
        """End every connection that is open, on both sides, without a word."""
        with self._lock:
            for connection in self._open:
                # The plain one: that of an SSL socket would disturb the thread which reads from it.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def silence(self) -> int:
        """Pass nothing more on over any connection that is open now, for ever; how many those are.

        They stay open, as through a middlebox that has lost its state; new ones work.
        """
        with self._lock:
            self._silent |= self._open
            return len(self._silent)

    def wait_while_silent(self, connection: socket.socket) -> None:
        """Wait for the end where this connection is silenced."""
        if connection in self._silent:
            self.closing.wait()
            raise ConnectionAbortedError("the connection was silenced")

    def count(self, method: str, *containing: str) -> int:
        """How many requests there were whose path has all of these in it."""
        return sum(seen == method and all(part in path for part in containing) for seen, path in self.seen)

    @contextlib.contextmanager
    def known(self, connection: socket.socket) -> Iterator[None]:
        """One that `cut` ends."""
        with self._lock:
            self._open.add(connection)
        try:
            if self.closing.is_set():
                raise ConnectionAbortedError("the proxy is closing")
            yield
        finally:
            with self._lock:
                self._open.discard(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that break are what this is for."""

    @contextlib.contextmanager
    def connected(self, method: str, path: str) -> Iterator[http.client.HTTPConnection]:
        """A connection to whom the request is for; replies may take as long as they like."""
        upstream = self.connection_for(method, path)
        try:
            if upstream.sock is None:
                upstream.connect()
            with self.known(upstream.sock):
                yield upstream
        finally:
            upstream.close()

    def connection_for(self, _method: str, _path: str) -> http.client.HTTPConnection:
        """A connection to whom the request is for; it need not be open yet."""
        return self.new_connection(self._upstream)

    def new_connection(self, server: SplitResult) -> http.client.HTTPConnection:
        """One that is not open yet."""
        host = server.hostname or ""
        if self._trust:
            return http.client.HTTPSConnection(host, server.port, context=self._trust)
        return http.client.HTTPConnection(host, server.port)

    @contextlib.contextmanager
    def waiting(self, method: str, path: str) -> Iterator[None]:
        """The request is with whom it is for, and has no reply yet."""
        self.unanswered.append((method, path))
        try:
            yield
        finally:
            self.unanswered.remove((method, path))


class FaultProxy(_Proxy):
    """Between Bayplan and the API server; it ends TLS, with a certificate of the test's authority."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        super().__init__(cluster.server, trust=ssl.create_default_context(cafile=str(cluster.ca.cert)))
        pair = cluster.ca.issue("fault-proxy", ips=["127.0.0.1"], server=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        # The handshake is for the connection's own thread: a slow one must not keep the others out.
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.kubeconfig = write_kubeconfig(
            directory / "proxied.kubeconfig",
            f"https://127.0.0.1:{self.server_address[1]}",
            ca=cluster.ca.cert,
            user="admin",
            token=cluster.admin_token,
        )


class AnswerProxy(_Proxy):
    """Between kube-scheduler and Bayplan."""

    def __init__(self, bayplan: Extender) -> None:
        super().__init__(bayplan.url)
        self._entry = bayplan.entry(bind=True)

    def entry(self) -> Json:
        """What belongs under ``extenders:``, so that kube-scheduler comes this way."""
        return {**self._entry, "urlPrefix": f"http://127.0.0.1:{self.server_address[1]}"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Proxy

    def handle(self) -> None:
        with self.server.known(self.connection), contextlib.suppress(OSError, http.client.HTTPException):
            super().handle()

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def do_PUT(self) -> None:
        self._pass_on()

    def do_PATCH(self) -> None:
        self._pass_on()

    def log_message(self, *_: object) -> None:
        """Silent."""

    def _pass_on(self) -> None:
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
        proxy.wait_while_silent(self.connection)
        fault = proxy.decide(self.command, self.path)
        proxy.seen.append((self.command, self.path))
        proxy.faults += bool(fault)
        self.close_connection = bool(fault) and fault != "held"
        if fault == "request lost":
            return
        if fault == "request swallowed":
            proxy.closing.wait()
            return
        if fault == "held":
            proxy.released.wait()
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        with proxy.connected(self.command, self.path) as upstream:
            upstream.request(self.command, self.path, body=body, headers=headers)
            with proxy.waiting(self.command, self.path):
                reply = upstream.getresponse()
            proxy.replies.append((self.command, self.path, reply.status))
            if not fault or fault == "held":
                self._answer(reply)
                return
            reply.read()
        if fault == "reply swallowed":
            proxy.closing.wait()

    def _answer(self, reply: http.client.HTTPResponse) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.getheader("Content-Type", "application/json"))
        if reply.length is not None:
            body = reply.read()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # Read at once and written when it is due: the server does not notice that its watch is late.
        parts: _Parts = queue.SimpleQueue()
        writer = threading.Thread(target=self._write_late, args=(parts,))
        writer.start()
        try:
            while writer.is_alive() and (chunk := reply.read1(_CHUNK)):
                parts.put((time.monotonic(), b"%x\r\n%s\r\n" % (len(chunk), chunk)))
            # A stream that breaks raises, and then must not look as if it had ended in order.
            parts.put((time.monotonic(), b"0\r\n\r\n"))
        finally:
            parts.put((0.0, b""))
            writer.join()

    def _write_late(self, parts: _Parts) -> None:
        with contextlib.suppress(OSError):
            while True:
                came, part = parts.get()
                if not part:
                    return
                while (left := came + self.server.lag_seconds - time.monotonic()) > 0:
                    self.server.closing.wait(min(left, _LOOK_SECONDS))
                    if self.server.closing.is_set():
                        return
                self.server.wait_while_silent(self.connection)
                self.wfile.write(part)
