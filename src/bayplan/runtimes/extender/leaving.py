"""Stops a server in order: hand over the Lease, let callers go to another server, then stop accepting."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from bayplan.runtimes.extender.app import ExtenderApp
from bayplan.runtimes.listener import Listener

log = logging.getLogger(__name__)

_QUIET_SECONDS, _LEAVING_SECONDS = 0.5, 3.0
_MOVED_SECONDS = 0.3
"""Without a request for so long, our callers have moved to another server."""


class Leaving:
    """Drains one server."""

    def __init__(self, app: ExtenderApp, *, drain_seconds: float) -> None:
        self.draining = False
        """Whether ``/readyz`` fails, so that callers go to another server."""
        self._app = app
        self._drain_seconds = drain_seconds

    async def drain(
        self, listener: Listener, *, hand_over: Callable[[], Awaitable[None]] | None, told: bool
    ) -> None:
        """Hand over, become not ready, wait until callers have gone, stop accepting, answer the rest.

        ``hand_over`` comes first: another server takes the Lease while this one still answers, so that there
        is a writer at every moment. ``told``: a stop was asked for, so callers are waited for.
        """
        self._app.leaving = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._drain_seconds):
                if hand_over is not None:
                    await hand_over()
                self.draining = True
                if told:
                    await self._callers_gone()
                listener.stop_accepting()
                await self._app.idle.wait()
        self.draining = True
        listener.stop_accepting()
        log.info("drained; %d requests left", self._app.in_flight)

    def asked_no_more(self) -> bool:
        """Whether our callers have moved to another server."""
        now = asyncio.get_running_loop().time()
        return not self._app.in_flight and now >= self._app.asked_at + _MOVED_SECONDS

    async def _callers_gone(self) -> None:
        """Wait until no requests come: a Service still routes to this pod for a while after it is not ready.

        Closing a connection in use may lose a request, and kube-scheduler does not send it again.
        """
        loop = asyncio.get_running_loop()
        last = loop.time() + _LEAVING_SECONDS
        while True:
            left = min(last, self._app.asked_at + _QUIET_SECONDS) - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)
