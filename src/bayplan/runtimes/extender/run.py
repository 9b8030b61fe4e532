"""``bayplan serve``: loads a configuration and runs a server until a signal stops it."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from bayplan import __version__
from bayplan.config.candidate import candidate_path, load_candidate
from bayplan.config.check import load_checked
from bayplan.config.flags import Flags, Loaded
from bayplan.recording.describe import describe
from bayplan.runtimes.candidates import CandidateReloader
from bayplan.runtimes.extender.app import VERBS
from bayplan.runtimes.extender.freed_memory import keep_freed_memory
from bayplan.runtimes.extender.options import Options, changed, options_from
from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.fast_loop import run_in_fast_loop
from bayplan.runtimes.forked import keep_children_apart
from bayplan.runtimes.listener import is_loopback, written
from bayplan.runtimes.reload import Reloader
from bayplan.runtimes.shadow import shadow_options

log = logging.getLogger(__name__)


def serve_forever(files: Sequence[str], flags: Flags) -> None:
    """Load and dry-run the configuration, then serve until SIGTERM or SIGINT."""
    loaded, problems = load_checked(files, flags)
    options = _described(options_from(loaded, version=__version__), files, flags, loaded)
    path = candidate_path(loaded)
    candidate = load_candidate(path, loaded) if path is not None else None
    for problem in problems:
        log.warning("dry run: %s; serving all the same, its failurePolicy will answer", problem)
    if candidate is not None:
        options = replace(options, shadow=shadow_options(loaded.config.shadow, candidate))
        for problem in candidate.problems:
            log.warning("dry run of %s: %s; it decides nothing", candidate.file, problem)
    for caution in _cautions(options):
        log.warning("%s", caution)
    keep_freed_memory()
    run_in_fast_loop(lambda: _serve(files, flags, loaded, options))


async def _serve(files: Sequence[str], flags: Flags, loaded: Loaded, options: Options) -> None:
    server = Server(options)

    def adopt(loaded: Loaded) -> None:
        number = server.adopt(_described(changed(options, loaded), files, flags, loaded))
        log.info("generation %d: policies: %s", number, ", ".join(p.name for p in loaded.policies))
        candidates.follow(loaded)

    candidates = CandidateReloader(loaded, options.shadow, server.generations)
    reloader = Reloader(files, flags, loaded, adopt=adopt, on_result=server.metrics.reloaded)
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


def _described(options: Options, files: Sequence[str], flags: Flags, loaded: Loaded) -> Options:
    """The options, with a description of the configuration for the recording, if there is one."""
    if options.record is None:
        return options
    told = describe(files, flags, loaded)
    told = msgspec.structs.replace(
        told,
        observe=options.observe,
        failed_nodes_heeded=options.failed_nodes_heeded,
        keep=options.keep,
        refusals=options.refusals,
    )
    return replace(options, told=told)


def _announce(server: Server) -> None:
    options = server.options
    scheme = "https" if options.tls else "http"
    prefix = options.path.strip("/")
    can_bind = server.app.binder is not None
    verbs = ", ".join(verb for verb in VERBS if can_bind or verb != "bind")
    log.info("serving %s at %s://%s/%s", verbs, scheme, written(server.listener.address), prefix)
    if server.ops_listener is not None:
        log.info("health and metrics at http://%s/", written(server.ops_listener.address))
    if server.page_listener is not None:
        log.info("decisions at http://%s/", written(server.page_listener.address))
    log.info("policies: %s", ", ".join(policy.name for policy in options.policies))
    view = server.view.current
    if view is not None:
        source = (
            f", from the file {options.snapshot_file} (it does not change)" if options.snapshot_file else ""
        )
        log.info("cluster: %d node%s%s", len(view.nodes), "" if len(view.nodes) == 1 else "s", source)
    elif options.connection is not None:
        what = "; its nodes alone, no pods" if options.nodes_only else ""
        log.info("cluster: %s%s; not ready until it is listed", options.connection.server, what)
    else:
        log.info("cluster: only the nodes that requests bring")
    if server.recorder is not None and not server.recorder.problem:
        log.info("recording to %s", server.recorder.path)
    if server.journal_file is not None and not server.journal_file.problem:
        log.info("decisions are written to %s", server.journal_file.path)
    if options.shadow is not None:
        candidate = options.shadow.candidate
        names = ", ".join(policy.name for policy in candidate.loaded.policies)
        log.info("shadow: %s judges too and decides nothing; its policies: %s", candidate.file, names)
        if candidate.ignored:
            log.info("%s", candidate.ignored)
    if options.observe:
        log.info("observe: nothing is changed; what would have been said is logged and counted")


def _cautions(options: Options) -> list[str]:
    """Warnings about settings that are valid but rarely intended."""
    found = []
    blind = options.snapshot is None and options.connection is None
    judged = ("filter", "protect", "victims")
    if blind and any(hook.spec.kind in judged for p in options.policies for hook in p.hooks):
        found.append(
            "no cluster is known (--kubeconfig, --in-cluster or --snapshot): kube-scheduler needs"
            " nodeCacheCapable: false, and preempt drops every candidate, since nobody can judge it"
        )
    found += [
        f"{hook.title}: `{hook.spec.kind}` is of `bayplan schedule` alone: an extender is not asked about the"
        " queue of kube-scheduler, so it has no effect here"
        for policy in options.policies
        for hook in policy.hooks
        if hook.spec.kind in ("gate", "order")
    ]
    found += [
        f"{hook.title}: `gang` is of `bayplan schedule` alone: kube-scheduler asks an extender about one pod"
        " after another, so it has no effect here"
        for policy in options.policies
        for hook in policy.of_kind("gang")
    ]
    if options.tls is None and not is_loopback(options.listen[0]):
        found.append(
            f"listening on {written(options.listen)} without TLS: anybody who reaches it can call it;"
            " see --tls-cert, --tls-key and --tls-client-ca"
        )
    return found
