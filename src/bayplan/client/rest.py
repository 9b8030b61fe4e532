"""Requests to the API server: one session, typed answers, bounded time."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.limiter import Limiter
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

T = TypeVar("T")

_PAGE = 1000
_TIMEOUT_SECONDS = 30.0
# A peer that vanished without a word is noticed after some 25 s, on watches that are silent by nature.
_KEEPALIVE = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 25_000),
)


class ListMeta(msgspec.Struct, rename="camel"):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T]):
    """Part of a list."""

    items: list[T] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of object, and where it is."""

    path: str
    one: msgspec.json.Decoder[T]
    page: msgspec.json.Decoder[Page[T]]


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


NODES = Resource("/api/v1/nodes", msgspec.json.Decoder(NodeObject), msgspec.json.Decoder(Page[NodeObject]))
PODS = Resource("/api/v1/pods", msgspec.json.Decoder(Pod), msgspec.json.Decoder(Page[Pod]))
_STATUS = msgspec.json.Decoder(_Status)


class ApiClient:
    """A thin client: it sends, decodes what scheduling needs, and explains what went wrong."""

    def __init__(self, connection: Connection, *, qps: float = 50.0, burst: int = 100) -> None:
        self._connection = connection
        self._limiter = Limiter(per_second=qps, burst=burst)
        connector = aiohttp.TCPConnector(limit=64, ssl=connection.tls or True, socket_factory=_open_socket)
        # Proxies of the environment are for the internet; the API server is named in the kubeconfig.
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False)

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def list(self, resource: Resource[T]) -> tuple[list[T], str]:
        """Every object, page by page, and the resource version to watch from."""
        params = {"limit": str(_PAGE)}
        found: list[T] = []
        while True:
            body = await self.request("GET", resource.path, doing=f"listing {resource.path}", params=params)
            page = await _decode(resource.page, body, resource.path)
            found += page.items or ()
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            params["continue"] = page.metadata.continue_

    async def node(self, name: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> NodeObject:
        """One node, as the API server has it now."""
        path = f"{NODES.path}/{quote(name, safe='')}"
        doing = f"reading node {name}"
        body = await self.request("GET", path, doing=doing, timeout_seconds=timeout_seconds)
        return await _decode(NODES.one, body, path)

    async def pod(self, namespace: str, name: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> Pod:
        """One pod, as the API server has it now."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        doing = f"reading pod {namespace}/{name}"
        body = await self.request("GET", path, doing=doing, timeout_seconds=timeout_seconds)
        return await _decode(PODS.one, body, path)

    async def request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        body: Any = None,
        params: dict[str, str] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        limited: bool = True,
    ) -> bytes:
        """Send one request; the body of a 2xx answer, else `ApiError` or `ConnectError`."""
        if limited:
            await self._limiter.turn()
        headers = await self._headers()
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        try:
            async with self._session.request(
                method,
                self._connection.server + path,
                params=params,
                data=data,
                headers=headers,
                server_hostname=self._connection.server_name,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_seconds),
            ) as response:
                content = await response.read()
        except TimeoutError as error:
            raise ConnectError(f"{doing}: no answer in {timeout_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectError(f"{doing}: {error or type(error).__name__}") from error
        if 200 <= response.status < 300:
            return content
        raise self._refusal(response, content, doing=doing)

    async def lines(
        self,
        path: str,
        *,
        params: dict[str, str],
        doing: str,
        silence_seconds: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """The lines of an answer that goes on and on; a silence longer than that is an error.

        ``opened`` is called when the server has agreed, which may be long before the first line.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_TIMEOUT_SECONDS, sock_read=silence_seconds)
        try:
            async with self._session.get(
                self._connection.server + path,
                params=params,
                headers=await self._headers(),
                server_hostname=self._connection.server_name,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                if response.status != 200:
                    raise self._refusal(response, await response.read(), doing=doing)
                if opened is not None:
                    opened()
                rest = b""
                async for chunk in response.content.iter_any():
                    # Objects are larger than any line limit: split here, not in the reader.
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
        except TimeoutError as error:
            raise ConnectError(f"{doing}: silent for {silence_seconds:.0f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectError(f"{doing}: {error or type(error).__name__}") from error

    async def _headers(self) -> dict[str, str]:
        connection = self._connection
        # A program may have to be run for the token, which takes a second or two.
        token = await asyncio.to_thread(connection.bearer) if connection.login else connection.bearer()
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _refusal(self, response: aiohttp.ClientResponse, content: bytes, *, doing: str) -> ApiError:
        if response.status == 401 and self._connection.login is not None:
            self._connection.login.forget()
        wait = response.headers.get("Retry-After", "")
        seconds = float(wait) if wait.isdecimal() else None
        return ApiError(response.status, _message(content), doing=doing, retry_after_seconds=seconds)


def _open_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    for level, name, value in _KEEPALIVE:
        # Not every platform has each of them; what there is, is set.
        with contextlib.suppress(AttributeError, OSError):
            opened.setsockopt(level, getattr(socket, name), value)
    return opened


async def _decode(decoder: msgspec.json.Decoder[T], body: bytes, path: str) -> T:
    """Decoding a large page takes a while: in a thread, so that verbs are answered meanwhile."""
    try:
        return await asyncio.to_thread(decoder.decode, body)
    except msgspec.MsgspecError as error:
        raise ConnectError(f"{path}: the answer is not what an API server sends: {error}") from error


def _message(content: bytes) -> str:
    try:
        status = _STATUS.decode(content)
    except msgspec.MsgspecError:
        return content[:200].decode(errors="replace")
    return status.message or status.reason
