"""A listening socket, on one address or on all, whose certificates can be replaced while it listens."""

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Sized
from typing import Any, Protocol

from bayplan.runtimes.handshakes import Handshakes
from bayplan.runtimes.limits import Limits

Address = tuple[str, int]

EVERY_ADDRESS = "::"
"""All addresses of this machine, IPv6 and IPv4; IPv4 only if there is no IPv6."""
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - what is asked for with ":8888"
_STEPS_TO_ENTER = 5
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def written(address: Address) -> str:
    """The address as in a URL: ``127.0.0.1:8888``, ``[::1]:8888``."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Http(Protocol):
    """An HTTP server that makes connections for accepted sockets, and closes them."""

    limits: Limits

    @property
    def connections(self) -> Sized:
        """The open connections."""
        ...

    def __call__(self) -> asyncio.BaseProtocol: ...

    def pre_shutdown(self) -> None:
        """Close idle connections."""
        ...

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109
        """Close all connections; wait for answers under way, at most ``timeout`` seconds."""
        ...


class ListenError(Exception):
    """The server cannot listen on its address."""


class _Current(ssl.SSLContext):
    """A TLS context that delegates to the current certificates.

    So one asyncio server can listen as long as the socket is open: asyncio silently drops a caller that
    is accepted while its server is replaced by another one.
    """

    certificates: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake with the current certificates."""
        return self.certificates.wrap_bio(*args, **kwargs)


class Listener:
    """A listening socket whose certificates can be replaced while it listens."""

    def __init__(self, http: Http, address: Address, *, flag: str) -> None:
        self.http = http
        self._socket = _bind(address, flag=flag)
        self._server: asyncio.AbstractServer | Handshakes | None = None
        self._current = _Current(ssl.PROTOCOL_TLS_SERVER)
        host, port = self._socket.getsockname()[:2]
        self.address: Address = (host, port)

    async def listen(self, context: ssl.SSLContext | None) -> None:
        """Accept connections from now on, with TLS if there is a context."""
        if context is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self.http, sock=self._socket, backlog=1024)
            return
        self.renew(context)
        self._server = Handshakes(self.http, self._socket, self._current, self.http.limits)

    def renew(self, context: ssl.SSLContext) -> None:
        """Use these certificates for new connections; open ones go on as they are."""
        self._current.certificates = context

    def stop_accepting(self) -> None:
        """Stop accepting; open connections may finish."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    async def close(self) -> None:
        """Stop accepting, and close all connections."""
        self.stop_accepting()
        # A connection that was just accepted needs so many turns of the loop until the server knows it.
        for _ in range(_STEPS_TO_ENTER):
            await asyncio.sleep(0)
        if isinstance(self._server, Handshakes):
            self._server.end()
        # Idle connections close now; the timeout is for answers under way.
        self.http.pre_shutdown()
        await self.http.shutdown(timeout=1.0)


def _bind(address: Address, *, flag: str) -> socket.socket:
    try:
        return _listening(address)
    except (OSError, TypeError, ValueError) as error:
        # Python raises TypeError for a host that IDNA cannot encode.
        reason = getattr(error, "strerror", None) or error
        hint = ""
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            hint = f"; is another `bayplan` running? choose another address with {flag}"
        raise ListenError(f"cannot listen on {written(address)}: {reason}{hint}") from error


def _listening(address: Address) -> socket.socket:
    host, port = address
    if host != EVERY_ADDRESS:
        return _open(socket.AF_INET6 if ":" in host else socket.AF_INET, address)
    try:
        return _open(socket.AF_INET6, address)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _open(socket.AF_INET, (_EVERY_IPV4, port))


def _open(family: socket.AddressFamily, address: Address) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address[0] == EVERY_ADDRESS:
            # The default depends on the machine's settings.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(1024)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
