"""Runs a scheduler: composes its parts, and starts and stops them in the right order."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from bayplan.authoring.registry import Policy
from bayplan.client.rest import ApiClient
from bayplan.engine.decision import Decision
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.engine.make_room import DEFAULT_PREEMPTION
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.ops.metrics import Metrics
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.ops.tracing import note_api_call, open_tracing
from bayplan.ops.watchdog import watch_interpreter
from bayplan.recording.journal_file import JournalFile
from bayplan.recording.recorder import Recorder
from bayplan.runtimes.bound import TellBound
from bayplan.runtimes.connection import HttpServer
from bayplan.runtimes.generations import Generations
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener
from bayplan.runtimes.needs import latches, managed
from bayplan.runtimes.ops import OpsApp
from bayplan.runtimes.scheduler.asking import Asking
from bayplan.runtimes.scheduler.evicting import Evicting
from bayplan.runtimes.scheduler.gangs import Gangs
from bayplan.runtimes.scheduler.generation import Generation
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.judge import Judge
from bayplan.runtimes.scheduler.loop import Loop
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.onlookers import Onlookers
from bayplan.runtimes.scheduler.options import Options
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import ANYTHING, PodQueue
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.vitals import Vitals
from bayplan.runtimes.scheduler.volumes import Volumes
from bayplan.runtimes.scheduler.volumes_kept import bind_seconds
from bayplan.runtimes.shadow import Shadow
from bayplan.runtimes.verifying import Verifying
from bayplan.runtimes.watched_task import WatchedTasks, end_all
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.table import NodeTable
from bayplan.state.live import LiveCluster
from bayplan.state.sources.book import Sources, Watchers
from bayplan.state.verify import Verification
from bayplan.web.app import PageApp

log = logging.getLogger(__name__)

_FINISH_SECONDS = 10.0
_REPORT_SECONDS = 5.0


class Server:
    """One running scheduler."""

    live: LiveCluster
    reporter: Reporter
    verifying: Verifying
    loop: Loop
    placing: Placing
    asking: Asking
    gangs: Gangs
    telling: TellBound
    ops_listener: Listener
    page_listener: Listener | None = None

    def __init__(self, options: Options) -> None:
        self.options = options
        self.metrics = Metrics(version=options.version)
        self.schedule_metrics = ScheduleMetrics(self.metrics.registry, profiles=options.profiles)
        self.journal = Journal(max_bytes=options.journal_bytes)
        self.journal_file: JournalFile | None = None
        self.workers = Workers(
            policy_seconds=options.policy_seconds,
            request_seconds=options.attempt_seconds,
            stuck_limit=Limits().stuck_threads,
        )
        self.queue = PodQueue(
            asks=self._asks,
            first_seconds=options.first_backoff_seconds,
            longest_seconds=options.longest_backoff_seconds,
        )
        self.inbox = Inbox(options.profiles, self.queue, Nominations(), on_gone=self._gone)
        # The candidate's sources know the nodes, but their changes wake no pods: a candidate decides nothing.
        self.shadow = Shadow(
            limits=replace(
                Limits(), policy_seconds=options.policy_seconds, request_seconds=options.attempt_seconds
            ),
            metrics=self.metrics.shadow,
            idle=_always(),
            watchers=Watchers(nodes=self._nodes),
        )
        self.onlookers = Onlookers(self.shadow)
        first = self._generation(options, number=1)
        self.generations = Generations(first, shadow=self.shadow, metrics=self.metrics)
        self.reload_problem: Callable[[], str] = str
        """Why the last reload was refused; ``""`` if it was not."""
        self.tasks = WatchedTasks()
        self._stop = asyncio.Event()
        self._warnings = Sparingly()
        self.vitals = Vitals(self)

    @property
    def generation(self) -> Generation:
        """The policies in force, with a judge for each profile."""
        return self.generations.current

    @property
    def policies(self) -> Sequence[Policy]:
        """The policies of all profiles."""
        return self.generation.policies

    @property
    def sources(self) -> Sources:
        """The sources of the policies in force."""
        return self.generation.sources

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Schedule while the ``async with`` block runs, then finish binds and reports."""
        options = self.options
        async with contextlib.AsyncExitStack() as stack:
            # First: the address is also part of our identity for the Lease.
            ops = OpsApp(
                self.vitals.health,
                self.metrics,
                refresh=self.vitals.refresh,
                verify=self._verify,
            )
            self.ops_listener = Listener(
                HttpServer(ops.handle, Limits()), options.ops_listen, flag="--ops-listen"
            )
            stack.push_async_callback(self.ops_listener.close)
            stack.callback(self.workers.stop)
            if options.journal_file is not None:
                file = self.journal_file = JournalFile(
                    options.journal_file,
                    version=options.version,
                    cluster=True,
                    schedules=True,
                    count=self.metrics.journaled,
                )
                stack.push_async_callback(asyncio.to_thread, file.close)
                self.journal.on_entry.append(file.add)
            self._open_onlookers(stack)
            client = await stack.enter_async_context(
                ApiClient(
                    options.connection,
                    qps=options.qps,
                    burst=options.burst,
                    on_request=note_api_call if options.tracing is not None else None,
                )
            )
            self._compose(client)
            await self._start(stack)
            await self.ops_listener.listen(None)
            if options.page_listen is not None:
                page = PageApp(self.vitals.sight(), token_file=options.page_token_file)
                self.page_listener = Listener(
                    HttpServer(page.handle, Limits()),
                    options.page_listen,
                    flag="--page-listen",
                )
                stack.push_async_callback(self.page_listener.close)
                stack.callback(page.close)
                await self.page_listener.listen(None)
            yield self

    def stop_on_signals(self) -> None:
        """Begin to stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    async def stopped(self) -> None:
        """Wait until a signal stops the server."""
        await self._stop.wait()

    def adopt(self, options: Options) -> int:
        """Use these profiles and sources from the next attempt on; returns the new generation's number."""
        fresh = self._generation(options, number=self.generations.next_number)
        self.options = options
        self.loop.generation = self.generations.adopt(fresh)
        self.schedule_metrics.know(options.profiles)
        self.asking.use(options.profiles)
        self.gangs.reload()
        self.inbox.serve(options.profiles, list(self.live.view.cache.pods))
        self.inbox.told(ANYTHING)
        return fresh.number

    def _generation(self, options: Options, *, number: int) -> Generation:
        # Each policy once, by `id`: a plugin may have the same name in two profiles, with other arguments.
        policies = list({id(p): p for each in options.profiles.values() for p in each}.values())
        sources = Sources(
            options.sources,
            latches=latches(policies),
            watchers=Watchers(
                nodes=self._nodes,
                changed=lambda name: self.inbox.told(frozenset({f"source:{name}"})),
                asked=self.metrics.sources.asked,
            ),
        )
        record = partial(self._record, number)
        return Generation(
            number=number,
            policies=policies,
            judges={
                name: Judge(
                    each,
                    record=record,
                    ran=self.metrics.ran,
                    preemption=options.preemption.get(name, DEFAULT_PREEMPTION),
                )
                for name, each in options.profiles.items()
            },
            sources=sources,
            told=msgspec.structs.replace(options.told, generation=number),
            edition=options.edition,
        )

    def _open_onlookers(self, stack: contextlib.AsyncExitStack) -> None:
        options = self.options
        if options.tracing is not None:
            tracing = self.onlookers.tracing = open_tracing(options.tracing, version=options.version)
            stack.push_async_callback(asyncio.to_thread, tracing.close)
        if options.record is not None:
            recorder = self.onlookers.recorder = Recorder(
                options.record, version=options.version, count=self.metrics.recorded
            )
            stack.push_async_callback(asyncio.to_thread, recorder.close)

    async def _verify(self) -> Verification:
        return await self.verifying.verify()

    def _compose(self, client: ApiClient) -> None:
        options = self.options
        self.live = LiveCluster(
            client,
            commit=self._last_word,
            managed=lambda: managed(self.policies),
            lease=options.lease,
            max_age_seconds=options.max_age_seconds,
            bind_seconds=options.bind_seconds,
            follower=self.inbox,
            objects=OBJECT_KINDS,
            images=True,
        )
        self.verifying = Verifying(self.live, self.metrics)
        count = self.schedule_metrics.reports
        reporter = self.reporter = Reporter(
            client,
            instance=options.instance,
            waits=self._waits,
            on_result=lambda kind, result: count.labels(kind, result).inc(),
        )
        self.placing = Placing(
            self.live,
            self.inbox,
            reporter,
            self.schedule_metrics,
            at_once=options.parallel_binds,
            volumes=self._volumes(client),
            on_bind=self._note_bind,
            on_bound=self._bound,
        )
        self.telling = TellBound(
            self.workers,
            cluster=lambda: self.live.view.current,
            ran=self.metrics.ran,
            on_dropped=self.metrics.bound_dropped.inc,
        )
        self.asking = Asking(
            options.profiles,
            inbox=self.inbox,
            workers=self.workers,
            cluster=lambda: self.live.view.cache.snapshot().with_readings(self.sources.current),
            may=lambda: not (self.live.why_not_bind() or self.live.view.problem()),
            ran=self.metrics.ran,
            on_change=self._kept_out,
        )
        reporter.busy = lambda: self.placing.count > 0
        self.evicting = Evicting(
            client,
            self.inbox,
            reporter,
            self.schedule_metrics,
            timeout_seconds=options.bind_seconds,
            evicted=self._note_evicted,
        )
        self.evicting.why_not = self.live.why_not_bind
        self.gangs = Gangs(
            lambda: self.generation,
            inbox=self.inbox,
            live=self.live,
            workers=self.workers,
            placing=self.placing,
            reporter=reporter,
            metrics=self.schedule_metrics,
            record=lambda verb, decision: self._record(self.generation.number, verb, decision),
            ran=self.metrics.ran,
        )
        self.inbox.on_pod = self.gangs.roster.seen
        self.inbox.stands_by = lambda: bool(self.live.why_not_bind())
        self.loop = Loop(
            self.generation,
            inbox=self.inbox,
            live=self.live,
            workers=self.workers,
            onlookers=self.onlookers,
            placing=self.placing,
            evicting=self.evicting,
            gangs=self.gangs,
            reporter=reporter,
            metrics=self.schedule_metrics,
        )

    def _volumes(self, client: ApiClient) -> Volumes:
        options, writer = self.options, self.live.writer

        def seconds(name: str) -> float | None:
            # From `self.options`, since a reload may have changed the profiles.
            return bind_seconds(self.options.profiles.get(name, ()), options.volume_bind_seconds)

        return Volumes(
            self.live.view.cache,
            client,
            seconds=seconds,
            write_seconds=options.bind_seconds,
            why_not=self.live.why_not_bind,
            term=lambda: writer.terms if writer is not None else 0,
        )

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Start all tasks. They end in reverse: no new pods, then binds, then the Lease, then reports."""
        begin = self.tasks.start
        background = [
            begin(self.reporter.run(), "reports about pods are not written"),
            begin(self.shadow.run(), "the candidate judges nothing"),
            begin(self.telling.run(), "policies are not told of binds"),
        ]
        if self.options.watch_interpreter:
            watching = watch_interpreter(
                limit_seconds=Limits().interpreter_seconds, on_lag=self.metrics.loop_lag.observe
            )
            background.append(begin(watching, "the interpreter is not watched"))
        stack.push_async_callback(self.generations.end)
        self.generations.start(self.options.shadow)
        stack.push_async_callback(self.shadow.close)
        stack.push_async_callback(end_all, background)
        stack.push_async_callback(self.reporter.close, timeout_seconds=_REPORT_SECONDS)
        stack.push_async_callback(self.telling.close, timeout_seconds=_REPORT_SECONDS)
        stack.push_async_callback(self.live.close)
        # Vital: a scheduler that has stopped must fail liveness.
        following = begin(self.live.run(), "the cluster is not followed", vital=True)
        verifying = begin(self.verifying.now_and_then(), "the view is not verified")
        stack.push_async_callback(end_all, [following, verifying])
        stack.push_async_callback(self.evicting.close)
        stack.push_async_callback(self.placing.finish, timeout_seconds=_FINISH_SECONDS)
        scheduling = begin(self.loop.run(), "nothing is scheduled", vital=True)
        asking = begin(self.asking.run(), "nobody is let into the queue", vital=True)
        stack.push_async_callback(end_all, [scheduling, asking])

    def _record(self, generation: int, verb: str, decision: Decision) -> None:
        self.metrics.decided(verb, decision, observe=False)
        entry = self.journal.write(verb, decision, generation=generation)
        self.onlookers.noted(decision, entry.number)
        for outcome in decision.failures:
            if outcome.failure:
                text = f"{outcome.failure.text} (pod {decision.pod.key}, {verb})"
                key = f"{outcome.hook.title} {outcome.failure.kind}"
                self._warnings.warn(log, key, text, pod=decision.pod.key, decision=entry.number)

    def _note_bind(self, pod: Pod, node: str, error: str) -> None:
        self.journal.note("bind", PodRef.of(pod), generation=self.generation.number, error=error, node=node)
        self.onlookers.bound(pod, node, error)

    def _note_evicted(self, victims: Sequence[Pod], pod: Pod) -> None:
        """Note the eviction for the pod and for each victim, so that `why` of each names the other."""
        generation, node = self.generation.number, victims[0].node_name
        names = tuple(victim.key for victim in victims)
        self.journal.note("evict", PodRef.of(pod), generation=generation, node=node, others=names)
        for victim in victims:
            who = PodRef.of(victim)
            self.journal.note("evicted", who, generation=generation, node=node, others=(pod.key,))

    def _asks(self, pod: Pod) -> bool:
        return self.asking.concerns(pod)

    def _bound(self, pod: Pod, node: str) -> None:
        self.telling.tell(self.options.profiles.get(pod.scheduler_name, ()), pod, node)

    def _kept_out(self, pod: Pod, why: str, by: str) -> None:
        """Record that a policy keeps the pod out for this reason, or, without a reason, lets it in."""
        text = f"policy {by}: {why}" if by else why
        log.info("pod %s: %s", pod.key, f"kept out: {text}" if why else "let in", extra={"pod": pod.key})
        self.journal.note("gate", PodRef.of(pod), generation=self.generation.number, error=text)
        if why:
            self.reporter.kept_out(pod, why)

    async def _last_word(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        return await self.loop.last_word(pod, node, cluster)

    def _gone(self, uid: str) -> None:
        self.reporter.forget(uid)
        self.gangs.gone(uid)

    def _waits(self, pod: Pod) -> Pod | None:
        now = self.live.view.cache.pod(pod.key)
        return now if now is not None and now.uid == pod.uid and not now.node_name else None

    def _nodes(self) -> NodeTable | None:
        seen = self.live.view.current
        return seen.nodes if seen is not None else None


def _always() -> asyncio.Event:
    """An event that is set: a scheduler has no callers that wait for answers, so it is always idle."""
    happened = asyncio.Event()
    happened.set()
    return happened
