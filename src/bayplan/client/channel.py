"""One request on its way: what it shows of us, how long it may take, what its failure means."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp

from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError, NotSent, Silent, Unreachable, message_of
from bayplan.client.login import Access
from bayplan.client.sockets import open_socket

_ANSWER_SECONDS = 30.0
_JSON = "application/json"


class Channel:
    """The open connections to one API server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connector = aiohttp.TCPConnector(limit=64, socket_factory=open_socket)
        # Proxies of the environment are for the internet; the API server is named in the kubeconfig.
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False)

    async def close(self) -> None:
        """Close them all."""
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
    ) -> bytes:
        """Send one request, once; the body of a 2xx answer, else `ApiError` or `ConnectError`."""
        deadline = time.monotonic() + timeout_seconds
        access = await self._access_within(timeout_seconds, doing)
        left = deadline - time.monotonic()
        if left <= 0:
            # aiohttp takes 0 for all the time in the world.
            raise NotSent(f"{doing}: no time was left to send it")
        options = self._options(access, aiohttp.ClientTimeout(total=left))
        options["headers"] |= headers or {}
        if data is not None:
            options["headers"]["Content-Type"] = content_type
        if method != "GET":
            options["middlewares"] = (_once,)
        url = self._connection.server + path
        try:
            async with self._session.request(method, url, params=params, data=data, **options) as response:
                content = await response.read()
        except TimeoutError as error:
            raise Unreachable(f"{doing}: no answer in {timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # ValueError: an address or a header that cannot be sent.
            raise _network_error(error, doing=doing) from error
        if 200 <= response.status < 300:
            return content
        raise self._refusal(response, content, doing=doing, access=access)

    async def lines(
        self,
        path: str,
        *,
        params: dict[str, str],
        doing: str,
        silence_seconds: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """The lines of an answer that goes on and on; `Silent` when nothing comes for so long.

        ``opened`` is called when the server has agreed, which may be long before the first line.
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
                    raise self._refusal(response, await response.read(), doing=doing, access=access)
                if opened is not None:
                    opened()
                rest = b""
                async for chunk in response.content.iter_any():
                    # Objects are larger than any line limit: split here, not in the reader.
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
        except TimeoutError as error:
            raise Silent(f"{doing}: silent for {silence_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _network_error(error, doing=doing) from error

    async def _access_within(self, seconds: float, doing: str) -> Access:
        """What to show, in the caller's time: a bind that goes out late may go out too late."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                return await self._access()
        except TimeoutError as error:
            raise NotSent(f"{doing}: logging in took longer than {seconds:.0f} s") from error

    async def _access(self) -> Access:
        login = self._connection.login
        # A program may have to be run, which takes a second or two.
        return await asyncio.wrap_future(login.begin()) if login else self._connection.access()

    def _options(self, access: Access, timeout: aiohttp.ClientTimeout) -> dict[str, Any]:
        headers = {"Accept": _JSON}
        if access.token:
            # A program, or a kubeconfig, may end it with a newline.
            headers["Authorization"] = f"Bearer {access.token.strip()}"
        return {
            "headers": headers,
            # With the request, not with the session: a new certificate comes in a new context.
            "ssl": access.tls or True,
            "server_hostname": self._connection.server_name,
            "proxy": self._connection.proxy,
            "allow_redirects": False,
            "timeout": timeout,
        }

    def _refusal(
        self, response: aiohttp.ClientResponse, content: bytes, *, doing: str, access: Access
    ) -> ApiError:
        if response.status == 401 and self._connection.login is not None:
            self._connection.login.forget(access)
        wait = response.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdecimal() else None
        return ApiError(response.status, message_of(content), doing=doing, retry_after_seconds=seconds)


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """aiohttp sends a PUT again, unasked, when its connection broke; it does not know this error."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientError(str(error) or type(error).__name__) from error


def _network_error(error: Exception, *, doing: str) -> ConnectError:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return Unreachable(f"{doing}: the proxy said {error.status}: {error.message}")
    text = f"{doing}: {error or type(error).__name__}"
    # A certificate that is wrong now is wrong a second later.
    wrong = isinstance(error, aiohttp.ClientConnectorCertificateError)
    return ConnectError(text) if wrong else Unreachable(text)
