"""Keeps a copy of one kind of object, by client-go's rules.

List once, then watch from there; a broken watch resumes where it was. ``410 Gone`` means that the past
is forgotten: list again, consistently. ``429`` means wait, not list. The copy never goes back in time,
and what was deleted unseen is found at the next list.
"""

import asyncio
import logging
import random
import time
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient, Resource
from bayplan.client.watch import WatchEvent, bookmark, watch
from bayplan.kube.meta import ObjectMeta

log = logging.getLogger(__name__)

_LASTING_SECONDS = (300.0, 600.0)
_BACKOFF_SECONDS = (0.2, 10.0)
# A server that has forgotten the past opens a watch all the same, and says so a moment later.
_PROOF_SECONDS = 1.0


class Listed(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta | None:
        """``metadata``, as sent."""
        ...


T = TypeVar("T", bound=Listed)
K_contra = TypeVar("K_contra", contravariant=True)


class Store(Protocol[K_contra]):
    """Where the copy is kept."""

    def replace(self, objects: Iterable[K_contra]) -> None:
        """Exactly these are there."""
        ...

    def put(self, item: K_contra) -> None:
        """This one is there, or is different."""
        ...

    def drop(self, item: K_contra) -> None:
        """This one is gone."""
        ...


class Informer(Generic[T]):
    """One kind of object, listed and watched until it is told to stop."""

    def __init__(
        self,
        client: ApiClient,
        resource: Resource[T],
        store: Store[T],
        *,
        consistent: bool = False,
        dice: random.Random | None = None,
    ) -> None:
        """``consistent``: the first list, too, is of the latest state, not of what a server has at hand."""
        self.synced = asyncio.Event()
        self.broken_since: float | None = time.monotonic()
        """When the watch broke; ``None`` while one is open."""
        self.last_error = ""
        """Why the last try failed; ``""`` after one that did not."""
        self.lists = 0
        """How often everything was listed; one is the normal number."""
        self._client = client
        self._resource = resource
        self._path = resource.path
        self._store = store
        self._dice = dice or random.Random()  # noqa: S311 - jitter, no secret
        self._version = ""
        self._consistent = consistent
        self._streams = True
        self._failures = 0
        self._proof: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """List and watch for ever; nothing that the API server does ends it."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow(self._version, initial=False)
                self._failures = 0
                continue
            except ApiError as error:
                self.last_error = str(error)
                pause = self._after_refusal(error)
            except ConnectError as error:
                self.last_error = str(error)
                pause = self._backoff()
                log.warning("%s; trying again in %.1f s", error, pause)
            self._mark_broken()
            await asyncio.sleep(pause)

    @property
    def age_seconds(self) -> float:
        """0 while a watch is open, else how long it has been broken."""
        return 0.0 if self.broken_since is None else time.monotonic() - self.broken_since

    async def _list(self) -> None:
        """Everything, as one stream where the server can, else page by page."""
        self.lists += 1
        if self._streams:
            try:
                # "" asks for the latest state; "0" takes what the server has at hand.
                await self._follow("" if self._consistent else "0", initial=True)
            except ApiError as error:
                if error.status not in (400, 422):
                    raise
                self._streams = False
            else:
                return
        self._arrived(*await self._client.list(self._resource))

    async def _follow(self, version: str, *, initial: bool) -> None:
        """One watch, until it ends; with ``initial`` its first events are the whole state."""
        params = {"resourceVersion": version}
        if initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        gathered: list[T] | None = [] if initial else None
        lasting = self._dice.uniform(*_LASTING_SECONDS)
        opened = None if initial else self._await_proof
        async for event in watch(
            self._client, self._path, params=params, lasting_seconds=lasting, opened=opened
        ):
            if not initial:
                self._mark_open()
            if event.type == "BOOKMARK":
                seen, ended = bookmark(event)
                if gathered is not None and ended:
                    self._arrived(gathered, seen)
                    gathered = None
                    self._mark_open()
                elif gathered is None:
                    self._version = seen or self._version
            elif gathered is not None:
                gathered.append(self._decode(event))
            else:
                self._apply(event)
        if gathered is not None:
            raise ConnectError(f"listing {self._path}: the stream ended before it was complete")

    def _arrived(self, objects: list[T], version: str) -> None:
        self._store.replace(objects)
        self._version = version
        self._consistent = False
        self._failures = 0
        self.last_error = ""
        self.synced.set()

    def _apply(self, event: WatchEvent) -> None:
        item = self._decode(event)
        if event.type == "DELETED":
            self._store.drop(item)
        else:
            self._store.put(item)
        version = item.metadata.resource_version if item.metadata else ""
        self._version = version or self._version
        self._failures = 0

    def _decode(self, event: WatchEvent) -> T:
        try:
            return self._resource.one.decode(event.object)
        except msgspec.MsgspecError as error:
            raise ConnectError(f"watching {self._path}: an object cannot be read: {error}") from error

    def _after_refusal(self, error: ApiError) -> float:
        if error.status == 410:
            self._version = ""
            self._consistent = True
            log.info("watching %s: the past is gone (410), listing again", self._path)
            return 0.0 if self._failures == 0 else self._backoff()
        pause = error.retry_after_seconds or self._backoff()
        log.warning("%s; trying again in %.1f s", error, pause)
        return pause

    def _backoff(self) -> float:
        low, high = _BACKOFF_SECONDS
        self._failures += 1
        return min(high, low * 2.0 ** min(self._failures, 10)) * self._dice.uniform(0.5, 1.0)

    def _await_proof(self) -> None:
        """On a quiet cluster the first event may be a minute away: a moment's silence will do."""
        self._drop_proof()
        self._proof = asyncio.get_running_loop().call_later(_PROOF_SECONDS, self._mark_open)

    def _drop_proof(self) -> None:
        if self._proof is not None:
            self._proof.cancel()

    def _mark_open(self) -> None:
        self._drop_proof()
        self.broken_since = None
        self.last_error = ""

    def _mark_broken(self) -> None:
        self._drop_proof()
        if self.broken_since is None:
            self.broken_since = time.monotonic()
