"""Verifies the view against a fresh list of the cluster, every few minutes and on request.

Differences go to the log and the metrics; if a periodic check finds any, the cluster is listed again.
"""

import asyncio
import logging

from bayplan.client.errors import ApiError, ConnectError
from bayplan.ops.metrics import Metrics
from bayplan.state.live import LiveCluster
from bayplan.state.verify import Verification

log = logging.getLogger(__name__)

_VERIFY_SECONDS = 300.0
_TOLD = 10


class Verifying:
    """Compares the view of a live cluster with a fresh list of it."""

    def __init__(
        self, live: LiveCluster, metrics: Metrics, *, every_seconds: float = _VERIFY_SECONDS
    ) -> None:
        self._live = live
        self._metrics = metrics
        self._every_seconds = every_seconds

    async def verify(self) -> Verification:
        """Compare the view with a fresh list, and report the differences."""
        found = await self._live.verify()
        self._metrics.drift.set(len(found.drift))
        for line in found.drift[:_TOLD]:
            log.error("the view is wrong: %s", line)
        self._metrics.overcommitted.set(len(found.overcommitted))
        for line in found.overcommitted[:_TOLD]:
            log.error("more was given than there is: %s", line)
        self._flag(found.unaccounted)
        return found

    async def now_and_then(self) -> None:
        """Verify periodically, until cancelled."""
        self._flag(await self._live.unaccounted())
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                found = await self.verify()
                if found.drift:
                    log.error("the cluster is listed again, since the view is wrong")
                    self._live.view.list_again()
            except (ApiError, ConnectError) as error:
                log.warning("the view could not be verified: %s", error)

    def _flag(self, unaccounted: list[str]) -> None:
        self._metrics.unaccounted.set(len(unaccounted))
        for pod in unaccounted[:_TOLD]:
            log.warning(
                "pod %s holds a managed resource and was bound by somebody else", pod, extra={"pod": pod}
            )
