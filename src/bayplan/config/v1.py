"""``bayplan.dev/v1 BayplanConfiguration``: every key that the file may have, with its default."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from bayplan.authoring.scope import EVERY_POD, Scope
from bayplan.config.duration import Duration

Weight = Annotated[float, Meta(gt=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1)]


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the configuration: strict, so that a typo is never silently ignored."""


class PolicyEntry(Section, frozen=True, kw_only=True):
    """One policy: what to use, for which pods, how much it weighs."""

    use: Annotated[str, Meta(min_length=1)]
    """``file.py``, ``file.py:name``, ``module`` or ``module:Class``; files are beside the configuration."""
    name: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """How metrics and messages call it; the file's or the class's name where it is left out."""
    weight: Weight = 1.0
    """How much its scores count beside those of other policies."""
    for_: Scope = field(name="for", default=EVERY_POD)
    """Which pods it is for; all where it is left out."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """When it raises, overruns or answers nonsense: fail the pod's attempt, or abstain."""
    args: dict[str, Any] = {}
    """Settings of the policy."""


class NudgeSection(Section, frozen=True, kw_only=True):
    """Touching pods that wait for something which kube-scheduler does not see; needs to patch pods."""

    enabled: bool = False
    qps: Annotated[float, Meta(gt=0)] = 5.0
    """How many pods are touched a second; each costs kube-scheduler an attempt."""
    interval: Duration = Duration("10s")
    """How long one pod is left alone after that."""


class ClusterSection(Section, frozen=True, kw_only=True):
    """Where the nodes and pods come from."""

    source: Literal["request", "kubeconfig", "in-cluster", "snapshot"] = "request"
    """``request`` knows only what kube-scheduler sends (``nodeCacheCapable: false``)."""
    kubeconfig: str = ""
    """The file; ``$KUBECONFIG`` or ``~/.kube/config`` where it is left out."""
    context: str = ""
    """The context in the kubeconfig; its current one where it is left out."""
    snapshot: str = ""
    """A file with the output of ``kubectl get nodes,pods -A -o json``."""
    qps: Annotated[float, Meta(gt=0)] = 50.0
    """Requests a second to the API server; binds come at kube-scheduler's own pace and do not count."""
    burst: Count = 100
    """How many may go out at once before ``qps`` counts."""
    max_age: Duration = Duration("60s")
    """Not ready when cut off from the API server for longer than this."""
    nudge: NudgeSection = NudgeSection()


class TlsSection(Section, frozen=True, kw_only=True):
    """HTTPS, and who may call."""

    cert_file: str
    """The server's certificate chain, PEM."""
    key_file: str
    """Its private key, PEM."""
    client_ca_file: str = field(name="clientCAFile", default="")
    """The CA which signed the callers' certificates."""
    require_client_cert: bool = False
    """Refuse callers without a certificate of that CA."""
    allowed_names: tuple[str, ...] = ()
    """Common or DNS names of the callers that are let in; all of the CA's where it is left out."""
    reload: Duration = Duration("5s")
    """How often the files are looked at for changes."""


class LimitsSection(Section, frozen=True, kw_only=True):
    """Bounds that keep the server answering, whatever it is sent."""

    max_body_bytes: Count = 256 * 1024 * 1024
    """The largest request; 5,000 full nodes are about 64 MB."""
    max_connections: Count = 512
    max_in_flight: Count = 64
    header_timeout: Duration = Duration("10s")
    """From the first byte of a request to the end of its headers."""
    body_timeout: Duration = Duration("30s")
    """From there to the end of its body; a caller may take as long to read the answer."""
    keep_alive: Duration = Duration("300s")
    """How long an idle connection stays open; kube-scheduler keeps its own for 90 s."""
    policy_timeout: Duration = Duration("1s")
    """How long one hook may run before its ``failurePolicy`` answers for it."""
    request_timeout: Duration = Duration("4500ms")
    """How long one request may take; kube-scheduler's ``httpTimeout`` is 5 s by default."""
    drain_timeout: Duration = Duration("20s")
    """How long requests may go on after SIGTERM."""
    stuck_threads: Count = 4
    """Liveness fails when so many policy threads overran and did not come back."""
    interpreter_timeout: Duration = Duration("30s")
    """The process ends itself, to be restarted, when something holds the interpreter for so long."""


class LeaseSection(Section, frozen=True, kw_only=True):
    """One writer: of several servers, the holder of a Lease binds and is ready; the others wait."""

    use: Literal["auto", "always", "never"] = "auto"
    """``auto``: when a policy checks or hands out at bind. ``never``: for a sidecar, which is alone."""
    name: Annotated[str, Meta(min_length=1, max_length=253)] = "bayplan"
    """The Lease; servers with other policies need another one."""
    namespace: str = ""
    """Its namespace; our own in a cluster, that of the kubeconfig's context elsewhere."""
    duration: Duration = Duration("15s")
    """How long a holder that vanished is waited for."""


class ExtenderSection(Section, frozen=True, kw_only=True):
    """The HTTP service that kube-scheduler calls."""

    listen: str = "127.0.0.1:8888"
    ops_listen: str = "127.0.0.1:8889"
    """Health and metrics."""
    path: str = "/"
    """What the verbs are under: the path of ``urlPrefix``."""
    observe: bool = False
    """Change nothing: all nodes pass, all scores are 0, and what would have been said is recorded."""
    kube_scheduler_version: Annotated[str, Meta(pattern=r"^v?1\.[0-9]+(\..*)?$")] = "1.36"
    """Oldest kube-scheduler that calls; from 1.38 on FailedNodes means what it says."""
    tls: TlsSection | None = None
    lease: LeaseSection = LeaseSection()
    limits: LimitsSection = LimitsSection()


class BayplanConfiguration(Section, frozen=True, kw_only=True):
    """The whole file."""

    api_version: Literal["bayplan.dev/v1"] = field(name="apiVersion")
    kind: Literal["BayplanConfiguration"]
    policies: tuple[PolicyEntry, ...] = ()
    cluster: ClusterSection = ClusterSection()
    extender: ExtenderSection = ExtenderSection()
