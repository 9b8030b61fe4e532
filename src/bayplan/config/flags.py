"""Flags of the command line, which take precedence over the configuration file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bayplan.authoring.editions import Edition, current_edition, one_edition
from bayplan.authoring.registry import Policy
from bayplan.config.assemble import assemble, from_files
from bayplan.config.load import ConfigError, load_config
from bayplan.config.sources import declare
from bayplan.config.v1 import (
    BayplanConfiguration,
    ClusterSection,
    ExtenderSection,
    JournalFileSection,
    SchedulerProfileEntry,
    SchedulerSection,
    TlsSection,
)
from bayplan.kube.yaml import Document
from bayplan.state.sources.book import Declared

DEFAULT_SCHEDULER_NAME = "bayplan-scheduler"
"""The default ``schedulerName`` of ``bayplan schedule``."""


@dataclass(frozen=True)
class Flags:
    """Options of a command; ``None`` if not given."""

    config: Path | None = None
    listen: str | None = None
    ops_listen: str | None = None
    path: str | None = None
    page_listen: str | None = None
    record: Path | None = None
    journal_file: Path | None = None
    shadow: Path | None = None
    observe: bool | None = None
    lease: bool | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool | None = None
    snapshot: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    qps: float | None = None
    burst: int | None = None
    scheduler_name: tuple[str, ...] = ()
    profile: Path | None = None
    leader_elect: bool | None = None


@dataclass(frozen=True)
class Loaded:
    """A complete configuration, its policies and sources, and the folder of its relative paths."""

    config: BayplanConfiguration
    policies: list[Policy]
    base: Path
    sources: list[Declared]
    edition: Edition = field(default_factory=current_edition)
    """The modules that were imported for it."""
    flags: Flags = field(default_factory=Flags)
    document: Document | None = None
    """The configuration's file, which knows its lines; ``None`` for policy files alone."""


@one_edition()
def load_all(files: Sequence[str], flags: Flags) -> Loaded:
    """Load policy files or a configuration, and apply the flags."""
    if files and flags.config:
        raise ConfigError("give policy files or --config, not both: the configuration names its policies")
    if flags.config is None:
        config = BayplanConfiguration(api_version="bayplan.dev/v1", kind="BayplanConfiguration")
        policies, base, document = from_files(files), Path(), None
    else:
        config, document = load_config(flags.config)
        policies, base = assemble(config, document), flags.config.parent
    return Loaded(
        _over(config, flags),
        policies,
        base,
        declare(config, policies, base, document=document),
        flags=flags,
        document=document,
    )


def _over(config: BayplanConfiguration, flags: Flags) -> BayplanConfiguration:
    page = config.page
    if flags.page_listen is not None:
        page = msgspec.structs.replace(page, listen=flags.page_listen)
    record = config.record
    if flags.record is not None:
        record = msgspec.structs.replace(record, file=str(flags.record.absolute()))
    shadow = config.shadow
    if flags.shadow is not None:
        shadow = msgspec.structs.replace(shadow, config=str(flags.shadow.absolute()))
    journal = config.journal
    if flags.journal_file is not None:
        journal = msgspec.structs.replace(journal, file=_journal_file(journal.file, flags.journal_file))
    return msgspec.structs.replace(
        config,
        journal=journal,
        cluster=_cluster(config.cluster, flags),
        extender=_extender(config.extender, flags),
        scheduler=_scheduler(config.scheduler, flags),
        page=page,
        record=record,
        shadow=shadow,
    )


def _journal_file(section: JournalFileSection | None, path: Path) -> JournalFileSection:
    absolute = str(path.absolute())
    return msgspec.structs.replace(section or JournalFileSection(path=absolute), path=absolute)


def _cluster(section: ClusterSection, flags: Flags) -> ClusterSection:
    given = [name for name in ("kubeconfig", "in_cluster", "snapshot") if getattr(flags, name)]
    if len(given) > 1:
        names = " and ".join("--" + name.replace("_", "-") for name in given)
        raise ConfigError(f"{names} each say where the cluster is: give one of them")
    if flags.context and not flags.kubeconfig and section.source != "kubeconfig":
        raise ConfigError("--context names a context of a kubeconfig: give --kubeconfig too")
    if given:
        # The file's settings of another cluster source do not apply.
        section = ClusterSection(
            max_age=section.max_age,
            qps=section.qps,
            burst=section.burst,
            nodes_only=section.nodes_only,
            nudge=section.nudge,
        )
    if flags.kubeconfig:
        section = msgspec.structs.replace(
            section, source="kubeconfig", kubeconfig=str(flags.kubeconfig.absolute())
        )
    if flags.in_cluster:
        section = msgspec.structs.replace(section, source="in-cluster")
    if flags.snapshot:
        section = msgspec.structs.replace(section, source="snapshot", snapshot=str(flags.snapshot.absolute()))
    if flags.context:
        section = msgspec.structs.replace(section, context=flags.context)
    pace = {key: value for key in ("qps", "burst") if (value := getattr(flags, key)) is not None}
    return msgspec.structs.replace(section, **pace)


def _extender(section: ExtenderSection, flags: Flags) -> ExtenderSection:
    changes: dict[str, object] = {
        name: value
        for name in ("listen", "ops_listen", "path", "observe")
        if (value := getattr(flags, name)) is not None
    }
    if flags.lease is not None:
        changes["lease"] = msgspec.structs.replace(section.lease, use="always" if flags.lease else "never")
    if flags.tls_cert or flags.tls_key or flags.tls_client_ca:
        changes["tls"] = _tls(section.tls, flags)
    return msgspec.structs.replace(section, **changes)


def _scheduler(section: SchedulerSection, flags: Flags) -> SchedulerSection:
    changes: dict[str, object] = {}
    if flags.ops_listen is not None:
        changes["ops_listen"] = flags.ops_listen
    if flags.leader_elect is not None:
        changes["leader_election"] = msgspec.structs.replace(
            section.leader_election, leader_elect=flags.leader_elect
        )
    if flags.scheduler_name or flags.profile:
        names = flags.scheduler_name or [entry.scheduler_name for entry in section.profiles]
        known = {entry.scheduler_name: entry.kube_scheduler_config for entry in section.profiles}
        file = str(flags.profile.absolute()) if flags.profile else ""
        changes["profiles"] = tuple(
            SchedulerProfileEntry(scheduler_name=name, kube_scheduler_config=file or known.get(name, ""))
            for name in dict.fromkeys(names or [DEFAULT_SCHEDULER_NAME])
        )
    return msgspec.structs.replace(section, **changes)


def _tls(section: TlsSection | None, flags: Flags) -> TlsSection:
    cert = str(flags.tls_cert.absolute()) if flags.tls_cert else section.cert_file if section else ""
    key = str(flags.tls_key.absolute()) if flags.tls_key else section.key_file if section else ""
    if not cert or not key:
        raise ConfigError("TLS needs both --tls-cert and --tls-key")
    tls = msgspec.structs.replace(
        section or TlsSection(cert_file=cert, key_file=key), cert_file=cert, key_file=key
    )
    if flags.tls_client_ca:
        # A CA on the command line means that callers without its certificate are refused.
        ca = str(flags.tls_client_ca.absolute())
        tls = msgspec.structs.replace(tls, client_ca_file=ca, require_client_cert=True)
    return tls
