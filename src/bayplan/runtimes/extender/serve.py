"""The running server: sockets, certificates, signals, and an orderly end."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from bayplan.authoring.registry import Policy
from bayplan.client.connect import Connection
from bayplan.client.errors import ApiError, ConnectError
from bayplan.client.rest import ApiClient
from bayplan.engine.commit import commits
from bayplan.kube.pod import Pod
from bayplan.ops.health import Health
from bayplan.ops.metrics import Metrics
from bayplan.ops.tls import TlsError, TlsFiles
from bayplan.ops.watchdog import watch_interpreter
from bayplan.runtimes.extender.app import ExtenderApp, OpsApp
from bayplan.runtimes.extender.limits import Limits
from bayplan.runtimes.extender.listener import Address, Listener
from bayplan.runtimes.extender.verbs import Binder, Verbs
from bayplan.runtimes.extender.workers import RequestOverrun, Workers
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import Units
from bayplan.state.live import LiveCluster
from bayplan.state.nudge import NudgeOptions
from bayplan.state.verify import Verification
from bayplan.state.view import FixedView, View
from bayplan.state.writer import LeaseOptions

log = logging.getLogger(__name__)

_VERIFY_SECONDS = 300.0


@dataclass(frozen=True)
class Options:
    """Everything that a server needs to know."""

    policies: Sequence[Policy]
    listen: Address = ("127.0.0.1", 8888)
    ops_listen: Address | None = ("127.0.0.1", 8889)
    path: str = "/"
    observe: bool = False
    failed_nodes_heeded: bool = False
    snapshot: Snapshot | None = None
    snapshot_file: str = ""
    """Where the snapshot is from, for people."""
    connection: Connection | None = None
    max_age_seconds: float = 60.0
    qps: float = 50.0
    burst: int = 100
    binder: Binder | None = None
    lease: LeaseOptions | None = None
    """``None`` where this server is the only one that binds."""
    nudge: NudgeOptions | None = None
    """``None`` where waiting pods are left alone."""
    tls: TlsFiles | None = None
    tls_reload_seconds: float = 5.0
    limits: Limits = field(default_factory=Limits)
    version: str = ""
    watch_interpreter: bool = True


class Server:
    """One extender, from its first socket to its last answer."""

    def __init__(self, options: Options) -> None:
        limits = options.limits
        self.options = options
        fixed: View = FixedView(options.snapshot)
        self.view = fixed
        self.metrics = Metrics(version=options.version)
        self.health = Health()
        self.workers = Workers(
            policy_seconds=limits.policy_seconds,
            request_seconds=limits.request_seconds,
            stuck_limit=limits.stuck_threads,
        )
        verbs = Verbs(
            policies=options.policies,
            metrics=self.metrics,
            binder=options.binder,
            observe=options.observe,
            failed_nodes_heeded=options.failed_nodes_heeded,
        )
        self.app = ExtenderApp(
            verbs,
            self.workers,
            fixed,
            limits=limits,
            metrics=self.metrics,
            path=options.path,
            tls=options.tls,
        )
        self.live: LiveCluster | None = None
        self.ops_listener: Listener | None = None
        self._draining = False
        self._stop = asyncio.Event()
        self._add_checks()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Serve while the block runs, then drain and stop."""
        options = self.options
        async with contextlib.AsyncExitStack() as stack:
            # Before the files are used: what is replaced from here on is seen as a change.
            known = options.tls.fingerprint() if options.tls else ()
            context = options.tls.context() if options.tls else None
            tasks: list[asyncio.Task[None]] = []
            stack.push_async_callback(_cancel, tasks)
            # Bound before anybody can ask whether we are ready, and before the Lease: the address is ours.
            self.listener = Listener(self.app.handle, options.listen, limits=options.limits, flag="--listen")
            stack.callback(self.listener.stop_accepting)
            if options.connection is not None:
                api = ApiClient(options.connection, qps=options.qps, burst=options.burst)
                client = await stack.enter_async_context(api)
                await self._follow(client, stack)
            if options.watch_interpreter:
                watching = watch_interpreter(limit_seconds=options.limits.interpreter_seconds)
                tasks.append(asyncio.create_task(watching))
            if options.ops_listen is not None:
                ops = OpsApp(
                    self.health,
                    self.metrics,
                    refresh=self._refresh_gauges,
                    verify=self._verify if self.live else None,
                )
                self.ops_listener = Listener(
                    ops.handle, options.ops_listen, limits=options.limits, flag="--ops-listen"
                )
                stack.push_async_callback(self.ops_listener.close)
                await self.ops_listener.listen(None)
            stack.push_async_callback(self.listener.close)
            await self.listener.listen(context)
            if options.tls is not None:
                tasks.append(asyncio.create_task(self._reload_certificates(options.tls, known)))
            stack.callback(self.workers.stop)
            try:
                yield self
            finally:
                await self._drain()

    async def _follow(self, client: ApiClient, stack: contextlib.AsyncExitStack) -> None:
        """Watch the cluster, and bind in it, while the stack lasts."""
        options = self.options
        live = self.live = LiveCluster(
            client,
            commit=self._commit if commits(options.policies) else None,
            managed={c.resource for p in options.policies for c in p.columns if isinstance(c, Units)},
            lease=options.lease,
            nudge=options.nudge,
            max_age_seconds=options.max_age_seconds,
            bind_seconds=options.limits.request_seconds,
        )
        self.view = self.app.view = live.view
        self.app.verbs.binder = live.ledger
        self.app.nudge = live.nudge
        if live.nudge is not None:
            live.nudge.on_nudged = self.metrics.nudges.inc
        stack.push_async_callback(live.close)
        # Ended before it closes: whoever gives the Lease back must not take it again.
        tasks = [asyncio.create_task(work) for work in (live.run(), self._verify_now_and_then())]
        stack.push_async_callback(_cancel, tasks)

    async def _commit(self, pod: Pod, node: str, cluster: Snapshot) -> tuple[str, Mapping[str, str]]:
        """The policies' last word, in a policy thread."""
        try:
            said = await self.workers.run(partial(self.app.verbs.commit, pod, node, cluster))
        except RequestOverrun as error:
            return str(error), {}
        return said.refusal, said.annotations

    async def serve_until_signal(self, *, ready: Callable[["Server"], None] | None = None) -> None:
        """Serve until SIGTERM or SIGINT."""
        self.stop_on_signals()
        async with self.running():
            if ready is not None:
                ready(self)
            await self.stopped()

    def stop_on_signals(self) -> None:
        """Begin to stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)

    async def stopped(self) -> None:
        """Wait until somebody says stop."""
        await self._stop.wait()

    def stop(self) -> None:
        """Begin to stop, as SIGTERM does."""
        self._stop.set()

    async def _drain(self) -> None:
        """Not ready any more; no new connections; requests under way are answered."""
        self._draining = True
        self.listener.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.limits.drain_seconds):
                await self.app.idle.wait()
        log.info("drained; %d requests left", self.app.in_flight)

    async def _reload_certificates(self, files: TlsFiles, known: tuple[bytes | None, ...]) -> None:
        while True:
            await asyncio.sleep(self.options.tls_reload_seconds)
            found = files.fingerprint()
            if found == known:
                continue
            try:
                await self.listener.listen(files.context())
            except (TlsError, OSError) as error:
                log.error("certificates changed and cannot be used, keeping the old ones: %s", error)
            else:
                known = found
                log.info("certificates changed; new connections use the new ones")

    def _add_checks(self) -> None:
        self.health.live["policy-threads"] = self.workers.check
        self.health.ready["not-draining"] = lambda: "the server is shutting down" if self._draining else ""
        if self.options.connection is not None or self.options.snapshot is not None:
            self.health.ready["cluster-view"] = self._view_problem
        if self.options.lease is not None:
            self.health.ready["one-writer"] = lambda: self.live.why_not_bind() if self.live else ""
        for policy in self.options.policies:
            self.health.notes[f"policy {policy.name}"] = partial(self._policy_note, policy.name)

    async def _verify(self) -> Verification:
        assert self.live is not None, "nothing but a live cluster can be verified"
        found = await self.live.verify()
        self.metrics.drift.set(len(found.drift))
        for line in found.drift[:10]:
            log.error("the view is wrong: %s", line)
        self._flag(found.unaccounted)
        return found

    def _flag(self, unaccounted: list[str]) -> None:
        self.metrics.unaccounted.set(len(unaccounted))
        for pod in unaccounted[:10]:
            log.warning("pod %s holds a managed resource and was bound by somebody else", pod)

    async def _verify_now_and_then(self) -> None:
        """Look for drift every few minutes; there must be none."""
        assert self.live is not None, "nothing but a live cluster can be verified"
        self._flag(await self.live.unaccounted())
        while True:
            await asyncio.sleep(_VERIFY_SECONDS)
            try:
                await self._verify()
            except (ApiError, ConnectError) as error:
                log.warning("the view could not be verified: %s", error)

    def _view_problem(self) -> str:
        return self.view.problem()

    def _policy_note(self, policy: str) -> str:
        stuck = sum(hook.policy == policy for hook in self.workers.stuck())
        overruns = self.workers.overruns().get(policy, 0)
        if not overruns:
            return ""
        state = "unhealthy: overran" if policy in self.workers.unhealthy() else "overran"
        return f"{state} {overruns} times, {stuck} threads stuck"

    def _refresh_gauges(self) -> None:
        unhealthy = self.workers.unhealthy()
        for policy in self.options.policies:
            self.metrics.policy_healthy.labels(policy.name).set(policy.name not in unhealthy)
        self.metrics.connections.set(len(self.listener.http.connections))
        if self.live is not None:
            self.metrics.assumed.set(self.live.ledger.assumed_count)
            self.metrics.unsettled.set(self.live.ledger.unsettled_count)
            self.metrics.writer.set(not self.live.why_not_bind())
        if self.view.current is not None:
            self.metrics.view_nodes.set(len(self.view.current.nodes))
            if self.view.current.pods_known:
                self.metrics.view_pods.set(len(self.view.current.pods))
            self.metrics.view_age.set(self.view.age_seconds)


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
