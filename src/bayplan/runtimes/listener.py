"""A listening socket: of one address, or of all of them, whose certificates can be replaced meanwhile."""

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
"""All addresses of this machine, of IPv6 and of IPv4; of IPv4 alone where there is no IPv6."""
_EVERY_IPV4 = "0.0.0.0"  # noqa: S104 - what is asked for with ":8888"
_STEPS_TO_ENTER = 5
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def written(address: Address) -> str:
    """The address as it stands in a URL: ``127.0.0.1:8888``, ``[::1]:8888``."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Http(Protocol):
    """Who makes connections, and ends them."""

    limits: Limits

    @property
    def connections(self) -> Sized:
        """Those that are open."""
        ...

    def __call__(self) -> asyncio.BaseProtocol: ...

    def pre_shutdown(self) -> None:
        """Close those that are idle."""
        ...

    async def shutdown(self, timeout: float) -> None:  # noqa: ASYNC109
        """Close all, those that are being answered after so long at the latest."""
        ...


class ListenError(Exception):
    """The server cannot listen where it was told to."""


class _Current(ssl.SSLContext):
    """Whoever connects gets the certificates of that moment.

    So that one server listens for as long as the socket is open: asyncio forgets, without a word, a
    caller that is let in while its server is replaced by another one.
    """

    certificates: ssl.SSLContext

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Begin a handshake."""
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
        """Accept connections from now on, with these certificates if there are any."""
        if context is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self.http, sock=self._socket, backlog=1024)
            return
        self.renew(context)
        self._server = Handshakes(self.http, self._socket, self._current, self.http.limits)

    def renew(self, context: ssl.SSLContext) -> None:
        """Meet who connects from now on with these certificates; open connections go on as they are."""
        self._current.certificates = context

    def stop_accepting(self) -> None:
        """Close the door; those inside may finish."""
        if self._server is not None:
            self._server.close()
        self._socket.close()

    async def close(self) -> None:
        """Close what is still open."""
        self.stop_accepting()
        # Who was let in just now is on the way to be one of ours: so many times the loop has to come by.
        for _ in range(_STEPS_TO_ENTER):
            await asyncio.sleep(0)
        if isinstance(self._server, Handshakes):
            self._server.end()
        # Idle connections end now; the timeout is for those that are being answered.
        self.http.pre_shutdown()
        await self.http.shutdown(timeout=1.0)


def _bind(address: Address, *, flag: str) -> socket.socket:
    try:
        return _listening(address)
    except (OSError, TypeError, ValueError) as error:
        # A host that cannot be written in IDNA is a TypeError to Python.
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
            # A machine may be told to keep the two apart.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind(address)
        listening.listen(1024)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening
