"""Keeps a copy of one kind of object, by client-go's rules.

List once, then watch from there; a broken watch resumes where it was. ``410 Gone`` means that the past
is forgotten: list again, consistently. ``429`` means wait, not list. The copy never goes back in time,
and what was deleted unseen is found at the next list.

One thing client-go does not see: an etcd that was restored from a backup has never heard of the versions that
came after it. A watch from one of them opens, and is silent about all that happens until the numbers are used
up again. So before a watch is resumed, the server is asked where it is.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from bayplan.client.errors import ApiError, ConnectError, Silent
from bayplan.client.rest import ApiClient, Resource, WatchEvent
from bayplan.client.retry import asked_pause_seconds
from bayplan.client.watch import WithMetadata, bookmark, watch
from bayplan.kube.meta import NO_META
from bayplan.state.pulse import Pulse

log = logging.getLogger(__name__)

_LASTING_SECONDS = (300.0, 600.0)
_BACKOFF_SECONDS = (0.2, 10.0)
# API servers send a bookmark about once a minute, however little happens. One that is frozen keeps its
# sockets alive, so only its silence tells. A server without bookmarks is asked again, which costs little.
_SILENCE_SECONDS = 90.0
# A watch that ends sooner, and has told nothing, is none.
_BRIEF_SECONDS = 1.0
# One object of a list; whoever has no answer to that has none to a watch.
_WHERE_SECONDS = 5.0


T = TypeVar("T", bound=WithMetadata)
K_contra = TypeVar("K_contra", contravariant=True)


def _lasted(began: float) -> bool:
    return time.monotonic() - began >= _BRIEF_SECONDS


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


class _Listed(Generic[T]):
    """What a list has told so far."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], T] = {}

    def replace(self, objects: Iterable[T]) -> None:
        """Exactly these are there."""
        self.objects = {_key(item): item for item in objects}

    def put(self, item: T) -> None:
        """This one is there, or is different."""
        self.objects[_key(item)] = item

    def drop(self, item: T) -> None:
        """This one is gone."""
        self.objects.pop(_key(item), None)


def _key(item: WithMetadata) -> tuple[str, str]:
    metadata = item.metadata or NO_META
    return metadata.namespace or "", metadata.name or ""


def _keep(event: WatchEvent[T], store: Store[T]) -> None:
    if event.type == "DELETED":
        store.drop(event.object)
    else:
        store.put(event.object)


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
        silence_seconds: float = _SILENCE_SECONDS,
        pulse: Pulse | None = None,
        on_latest: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``consistent``: the first list, too, is of the latest state, not of what a server has at hand.

        ``on_latest`` is told, before a list of the latest state goes into the store, when it was asked for.
        """
        self.synced = asyncio.Event()
        self.lists = 0
        """How often everything was listed; one is the normal number."""
        self.as_of = float("-inf")
        """When the last list of the latest state was asked for: what was there before is in it."""
        self._client = client
        self._resource = resource
        self._path = resource.path
        self._store = store
        self._dice = dice or random.Random()  # noqa: S311 - jitter, no secret
        self._version = ""
        self._consistent = consistent
        self._streams = True
        self._failures = 0
        self._silence_seconds = silence_seconds
        self._pulse = pulse or Pulse()
        self._on_latest = on_latest
        self._scope: asyncio.Timeout | None = None

    def list_again(self) -> None:
        """Forget where the watch is, and list the latest state: the copy is not true, whoever is to blame."""
        self._version, self._consistent = "", True
        if self._scope is not None:
            self._scope.reschedule(0.0)

    async def run(self) -> None:
        """List and watch for ever; nothing that the API server does ends it."""
        while True:
            try:
                if await self._list_and_follow():
                    self._failures = 0
                    continue
                problem = f"watching {self._path}: the server ends the watch at once"
                pause = self._backoff()
                log.warning("%s; trying again in %.1f s", problem, pause)
            except ApiError as error:
                problem = str(error)
                pause = self._after_refusal(error)
            except ConnectError as error:
                problem = str(error)
                if isinstance(error, Silent) and self.age_seconds == 0:
                    log.info("%s; opening it again", error)
                    self._pulse.fell_silent(problem)
                    continue
                pause = self._backoff()
                log.warning("%s; trying again in %.1f s", error, pause)
            except Exception as error:
                # Whatever it is, a copy that nobody keeps up to date must not look alive.
                problem = f"{type(error).__name__}: {error}"
                pause = self._backoff()
                # Of the latest state: what a server has at hand may be older than what we know.
                self._version, self._consistent = "", True
                log.exception(
                    "watching %s: this is a bug in Bayplan; listing again in %.1f s", self._path, pause
                )
            self._pulse.broke(problem)
            await asyncio.sleep(pause)

    async def _list_and_follow(self) -> bool:
        """List where we must, and watch; whether there was a watch, however it ended."""
        try:
            async with asyncio.timeout(None) as self._scope:
                if (not self._version or await self._is_another_past()) and await self._list():
                    return True
                began = time.monotonic()
                return await self._follow(self._version, initial=False) or _lasted(began)
        except TimeoutError:
            if self._version:
                raise
            # Somebody wants another list.
            self._pulse.ended()
            return True
        finally:
            self._scope = None

    async def _is_another_past(self) -> bool:
        """Whether the server has not come to where the watch was: then it is not the same past."""
        try:
            now = await self._client.version(self._resource, timeout_seconds=_WHERE_SECONDS)
        except (ApiError, ConnectError):
            # If it matters, the watch meets with it too, and says so.
            return False
        if not (now.isdigit() and self._version.isdigit() and int(now) < int(self._version)):
            return False
        log.warning(
            "watching %s: the API server is at version %s, and was at %s: an older state of the cluster was"
            " restored; listing again",
            self._path,
            now,
            self._version,
        )
        self._version, self._consistent = "", True
        return True

    @property
    def age_seconds(self) -> float:
        """0 while a watch is open, else how long it has been broken."""
        return self._pulse.age_seconds

    @property
    def last_error(self) -> str:
        """Why the last try failed; ``""`` after one that did not."""
        return self._pulse.problem

    async def _list(self) -> bool:
        """Everything, as one stream where the server can, else page by page; whether that was a watch."""
        self.lists += 1
        asked_at = time.monotonic()
        if self._streams:
            try:
                # "" asks for the latest state; "0" takes what the server has at hand.
                consistent = self._consistent
                await self._follow(
                    "" if consistent else "0", initial=True, as_of=asked_at if consistent else None
                )
            except ApiError as error:
                if error.status not in (400, 422):
                    raise
                self._streams = False
            else:
                return True
        # The first page has no retries of the client's: two back-offs, one in the other, would hide for
        # longer what is wrong, and ours knows Retry-After just as well.
        objects, version = await self._client.list(self._resource, retry_first=False)
        self._arrived(objects, version, as_of=asked_at)
        return False

    async def _follow(self, version: str, *, initial: bool, as_of: float | None = None) -> bool:
        """One watch, until it ends, and whether it told anything; with ``initial`` first the whole state."""
        params = {"resourceVersion": version}
        if initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        # Into an empty store they go as they come, while the server still sends: nobody looks before the end.
        # Later everything has to be there first, to see what is gone.
        filling = initial and self.lists == 1
        listed = _Listed[T]()
        into: Store[T] = self._store if filling else listed
        complete, heard = not initial, False
        lasting = self._dice.uniform(*_LASTING_SECONDS)
        events = watch(
            self._client,
            self._resource,
            params=params,
            lasting_seconds=lasting,
            silence_seconds=self._silence_seconds,
            opened=None if initial else self._pulse.opened,
        )
        async for event in events:
            heard = True
            self._pulse.heard()
            if not initial:
                self._pulse.proven()
            if event.type == "BOOKMARK":
                seen, ended = bookmark(event.object)
                if ended and not complete:
                    self._arrived(None if filling else listed.objects.values(), seen, as_of=as_of)
                    complete = True
                    self._pulse.proven()
                elif complete:
                    self._version = seen or self._version
            elif complete:
                self._apply(event)
            else:
                # What happens while the list is sent comes in between: something may go again.
                _keep(event, into)
        if not complete:
            raise ConnectError(f"listing {self._path}: the stream ended before it was complete")
        self._pulse.ended()
        return heard

    def _arrived(self, objects: Iterable[T] | None, version: str, *, as_of: float | None) -> None:
        """Everything is there; ``None`` where it is in the store already."""
        if objects is not None:
            if as_of is not None:
                self._on_latest(as_of)
            self._store.replace(objects)
        if as_of is not None:
            self.as_of = as_of
        self._version = version
        self._consistent = False
        self._failures = 0
        self._pulse.problem = ""
        self.synced.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        item = event.object
        _keep(event, self._store)
        version = item.metadata.resource_version if item.metadata else ""
        self._version = version or self._version
        self._failures = 0

    def _after_refusal(self, error: ApiError) -> float:
        if error.status == 410:
            self._version = ""
            self._consistent = True
            log.info("watching %s: the past is gone (410), listing again", self._path)
            return 0.0 if self._failures == 0 else self._backoff()
        # A whole Retry-After of a proxy's maintenance would leave us blind long after it is over.
        pause = asked_pause_seconds(error, self._dice) or self._backoff()
        log.warning("%s; trying again in %.1f s", error, pause)
        return pause

    def _backoff(self) -> float:
        low, high = _BACKOFF_SECONDS
        self._failures += 1
        return min(high, low * 2.0 ** min(self._failures, 10)) * self._dice.uniform(0.5, 1.0)
