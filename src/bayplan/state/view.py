"""The cluster as the server knows it: one snapshot at a time, replaced as a whole."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient
from bayplan.snapshot.cluster import Snapshot

log = logging.getLogger(__name__)


class View:
    """The current snapshot, or ``None`` where only the nodes of a request are known."""

    def __init__(self, current: Snapshot | None = None) -> None:
        self.current = current
        self.replaced_at = time.monotonic()

    def replace(self, snapshot: Snapshot) -> None:
        """Show this snapshot from now on; whoever holds the old one keeps it."""
        self.current = snapshot
        self.replaced_at = time.monotonic()

    @property
    def age_seconds(self) -> float:
        """How long ago the snapshot was taken."""
        return time.monotonic() - self.replaced_at


async def list_cluster(client: ApiClient) -> Snapshot:
    """A snapshot from fresh lists. Nodes first: a pod on a node that is not listed yet is no loss."""
    nodes = await client.nodes()
    pods = await client.pods()
    return await asyncio.to_thread(Snapshot.build, nodes, pods)


async def keep_fresh(view: View, take: Callable[[], Awaitable[Snapshot]], *, every_seconds: float) -> None:
    """Replace the view again and again; a failed list leaves the old one and says so."""
    pause = every_seconds
    while True:
        await asyncio.sleep(pause)
        start = time.monotonic()
        try:
            view.replace(await take())
        except (ApiError, ConnectError, ValueError) as error:
            log.warning(
                "the cluster could not be listed, keeping the view of %.0f s ago: %s", view.age_seconds, error
            )
        # A large cluster must not be listed without a break.
        pause = max(every_seconds, 5 * (time.monotonic() - start))
