"""The options of a server, and how they follow from the configuration."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bayplan.authoring.editions import Edition, current_edition
from bayplan.authoring.registry import Policy
from bayplan.client.connect import Connection
from bayplan.config.cluster import open_cluster
from bayplan.config.flags import Loaded
from bayplan.config.load import SettingError
from bayplan.config.v1 import (
    BayplanConfiguration,
    ClusterSection,
    ExtenderSection,
    LimitsSection,
    TlsSection,
)
from bayplan.config.where import naming_the_line
from bayplan.engine.commit import commits
from bayplan.engine.journal import MAX_BYTES
from bayplan.engine.keep import Refusals
from bayplan.ops.tls import TlsFiles
from bayplan.ops.tracing import TracingOptions
from bayplan.recording.journal_file import JournalFileOptions
from bayplan.recording.lines import Configuration
from bayplan.recording.recorder import RecordOptions
from bayplan.runtimes.extender.verbs import Binder
from bayplan.runtimes.limits import Limits
from bayplan.runtimes.listener import Address
from bayplan.runtimes.sections import (
    address,
    check_apart,
    identity,
    journal_file,
    page_address,
    record_options,
    tracing_options,
)
from bayplan.runtimes.shadow import ShadowOptions
from bayplan.snapshot.cluster import Snapshot
from bayplan.state.nudge import NudgeOptions
from bayplan.state.sources.book import Declared
from bayplan.state.writer import LeaseOptions

# Up to 1.37 a node in FailedNodes makes kube-scheduler's preemption err on each attempt.
_FAILED_NODES_HEEDED_FROM = 38
_LEFT_OUT_IS_REFUSED_FROM = 28
_LEASE_SLACK_SECONDS = 0.5


@dataclass(frozen=True)
class Options:
    """Everything that a server is started with."""

    policies: Sequence[Policy]
    sources: Sequence[Declared] = ()
    edition: Edition = field(default_factory=current_edition)
    """The modules that were imported for the policies."""
    listen: Address = ("127.0.0.1", 8888)
    ops_listen: Address | None = ("127.0.0.1", 8889)
    path: str = "/"
    observe: bool = False
    failed_nodes_heeded: bool = False
    keep: int | None = None
    """How many of the passing nodes a filter answers with; ``None`` for all."""
    refusals: Refusals = "always"
    """When a filter's answer lists refused nodes with their reasons."""
    snapshot: Snapshot | None = None
    snapshot_file: str = ""
    """The snapshot's file, for the log."""
    connection: Connection | None = None
    nodes_only: bool = False
    """Whether only nodes are watched; then no pods can be bound."""
    max_age_seconds: float = 60.0
    qps: float = 50.0
    burst: int = 100
    binder: Binder | None = None
    lease: LeaseOptions | None = None
    """The Lease to hold; ``None`` if this server is the only one that binds."""
    nudge: NudgeOptions | None = None
    """How waiting pods are touched; ``None`` for not at all."""
    page_listen: Address | None = None
    """The address of the page; ``None`` for no page."""
    page_token_file: Path | None = None
    journal_bytes: int = MAX_BYTES
    journal_file: JournalFileOptions | None = None
    """The journal's file; ``None`` to keep decisions in memory only."""
    record: RecordOptions | None = None
    """Where to record requests; ``None`` for no recording."""
    told: Configuration = field(default_factory=Configuration)
    """The configuration as a recording describes it."""
    shadow: ShadowOptions | None = None
    """The candidate configuration; ``None`` for none."""
    tracing: TracingOptions | None = None
    """Where to send spans; ``None`` for nowhere."""
    tls: TlsFiles | None = None
    tls_reload_seconds: float = 5.0
    limits: Limits = field(default_factory=Limits)
    version: str = ""
    watch_interpreter: bool = True


def check_section(loaded: Loaded) -> None:
    """Raise `ConfigError` for mistakes that can be found without a cluster."""
    config, extender = loaded.config, loaded.config.extender
    with naming_the_line(loaded):
        _addresses(config)
        tracing_options(config.tracing)
        if _leased(extender, loaded.policies):
            _margin_seconds(extender)


def options_from(
    loaded: Loaded, *, version: str, opened: tuple[Snapshot | None, Connection | None] | None = None
) -> Options:
    """The options that the configuration asks for; reads the snapshot or the kubeconfig if not ``opened``."""
    with naming_the_line(loaded):
        return _options_from(loaded, version=version, opened=opened)


def _options_from(
    loaded: Loaded, *, version: str, opened: tuple[Snapshot | None, Connection | None] | None
) -> Options:
    config, policies, base = loaded.config, loaded.policies, loaded.base
    extender = config.extender
    snapshot, connection = opened or open_cluster(config.cluster, base)
    listen, ops_listen, page_listen = _addresses(config)
    return Options(
        policies=policies,
        sources=loaded.sources,
        edition=loaded.edition,
        listen=listen,
        ops_listen=ops_listen,
        path=extender.path,
        observe=extender.observe,
        failed_nodes_heeded=failed_nodes_heeded(extender),
        keep=extender.answer.most,
        refusals=refusals(extender),
        snapshot=snapshot,
        snapshot_file=config.cluster.snapshot if snapshot else "",
        connection=connection,
        nodes_only=config.cluster.nodes_only,
        max_age_seconds=config.cluster.max_age.seconds,
        qps=config.cluster.qps,
        burst=config.cluster.burst,
        page_listen=page_listen,
        page_token_file=base / config.page.token_file if config.page.token_file else None,
        journal_bytes=config.journal.max_bytes,
        journal_file=journal_file(config.journal.file, base),
        record=record_options(config.record, base),
        lease=_lease(extender, connection, policies),
        nudge=_nudge(config.cluster, connection),
        tracing=tracing_options(config.tracing),
        tls=_tls_files(extender.tls, base) if extender.tls else None,
        tls_reload_seconds=extender.tls.reload.seconds if extender.tls else 0.0,
        limits=_limits(extender.limits),
        version=version,
    )


def changed(options: Options, loaded: Loaded) -> Options:
    """The options, with those that a reload may change taken from ``loaded``."""
    extender = loaded.config.extender
    return replace(
        options,
        policies=loaded.policies,
        sources=loaded.sources,
        edition=loaded.edition,
        observe=extender.observe,
        failed_nodes_heeded=failed_nodes_heeded(extender),
        keep=extender.answer.most,
        refusals=refusals(extender),
    )


def _addresses(config: BayplanConfiguration) -> tuple[Address, Address, Address | None]:
    """Where to listen: for verbs, for health and metrics, and for the page."""
    listen = address(config.extender.listen, key="extender.listen")
    ops_listen = address(config.extender.ops_listen, key="extender.opsListen")
    page_listen = page_address(config.page)
    check_apart({"extender.listen": listen, "extender.opsListen": ops_listen, "page.listen": page_listen})
    return listen, ops_listen, page_listen


def _lease(
    extender: ExtenderSection, connection: Connection | None, policies: Sequence[Policy]
) -> LeaseOptions | None:
    """The Lease to hold, if there is a cluster and `_leased` says so."""
    section = extender.lease
    if section.use == "always" and connection is None:
        raise SettingError("extender.lease.use", " is always: a Lease needs --kubeconfig or --in-cluster")
    if connection is None or not _leased(extender, policies):
        return None
    return LeaseOptions(
        name=section.name,
        namespace=section.namespace or connection.namespace,
        identity=identity(address(extender.listen, key="extender.listen")),
        duration_seconds=int(section.duration.seconds),
        margin_seconds=_margin_seconds(extender),
    )


def _leased(extender: ExtenderSection, policies: Sequence[Policy]) -> bool:
    """Whether a server in a cluster holds a Lease while it binds."""
    use = extender.lease.use
    return use == "always" or (use == "auto" and commits(policies))


def _margin_seconds(extender: ExtenderSection) -> float:
    """How long before the end of the Lease no bind is begun any more."""
    duration, longest = extender.lease.duration, extender.limits.request_timeout
    margin_seconds = longest.seconds + _LEASE_SLACK_SECONDS
    if duration.seconds < 2 * margin_seconds:
        raise SettingError(
            "extender.lease.duration",
            f": {duration.text} is too short: a bind may take"
            f" {longest.text} (extender.limits.requestTimeout); want {2 * margin_seconds:.0f}s or more",
        )
    return margin_seconds


def _nudge(section: ClusterSection, connection: Connection | None) -> NudgeOptions | None:
    if not section.nudge.enabled:
        return None
    if connection is None:
        raise SettingError("cluster.nudge", " is enabled: touching pods needs --kubeconfig or --in-cluster")
    return NudgeOptions(section.nudge.qps, section.nudge.interval.seconds)


def _tls_files(section: TlsSection, base: Path) -> TlsFiles:
    return TlsFiles(
        cert_file=base / section.cert_file,
        key_file=base / section.key_file,
        client_ca_file=base / section.client_ca_file if section.client_ca_file else None,
        require_client_cert=section.require_client_cert,
        allowed_names=frozenset(section.allowed_names),
    )


def _limits(section: LimitsSection) -> Limits:
    return Limits(
        max_body_bytes=section.max_body_bytes,
        max_connections=section.max_connections,
        max_in_flight=section.max_in_flight,
        header_seconds=section.header_timeout.seconds,
        body_seconds=section.body_timeout.seconds,
        keep_alive_seconds=section.keep_alive.seconds,
        policy_seconds=section.policy_timeout.seconds,
        request_seconds=section.request_timeout.seconds,
        drain_seconds=section.drain_timeout.seconds,
        stuck_threads=section.stuck_threads,
        interpreter_seconds=section.interpreter_timeout.seconds,
    )


def failed_nodes_heeded(extender: ExtenderSection) -> bool:
    """Whether the calling kube-scheduler handles FailedNodes correctly."""
    return _caller_minor(extender) >= _FAILED_NODES_HEEDED_FROM


def refusals(extender: ExtenderSection) -> Refusals:
    """When refused nodes are listed. Older callers would try unlisted ones for eviction: ``always``."""
    wanted = extender.answer.refusals
    return "always" if wanted == "again" and _caller_minor(extender) < _LEFT_OUT_IS_REFUSED_FROM else wanted


def _caller_minor(extender: ExtenderSection) -> int:
    return int(extender.kube_scheduler_version.lstrip("v").split(".")[1])
