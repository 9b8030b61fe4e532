"""Runs an extender: starts and stops sockets, watches, Lease, certificates and signals in the right order."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import msgspec

from bayplan.client.rest import ApiClient
from bayplan.engine.commit import Commitment, commits
from bayplan.engine.journal import Journal
from bayplan.engine.keep import Turns
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.ops.tls import TlsError, TlsFiles
from bayplan.ops.tracing import note_api_call, note_hooks, open_tracing
from bayplan.ops.watchdog import watch_interpreter
from bayplan.recording.journal_file import JournalFile, JournalFileOptions
from bayplan.recording.notes import Basis
from bayplan.recording.recorder import Recorder, RecordOptions
from bayplan.runtimes.bound import TellBound
from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.extender.app import VERBS, ExtenderApp
from bayplan.runtimes.extender.binding import Binding
from bayplan.runtimes.extender.gang_labels import GangLabels
from bayplan.runtimes.extender.generation import Generation
from bayplan.runtimes.extender.leaving import Leaving
from bayplan.runtimes.extender.options import Options
from bayplan.runtimes.extender.verb_server import VerbServer
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.runtimes.extender.vitals import Vitals
from bayplan.runtimes.generations import Generations
from bayplan.runtimes.listener import Listener
from bayplan.runtimes.needs import latches, managed, sources_for
from bayplan.runtimes.noted import Noted
from bayplan.runtimes.ops import OpsApp
from bayplan.runtimes.shadow import Shadow
from bayplan.runtimes.verifying import Verifying
from bayplan.runtimes.watched_task import WatchedTask, WatchedTasks, end_all
from bayplan.runtimes.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable
from bayplan.state.garbage import keep_what_is_here
from bayplan.state.live import LiveCluster
from bayplan.state.sources.book import Sources, Watchers
from bayplan.state.view import FixedView, View
from bayplan.web.app import PageApp

log = logging.getLogger(__name__)

_OUTCOME_SECONDS = 1.0
_CONNECTIONS = "extender.limits.maxConnections"
_HOLD_SHARE = 0.8
"""How much of the time of a request it may spend waiting for the Lease."""


class Server:
    """One running extender."""

    def __init__(self, options: Options) -> None:
        limits = options.limits
        self.options = options
        fixed: View = FixedView(options.snapshot)
        self.view = fixed
        self.metrics = Metrics(version=options.version, verbs=VERBS)
        self.journal = Journal(max_bytes=options.journal_bytes, on_entry=[GangLabels().look])
        self.turns = Turns()
        self.workers = Workers(
            policy_seconds=limits.policy_seconds,
            request_seconds=limits.request_seconds,
            stuck_limit=limits.stuck_threads,
        )
        first = self._generation(options, number=1)
        self.app = ExtenderApp(
            first,
            self.workers,
            fixed,
            limits=limits,
            metrics=self.metrics,
            path=options.path,
            tls=options.tls,
        )
        self.app.binder = options.binder
        self.journal.before_reading = self.app.later.catch_up
        # The candidate's sources know the nodes, but their changes wake no pods: a candidate decides nothing.
        self.shadow = self.app.shadow = Shadow(
            limits=limits,
            metrics=self.metrics.shadow,
            idle=self.app.idle,
            watchers=Watchers(nodes=self._nodes),
        )
        self.generations = Generations(first, shadow=self.shadow, metrics=self.metrics)
        self.live: LiveCluster | None = None
        self.verifying: Verifying | None = None
        self.binding: Binding | None = None
        self.recorder: Recorder | None = None
        self.journal_file: JournalFile | None = None
        self.ops_listener: Listener | None = None
        self.page_listener: Listener | None = None
        self.leaving = Leaving(self.app, drain_seconds=limits.drain_seconds)
        self.tasks = WatchedTasks()
        self.reload_problem: Callable[[], str] = str
        """Why the last reload was refused; ``""`` if it was not."""
        self._stop = asyncio.Event()
        self._hands_over = False
        self.vitals = Vitals(self)

    @property
    def generation(self) -> Generation:
        """The policies in force."""
        return self.generations.current

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Serve while the ``async with`` block runs, then drain and stop."""
        options = self.options
        async with contextlib.AsyncExitStack() as stack:
            # Read before the files are used, so that a replacement from here on counts as a change.
            known = options.tls.fingerprint() if options.tls else ()
            context = options.tls.context() if options.tls else None
            tasks: list[WatchedTask] = []
            stack.push_async_callback(end_all, tasks)
            # The address is bound before readiness can be probed, and before the Lease is taken.
            self.listener = Listener(
                VerbServer(self.app.handle, options.limits, at_once=self.app.answer_at_once),
                options.listen,
                flag="--listen",
            )
            stack.callback(self.listener.stop_accepting)
            if options.tracing is not None:
                tracing = self.app.tracing = open_tracing(options.tracing, version=options.version)
                stack.push_async_callback(asyncio.to_thread, tracing.close)
            if options.record is not None:
                self._record(options.record, stack)
            if options.journal_file is not None:
                self._write_journal(options.journal_file, stack)
            stack.callback(self.app.later.catch_up)
            if options.connection is not None:
                api = ApiClient(
                    options.connection, qps=options.qps, burst=options.burst, on_request=note_api_call
                )
                client = await stack.enter_async_context(api)
                await self._follow(client, stack)
            stack.push_async_callback(self.generations.end)
            self.generations.start(options.shadow)
            stack.push_async_callback(self.shadow.close)
            tasks.append(self.tasks.start(self.shadow.run(), "the candidate judges nothing"))
            if options.watch_interpreter:
                watching = watch_interpreter(
                    limit_seconds=options.limits.interpreter_seconds, on_lag=self.metrics.loop_lag.observe
                )
                tasks.append(self.tasks.start(watching, "the interpreter is not watched"))
            await self._listen_for_people(stack)
            stack.push_async_callback(self.listener.close)
            if self.live is None:
                keep_what_is_here()
            await self.listener.listen(context)
            self.vitals.certificates_loaded()
            if options.tls is not None:
                reloading = self._reload_certificates(options.tls, known)
                tasks.append(self.tasks.start(reloading, "certificates are not watched"))
            stack.callback(self.workers.stop)
            try:
                yield self
            finally:
                await self._leave()

    async def _listen_for_people(self, stack: contextlib.AsyncExitStack) -> None:
        """Serve health, metrics and the page while the stack lasts."""
        options = self.options
        if options.ops_listen is not None:
            ops = OpsApp(
                self.vitals.health,
                self.metrics,
                refresh=self.vitals.refresh,
                verify=self.verifying.verify if self.verifying else None,
            )
            http = HttpServer(ops.handle, options.limits, setting=_CONNECTIONS)
            self.ops_listener = Listener(http, options.ops_listen, flag="--ops-listen")
            stack.push_async_callback(self.ops_listener.close)
            await self.ops_listener.listen(None)
        if options.page_listen is not None:
            page = PageApp(self.vitals.sight(), token_file=options.page_token_file)
            http = HttpServer(page.handle, options.limits, setting=_CONNECTIONS)
            self.page_listener = Listener(http, options.page_listen, flag="--page-listen")
            stack.push_async_callback(self.page_listener.close)
            # Closed first: a browser with the page open never hangs up by itself.
            stack.callback(page.close)
            await self.page_listener.listen(None)

    def _record(self, options: RecordOptions, stack: contextlib.AsyncExitStack) -> None:
        """Record requests and answers while the stack lasts."""
        count = self.metrics.recorded
        self.recorder = self.app.recorder = Recorder(options, version=self.options.version, count=count)
        stack.push_async_callback(asyncio.to_thread, self.recorder.close)

    def _write_journal(self, options: JournalFileOptions, stack: contextlib.AsyncExitStack) -> None:
        """Write the journal to its file while the stack lasts."""
        known = self.options.connection is not None or self.options.snapshot is not None
        file = self.journal_file = JournalFile(
            options,
            version=self.options.version,
            cluster=known,
            count=self.metrics.journaled,
            quiet=lambda: not self.app.in_flight,
        )
        stack.push_async_callback(asyncio.to_thread, file.close)
        self.journal.on_entry.append(file.add)

    async def _look_where_pods_went(self, file: JournalFile) -> None:
        """Note in the journal file where pods were bound; kube-scheduler's binds show only in the view."""
        while True:
            await asyncio.sleep(_OUTCOME_SECONDS)
            if self.live is not None and (awaited := file.awaited):
                # One by one: few pods are awaited, and a cluster has many.
                pods = [self.live.view.cache.pod(f"{who.namespace}/{who.name}") for who in awaited]
                file.look({pod.uid: pod.node_name for pod in pods if pod is not None and pod.node_name})

    async def _follow(self, client: ApiClient, stack: contextlib.AsyncExitStack) -> None:
        """Watch the cluster, and bind in it, while the stack lasts."""
        options = self.options
        live = self.live = LiveCluster(
            client,
            commit=self._commit if commits(options.policies) else None,
            prepare=self._ask_sources,
            managed=lambda: managed(self.generation.verbs.policies),
            lease=options.lease,
            nudge=options.nudge,
            max_age_seconds=options.max_age_seconds,
            bind_seconds=options.limits.request_seconds,
            nodes_only=options.nodes_only,
            on_succession=self._hold,
        )
        self.verifying = Verifying(live, self.metrics)
        self.view = self.app.view = live.view
        if not options.nodes_only:
            self._bind_in(live, stack)
        self.app.nudge = live.nudge
        if live.nudge is not None:
            live.nudge.on_nudged = self.metrics.nudges.inc
        stack.push_async_callback(live.close)
        # The tasks end before `live` closes: a server that gave the Lease back must not take it again.
        start = self.tasks.start
        tasks = [
            # Vital: a view that is no longer updated must fail liveness.
            start(live.run(), "the cluster is not followed", vital=True),
            start(self.verifying.now_and_then(), "the view is not verified"),
            start(self._say_when_listed(live), "the first list is not told of", may_end=True),
        ]
        if self.journal_file is not None and not options.nodes_only:
            looking = self._look_where_pods_went(self.journal_file)
            tasks.append(start(looking, "nobody looks where pods went"))
        stack.push_async_callback(end_all, tasks)

    async def _say_when_listed(self, live: LiveCluster) -> None:
        """Log that the cluster is listed."""
        await live.view.listed()
        seen = live.view.current
        if seen is not None:
            pods = f" and {len(seen.pods):,} pods" if seen.pods_known else ""
            log.info("cluster: %s nodes%s listed", f"{len(seen.nodes):,}", pods)

    def _bind_in(self, live: LiveCluster, stack: contextlib.AsyncExitStack) -> None:
        """Bind pods, and call the policies' ``bound`` hooks, while the stack lasts."""
        telling = TellBound(
            self.workers,
            cluster=lambda: live.view.current,
            ran=self.metrics.ran,
            on_dropped=self.metrics.bound_dropped.inc,
        )
        self.binding = Binding(live, telling, policies=lambda: self.generation.verbs.policies)
        self.app.binder = self.binding
        stack.push_async_callback(self.tasks.start(telling.run(), "policies are not told of binds").end)
        stack.push_async_callback(telling.close, timeout_seconds=self.options.limits.policy_seconds)

    async def _ask_sources(self, pod: Pod, node: str) -> None:
        """Query the sources about the pod before its turn in the ledger; their answers are cached."""
        with self.generation.used() as generation:
            await generation.sources.about(pod, [node], wanted=sources_for(generation.verbs.policies, pod))

    async def _commit(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        """Recheck and allocate in a policy thread: a refusal, and the annotations to bind with."""
        with self.generation.used() as generation:
            return await self._commit_by(generation, pod, node, cluster)

    async def _commit_by(
        self, generation: Generation, pod: Pod, node: str, cluster: Snapshot
    ) -> tuple[str, Mapping[str, str]]:
        wanted = sources_for(generation.verbs.policies, pod)
        readings = await generation.sources.about(pod, [node], wanted=wanted)
        try:
            noted = Noted[Commitment](partial(generation.verbs.commit, pod, node, cluster, readings=readings))
            said = await self.workers.run(noted)
            note_hooks(noted.attempt)
        except RequestOverrun as error:
            return str(error), {}
        if self.recorder is not None:
            basis = Basis(generation.told, cluster, readings, noted.attempt)
            self.recorder.committed(
                pod, node, refusal=said.refusal, annotations=said.annotations, basis=basis
            )
        return said.refusal, said.annotations

    def adopt(self, options: Options) -> int:
        """Use these policies and sources from the next request on; returns the new generation's number."""
        fresh = self._generation(options, number=self.generations.next_number)
        self.app.generation = self.generations.adopt(fresh)
        return fresh.number

    def _generation(self, options: Options, *, number: int) -> Generation:
        verbs = Verbs(
            policies=options.policies,
            metrics=self.metrics,
            observe=options.observe,
            failed_nodes_heeded=options.failed_nodes_heeded,
            keep=options.keep,
            refusals=options.refusals,
            turns=self.turns,
            journal=self.journal,
            generation=number,
        )
        watchers = Watchers(nodes=self._nodes, changed=self._source_changed, asked=self.metrics.sources.asked)
        sources = Sources(options.sources, latches=latches(options.policies), watchers=watchers)
        told = msgspec.structs.replace(options.told, generation=number)
        return Generation(
            number=number,
            policies=options.policies,
            verbs=verbs,
            sources=sources,
            told=told,
            edition=options.edition,
        )

    def _nodes(self) -> NodeTable | None:
        seen = self.view.current
        return seen.nodes if seen is not None else None

    def _source_changed(self, name: str) -> None:
        if self.live is not None:
            self.live.changed(f"source:{name}")

    def stop_on_signals(self) -> None:
        """Begin to stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        # Ctrl-C: a person waits, so do not wait for a successor.
        loop.add_signal_handler(signal.SIGINT, partial(self.stop, hand_over=False))

    async def stopped(self) -> None:
        """Wait until `stop` is called."""
        await self._stop.wait()

    def stop(self, *, hand_over: bool = True) -> None:
        """Begin to stop, as SIGTERM does; with ``hand_over``, wait for another server to take the Lease."""
        self._hands_over = hand_over
        self._stop.set()

    async def _leave(self) -> None:
        hand_over, live, binding = None, self.live, self.binding
        if self._hands_over and live is not None and binding is not None:
            hand_over = partial(
                live.hand_over, quiet=self.leaving.asked_no_more, binding=lambda: binding.under_way
            )
        await self.leaving.drain(self.listener, hand_over=hand_over, told=self._stop.is_set())

    def _hold(self, held: bool) -> None:
        """Make requests wait until this server has the Lease, or let them go on."""
        assert self.live is not None, "somebody else's Lease is in a cluster"
        writer, seconds = self.live.writer, self.options.limits.request_seconds * _HOLD_SHARE
        assert writer is not None, "who succeeds a holder wants the Lease"
        self.app.hold = partial(writer.succession.hold, seconds) if held else None

    async def _reload_certificates(self, files: TlsFiles, known: tuple[bytes | None, ...]) -> None:
        while True:
            await asyncio.sleep(self.options.tls_reload_seconds)
            found = files.fingerprint()
            if found == known:
                continue
            try:
                self.listener.renew(files.context())
            except (TlsError, OSError) as error:
                log.error("certificates changed and cannot be used, keeping the old ones: %s", error)
            else:
                known = found
                self.vitals.certificates_loaded()
                log.info("certificates changed; new connections use the new ones")
