"""``bayplan.dev/v1 BayplanConfiguration``: every key that the file may have, with its default."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from bayplan.authoring.expression import KINDS
from bayplan.authoring.scope import EVERY_POD, PolicyScope
from bayplan.engine.keep import Refusals
from bayplan.kube.duration import Duration

Weight = Annotated[float, Meta(gt=0, le=1_000_000)]
Count = Annotated[int, Meta(ge=1)]


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the configuration: strict, so that a typo is never silently ignored."""


class PolicyEntry(Section, frozen=True, kw_only=True):
    """One policy: what to use, or expressions; for which pods, how much it weighs."""

    use: Annotated[str, Meta(min_length=1)] | None = None
    """``file.py``, ``file.py:name``, ``module`` or ``module:Class``; files are beside the configuration."""
    filter: str | None = None
    """An expression in CEL over ``pod``, ``node`` and ``column``: true where the node passes."""
    prefer: str | None = None
    """As ``filter``, over the nodes that are left; void when none would remain."""
    score: str | None = None
    """An expression that is a number: the more, the better the node."""
    protect: str | None = None
    """An expression over ``pod`` and ``victim``: true where the victim must not be evicted."""
    reason: Annotated[str, Meta(min_length=1)] | None = None
    """What ``filter`` and ``prefer`` say of the nodes they refuse; the ``name`` where it is left out."""
    name: Annotated[str, Meta(min_length=1, max_length=63)] | None = None
    """How metrics and messages call it; the file's or the class's name where it is left out."""
    weight: Weight = 1.0
    """How much its scores count beside those of other policies."""
    for_: PolicyScope = field(name="for", default=EVERY_POD)
    """Which pods it is for; all where it is left out."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """When it raises, overruns or answers nonsense: fail the pod's attempt, or abstain."""
    shadow: bool = False
    """Ask it and record what it says, and heed nothing of it: to try a policy beside the others."""
    args: dict[str, Any] = {}
    """Settings of the policy."""

    def __post_init__(self) -> None:
        written = [kind for kind in KINDS if getattr(self, kind) is not None]
        if self.use is not None:
            if written or self.reason is not None:
                raise ValueError(
                    f"an entry has either `use` or `{[*written, 'reason'][0]}`; make two of them"
                )
            return
        if not written:
            raise ValueError(f"`use` is missing; or write an expression: {', '.join(KINDS)}")
        if self.name is None:
            raise ValueError("`name` is missing; a policy of expressions has no other name")
        if self.args:
            raise ValueError("expressions take no `args`; write the values into them")
        if self.reason is not None and not {"filter", "prefer"} & set(written):
            raise ValueError("only `filter` and `prefer` give a `reason`")


class NudgeSection(Section, frozen=True, kw_only=True):
    """Touching pods that wait for something which kube-scheduler does not see; needs to patch pods."""

    enabled: bool = False
    qps: Annotated[float, Meta(gt=0)] = 5.0
    """How many pods are touched a second; each costs kube-scheduler an attempt."""
    interval: Duration = Duration("10s")
    """How long one pod is left alone after that."""


LIVE = ("kubeconfig", "in-cluster")
"""The sources of a cluster that are followed."""


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
    nodes_only: bool = False
    """Follow nodes and no pods, for policies that look at nodes alone."""
    nudge: NudgeSection = NudgeSection()

    @property
    def knows_pods(self) -> bool:
        """Whether there will be pods in view."""
        return self.source != "request" and not self.nodes_only


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


class AnswerSection(Section, frozen=True, kw_only=True):
    """How much of what was decided kube-scheduler is told."""

    keep: Literal["all"] | Count = "all"
    """Filter answers with so many of the nodes that passed, the best by our scores; or with ``all``."""
    failed_nodes: Literal["auto", "always", "whenNonePass"] = "auto"
    """When the nodes that were refused are in the answer, each with its reason; ``auto``: where no node
    passed and, without ``keep``, also to a pod that comes again."""

    @property
    def most(self) -> int | None:
        """How many nodes a filter answers with at most; ``None`` for all."""
        return None if self.keep == "all" else self.keep

    @property
    def refusals(self) -> Refusals:
        """When refused nodes are told.

        An answer that is cut down lacks nodes anyway, and must be the last one: nobody would read reasons.
        """
        if self.failed_nodes == "auto":
            return "again" if self.most is None else "whenNonePass"
        return self.failed_nodes


class ExtenderSection(Section, frozen=True, kw_only=True):
    """The HTTP service that kube-scheduler calls."""

    listen: str = "127.0.0.1:8888"
    ops_listen: str = "127.0.0.1:8889"
    """Health and metrics."""
    path: str = "/"
    """What the verbs are under: the path of ``urlPrefix``."""
    observe: bool = False
    """Change nothing: all nodes pass, all scores are 0, and what would have been said is recorded."""
    kube_scheduler_version: Annotated[
        str, Meta(pattern=r"^v?1\.[0-9]+(\..*)?$", extra={"want": "a version, such as 1.36"})
    ] = "1.36"
    """Oldest kube-scheduler that calls; from 1.38 on FailedNodes means what it says."""
    answer: AnswerSection = AnswerSection()
    tls: TlsSection | None = None
    lease: LeaseSection = LeaseSection()
    limits: LimitsSection = LimitsSection()


class SchedulerProfileEntry(Section, frozen=True, kw_only=True):
    """Pods of one ``schedulerName``, and what they are judged by beside ``policies``."""

    scheduler_name: Annotated[str, Meta(min_length=1, max_length=253)]
    """The ``spec.schedulerName`` of the pods that are ours."""
    kube_scheduler_config: str = ""
    """A KubeSchedulerConfiguration with the profile to follow; the default one where it is left out."""


class LeaderElectionSection(Section, frozen=True, kw_only=True):
    """Of several schedulers the holder of a Lease schedules; the others follow the cluster and wait."""

    leader_elect: bool = True
    resource_name: str = ""
    """The Lease; the first ``schedulerName`` where it is left out."""
    resource_namespace: str = ""
    """Its namespace; our own in a cluster, that of the kubeconfig's context elsewhere."""
    lease_duration: Duration = Duration("15s")
    """How long a holder that vanished is waited for."""


class SchedulerSection(Section, frozen=True, kw_only=True):
    """The second scheduler, ``bayplan schedule``."""

    profiles: tuple[SchedulerProfileEntry, ...] = ()
    """Whose pods are ours; those of ``bayplan-scheduler`` where it is left out."""
    ops_listen: str = "127.0.0.1:8891"
    """Health and metrics."""
    leader_election: LeaderElectionSection = LeaderElectionSection()
    parallel_binds: Count = 100
    """How many binds are under way at once."""
    bind_timeout: Duration = Duration("5s")
    """How long one bind may take before its outcome counts as unknown."""
    volume_bind_seconds: Count | None = None
    """How long the volumes of a pod may take to be bound; what the profile says where it is left out: 600."""
    policy_timeout: Duration = Duration("1s")
    """How long one hook may run before its ``failurePolicy`` answers for it."""
    attempt_timeout: Duration = Duration("30s")
    """How long the judgement of one pod may take, the search for victims included."""
    pod_initial_backoff: Duration = Duration("1s")
    """The pause of a pod after its first attempt; it doubles with each."""
    pod_max_backoff: Duration = Duration("10s")
    """The longest pause."""


class AccessSection(Section, frozen=True, kw_only=True):
    """How an address is asked. Redirects are not followed."""

    url: str
    """Where it is: ``http://`` or ``https://``."""
    headers: dict[str, str] = {}
    """Sent along, such as a tenant."""
    bearer_token_file: str = ""
    """A file with a token, read again for each request."""
    ca_file: str = field(name="caFile", default="")
    """The CA of the server's certificate; those of the system where it is left out."""
    insecure_skip_verify: bool = False
    timeout: Duration | None = None
    """How long an answer may take; 5s, or 500ms where kube-scheduler waits for it."""
    max_bytes: Count = 8 * 1024 * 1024
    """The largest answer."""
    allow_link_local: bool = False
    """Also addresses such as 169.254.169.254, where clouds keep credentials."""


class PrometheusSection(AccessSection, frozen=True, kw_only=True):
    """Values from Prometheus."""

    query: str = ""
    """A query with one series a node."""
    queries: dict[str, str] = {}
    """Several, each a column of its own: ``NAME.cpu``, ``NAME.memory``."""
    node_label: str = "instance"
    """The label of a series that says which node it is about."""
    match: Literal["name", "internalIP", "hostname"] = "internalIP"
    """What of the node stands in that label; a port behind an address does not matter."""


class HttpSection(AccessSection, frozen=True, kw_only=True):
    """Values from a web service, as JSON."""

    items: str = ""
    """Dotted path to the object or list; the whole document where it is left out."""
    key: str = "name"
    """The field of a list's objects that names the node."""
    match: Literal["name", "internalIP", "hostname"] = "name"
    """What of the node that name is."""


class FileSection(Section, frozen=True, kw_only=True):
    """Values from a JSON or YAML file; ``items``, ``key`` and ``match`` as for ``http``."""

    path: Annotated[str, Meta(min_length=1)]
    items: str = ""
    key: str = "name"
    match: Literal["name", "internalIP", "hostname"] = "name"


class SourceEntry(Section, frozen=True, kw_only=True):
    """Numbers from outside, read by policies as ``nodes[Source("NAME")]``."""

    name: Annotated[
        str, Meta(pattern="^[A-Za-z0-9_-]+$", max_length=63, extra={"want": "letters, digits, - and _"})
    ]
    """What columns begin with."""
    prometheus: PrometheusSection | None = None
    http: HttpSection | None = None
    file: FileSection | None = None
    interval: Duration = Duration("30s")
    """How often it is asked."""
    max_age: Duration = Duration("5m")
    """Older values are missing values."""
    settle: Duration | None = None
    """How long a new pod takes to be seen in the values; until then its requests are added."""
    per: Literal["cluster", "pod"] = "cluster"
    """``pod``: ask about each pod while kube-scheduler waits (``http`` only)."""
    keep: Duration = Duration("10s")
    """How long an answer about a pod is kept."""
    fallback: dict[str, float | str] = {}
    """Each column's value for every node, where there is no answer about a pod."""
    annotations: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Which annotations of a pod the service is told, ``*`` and ``?`` in them; none where it is left out."""


class PageSection(Section, frozen=True, kw_only=True):
    """The page that shows decisions, and where ``bayplan why`` asks."""

    listen: str = "127.0.0.1:8890"
    """``off`` for no page. Other machines reach it only with a token."""
    token_file: str = ""
    """A file with the token that callers must send; needed where it listens beyond this machine."""


class JournalFileSection(Section, frozen=True, kw_only=True):
    """The same decisions on disk, for ``bayplan why --journal FILE``: JSON, a line each."""

    path: Annotated[str, Meta(min_length=1)]
    """Where; a file that is there already goes on."""
    max_bytes: Count = 100 * 1024 * 1024
    """A file of that size is kept as ``PATH.1``, the one before it as ``PATH.2``, and a new one begun."""
    keep: Annotated[int, Meta(ge=0, le=1000)] = 5
    """How many full files are kept."""


class JournalSection(Section, frozen=True, kw_only=True):
    """The last decisions, kept in memory."""

    max_bytes: Count = 64 * 1024 * 1024
    """How much they may take; a decision over 5,000 nodes takes 50 to 200 kB."""
    file: JournalFileSection | None = None
    """Where they are written down too; nowhere where it is left out."""


class RecordSection(Section, frozen=True, kw_only=True):
    """A file of everything that was asked, seen and said, to be asked again by ``bayplan replay``."""

    file: str = ""
    """Where; nothing is recorded where it is left out. Compressed where it ends in ``.gz``."""
    max_bytes: Count = 256 * 1024 * 1024
    """A file of that size is kept as ``FILE.1``, in place of the one before it, and a new one begun."""
    snapshot_every: Duration = Duration("10m")
    """How often the whole cluster is written again, and not only what changed."""


class ShadowSection(Section, frozen=True, kw_only=True):
    """A candidate beside this configuration: it judges what was judged, and decides nothing."""

    config: str = ""
    """The candidate: a configuration, or a file with policies; none where it is left out."""
    sample_ratio: Annotated[float, Meta(gt=0, le=1)] = 1.0
    """Of how many calls; each costs the candidate's time once more, after the answer."""
    max_waiting: Count = 32
    """How many calls may wait for it; beyond that they are skipped and counted."""
    examples: Count = 50
    """How many of the last disagreements are kept to look at."""


class TracingSection(Section, frozen=True, kw_only=True):
    """OpenTelemetry spans of requests; needs ``bayplan[otel]``."""

    otlp_endpoint: str = ""
    """A collector that speaks OTLP over HTTP; no spans where it is left out."""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.1
    """Of how many requests; those whose caller traces them are up to the caller."""


class BayplanConfiguration(Section, frozen=True, kw_only=True):
    """The whole file."""

    api_version: Literal["bayplan.dev/v1"] = field(name="apiVersion")
    kind: Literal["BayplanConfiguration"]
    sources: tuple[SourceEntry, ...] = ()
    policies: tuple[PolicyEntry, ...] = ()
    cluster: ClusterSection = ClusterSection()
    extender: ExtenderSection = ExtenderSection()
    scheduler: SchedulerSection = SchedulerSection()
    page: PageSection = PageSection()
    journal: JournalSection = JournalSection()
    record: RecordSection = RecordSection()
    shadow: ShadowSection = ShadowSection()
    tracing: TracingSection = TracingSection()
