"""From the command line to a server that runs until it is told to stop."""

import asyncio
import ipaddress
import logging
from collections.abc import Sequence

try:
    import uvloop
except ImportError:  # not on every platform
    uvloop = None  # type: ignore[assignment]

from bayplan import __version__
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags
from bayplan.runtimes.extender.app import VERBS
from bayplan.runtimes.extender.options import options_from
from bayplan.runtimes.extender.serve import Options, Server

log = logging.getLogger(__name__)


def serve_forever(files: Sequence[str], flags: Flags) -> None:
    """Load, dry-run, serve until SIGTERM or SIGINT."""
    loaded, problems = load_checked(files, flags)
    options = options_from(loaded.config, loaded.policies, base=loaded.base, version=__version__)
    for problem in problems:
        log.warning("dry run: %s; serving all the same, its failurePolicy will answer", problem)
    for caution in _cautions(options):
        log.warning("%s", caution)
    run_in_fast_loop(Server(options))


def run_in_fast_loop(server: Server) -> None:
    """Run the server on uvloop where it exists, on asyncio elsewhere."""
    factory = uvloop.new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(server.serve_until_signal(ready=_announce))


def _announce(server: Server) -> None:
    options = server.options
    scheme = "https" if options.tls else "http"
    host, port = server.listener.address
    prefix = options.path.strip("/")
    can_bind = server.app.verbs.binder is not None
    verbs = ", ".join(verb for verb in VERBS if can_bind or verb != "bind")
    log.info("serving %s at %s://%s:%d/%s", verbs, scheme, host, port, prefix)
    if server.ops_listener is not None:
        log.info("health and metrics at http://%s:%d/", *server.ops_listener.address)
    log.info("policies: %s", ", ".join(policy.name for policy in options.policies))
    view = server.view.current
    if view is not None:
        source = (
            f", from the file {options.snapshot_file} (it does not change)" if options.snapshot_file else ""
        )
        log.info("cluster: %d node%s%s", len(view.nodes), "" if len(view.nodes) == 1 else "s", source)
    elif options.connection is not None:
        log.info("cluster: %s; not ready until it is listed", options.connection.server)
    else:
        log.info("cluster: only the nodes that requests bring")
    if options.observe:
        log.info("observe: nothing is changed; what would have been said is logged and counted")


def _cautions(options: Options) -> list[str]:
    """What is allowed and rarely meant."""
    found = []
    blind = options.snapshot is None and options.connection is None
    if blind and any(p.of_kind("filter") or p.of_kind("protect") for p in options.policies):
        found.append(
            "no cluster is known (--kubeconfig, --in-cluster or --snapshot): kube-scheduler needs"
            " nodeCacheCapable: false, and preempt drops every candidate, since nobody can judge it"
        )
    if options.tls is None and not _loopback(options.listen[0]):
        found.append(
            f"listening on {options.listen[0]} without TLS: anybody who reaches it can call it;"
            " see --tls-cert, --tls-key and --tls-client-ca"
        )
    return found


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
