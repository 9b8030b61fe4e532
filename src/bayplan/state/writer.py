"""One writer: of several servers that could bind, the holder of a Lease does.

Two servers do not see what the other is about to hand out, so only one may. The holder renews the Lease
and counts its time from the moment it *sent* the renewal, by a clock that cannot be set; it stops early
enough for a bind that is under way to end. Whoever takes over waits until the Lease has not moved for its
whole duration, by its own clock, and then until its view agrees with the API server: what the old holder
bound is in it before the first bind of the new one.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.lease import Lease, LeaseApi, LeaseSpec, micro_time

log = logging.getLogger(__name__)

_RENEWALS = 6
"""How often a Lease is renewed in its own duration."""


@dataclass(frozen=True)
class _Seen:
    """Somebody else's Lease, and when we first saw it so."""

    lease: Lease
    at: float

    def left(self, now: float) -> float:
        """How long its holder may still believe in it."""
        return self.at + (self.lease.spec.lease_duration_seconds or 0) - now


@dataclass(frozen=True)
class LeaseOptions:
    """The Lease that a server holds while it binds."""

    name: str
    namespace: str
    identity: str
    """Who we are to others: the same after a restart, and nobody else's."""
    duration_seconds: int
    margin_seconds: float
    """What a bind may take, and so how early we stop."""


class Writer:
    """Holds the Lease, or waits for it. `problem` says why we may not bind."""

    def __init__(
        self,
        api: LeaseApi,
        options: LeaseOptions,
        *,
        caught_up: Callable[[float], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``caught_up`` returns when the view has everything that was there at a moment of the clock."""
        self.identity = options.identity
        self.tried = asyncio.Event()
        """Set once it is known who holds the Lease, or that nobody can say."""
        self.terms = 0
        """How often we became the holder."""
        self._api = api
        self._duration_seconds = options.duration_seconds
        self._margin_seconds = options.margin_seconds
        self._caught_up = caught_up
        self._clock = clock
        self._sleep = sleep
        self._mine: Lease | None = None
        self._held_until = float("-inf")
        self._ready_term = 0
        self._theirs: _Seen | None = None
        self._error = ""
        self._catching_up: asyncio.Task[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether the Lease is ours, with time for a bind left."""
        return self._clock() < self._held_until

    def problem(self) -> str:
        """Why we may not bind now; ``""`` when we may."""
        if self.holds:
            return "" if self._ready_term == self.terms else f"{self._title} is ours; the view catches up"
        if self._error:
            return f"{self._title} cannot be had: {self._error}"
        if self._theirs is not None:
            return f"another server binds: {self._title} is held by {self._theirs.lease.holder}"
        return f"{self._title} is not ours yet"

    async def run(self) -> None:
        """Hold the Lease or wait for it, until cancelled."""
        while True:
            try:
                await self._step()
                self._error = ""
            except (ApiError, ConnectError) as error:
                if str(error) != self._error:
                    log.warning("%s", error)
                self._error = str(error)
                # What we know of it may be wrong now: read it again.
                self._mine = None
            self.tried.set()
            await self._sleep(self._duration_seconds / _RENEWALS)

    async def close(self, *, release: bool) -> None:
        """Stop; with ``release`` the next one need not wait. Not for one whose binds are not settled."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        lease, held, self._held_until = self._mine, self.holds, float("-inf")
        if not (release and held and lease is not None):
            return
        try:
            # A Lease of one second and of nobody: as client-go gives it back.
            spec = LeaseSpec(
                holder_identity="",
                lease_duration_seconds=1,
                lease_transitions=lease.spec.lease_transitions,
            )
            await self._api.update(lease, spec)
        except (ApiError, ConnectError) as error:
            log.info("%s; the next server waits until it runs out", error)

    async def _step(self) -> None:
        """Renew it, take it, or look who has it."""
        if self._mine is not None and await self._write(self._mine):
            return
        try:
            lease = await self._api.read()
        except ApiError as error:
            if error.status != 404:
                raise
            self._held_until = float("-inf")
            if self._theirs is None or self._theirs.left(self._clock()) <= 0:
                await self._write(None)
            # Else somebody has deleted it under a holder, who may not know yet.
            return
        if lease.holder != self.identity:
            # Whatever we believed: the API server knows better.
            self._held_until = float("-inf")
        if lease.holder in ("", self.identity) or self._run_out(lease):
            await self._write(lease)

    def _run_out(self, lease: Lease) -> bool:
        """Whether its holder must have stopped: it has not moved for its duration, as we saw it."""
        now = self._clock()
        if self._theirs is None or self._theirs.lease != lease:
            self._theirs = _Seen(lease, now)
            return False
        return self._theirs.left(now) <= 0

    async def _write(self, lease: Lease | None) -> bool:
        """Write ourselves into it; whether nobody was faster."""
        start = self._clock()
        now = micro_time()
        before = lease.spec if lease else LeaseSpec()
        ours = before.holder_identity == self.identity
        spec = msgspec.structs.replace(
            before,
            holder_identity=self.identity,
            lease_duration_seconds=self._duration_seconds,
            acquire_time=before.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=(before.lease_transitions or 0) + (0 if ours else 1),
        )
        try:
            fresh = await (self._api.create(spec) if lease is None else self._api.update(lease, spec))
        except ApiError as error:
            # Somebody was faster, or has deleted it: read it again.
            if error.status not in (404, 409):
                raise
            self._mine = None
            return False
        lapsed = not self.holds
        self._mine, self._theirs = fresh, None
        self._held_until = start + self._duration_seconds - self._margin_seconds
        if lapsed:
            self._begin_term()
        return True

    def _begin_term(self) -> None:
        self.terms += 1
        log.info("%s is ours (%s)", self._title, self.identity)
        if self._catching_up is not None:
            self._catching_up.cancel()
        self._catching_up = asyncio.create_task(self._catch_up(self.terms, self._clock()))

    async def _catch_up(self, term: int, since: float) -> None:
        while True:
            try:
                await self._caught_up(since)
            except Exception:
                log.exception("cannot see whether the view is up to date; looking again")
                await self._sleep(self._duration_seconds / _RENEWALS)
            else:
                self._ready_term = term
                return

    @property
    def _title(self) -> str:
        return f"lease {self._api.namespace}/{self._api.name}"
