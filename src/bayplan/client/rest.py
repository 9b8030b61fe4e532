"""Requests to the API server: one session, typed answers, bounded time."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod

T = TypeVar("T")

_PAGE = 2000
_TIMEOUT_SECONDS = 30.0


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")


class NodePage(msgspec.Struct):
    """Part of a list of nodes."""

    items: list[NodeObject] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class PodPage(msgspec.Struct):
    """Part of a list of pods."""

    items: list[Pod] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


_STATUS = msgspec.json.Decoder(_Status)
_PODS = msgspec.json.Decoder(PodPage)
_NODES = msgspec.json.Decoder(NodePage)
_POD = msgspec.json.Decoder(Pod)


class ApiClient:
    """A thin client: it sends, decodes what scheduling needs, and explains what went wrong."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        connector = aiohttp.TCPConnector(limit=64, ssl=connection.tls or True)
        # Proxies of the environment are for the internet; the API server is named in the kubeconfig.
        self._session = aiohttp.ClientSession(connector=connector, trust_env=False)

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def nodes(self) -> list[NodeObject]:
        """Every node, page by page."""
        return [node async for page in self._pages("/api/v1/nodes", _NODES) for node in page.items or ()]

    async def pods(self) -> list[Pod]:
        """Every pod of every namespace, page by page."""
        return [pod async for page in self._pages("/api/v1/pods", _PODS) for pod in page.items or ()]

    async def pod(self, namespace: str, name: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> Pod:
        """One pod, as the API server has it now."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        doing = f"reading pod {namespace}/{name}"
        body = await self.request("GET", path, doing=doing, timeout_seconds=timeout_seconds)
        return await _decode(_POD, body, path)

    async def request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        body: Any = None,
        params: dict[str, str] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> bytes:
        """Send one request; the body of a 2xx answer, else `ApiError` or `ConnectError`."""
        headers = {"Accept": "application/json"}
        if token := self._connection.bearer():
            headers["Authorization"] = f"Bearer {token}"
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
        raise ApiError(response.status, _message(content), doing=doing)

    async def _pages(self, path: str, decoder: msgspec.json.Decoder[T]) -> AsyncIterator[T]:
        params = {"limit": str(_PAGE)}
        while True:
            body = await self.request("GET", path, doing=f"listing {path}", params=params)
            page = await _decode(decoder, body, path)
            yield page
            metadata: _ListMeta = page.metadata  # type: ignore[attr-defined]
            if not metadata.continue_:
                return
            params["continue"] = metadata.continue_


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
