"""A live cluster: watched, bound in, and checked against the API server, behind one door."""

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
    """What a server knows of a cluster, and what it does there."""

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
        """``commit``: the policies' last word, about ``managed`` resources and others.

        Without a ``lease`` we are the only one that binds. Who schedules by himself is a ``follower``, and
        says which other ``objects`` to watch, and whether the ``images`` on nodes matter. With ``nodes_only``
        pods are not followed, and so none can be bound. ``on_succession``
        hears whether calls are to wait, since a holder of the Lease leaves and we are next; without it
        nobody takes over before the holder is gone.
        """
        self._follower = follower
        self._managed = managed
        self._verifying: asyncio.Task[Verification] | None = None
        self._fresh = partial(list_cluster, client, nodes_only=nodes_only)
        self.view = LiveView(
            client,
            max_age_seconds=max_age_seconds,
            on_news=self._news,
            follower=follower,
            objects=objects,
            images=images,
            nodes_only=nodes_only,
        )
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
                # Listed after the Lease is ours, the pods are those that the old holder left: that saves
                # a second list.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LEASE_FIRST_SECONDS):
                        await self.writer.tried.wait()
            if self.nudge is not None:
                group.create_task(self.nudge.run())
            group.create_task(self.view.run())
            await self.view.listed()
            keep_what_is_here()

    async def close(self) -> None:
        """Stop binding; give the Lease back, unless a bind of ours may still land."""
        settled = not (self.ledger.unsettled_count or self.ledger.sending_count)
        await self.ledger.close()
        if self.writer is not None:
            await self.writer.close(release=settled)

    async def hand_over(self, *, quiet: Callable[[], bool], binding: Callable[[], int]) -> None:
        """Have another server take over before we end, where one is there to do so.

        ``quiet``: whether callers have gone; ``binding``: how many binds are under way.
        """
        if self.writer is not None:
            await self.writer.leave(Callers(quiet, binding, lambda: self.ledger.unsettled_count))

    def why_not_ready(self) -> str:
        """Why callers should go elsewhere, as far as the Lease is concerned."""
        return self.writer.why_not_ready() if self.writer is not None else ""

    def why_not_bind(self) -> str:
        """Why this server may not bind at this moment; ``""`` when it may."""
        return self.writer.problem() if self.writer is not None else ""

    async def verify(self) -> Verification:
        """Compare the view with a fresh list."""
        # Three full lists at the most, however many ask at once.
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
        """Whether what we see may not be what there is."""
        return self.view.age_seconds > 0 or (self.writer is not None and self.writer.catches_up)

    def changed(self, topic: str) -> None:
        """Something changed that no watch tells: whoever waits for it is touched."""
        if self._follower is not None:
            self._follower.told(frozenset({topic}))
        if self.nudge is not None:
            self.nudge.changed(topic)

    def _news(self) -> None:
        if self.nudge is not None:
            self.nudge.news()

    async def unaccounted(self) -> list[str]:
        """Pods that hold a managed resource and were bound by somebody else, once all are listed."""
        await self.view.listed()
        seen = self.view.current
        return await asyncio.to_thread(unaccounted, seen, self._managed()) if seen else []

    async def _caught_up(self, since: float) -> None:
        await caught_up(self.view, self._fresh, since=since)
