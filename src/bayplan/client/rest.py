"""The client of the API server: typed answers, bounded time, retries for reads."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from bayplan.client.channel import Channel
from bayplan.client.connect import Connection
from bayplan.client.daemon_threads import DaemonThreads
from bayplan.client.errors import ApiError, ConnectError, NotSent
from bayplan.client.limiter import Limiter
from bayplan.client.retry import Retry
from bayplan.kube.kinds import EVERY_KIND
from bayplan.kube.meta import NamedObject
from bayplan.kube.node import NodeObject, NodeWithImages
from bayplan.kube.pod import Pod

T = TypeVar("T")

_PAGE = 1000
_TIMEOUT_SECONDS = 30.0
_DECODED_AT_ONCE = 4
_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class ListMeta(msgspec.Struct, rename="camel"):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T]):
    """Part of a list."""

    items: list[T] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: T


_ANY_PAGE = msgspec.json.Decoder(Page[msgspec.Raw])


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A kind of object: its path in the API, and its decoders."""

    path: str
    one: msgspec.json.Decoder[T]
    page: msgspec.json.Decoder[Page[T]]
    event: msgspec.json.Decoder[WatchEvent[T]]

    @classmethod
    def of(cls, path: str, part: type[T]) -> "Resource[T]":
        """The resource at that path; ``part`` is the struct with the fields that are read."""
        return cls(
            path,
            msgspec.json.Decoder(part),
            msgspec.json.Decoder(Page[part]),  # type: ignore[valid-type]
            msgspec.json.Decoder(WatchEvent[part]),  # type: ignore[valid-type]
        )


NODES = Resource.of("/api/v1/nodes", NodeObject)
NODES_WITH_IMAGES = Resource[NodeObject].of(NODES.path, NodeWithImages)
PODS = Resource.of("/api/v1/pods", Pod)


def pod_path(namespace: str, name: str) -> str:
    """The API path of a pod."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


@cache
def object_resource(kind: str) -> Resource[NamedObject]:
    """The resource of a kind other than Node and Pod, with the fields that scheduling looks at."""
    found = EVERY_KIND[kind]
    return Resource[NamedObject].of(found.path, found.part)


class OnRequest(Protocol):
    """A callback for metrics and traces of requests."""

    def __call__(self, method: str, path: str, *, began: float, seconds: float, error: str) -> None:
        """Called after a request; ``began`` is of `time.perf_counter`, ``error`` is ``""`` after a 2xx."""
        ...


class ApiClient:
    """A thin client of the API server: sends, decodes what scheduling needs, and explains errors.

    Reads are retried after transient failures; writes are sent once.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        qps: float = 50.0,
        burst: int = 100,
        retry: Retry | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        """``on_request`` is called after each request, in the task that made it."""
        self._on_request = on_request
        self._channel = Channel(connection)
        self._limiter = Limiter(per_second=qps, burst=burst)
        self._retry = retry or Retry()
        # Own threads: hanging calls in the event loop's default pool must not stop decoding.
        self._threads = DaemonThreads("bayplan-decode", limit=_DECODED_AT_ONCE)

    @property
    def server_date(self) -> str:
        """The ``Date`` header of the last answer; empty before the first."""
        return self._channel.server_date

    async def __aenter__(self) -> "ApiClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def list(self, resource: Resource[T], *, retry_first: bool = True) -> tuple[list[T], str]:
        """All objects, read in pages, and the resource version to watch from.

        Without ``retry_first`` the first page is not retried. Later pages always are: losing one would mean
        reading all pages again.
        """
        params = {"limit": str(_PAGE)}
        found: list[T] = []
        while True:
            ask = self._read if retry_first or "continue" in params else partial(self.request, "GET")
            body = await ask(resource.path, doing=f"listing {resource.path}", params=params)
            page = await self._decode(resource.page, body, resource.path)
            found += page.items or ()
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            params["continue"] = page.metadata.continue_

    async def version(self, resource: Resource[T], *, timeout_seconds: float) -> str:
        """The resource version of the latest state; not retried."""
        doing = f"looking at {resource.path}"
        body = await self.request(
            "GET",
            resource.path,
            doing=doing,
            params={"limit": "1"},
            timeout_seconds=timeout_seconds,
            # As a watch, which it goes before: behind a queue of writes, the watch would stay closed.
            limited=False,
        )
        try:
            return _ANY_PAGE.decode(body).metadata.resource_version
        except msgspec.MsgspecError as error:
            raise ConnectError(f"{doing}: the answer is not what an API server sends: {error}") from error

    async def node(self, name: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> NodeObject:
        """One node, as the API server has it now."""
        path = f"{NODES.path}/{quote(name, safe='')}"
        body = await self._read(path, doing=f"reading node {name}", timeout_seconds=timeout_seconds)
        return await self._decode(NODES.one, body, path)

    async def pod(self, namespace: str, name: str, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> Pod:
        """One pod, as the API server has it now."""
        path = pod_path(namespace, name)
        doing = f"reading pod {namespace}/{name}"
        body = await self._read(path, doing=doing, timeout_seconds=timeout_seconds)
        return await self._decode(PODS.one, body, path)

    async def create(self, path: str, body: Any, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> bytes:
        """Create an object in the collection at ``path``; returns it as the API server has it."""
        doing = f"creating in {path}"
        return await self.request("POST", path, doing=doing, body=body, timeout_seconds=timeout_seconds)

    async def patch(
        self,
        path: str,
        body: Any,
        *,
        kind: Literal["merge", "strategic", "json"] = "merge",
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> bytes:
        """Patch the object at ``path``; returns it as the API server has it then."""
        return await self.request(
            "PATCH",
            path,
            doing=f"patching {path}",
            body=body,
            timeout_seconds=timeout_seconds,
            content_type=_PATCHES[kind],
        )

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
        urgent: bool = False,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send one request, once; returns the body of a 2xx answer, else raises `ApiError` or `ConnectError`.

        Without ``limited`` the rate limit (``cluster.qps``) does not apply. An ``urgent`` request does not
        wait for a free connection.
        """
        if limited:
            wait = self._limiter.reserve(within_seconds=timeout_seconds)
            if wait >= timeout_seconds:
                raise NotSent(
                    f"{doing}: {wait:.0f} s until its turn (cluster.qps), and {timeout_seconds:.0f} s to go"
                )
            await asyncio.sleep(wait)
            timeout_seconds -= wait
        began, problem = time.perf_counter(), ""
        try:
            return await self._channel.send(
                method,
                path,
                doing=doing,
                data=None if body is None else msgspec.json.encode(body),
                content_type=content_type,
                params=params,
                timeout_seconds=timeout_seconds,
                headers=headers,
                urgent=urgent,
            )
        except (ApiError, ConnectError) as error:
            problem = str(error)
            raise
        finally:
            if self._on_request is not None:
                self._on_request(
                    method, path, began=began, seconds=time.perf_counter() - began, error=problem
                )

    def lines(
        self,
        path: str,
        *,
        params: dict[str, str],
        doing: str,
        silence_seconds: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """The lines of a streamed answer, such as a watch; see `Channel.lines`."""
        return self._channel.lines(
            path, params=params, doing=doing, silence_seconds=silence_seconds, opened=opened
        )

    async def _read(
        self,
        path: str,
        *,
        doing: str,
        params: dict[str, str] | None = None,
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> bytes:
        async def attempt(left_seconds: float) -> bytes:
            return await self.request("GET", path, doing=doing, params=params, timeout_seconds=left_seconds)

        return await self._retry.read(attempt, timeout_seconds=timeout_seconds)

    async def _decode(self, decoder: msgspec.json.Decoder[T], body: bytes, path: str) -> T:
        """Decode an answer in a thread, so that a large page does not block the event loop."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, decoder.decode, body)
        except msgspec.MsgspecError as error:
            raise ConnectError(f"{path}: the answer is not what an API server sends: {error}") from error
