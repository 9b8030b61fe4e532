"""From the command line to a scheduler that runs until it is told to stop."""

import asyncio
import logging
from collections.abc import Sequence

from bayplan import __version__
from bayplan.config.flags import Flags, load_all
from bayplan.config.rehearse import rehearse
from bayplan.runtimes.scheduler.options import Options, options_from
from bayplan.runtimes.scheduler.serve import Server

log = logging.getLogger(__name__)


def schedule_forever(files: Sequence[str], flags: Flags) -> None:
    """Load, dry-run, schedule until SIGTERM or SIGINT."""
    loaded = load_all(files, flags)
    options = options_from(loaded, version=__version__)
    if loaded.policies:
        for problem in rehearse(loaded.policies, pods_known=True):
            log.warning("dry run: %s; scheduling all the same, its failurePolicy will answer", problem)
    # Not on uvloop: a TLS handshake that fails there leaves a file descriptor in two hands, and the next
    # socket that gets its number is closed by the first. It was seen to happen, with a hundred binds under
    # way when an API server was killed; see https://github.com/MagicStack/uvloop/issues/653.
    asyncio.run(_schedule(options))


async def _schedule(options: Options) -> None:
    server = Server(options)
    server.stop_on_signals()
    async with server.running():
        _announce(server)
        await server.stopped()
        log.info("stopping: binds that are under way are finished")


def _announce(server: Server) -> None:
    options = server.options
    for name, policies in options.profiles.items():
        names = ", ".join(policy.name for policy in policies)
        log.info("scheduler %s: policies: %s", name, names)
    log.info("health and metrics at http://%s:%d/", *server.ops_listener.address)
    if server.page_listener is not None:
        log.info("decisions at http://%s:%d/", *server.page_listener.address)
    log.info("cluster: %s", options.connection.server)
    if options.lease is not None:
        log.info("leader election: lease %s/%s", options.lease.namespace, options.lease.name)
