"""The options of a scheduler, and how they follow from the configuration."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bayplan.authoring.editions import Edition, current_edition
from bayplan.client.connect import Connection
from bayplan.config.cluster import open_cluster
from bayplan.config.flags import Loaded
from bayplan.config.load import ConfigError, SettingError
from bayplan.config.profile import DEFAULT_SCHEDULER, Profile
from bayplan.config.v1 import LIVE, SchedulerSection
from bayplan.config.where import naming_the_line
from bayplan.engine.journal import MAX_BYTES
from bayplan.engine.make_room import DefaultPreemptionArgs
from bayplan.ops.tracing import TracingOptions
from bayplan.recording.journal_file import JournalFileOptions
from bayplan.recording.lines import Configuration
from bayplan.recording.recorder import RecordOptions
from bayplan.runtimes.listener import Address
from bayplan.runtimes.scheduler.profiles import (
    Profiles,
    counted_twice,
    not_asked,
    policies_of,
    whole_profiles,
)
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
from bayplan.state.sources.book import Declared
from bayplan.state.writer import LeaseOptions

_OBJECT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LEASE_SLACK_SECONDS = 0.5


@dataclass(frozen=True)
class Options:
    """Everything that a scheduler is started with."""

    profiles: Profiles
    connection: Connection
    preemption: Mapping[str, DefaultPreemptionArgs | None] = field(default_factory=dict)
    """Settings of preemption by scheduler name; ``None`` turns it off, a missing name has the defaults."""
    sources: Sequence[Declared] = ()
    edition: Edition = field(default_factory=current_edition)
    """The modules that were imported for the policies."""
    ops_listen: Address = ("127.0.0.1", 8891)
    page_listen: Address | None = None
    """The address of the page; ``None`` for no page."""
    page_token_file: Path | None = None
    journal_bytes: int = MAX_BYTES
    journal_file: JournalFileOptions | None = None
    """The journal's file; ``None`` to keep decisions in memory only."""
    record: RecordOptions | None = None
    """Where to record judgements; ``None`` for no recording."""
    told: Configuration = field(default_factory=Configuration)
    """The configuration as a recording describes it."""
    shadow: ShadowOptions | None = None
    """The candidate configuration; ``None`` for none."""
    tracing: TracingOptions | None = None
    """Where to send spans; ``None`` for nowhere."""
    lease: LeaseOptions | None = None
    """The Lease to hold; ``None`` without leader election."""
    instance: str = ""
    """Our identity in the Lease and in Events."""
    qps: float = 50.0
    burst: int = 100
    max_age_seconds: float = 60.0
    parallel_binds: int = 100
    bind_seconds: float = 5.0
    volume_bind_seconds: float | None = None
    """How long to wait for volumes; ``None`` for the profile's setting."""
    policy_seconds: float = 1.0
    attempt_seconds: float = 30.0
    first_backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 10.0
    version: str = ""
    watch_interpreter: bool = True


def check_section(loaded: Loaded) -> dict[str, Profile]:
    """The profiles; `ConfigError` for mistakes that can be found without a cluster."""
    with naming_the_line(loaded):
        return _checked(loaded)


def _checked(loaded: Loaded) -> dict[str, Profile]:
    config, scheduler = loaded.config, loaded.config.scheduler
    if config.cluster.nodes_only:
        raise SettingError(
            "cluster.nodesOnly", ": a scheduler places pods, and has to follow them: take it away"
        )
    profiles = whole_profiles(loaded)
    if "" in profiles:
        raise SettingError(
            "scheduler.profiles",
            ": a schedulerName is empty: pods without one are kube-scheduler's",
        )
    ops_listen = address(scheduler.ops_listen, key="scheduler.opsListen")
    check_apart({"scheduler.opsListen": ops_listen, "page.listen": page_address(config.page)})
    tracing_options(config.tracing)
    if scheduler.pod_max_backoff.seconds < scheduler.pod_initial_backoff.seconds:
        raise SettingError(
            "scheduler.podMaxBackoff",
            f": {scheduler.pod_max_backoff.text} is less than podInitialBackoff",
        )
    if scheduler.leader_election.leader_elect:
        _check_lease(scheduler, first=next(iter(profiles)))
    return profiles


def options_from(loaded: Loaded, *, version: str) -> Options:
    """The options that the configuration asks for; reads the kubeconfig."""
    config, base = loaded.config, loaded.base
    scheduler = config.scheduler
    if config.cluster.source not in LIVE:
        raise ConfigError("a scheduler needs a cluster to bind pods in: give --kubeconfig or --in-cluster")
    profiles = check_section(loaded)
    with naming_the_line(loaded):
        _, connection = open_cluster(config.cluster, base)
    assert connection is not None, "both sources are ways to an API server"
    listen = address(scheduler.ops_listen, key="scheduler.opsListen")
    instance = identity(listen)
    return Options(
        profiles=policies_of(profiles),
        preemption=_preemption(profiles),
        connection=connection,
        sources=loaded.sources,
        edition=loaded.edition,
        ops_listen=listen,
        page_listen=page_address(config.page),
        page_token_file=base / config.page.token_file if config.page.token_file else None,
        journal_bytes=config.journal.max_bytes,
        journal_file=journal_file(config.journal.file, base),
        record=record_options(config.record, base),
        tracing=tracing_options(config.tracing),
        lease=_lease(scheduler, connection, first=next(iter(profiles)), instance=instance),
        instance=instance,
        qps=config.cluster.qps,
        burst=config.cluster.burst,
        max_age_seconds=config.cluster.max_age.seconds,
        parallel_binds=scheduler.parallel_binds,
        bind_seconds=scheduler.bind_timeout.seconds,
        volume_bind_seconds=scheduler.volume_bind_seconds,
        policy_seconds=scheduler.policy_timeout.seconds,
        attempt_seconds=scheduler.attempt_timeout.seconds,
        first_backoff_seconds=scheduler.pod_initial_backoff.seconds,
        longest_backoff_seconds=scheduler.pod_max_backoff.seconds,
        version=version,
    )


def changed(options: Options, loaded: Loaded) -> Options:
    """The options, with those that a reload may change taken from ``loaded``."""
    profiles = whole_profiles(loaded)
    return replace(
        options,
        profiles=policies_of(profiles),
        preemption=_preemption(profiles),
        sources=loaded.sources,
        edition=loaded.edition,
    )


def _preemption(profiles: Mapping[str, Profile]) -> dict[str, DefaultPreemptionArgs | None]:
    return {name: profile.preemption for name, profile in profiles.items()}


def cautions(loaded: Loaded) -> list[str]:
    """Warnings about settings that are valid but have no effect here or are rarely intended."""
    found = []
    if loaded.config.cluster.nudge.enabled:
        found.append(
            "cluster.nudge is enabled and does nothing here: it has kube-scheduler try waiting pods again,"
            " and `bayplan schedule` tries its own when there is news for them; take it out, or keep it for"
            " `bayplan serve`"
        )
    if any(entry.scheduler_name == DEFAULT_SCHEDULER for entry in loaded.config.scheduler.profiles):
        found.append(
            f"{DEFAULT_SCHEDULER} is the name of the cluster's own scheduler: where that runs too,"
            " both place the same pods, and whoever is later is refused"
        )
    return found + not_asked(loaded) + counted_twice(loaded)


def _lease(
    scheduler: SchedulerSection, connection: Connection, *, first: str, instance: str
) -> LeaseOptions | None:
    section = scheduler.leader_election
    if not section.leader_elect:
        return None
    return LeaseOptions(
        name=section.resource_name or first,
        namespace=section.resource_namespace or connection.namespace,
        identity=instance,
        duration_seconds=int(section.lease_duration.seconds),
        margin_seconds=_margin_seconds(scheduler),
    )


def _margin_seconds(scheduler: SchedulerSection) -> float:
    return scheduler.bind_timeout.seconds + _LEASE_SLACK_SECONDS


def _check_lease(scheduler: SchedulerSection, *, first: str) -> None:
    section, margin_seconds = scheduler.leader_election, _margin_seconds(scheduler)
    if section.lease_duration.seconds < 2 * margin_seconds:
        raise SettingError(
            "scheduler.leaderElection.leaseDuration",
            f": {section.lease_duration.text} is too short: a bind may"
            f" take {scheduler.bind_timeout.text} (bindTimeout); want {2 * margin_seconds:.0f}s or more",
        )
    name = section.resource_name or first
    if not _OBJECT_NAME.fullmatch(name):
        raise ConfigError(
            f"scheduler name {first!r}: the Lease is called {name!r}, which the API server refuses: small"
            " letters, digits, dots and dashes; give leaderElection.resourceName, or another schedulerName"
        )
