"""An orderly end: callers go elsewhere, and the Lease to somebody else, before the door is closed."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from bayplan.runtimes.extender.app import ExtenderApp
from bayplan.runtimes.listener import Listener

log = logging.getLogger(__name__)

_QUIET_SECONDS, _LEAVING_SECONDS = 0.5, 3.0
_MOVED_SECONDS = 0.3
"""Who was not asked for so long while another server was, has lost its callers to it."""


class Leaving:
    """How a server stops answering."""

    def __init__(self, app: ExtenderApp, *, drain_seconds: float) -> None:
        self.draining = False
        """Whether it is not ready any more: callers are to go elsewhere."""
        self._app = app
        self._drain_seconds = drain_seconds

    async def drain(
        self, listener: Listener, *, hand_over: Callable[[], Awaitable[None]] | None, told: bool
    ) -> None:
        """Not ready any more; when callers have gone elsewhere no new connections; the rest is answered.

        Before that ``hand_over`` is waited for: another server takes over while we go on, so that no call
        meets a time without a writer. Callers can go elsewhere where we were ``told`` to stop.
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
        """Whether our callers are another server's by now."""
        now = asyncio.get_running_loop().time()
        return not self._app.in_flight and now >= self._app.asked_at + _MOVED_SECONDS

    async def _callers_gone(self) -> None:
        """Wait until nobody asks: a Service leads here for a while after it was told not to.

        And a connection that is closed while it is in use may cost a request, which is not sent again.
        """
        loop = asyncio.get_running_loop()
        last = loop.time() + _LEAVING_SECONDS
        while True:
            left = min(last, self._app.asked_at + _QUIET_SECONDS) - loop.time()
            if left <= 0:
                return
            await asyncio.sleep(left)
