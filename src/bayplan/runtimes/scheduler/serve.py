"""The running scheduler: what it is made of, in which order it starts, and an orderly end."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Mapping

from bayplan.client.rest import ApiClient
from bayplan.engine.decision import Decision
from bayplan.engine.entry import PodRef
from bayplan.engine.journal import Journal
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.pod import Pod
from bayplan.ops.logs import Sparingly
from bayplan.ops.metrics import Metrics
from bayplan.ops.schedule_metrics import ScheduleMetrics
from bayplan.ops.watchdog import watch_interpreter
from bayplan.recording.journal_file import JournalFile
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Listener
from bayplan.runtimes.needs import latches, managed
from bayplan.runtimes.ops import OpsApp
from bayplan.runtimes.scheduler.evicting import Evicting
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.judge import Judge
from bayplan.runtimes.scheduler.loop import Loop
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.options import Options
from bayplan.runtimes.scheduler.placing import Placing
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.runtimes.scheduler.report import Reporter
from bayplan.runtimes.scheduler.vitals import Vitals
from bayplan.runtimes.workers import Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Requested
from bayplan.state.live import LiveCluster
from bayplan.state.sources.book import Sources, Watchers
from bayplan.web.app import PageApp

log = logging.getLogger(__name__)

_FINISH_SECONDS = 10.0
_REPORT_SECONDS = 5.0
_GENERATION = 1


class Server:
    """One scheduler, from its first look at the cluster to its last bind."""

    live: LiveCluster
    loop: Loop
    placing: Placing
    ops_listener: Listener
    page_listener: Listener | None = None

    def __init__(self, options: Options) -> None:
        self.options = options
        self.metrics = Metrics(version=options.version)
        self.metrics.edition = options.edition
        self.schedule_metrics = ScheduleMetrics(self.metrics.registry, profiles=options.profiles)
        self.journal = Journal(max_bytes=options.journal_bytes)
        self.journal_file: JournalFile | None = None
        self.policies = list({p.name: p for each in options.profiles.values() for p in each}.values())
        self.workers = Workers(
            policy_seconds=options.policy_seconds,
            request_seconds=options.attempt_seconds,
            stuck_limit=Limits().stuck_threads,
        )
        self.queue = PodQueue(
            first_seconds=options.first_backoff_seconds, longest_seconds=options.longest_backoff_seconds
        )
        self.inbox = Inbox(options.profiles, self.queue, Nominations(), on_gone=self._gone)
        self.sources = Sources(
            options.sources,
            latches=latches(self.policies),
            watchers=Watchers(
                requested=self._requested,
                changed=lambda name: self.inbox.told(frozenset({f"source:{name}"})),
                asked=self.metrics.source_asked,
            ),
        )
        self.reporter: Reporter | None = None
        self.lost = ""
        """Why nothing is scheduled any more that only a restart cures; ``""`` while all is well."""
        self._stop = asyncio.Event()
        self._warnings = Sparingly()
        self.vitals = Vitals(self)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Schedule while the block runs, then finish what was begun."""
        options = self.options
        async with contextlib.AsyncExitStack() as stack:
            # First of all: the address is also who we are.
            ops = OpsApp(self.vitals.health, self.metrics, refresh=self.vitals.refresh)
            self.ops_listener = Listener(ops.handle, options.ops_listen, limits=Limits(), flag="--ops-listen")
            stack.push_async_callback(self.ops_listener.close)
            stack.callback(self.workers.stop)
            if options.journal_file is not None:
                file = self.journal_file = JournalFile(
                    options.journal_file, version=options.version, cluster=True, count=self.metrics.journaled
                )
                stack.push_async_callback(asyncio.to_thread, file.close)
                self.journal.on_entry.append(file.add)
            client = await stack.enter_async_context(
                ApiClient(options.connection, qps=options.qps, burst=options.burst)
            )
            self._compose(client)
            await self._start(stack)
            await self.ops_listener.listen(None)
            if options.page_listen is not None:
                page = PageApp(self.vitals.sight(), token_file=options.page_token_file)
                self.page_listener = Listener(
                    page.handle, options.page_listen, limits=Limits(), flag="--page-listen"
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
        """Wait until somebody says stop."""
        await self._stop.wait()

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
        count = self.schedule_metrics.reports
        reporter = self.reporter = Reporter(
            client,
            instance=options.instance,
            on_result=lambda kind, result: count.labels(kind, result).inc(),
        )
        self.placing = Placing(
            self.live,
            self.inbox,
            reporter,
            self.schedule_metrics,
            at_once=options.parallel_binds,
            on_bind=self._note_bind,
        )
        self.evicting = Evicting(client, self.inbox, reporter, self.schedule_metrics)
        self.loop = Loop(
            {
                name: Judge(policies, record=self._record, ran=self.metrics.ran)
                for name, policies in options.profiles.items()
            },
            inbox=self.inbox,
            live=self.live,
            workers=self.workers,
            sources=self.sources,
            placing=self.placing,
            evicting=self.evicting,
            reporter=reporter,
            metrics=self.schedule_metrics,
        )

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        """Begin; what is pushed last ends first: no new pods, then binds, then the Lease, then reports."""
        assert self.reporter is not None, "composed before it is started"
        background = [asyncio.create_task(self.reporter.run()), asyncio.create_task(self.sources.run())]
        if self.options.watch_interpreter:
            watching = watch_interpreter(
                limit_seconds=Limits().interpreter_seconds, on_lag=self.metrics.loop_lag.observe
            )
            background.append(asyncio.create_task(watching))
        stack.push_async_callback(self.sources.close)
        stack.push_async_callback(_cancel, background)
        stack.push_async_callback(self.reporter.close, timeout_seconds=_REPORT_SECONDS)
        stack.push_async_callback(self.live.close)
        following = asyncio.create_task(self.live.run())
        stack.push_async_callback(_cancel, [following])
        stack.push_async_callback(self.evicting.close)
        stack.push_async_callback(self.placing.finish, timeout_seconds=_FINISH_SECONDS)
        scheduling = asyncio.create_task(self.loop.run())
        stack.push_async_callback(_cancel, [scheduling])
        for task, what in ((following, "the cluster is not followed"), (scheduling, "nothing is scheduled")):
            task.add_done_callback(lambda ended, what=what: self._ended(ended, what))  # type: ignore[misc]

    def _ended(self, task: "asyncio.Task[None]", what: str) -> None:
        """A scheduler that has stopped must not look alive: liveness fails, and it is restarted."""
        if not task.cancelled():
            self.lost = f"{what} any more: {task.exception()!r}"
            log.critical("%s", self.lost, exc_info=task.exception())

    def _record(self, verb: str, decision: Decision) -> None:
        self.metrics.decided(verb, decision, observe=False)
        entry = self.journal.write(verb, decision, generation=_GENERATION)
        for outcome in decision.failures:
            if outcome.failure:
                text = f"{outcome.failure.text} (pod {decision.pod.key}, {verb})"
                key = f"{outcome.hook.title} {outcome.failure.kind}"
                self._warnings.warn(log, key, text, pod=decision.pod.key, decision=entry.number)

    def _note_bind(self, pod: Pod, node: str, error: str) -> None:
        self.journal.note("bind", PodRef.of(pod), generation=_GENERATION, error=error, node=node)

    async def _last_word(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        return await self.loop.last_word(pod, node, cluster)

    def _gone(self, uid: str) -> None:
        if self.reporter is not None:
            self.reporter.forget(uid)

    def _requested(self) -> Requested | None:
        seen = self.live.view.current
        return seen.nodes.requested_now if seen is not None else None


async def _cancel(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
