"""An informer keeps a copy of all objects of one kind, by client-go's rules.

It lists once and watches from there; a broken watch resumes at the last resourceVersion. ``410 Gone`` means
that the API server has forgotten that version: list again, consistently. ``429`` means wait, not list. The
copy never goes back in time, and the next list finds what was deleted while no watch was open.

One case client-go does not handle: an etcd restored from a backup does not know the versions after the
backup. A watch from such a version opens, and reports nothing until the new versions have passed it. So
before it resumes a watch, the informer asks the API server for its current version.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from bayplan.client.errors import ApiError, ConnectError, Silent
from bayplan.client.rest import ApiClient, Resource, WatchEvent
from bayplan.client.retry import asked_pause_seconds, may_pass
from bayplan.client.watch import WithMetadata, bookmark, watch
from bayplan.kube.meta import NO_META
from bayplan.state.complaints import Complaints
from bayplan.state.pulse import Pulse

log = logging.getLogger(__name__)

_WATCH_SECONDS = (300.0, 600.0)
_BACKOFF_SECONDS = (0.2, 10.0)
# An API server sends a bookmark about once a minute, even if nothing changes. A frozen one keeps its sockets
# open, so only silence gives it away. With a server that sends no bookmarks, reopening the watch costs
# little.
_SILENCE_SECONDS = 90.0
# A watch that ends sooner than this, without any event, counts as failed.
_BRIEF_SECONDS = 1.0
# To read the current version is to list one object: a server that cannot answer that cannot watch either.
_VERSION_SECONDS = 5.0


T = TypeVar("T", bound=WithMetadata)
K_contra = TypeVar("K_contra", contravariant=True)


def _lasted(began: float) -> bool:
    return time.monotonic() - began >= _BRIEF_SECONDS


class Store(Protocol[K_contra]):
    """Keeps the informer's copy of the objects."""

    def replace(self, objects: Iterable[K_contra]) -> None:
        """Replace all objects by these."""
        ...

    def put(self, item: K_contra) -> None:
        """Add or update one object."""
        ...

    def drop(self, item: K_contra) -> None:
        """Remove one object."""
        ...


class _Listed(Generic[T]):
    """A store for a list that is still being sent."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], T] = {}

    def replace(self, objects: Iterable[T]) -> None:
        """Replace all objects by these."""
        self.objects = {_key(item): item for item in objects}

    def put(self, item: T) -> None:
        """Add or update one object."""
        self.objects[_key(item)] = item

    def drop(self, item: T) -> None:
        """Remove one object."""
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
    """Lists and watches the objects of one kind, and writes them into a store."""

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
        complaints: Complaints | None = None,
        on_latest: Callable[[float], None] = lambda _: None,
    ) -> None:
        """With ``consistent`` the first list, too, is of the latest state, not from the server's watch cache.

        Informers with the same ``complaints`` log once what is the server's problem and not of one kind.
        ``on_latest`` is called before a list of the latest state replaces the store, with the time at which
        the list was requested.
        """
        self.synced = asyncio.Event()
        """Set once the first list is in the store."""
        self.lists = 0
        """How often everything was listed; 1 unless something went wrong."""
        self.as_of = float("-inf")
        """When the last list of the latest state was requested: every write before that time is in it."""
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
        self._complaints = complaints or Complaints()
        self._on_latest = on_latest
        self._scope: asyncio.Timeout | None = None
        self._stopped = False

    def list_again(self) -> None:
        """Stop the watch and list the latest state, since the copy is wrong."""
        self._forget()
        if self._scope is not None:
            self._stopped = True
            self._scope.reschedule(0.0)

    def _forget(self) -> None:
        """Have the latest state listed next: the server's watch cache may be older than our copy."""
        self._version, self._consistent = "", True

    async def run(self) -> None:
        """List and watch until cancelled, whatever the API server does."""
        while True:
            try:
                if await self._list_and_follow():
                    self._failures = 0
                    continue
                problem = f"watching {self._path}: the server ends the watch at once"
                pause = self._backoff()
                self._complain(problem, pause)
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
                self._complain(problem, pause, of_server=True)
            except Exception as error:
                # Whatever the bug is, a copy that is no longer updated must not look alive.
                problem = f"{type(error).__name__}: {error}"
                pause = self._backoff()
                self._forget()
                log.exception(
                    "watching %s: this is a bug in Bayplan; listing again in %.1f s", self._path, pause
                )
            self._pulse.broke(problem)
            await asyncio.sleep(pause)

    async def _list_and_follow(self) -> bool:
        """List if necessary, then watch; whether a watch was open, however it ended."""
        try:
            async with asyncio.timeout(None) as self._scope:
                if (not self._version or await self._restored()) and await self._list():
                    return True
                began = time.monotonic()
                return await self._follow(self._version, initial=False) or _lasted(began)
        except TimeoutError:
            if not self._stopped:
                raise
            # `list_again` ended the watch.
            self._pulse.ended()
            return True
        finally:
            if self._stopped:
                # An event that came in the same moment may have set the version again.
                self._forget()
            self._scope, self._stopped = None, False
            if self.age_seconds == 0:
                # A watch was open. A list alone does not prove that a watch works.
                self._failures = 0

    async def _restored(self) -> bool:
        """Whether the server's version is below ours: then etcd was restored from a backup."""
        try:
            now = await self._client.version(self._resource, timeout_seconds=_VERSION_SECONDS)
        except (ApiError, ConnectError) as error:
            if may_pass(error):
                # The watch might open a moment later, and be silent: then nobody would notice for long.
                raise
            # Perhaps this server may only watch. If not, the watch fails by the same error, and reports it.
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
        self._forget()
        return True

    @property
    def age_seconds(self) -> float:
        """0 while a watch is open, else how long it has been broken."""
        return self._pulse.age_seconds

    @property
    def last_error(self) -> str:
        """Why the last attempt to list or watch failed; ``""`` if it succeeded."""
        return self._pulse.problem

    async def _list(self) -> bool:
        """List all objects, as a stream if the server can, else in pages; whether it was a stream."""
        self.lists += 1
        asked_at = time.monotonic()
        if self._streams:
            try:
                # "" asks for the latest state; "0" takes the server's watch cache as it is.
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
        # The client does not retry the first page: its back-off inside ours would delay the error message,
        # and ours respects Retry-After too.
        objects, version = await self._client.list(self._resource, retry_first=False)
        self._arrived(objects, version, as_of=asked_at)
        return False

    async def _follow(self, version: str, *, initial: bool, as_of: float | None = None) -> bool:
        """Run a watch until it ends; whether it sent an event. With ``initial`` all objects come first."""
        params = {"resourceVersion": version}
        if initial:
            params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        # The first list goes into the empty store object by object: nobody reads it before `synced`. A later
        # list must be complete first, since it also says which objects are gone.
        filling = initial and self.lists == 1
        listed = _Listed[T]()
        into: Store[T] = self._store if filling else listed
        complete, heard = not initial, False
        lasting = self._dice.uniform(*_WATCH_SECONDS)
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
                # Changes during the list are sent in between: even a deletion is possible here.
                _keep(event, into)
        if not complete:
            raise ConnectError(f"listing {self._path}: the stream ended before it was complete")
        self._pulse.ended()
        return heard

    def _arrived(self, objects: Iterable[T] | None, version: str, *, as_of: float | None) -> None:
        """Put a complete list into the store; ``objects`` is ``None`` if they are in the store already."""
        if objects is not None:
            if as_of is not None:
                self._on_latest(as_of)
            self._store.replace(objects)
        if as_of is not None:
            self.as_of = as_of
        self._version = version
        self._consistent = False
        self._pulse.problem = ""
        self.synced.set()

    def _apply(self, event: WatchEvent[T]) -> None:
        item = event.object
        _keep(event, self._store)
        version = item.metadata.resource_version if item.metadata else ""
        self._version = version or self._version

    def _after_refusal(self, error: ApiError) -> float:
        if error.status == 410:
            self._forget()
            log.info("watching %s: the past is gone (410), listing again", self._path)
            # List at once the first time, but not again and again without a watch in between.
            first, pause = self._failures == 0, self._backoff()
            return 0.0 if first else pause
        # Not the whole Retry-After: a proxy under maintenance may ask for a pause much longer than that
        # takes.
        pause = asked_pause_seconds(error, self._dice) or self._backoff()
        self._complain(str(error), pause, of_server=error.status == 401)
        return pause

    def _complain(self, problem: str, pause: float, *, of_server: bool = False) -> None:
        """Log a failure; one ``of_server`` is the same for all kinds, and only the first of them says it."""
        _, named, rest = problem.partition(self._path)
        cause = rest if of_server and named else problem
        level = logging.WARNING if self._complaints.is_new(cause, pause_seconds=pause) else logging.DEBUG
        log.log(level, "%s; trying again in %.1f s", problem, pause)

    def _backoff(self) -> float:
        low, high = _BACKOFF_SECONDS
        self._failures += 1
        return min(high, low * 2.0 ** min(self._failures, 10)) * self._dice.uniform(0.5, 1.0)
