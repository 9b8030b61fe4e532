"""Our own configuration, as far as an extender entry has to fit it.

The addresses are read from the file as it stands, so that they can be compared even when something else in it
keeps Bayplan from starting.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bayplan.authoring.editions import anew
from bayplan.authoring.hooks import PolicyError
from bayplan.authoring.registry import Policy
from bayplan.config.assemble import assemble
from bayplan.config.load import ConfigError, convert
from bayplan.config.v1 import BayplanConfiguration, ExtenderSection, LimitsSection
from bayplan.doctor.finding import Finding, Page
from bayplan.doctor.scheduler_file import LOOPBACK, Entry
from bayplan.doctor.traps_of_policies import CONFIG_REFUSED
from bayplan.install.resources import counted
from bayplan.kube.duration import Duration

_EXTENDER = ExtenderSection()
DEADLINE_SECONDS = LimitsSection().request_timeout.seconds
"""How long a request may take where no configuration says otherwise."""


@dataclass(frozen=True)
class Ours:
    """What our configuration says, and the policies that it names."""

    page: Page
    policies: tuple[Policy, ...] = ()
    """Empty where they could not be loaded."""
    config: BayplanConfiguration | None = None
    """Everything that it says; ``None`` where that is not to be understood."""
    refused: tuple[Finding, ...] = field(default=())
    """Why Bayplan would not start."""

    @cached_property
    def listen(self) -> tuple[str, int]:
        """Host and port; ``::`` is every address, and 0 a port that cannot be told."""
        try:
            url = urlsplit(f"//{self._text('extender', 'listen') or _EXTENDER.listen}")
            return (url.hostname or "::", url.port or 0)
        except ValueError:
            return "", 0

    @property
    def listen_text(self) -> str:
        """The same, as people write it."""
        host, port = self.listen
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can call."""
        return self.listen[0] in LOOPBACK

    @property
    def path(self) -> str:
        """What the verbs are under, without slashes at its ends."""
        return (self._text("extender", "path") or _EXTENDER.path).strip("/")

    @property
    def tls(self) -> bool:
        """Whether HTTPS is spoken."""
        return isinstance(self._raw("extender", "tls"), dict)

    @property
    def wants_certificate(self) -> bool:
        """Whether callers must show a certificate."""
        required = self._raw("extender", "tls", "requireClientCert") is True
        return required or bool(self._raw("extender", "tls", "allowedNames"))

    @property
    def cluster_source(self) -> str:
        """Where nodes and pods come from."""
        return self._text("cluster", "source") or "request"

    @property
    def nodes_only(self) -> bool:
        """Whether pods are not followed."""
        return self._raw("cluster", "nodesOnly") is True

    @property
    def nudges(self) -> bool:
        """Whether waiting pods are touched."""
        return self._raw("cluster", "nudge", "enabled") is True

    @property
    def lease_name(self) -> str:
        """The Lease that one of several servers holds."""
        return self._text("extender", "lease", "name") or _EXTENDER.lease.name

    @property
    def lease_namespace(self) -> str:
        """Where that Lease is; empty for where Bayplan runs."""
        return self._text("extender", "lease", "namespace")

    @property
    def deadline_seconds(self) -> float:
        """How long one request may take."""
        try:
            return Duration(self._text("extender", "limits", "requestTimeout")).seconds
        except ValueError:
            return DEADLINE_SECONDS

    @property
    def keep(self) -> int | None:
        """To how many nodes an answer is cut down; ``None`` for all."""
        return self.config.extender.answer.most if self.config else None

    @property
    def leaves_reasons_out(self) -> bool:
        """Whether reasons shall be left out while a node passes; with ``keep`` they are anyway."""
        return self.config is not None and self.config.extender.answer.failed_nodes == "whenNonePass"

    @property
    def counted(self) -> tuple[str, ...]:
        """The resources that policies count by device, where everything could be loaded."""
        return counted(self.policies, self.config) if self.config else ()

    @property
    def caller_minor(self) -> int:
        """The minor version of the oldest kube-scheduler that calls, as the file says."""
        said = self._text("extender", "kubeSchedulerVersion") or _EXTENDER.kube_scheduler_version
        parts = said.lstrip("v").split(".")
        return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0

    def certificates(self) -> dict[tuple[str | int, ...], Path]:
        """The files with certificates that it names, by their place in it."""
        base = Path(self.page.document.source).parent
        named: dict[tuple[str | int, ...], Path] = {}
        for key in ("certFile", "clientCAFile"):
            if text := self._text("extender", "tls", key):
                named["extender", "tls", key] = base / text
        return named

    def is_me(self, entry: Entry, among: int) -> bool:
        """Whether that entry is about us: it is the only one, or it calls our port."""
        return among == 1 or entry.port == self.listen[1]

    def _raw(self, *path: str) -> Any:
        value = self.page.data
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def _text(self, *path: str) -> str:
        value = self._raw(*path)
        return value if isinstance(value, str) else ""


def read_ours(page: Page) -> Ours:
    """The configuration with its policies; what keeps it from starting is a finding."""
    config = None
    try:
        config = convert(page.document, BayplanConfiguration)
        with anew():
            policies = tuple(assemble(config, page.document))
    except (ConfigError, PolicyError) as error:
        where = f"{page.document.source}:"
        what = str(error).removeprefix(where).lstrip("0123456789: ")
        line = str(error).removeprefix(where).partition(":")[0]
        found = page.found(CONFIG_REFUSED, (), what)
        if line.isdecimal():
            place = type(found.where)(found.where.source, int(line), "", page.number)
            found = Finding(found.trap, place, what, found.severity)
        return Ours(page, config=config, refused=(found,))
    return Ours(page, policies, config)
