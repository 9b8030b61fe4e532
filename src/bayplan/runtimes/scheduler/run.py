"""``bayplan schedule``: loads a configuration and runs a scheduler until a signal stops it."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import msgspec

from bayplan import __version__
from bayplan.config.candidate import candidate_path
from bayplan.config.check import faults
from bayplan.config.flags import Flags, Loaded, load_all
from bayplan.config.rehearse import rehearse
from bayplan.config.unchangeable import scheduler_needs_restart
from bayplan.recording.describe import describe, describe_profiles
from bayplan.runtimes.candidates import CandidateReloader
from bayplan.runtimes.forked import keep_children_apart
from bayplan.runtimes.listener import written
from bayplan.runtimes.reload import Reloader, load_changed
from bayplan.runtimes.scheduler.candidate import (
    SCHEDULER_COUNTED,
    candidate_options,
    check,
    load_scheduler_candidate,
)
from bayplan.runtimes.scheduler.options import Options, cautions, changed, options_from
from bayplan.runtimes.scheduler.serve import Server
from bayplan.state.sources.threads import run_apart

log = logging.getLogger(__name__)


def schedule_forever(files: Sequence[str], flags: Flags) -> None:
    """Load and dry-run the configuration, then schedule until SIGTERM or SIGINT."""
    loaded = load_all(files, flags)
    options = _described(options_from(loaded, version=__version__), files, flags, loaded)
    path = candidate_path(loaded)
    candidate = load_scheduler_candidate(path, loaded) if path is not None else None
    for problem in rehearse(loaded.policies, pods_known=True) + faults(loaded.policies):
        log.warning("dry run: %s; scheduling all the same, its failurePolicy will answer", problem)
    if candidate is not None:
        options = replace(options, shadow=candidate_options(loaded, candidate))
        for problem in candidate.problems:
            log.warning("dry run of %s: %s; it decides nothing", candidate.file, problem)
    for caution in cautions(loaded):
        log.warning("%s", caution)
    # Not on uvloop: after a failed TLS handshake it closes the file descriptor twice, and the second close
    # may hit a new socket with the same number. Seen with a hundred binds under way when an API server was
    # killed; see https://github.com/MagicStack/uvloop/issues/653.
    run_apart(_schedule(files, flags, loaded, options))


async def _schedule(files: Sequence[str], flags: Flags, loaded: Loaded, options: Options) -> None:
    server = Server(options)

    def adopt(loaded: Loaded) -> None:
        number = server.adopt(_described(changed(options, loaded), files, flags, loaded))
        log.info("generation %d: policies: %s", number, ", ".join(p.name for p in loaded.policies) or "none")
        candidates.follow(loaded)

    candidates = CandidateReloader(
        loaded,
        options.shadow,
        server.generations,
        load=load_scheduler_candidate,
        options_for=candidate_options,
        counted=SCHEDULER_COUNTED,
    )
    reloader = Reloader(
        files,
        flags,
        loaded,
        adopt=adopt,
        on_result=server.metrics.reloaded,
        load=partial(load_changed, files, flags, loaded, check=check, fixed=scheduler_needs_restart),
    )
    server.reload_problem = lambda: reloader.problem
    server.stop_on_signals()
    keep_children_apart()

    def ask() -> None:
        reloader.ask()
        candidates.ask()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ask)
    async with server.running():
        _announce(server)
        watching = server.tasks.start(reloader.run(), "the configuration is not watched")
        candidates.start()
        await server.stopped()
        watching.cancel()
        candidates.stop()
        log.info("stopping: binds that are under way are finished")


def _described(options: Options, files: Sequence[str], flags: Flags, loaded: Loaded) -> Options:
    """The options, with a description of the configuration for the recording, if there is one."""
    if options.record is None:
        return options
    told = msgspec.structs.replace(describe(files, flags, loaded), profiles=describe_profiles(loaded))
    return replace(options, told=told)


def _announce(server: Server) -> None:
    options = server.options
    for name, policies in options.profiles.items():
        names = ", ".join(policy.name for policy in policies)
        log.info("scheduler %s: policies: %s", name, names)
    log.info("health and metrics at http://%s/", written(server.ops_listener.address))
    if server.page_listener is not None:
        log.info("decisions at http://%s/", written(server.page_listener.address))
    log.info("cluster: %s", options.connection.server)
    if options.lease is not None:
        log.info("leader election: lease %s/%s", options.lease.namespace, options.lease.name)
    recorder = server.onlookers.recorder
    if recorder is not None and not recorder.problem:
        log.info("recording to %s", recorder.path)
    if options.shadow is not None:
        candidate = options.shadow.candidate
        names = ", ".join(policy.name for policy in candidate.loaded.policies) or "none"
        log.info("shadow: %s judges too and decides nothing; its policies: %s", candidate.file, names)
        if candidate.ignored:
            log.info("%s", candidate.ignored)
