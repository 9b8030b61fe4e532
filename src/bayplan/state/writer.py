"""The writer makes sure that only one of several servers binds: the holder of a Lease.

Two servers do not see each other's assumptions, so only one may bind. The holder renews the Lease. It counts
the duration from the moment it *sent* the renewal, by a clock that cannot be set, and stops binding early
enough for a bind under way to end in time. A new holder first waits until the Lease has not changed for its
whole duration, by its own clock, and then until its view agrees with the API server, so that the view has all
binds of the old holder before its own first bind. A holder that shuts down hands the Lease over: see
`handover`. A holder that cannot see the cluster gives it up: see `retreat`. A missing Lease is waited
for: see `absence`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import msgspec

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.lease import Lease, LeaseApi, LeaseSpec, micro_time
from bayplan.state.absence import Absence
from bayplan.state.handover import Callers, Departure, Succession
from bayplan.state.notes import Notes, give_away, write_notes
from bayplan.state.retreat import Retreat, Sight
from bayplan.state.seen import Seen

log = logging.getLogger(__name__)

_RENEWALS = 6
"""How often the holder renews the Lease within the Lease's duration."""
_STANDBY_SECONDS, _HANDOVER_SECONDS = 1.0, 0.1
"""How often servers read the Lease: those that stand by, and those that hand it over."""


@dataclass(frozen=True)
class LeaseOptions:
    """The Lease that a server holds while it binds."""

    name: str
    namespace: str
    identity: str
    """The name of this server in the Lease: unique, and the same after a restart."""
    duration_seconds: int
    margin_seconds: float
    """How long before the Lease ends the holder stops binding: the longest time that a bind may take."""


class Writer:
    """Holds the Lease, or waits for it; `problem` says why this server may not bind."""

    def __init__(
        self,
        api: LeaseApi,
        options: LeaseOptions,
        *,
        caught_up: Callable[[float], Awaitable[None]],
        succession: Succession | None = None,
        sight: Sight | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``caught_up`` returns once the view has everything that existed at a time of the clock.

        Without a ``succession`` this server never takes over from a holder that is still alive. ``sight``
        says whether it sees the cluster; while it does not, it leaves the Lease to others.
        """
        self.identity = options.identity
        self.tried = asyncio.Event()
        """Set after the first attempt to read or take the Lease, even a failed one."""
        self.terms = 0
        """How often this server became the holder."""
        self.succession = succession or Succession()
        self.succession.wake = self._wake
        self._departure: Departure | None = None
        self._retreat = Retreat(
            sight or Sight(), margin_seconds=options.margin_seconds, least_seconds=options.duration_seconds
        )
        self._woken = asyncio.Event()
        self._renewed_at = float("-inf")
        self._api = api
        self._duration_seconds = options.duration_seconds
        self._margin_seconds = options.margin_seconds
        self._caught_up = caught_up
        self._clock = clock
        self._sleep = sleep
        self._mine: Lease | None = None
        # As `_mine`, but kept after an error.
        self._written: Lease | None = None
        self._held_until = float("-inf")
        self._term_began = float("-inf")
        self._ready_term = 0
        self._theirs: Seen | None = None
        self._absence = Absence(options.duration_seconds)
        self._error = ""
        self._catching_up: asyncio.Task[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether this server holds the Lease, with time left for a bind, and may begin one."""
        closed = self._retreat.closed or (self._departure is not None and self._departure.closed)
        return self._ours and not closed

    @property
    def _ours(self) -> bool:
        return self._clock() < self._held_until

    def problem(self) -> str:
        """Why this server may not bind now; ``""`` if it may."""
        if self.holds:
            return "" if self._ready_term == self.terms else f"{self._title} is ours; the view catches up"
        if self._departure is not None and self._departure.closed:
            return f"the server ends: {self._title} goes to {self._departure.successor or 'another one'}"
        if self._error:
            return f"{self._title} cannot be had: {self._error}"
        return self._whose()

    @property
    def stands_by(self) -> bool:
        """Whether another server holds the Lease, and nothing is wrong with that."""
        leaves = self._departure is not None and self._departure.closed
        theirs = self._theirs is not None and self._absence.wait_seconds is None
        return theirs and not (self.holds or leaves or self._error)

    def _whose(self) -> str:
        """Why the Lease is not ours, if nothing is wrong."""
        if self._theirs is not None and self._absence.wait_seconds is None:
            return f"another server binds: {self._title} is held by {self._theirs.lease.holder}"
        if blind := self._retreat.reason:
            return f"{self._title} is left to others: {blind}"
        if self._absence.wait_seconds:
            return f"{self._title} does not exist; it is created unless another server shows up"
        return f"{self._title} is not ours yet"

    @property
    def catches_up(self) -> bool:
        """Whether this server holds the Lease, but its view may lack binds of the holder before it."""
        return self._ours and self._ready_term != self.terms

    def why_not_ready(self) -> str:
        """Why callers should go elsewhere; ``""`` also while calls wait here for the Lease to arrive."""
        if self.succession.begun:
            return ""
        if self._departure is not None and self._departure.successor:
            return f"the server ends: {self._departure.successor} takes over"
        return self.problem()

    async def run(self) -> None:
        """Hold the Lease or wait for it, until cancelled or handed over."""
        while not self._gone:
            try:
                await self._step()
                self._error = ""
            except (ApiError, ConnectError) as error:
                if str(error) != self._error:
                    log.warning("%s", error)
                self._error = str(error)
                # Our copy of the Lease may be outdated now: read it again.
                self._mine = None
                if self._departure is not None:
                    self._departure.failed()
            self.tried.set()
            await self._rest()

    async def leave(self, callers: Callers) -> None:
        """Have another server take over, if one is there; return when it has, or when none comes."""
        departure = self._departure = Departure(callers, expects=self.succession.begun)
        if not (self._ours or self.succession.begun):
            # A server that shuts down must neither take the Lease nor announce itself as a successor.
            departure.over.set()
        self._wake()
        await departure.over.wait()

    async def close(self, *, release: bool) -> None:
        """Stop; with ``release`` give the Lease back at once. Not to be released with unsettled binds."""
        if self._catching_up is not None:
            self._catching_up.cancel()
        lease, held, self._held_until = self._mine, self._ours, float("-inf")
        if not (release and held and lease is not None):
            return
        try:
            await self._give(lease)
        except (ApiError, ConnectError) as error:
            log.info("%s; the next server waits until it runs out", error)

    @property
    def _gone(self) -> bool:
        return self._departure is not None and self._departure.over.is_set() and not self._ours

    @property
    def _changing_hands(self) -> bool:
        if self.succession.begun:
            return not self._ours
        return self._departure is not None and not self._departure.over.is_set()

    def _wake(self) -> None:
        self._woken.set()

    async def _rest(self) -> None:
        """Sleep until the next step is due, or `_wake`."""
        seconds = self._duration_seconds / _RENEWALS
        if self._changing_hands:
            seconds = _HANDOVER_SECONDS
        elif not self._ours or self._departure is not None or self._retreat.closed:
            seconds = min(_STANDBY_SECONDS, seconds)
        resting = [
            asyncio.ensure_future(self._sleep(seconds)),
            asyncio.ensure_future(self._woken.wait()),
        ]
        try:
            await asyncio.wait(resting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in resting:
                each.cancel()
        self._woken.clear()

    async def _step(self) -> None:
        """Renew the Lease, take it, hand it over, leave it to others, or see who holds it."""
        goes_on = self._departure is None and not self._is_for_others()
        if goes_on and self._mine is not None and await self._write(self._mine):
            return
        try:
            lease = await self._api.read()
        except ApiError as error:
            if error.status != 404:
                raise
            self._vanished()
            await self._make_anew()
            return
        self._absence.end()
        if lease.holder != self.identity or self._went_back(lease):
            # The API server's word counts, not our own clock.
            self._held_until = float("-inf")
        if self._departure is not None and not self.succession.begun:
            await self._depart(lease, self._departure)
        elif self._is_for_others():
            await self._leave_to_others(lease)
        elif self._restored(lease):
            log.warning("%s is an older one that was restored; its last holder is waited out", self._title)
        elif lease.holder in ("", self.identity) or self._run_out(lease):
            await self._write(lease)
        else:
            await self._stand_by(lease)

    def _vanished(self) -> None:
        """The Lease does not exist, so it is not ours, whatever we believed."""
        before = self._absence.wait_seconds
        lasts = self._theirs.lease.spec.lease_duration_seconds if self._theirs is not None else None
        self._absence.noted(self._clock(), held=self._ours, lasts_seconds=lasts or 0)
        self._held_until = float("-inf")
        wait = self._absence.wait_seconds
        if wait and not before:
            log.info(
                "%s does not exist; it is created in %.0f s, unless another server shows up",
                self._title,
                wait,
            )

    async def _make_anew(self) -> None:
        """Create the Lease once no other server can believe that it holds it, unless it is for others."""
        over = self._absence.over(self._clock())
        if self._departure is not None and not over:
            # A server that shuts down does not wait for it.
            self._departure.over.set()
        elif over and not self._is_for_others():
            await self._write(None)

    def _is_for_others(self) -> bool:
        """Whether this server is blind and leaves the Lease to others; a named successor takes it anyway."""
        if self._ours:
            return self._retreat.due(now=self._clock(), since=self._term_began)
        self._retreat.stay()
        return not self.succession.begun and bool(self._retreat.reason)

    async def _leave_to_others(self, lease: Lease) -> None:
        """Give the Lease up if it is ours; otherwise see who holds it."""
        if self._ours:
            log.warning("%s is left to others: %s", self._title, self._retreat.reason)
            # The succession has ended: we have had the Lease.
            self.succession.end()
            await self._give(lease)
        elif lease.holder not in ("", self.identity):
            self._run_out(lease)
        else:
            self._theirs = None

    async def _depart(self, lease: Lease, departure: Departure) -> None:
        """Hand the Lease over when it is due, and renew it until then."""
        if not self._ours:
            departure.over.set()
            return
        # A departure takes precedence over a retreat.
        self._retreat.stay()
        self._mine = lease
        notes, now = Notes.of(lease), self._clock()
        if departure.due(notes, now=now):
            await self._give(lease)
            departure.over.set()
            return
        unsaid = not (notes.leaving or departure.over.is_set())
        if unsaid or now >= self._renewed_at + self._duration_seconds / _RENEWALS:
            await self._write(lease)

    async def _give(self, lease: Lease) -> None:
        """Give the Lease away; this server stops binding before the request is sent."""
        self._mine, self._held_until = None, float("-inf")
        await give_away(self._api, lease)

    async def _stand_by(self, lease: Lease) -> None:
        """Note on somebody else's Lease that we stand by, or that we succeed a holder that leaves."""
        notes, coming = Notes.of(lease), self.succession
        if notes.successor == self.identity:
            coming.begin()
            if coming.held and notes.asked != self.identity:
                await write_notes(self._api, lease, replace(notes, asked=self.identity))
            return
        coming.end()
        if self._departure is not None or not coming.able():
            return
        if notes.leaving and not notes.successor:
            if await write_notes(self._api, lease, replace(notes, successor=self.identity)):
                log.info("%s is to be ours: %s leaves", self._title, lease.holder)
                coming.begin()
        elif not notes.standby:
            await write_notes(self._api, lease, replace(notes, standby=self.identity))

    def _went_back(self, lease: Lease) -> bool:
        """Whether the Lease is older than what we wrote last: it comes from a backup.

        So do the pods, and our view may be of pods that the backup does not have: a new term begins, for
        which the view must catch up.
        """
        written = self._written
        if not self._ours or written is None or not Seen(written, self._renewed_at).newer_than(lease):
            return False
        log.warning("%s is an older one that was restored; the view has to catch up", self._title)
        return True

    def _restored(self, lease: Lease) -> bool:
        """Whether the Lease comes from a backup, and a later holder that we saw may still count on it."""
        seen = self._theirs
        return seen is not None and seen.newer_than(lease) and seen.left(self._clock()) > 0

    def _run_out(self, lease: Lease) -> bool:
        """Whether the holder must have stopped: by our clock, the Lease has not changed for its duration."""
        now, seen = self._clock(), self._theirs
        if seen is None or seen.moved(lease):
            self._theirs = Seen(lease, now)
            return False
        self._theirs = replace(seen, lease=lease)
        return seen.left(now) <= 0

    async def _write(self, lease: Lease | None) -> bool:
        """Write this server into the Lease as its holder; false if another server was faster."""
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
        leaving = self.identity if self._departure is not None else ""
        notes = replace(Notes.of(lease), leaving=leaving) if lease and ours else Notes()
        try:
            if lease is None:
                fresh = await self._api.create(spec)
            else:
                fresh = await self._api.update(notes.on(lease), spec)
        except ApiError as error:
            # Somebody was faster, or has deleted it: read it again.
            if error.status != 409 and (error.status != 404 or lease is None):
                raise
            if error.status == 404:
                self._vanished()
            self._mine = None
            return False
        lapsed = not self._ours
        self._absence.end()
        self._mine = self._written = fresh
        self._theirs, self._renewed_at = None, start
        self._held_until = start + self._duration_seconds - self._margin_seconds
        if lapsed:
            self._begin_term()
        return True

    def _begin_term(self) -> None:
        self.terms += 1
        self._term_began = self._clock()
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
                self.succession.end()
                if self._departure is not None:
                    self._wake()
                return

    @property
    def _title(self) -> str:
        return f"lease {self._api.namespace}/{self._api.name}"
