"""A listening socket whose certificates can be replaced while it listens."""

import asyncio
import errno
import ipaddress
import socket
import ssl

from bayplan.runtimes.connection import Handler, HttpServer
from bayplan.runtimes.limits import Limits

Address = tuple[str, int]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ListenError(Exception):
    """The server cannot listen where it was told to."""


class Listener:
    """A listening socket whose certificates can be replaced while it listens."""

    def __init__(self, handler: Handler, address: Address, *, limits: Limits, flag: str) -> None:
        self._limits = limits
        self.http = HttpServer(
            handler,
            max_connections=limits.max_connections,
            header_seconds=limits.header_seconds,
            write_seconds=limits.body_seconds,
            keep_alive_seconds=limits.keep_alive_seconds,
        )
        self._socket = _bind(address, flag=flag)
        self._server: asyncio.AbstractServer | None = None
        host, port = self._socket.getsockname()[:2]
        self.address: Address = (host, port)

    async def listen(self, context: ssl.SSLContext | None) -> None:
        """Accept connections with these certificates from now on; open ones go on as they are."""
        loop = asyncio.get_running_loop()
        handshake_seconds = self._limits.header_seconds if context else None
        # A second server on the same socket before the first one goes: no connection is ever refused.
        fresh = await loop.create_server(
            self.http,
            sock=self._socket.dup(),
            ssl=context,
            ssl_handshake_timeout=handshake_seconds,
            backlog=1024,
        )
        if self._server is not None:
            self._server.close()
        self._server = fresh

    def stop_accepting(self) -> None:
        """Close the door; those inside may finish."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    async def close(self) -> None:
        """Close what is still open."""
        self.stop_accepting()
        # Idle connections end now; the timeout is for those that are being answered.
        self.http.pre_shutdown()
        await self.http.shutdown(timeout=1.0)


def _bind(address: Address, *, flag: str) -> socket.socket:
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
        listening.setblocking(False)
    except (OSError, TypeError, ValueError) as error:
        # A host that cannot be written in IDNA is a TypeError to Python.
        listening.close()
        reason = getattr(error, "strerror", None) or error
        hint = ""
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            hint = f"; is another `bayplan` running? choose another address with {flag}"
        raise ListenError(f"cannot listen on {host}:{port}: {reason}{hint}") from error
    return listening
