"""Sends single requests to the API server: with credentials and a deadline, and errors as exceptions."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp

from bayplan.client.connect import Connection
from bayplan.client.errors import (
    ApiError,
    ConnectError,
    NotSent,
    Silent,
    Unreachable,
    Unsent,
    in_words,
    message_of,
)
from bayplan.client.lines import Lines
from bayplan.client.login import Access
from bayplan.client.sockets import open_socket
from bayplan.version import VERSION

_ANSWER_SECONDS = 30.0
_JSON = "application/json"
_NAME = f"bayplan/{VERSION}"
"""What audit logs and the metrics of the API server call us."""
_OTHER_CA = "; is it the right server, and its CA the one in the kubeconfig?"


class Channel:
    """The open connections to one API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last_header: Callable[[str], str] = lambda _: ""
        connector = aiohttp.TCPConnector(limit=64, socket_factory=open_socket)
        self._lines = (
            None if connection.proxy else Lines(connection.server, server_name=connection.server_name)
        )
        # The environment's proxies are for the internet; a proxy for the API server is in the kubeconfig.
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False)

    @property
    def server_date(self) -> str:
        """The ``Date`` header of the last answer: the server's clock."""
        return self._last_header("date")

    async def close(self) -> None:
        """Close all connections."""
        if self._lines is not None:
            self._lines.close()
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        data: bytes | None,
        content_type: str,
        params: dict[str, str] | None,
        timeout_seconds: float,
        headers: Mapping[str, str] | None = None,
        urgent: bool = False,
    ) -> bytes:
        """Send one request, once; returns the body of a 2xx answer, else raises `ApiError` or `ConnectError`.

        An ``urgent`` write does not wait for a free connection.
        """
        deadline = time.monotonic() + timeout_seconds
        access = await self._access_within(timeout_seconds, doing)
        left = deadline - time.monotonic()
        if left <= 0:
            # To aiohttp a timeout of 0 means no timeout.
            raise NotSent(f"{doing}: no time was left to send it")
        shown = {**self._headers(access), **(headers or {})}
        if data is not None:
            shown["Content-Type"] = content_type
        # Reads are few and large, for which aiohttp is fast enough; it also handles proxies.
        by_line = self._lines is not None and method != "GET"
        try:
            if by_line:
                answer = await self._write(
                    method, path, access, shown, data=data, params=params, seconds=left, urgent=urgent
                )
            else:
                answer = await self._ask(method, path, access, shown, data=data, params=params, seconds=left)
        except TimeoutError as error:
            raise Unreachable(f"{doing}: no answer in {timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # ValueError: an address or a header that cannot be sent, or an answer that cannot be read.
            raise _network_error(error, doing=doing) from error
        self._last_header = answer.header
        if 200 <= answer.status < 300:
            return answer.content
        wait = answer.header("retry-after")
        raise self._refusal(answer.status, wait, answer.content, doing=doing, access=access)

    async def _ask(
        self,
        method: str,
        path: str,
        access: Access,
        headers: Mapping[str, str],
        *,
        data: bytes | None,
        params: dict[str, str] | None,
        seconds: float,
    ) -> "_Answer":
        options = self._options(access, aiohttp.ClientTimeout(total=seconds)) | {"headers": headers}
        if method != "GET":
            options["middlewares"] = (_once,)
        url = self._connection.server + path
        async with self._session.request(method, url, params=params, data=data, **options) as response:
            told = response.headers
            return _Answer(response.status, await response.read(), lambda name: told.get(name, ""))

    async def _write(
        self,
        method: str,
        path: str,
        access: Access,
        headers: Mapping[str, str],
        *,
        data: bytes | None,
        params: dict[str, str] | None,
        seconds: float,
        urgent: bool,
    ) -> "_Answer":
        lines = self._lines
        assert lines is not None, "asked only where there are lines"
        target = f"{lines.prefix}{path}?{urlencode(params)}" if params else lines.prefix + path
        request = _request(method, target, {"Host": lines.authority, **headers}, data or b"")
        deadline = time.monotonic() + seconds
        sent = False
        try:
            async with lines.line(access.tls, timeout_seconds=seconds, urgent=urgent) as line:
                left = deadline - time.monotonic()
                if left <= 0:
                    # A late bind must not be sent: another server may hold the Lease by now.
                    raise TimeoutError
                sent = True
                answer = await line.ask(request, timeout_seconds=left)
        except (TimeoutError, OSError) as error:
            if sent or isinstance(error, ssl.SSLCertVerificationError):
                raise
            raise _NoConnection(str(error) or "no connection in time") from error
        return _Answer(answer.status, answer.body, answer.header)

    async def lines(
        self,
        path: str,
        *,
        params: dict[str, str],
        doing: str,
        silence_seconds: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """The lines of a streamed answer; raises `Silent` if nothing comes for ``silence_seconds``.

        ``opened`` is called when the server has answered 200, which may be long before the first line.
        """
        access = await self._access()
        timeout = aiohttp.ClientTimeout(total=None, sock_read=silence_seconds)
        url = self._connection.server + path
        try:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    response = await self._session.get(url, params=params, **self._options(access, timeout))
            except TimeoutError as error:
                raise Unreachable(f"{doing}: no answer in {_ANSWER_SECONDS:.0f} s") from error
            async with response:
                if response.status != 200:
                    wait, content = response.headers.get("Retry-After", ""), await response.read()
                    raise self._refusal(response.status, wait, content, doing=doing, access=access)
                if opened is not None:
                    opened()
                rest = b""
                async for chunk in response.content.iter_any():
                    # Split here: objects may be longer than the line limit of aiohttp's reader.
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
        except TimeoutError as error:
            raise Silent(f"{doing}: silent for {silence_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _network_error(error, doing=doing) from error

    async def _access_within(self, seconds: float, doing: str) -> Access:
        """The credentials, within the caller's time: a bind must not be sent late."""
        try:
            if self._connection.login is None:
                return self._connection.access()
            async with asyncio.timeout(max(seconds, 0)):
                return await self._access()
        except ConnectError as error:
            raise Unsent(str(error)) from error
        except TimeoutError as error:
            raise NotSent(f"{doing}: logging in took longer than {seconds:.0f} s") from error

    async def _access(self) -> Access:
        login = self._connection.login
        if login is not None:
            # A login program may have to run, which takes a second or two.
            return await asyncio.wrap_future(login.begin())
        return self._connection.access()

    def _headers(self, access: Access) -> dict[str, str]:
        headers = {"Accept": _JSON, "User-Agent": _NAME}
        if access.token:
            # Tokens of login programs or kubeconfigs may end with a newline.
            headers["Authorization"] = f"Bearer {access.token.strip()}"
        return headers

    def _options(self, access: Access, timeout: aiohttp.ClientTimeout) -> dict[str, Any]:
        return {
            "headers": self._headers(access),
            # Per request, not per session: a replaced certificate comes in a new context.
            "ssl": access.tls or True,
            "server_hostname": self._connection.server_name,
            "proxy": self._connection.proxy,
            "allow_redirects": False,
            "timeout": timeout,
        }

    def _refusal(self, status: int, wait: str, content: bytes, *, doing: str, access: Access) -> ApiError:
        if status == 401 and self._connection.login is not None:
            self._connection.login.forget(access)
        seconds = float(wait) if wait.isdecimal() else None
        return ApiError(status, message_of(content), doing=doing, retry_after_seconds=seconds)


@dataclass(frozen=True)
class _Answer:
    status: int
    content: bytes
    header: Callable[[str], str]
    """Returns the value of a header; ``""`` if there is none."""


class _NoConnection(OSError):
    """No connection could be opened, so the request was certainly not sent."""


def _request(method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header or an address has a line break in it")
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    return head.encode("latin-1") + body


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from resending a PUT after a broken connection, by an error that it does not retry."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientError(str(error) or type(error).__name__) from error


def _network_error(error: Exception, *, doing: str) -> ConnectError:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Unreachable(f"{doing}: the proxy said {error.status}: {error.message}")
    text = f"{doing}: {in_words(error)}"
    if isinstance(error, _NoConnection):
        return NotSent(text)
    # A wrong certificate is no transient failure, and seen before anything is sent.
    wrong = isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError)
    return Unsent(f"{text}{_OTHER_CA}") if wrong else Unreachable(text)
