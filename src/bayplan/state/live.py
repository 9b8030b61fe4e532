"""A live cluster: the view, the ledger, the writer and the nudge of one server, assembled."""

import asyncio
import contextlib
from collections.abc import Callable, Collection
from functools import partial

from bayplan.client.lease import LeaseApi
from bayplan.client.rest import ApiClient
from bayplan.snapshot.units import Units
from bayplan.state.garbage import keep_what_is_here
from bayplan.state.handover import Callers, Succession
from bayplan.state.ledger import Commit, Ledger, Prepare
from bayplan.state.nudge import PODS, Nudge, NudgeOptions
from bayplan.state.retreat import Sight
from bayplan.state.stores import Follower
from bayplan.state.verify import Verification, caught_up, unaccounted, verify
from bayplan.state.view import LiveView, list_cluster
from bayplan.state.writer import LeaseOptions, Writer

_LEASE_FIRST_SECONDS = 2.0


class LiveCluster:
    """A server's view of a cluster, and the ledger, writer and nudge by which it acts there."""

    def __init__(
        self,
        client: ApiClient,
        *,
        commit: Commit | None,
        prepare: Prepare | None = None,
        managed: Callable[[], Collection[Units]],
        lease: LeaseOptions | None = None,
        nudge: NudgeOptions | None = None,
        max_age_seconds: float,
        bind_seconds: float,
        follower: Follower | None = None,
        objects: Collection[str] = (),
        images: bool = False,
        nodes_only: bool = False,
        on_succession: Callable[[bool], None] | None = None,
    ) -> None:
        """``commit`` is the policies' last check before a bind; ``managed`` are the resources they allocate.

        Without a ``lease`` this server is the only one that binds. The scheduler is a ``follower``; it says
        which other ``objects`` to watch, and whether to read the ``images`` of nodes. With ``nodes_only``
        pods are not watched, so none can be bound. ``on_succession`` is called with true when calls are to
        wait, since the holder of the Lease leaves and this server is next, and with false when they may go
        on; without it, this server takes over only after the holder is gone.
        """
        self._follower = follower
        self._managed = managed
        self._verifying: asyncio.Task[Verification] | None = None
        self.view = LiveView(
            client,
            max_age_seconds=max_age_seconds,
            on_news=self._news,
            on_relist=self._relisted,
            follower=follower,
            objects=objects,
            images=images,
            nodes_only=nodes_only,
        )
        shown = self.view.cache.rewritten.shown
        self._fresh = partial(list_cluster, client, nodes_only=nodes_only, shown=shown)
        self.nudge: Nudge | None = None
        if nudge is not None:
            self.nudge = Nudge(client, self.view.cache, nudge, behind=self._behind)
        self.writer: Writer | None = None
        if lease is not None:
            api = LeaseApi(
                client, namespace=lease.namespace, name=lease.name, timeout_seconds=lease.margin_seconds
            )
            succession = None
            if on_succession is not None:
                succession = Succession(able=lambda: not self.view.problem(), on_change=on_succession)
            self.writer = Writer(
                api,
                lease,
                caught_up=self._caught_up,
                succession=succession,
                sight=Sight(
                    self.view.blind,
                    lambda: self.ledger.sending_count,
                    lambda: self.ledger.unsettled_count,
                ),
            )
        self.ledger = Ledger(
            self.view.cache,
            client,
            commit=commit,
            timeout_seconds=bind_seconds,
            why_not=self.why_not_bind,
            on_freed=partial(self.changed, PODS),
            prepare=prepare,
            term=lambda: self.writer.terms if self.writer is not None else 0,
        )

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self.writer is not None:
                group.create_task(self.writer.run())
                # A list made after we took the Lease has all binds of the old holder: that saves a second
                # list.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LEASE_FIRST_SECONDS):
                        await self.writer.tried.wait()
            if self.nudge is not None:
                group.create_task(self.nudge.run())
            group.create_task(self.view.run())
            await self.view.listed()
            keep_what_is_here()

    async def close(self) -> None:
        """Stop binding; give the Lease back, unless the outcome of a bind is unknown."""
        settled = not (self.ledger.unsettled_count or self.ledger.sending_count)
        await self.ledger.close()
        if self.writer is not None:
            await self.writer.close(release=settled)

    async def hand_over(self, *, quiet: Callable[[], bool], binding: Callable[[], int]) -> None:
        """Have another server take over before this one shuts down, if one stands by.

        ``quiet`` says whether callers have stopped calling, ``binding`` how many binds are under way.
        """
        if self.writer is not None:
            await self.writer.leave(Callers(quiet, binding, lambda: self.ledger.unsettled_count))

    def why_not_ready(self) -> str:
        """Why the Lease makes callers go elsewhere; ``""`` if it does not."""
        return self.writer.why_not_ready() if self.writer is not None else ""

    def why_not_bind(self) -> str:
        """Why this server may not bind at this moment; ``""`` if it may."""
        return self.writer.problem() if self.writer is not None else ""

    @property
    def stands_by(self) -> bool:
        """Whether this server may not bind because another one does, as it should be."""
        return self.writer is not None and self.writer.stands_by

    async def verify(self) -> Verification:
        """Compare the view with fresh lists."""
        # Concurrent callers share one verification, and so its few full lists.
        if self._verifying is None or self._verifying.done():
            self._verifying = asyncio.create_task(self._verify())
        return await asyncio.shield(self._verifying)

    async def _verify(self) -> Verification:
        return await verify(
            lambda: self.view.current,
            self._fresh,
            managed=self._managed(),
            assumed=lambda: self.view.cache.assumed_uids,
        )

    def _behind(self) -> bool:
        """Whether the view may be behind the cluster."""
        return self.view.age_seconds > 0 or (self.writer is not None and self.writer.catches_up)

    def changed(self, topic: str) -> None:
        """Tell the follower and the nudge of a change that no watch reports."""
        if self._follower is not None:
            self._follower.told(frozenset({topic}))
        if self.nudge is not None:
            self.nudge.changed(topic)

    def _news(self) -> None:
        if self.nudge is not None:
            self.nudge.news()

    def _relisted(self) -> None:
        if self.nudge is not None:
            self.nudge.relisted()

    async def unaccounted(self) -> list[str]:
        """Wait for the first list; the pods that hold a managed resource and were bound by other software."""
        await self.view.listed()
        seen = self.view.current
        return await asyncio.to_thread(unaccounted, seen, self._managed()) if seen else []

    async def _caught_up(self, since: float) -> None:
        await caught_up(self.view, self._fresh, since=since)
