"""The lines of a recording, each a JSON object with its type.

What a decision needs comes before it: the configuration, the cluster in view, the readings of sources. Only
what changed since the decision before is written.
"""

import re
from datetime import UTC, datetime

from msgspec import Raw, Struct

from bayplan.engine.keep import Refusals
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.sources import Match

FORMAT = 1
"""The version of the format; grows when older programs cannot read it."""


class RecordingError(ValueError):
    """The file is no usable recording; the text says what to do."""


class Line(Struct, frozen=True, kw_only=True, rename="camel", tag_field="line", omit_defaults=True):
    """One line."""


class Header(Line, frozen=True, kw_only=True, tag="header"):
    """The first line of every file."""

    format: int
    bayplan: str
    """Version of Bayplan."""
    started: str


class FileText(Struct, frozen=True):
    """A file of the configuration. It is for people to read, and never run."""

    path: str
    sha256: str
    text: str = ""


class ProfileTold(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A scheduler name whose pods were placed, and the profile of kube-scheduler for them."""

    scheduler_name: str
    kube_scheduler_config: str = ""
    """The path of the file with the profile; ``""`` for the default profile."""


class Configuration(Line, frozen=True, kw_only=True, tag="configuration"):
    """The configuration of the decisions that follow; lines before it are no longer needed."""

    generation: int = 1
    config: str = ""
    """The path of the configuration file; ``""`` if there was none."""
    uses: tuple[str, ...] = ()
    """Policy files of the command line."""
    observe: bool = False
    failed_nodes_heeded: bool = False
    keep: int | None = None
    """How many of the nodes that pass are in a filter's answer; ``None`` for all."""
    refusals: Refusals = "always"
    """When refused nodes are in a filter's answer."""
    text: str = ""
    """The configuration with the flags applied, and without possible secrets."""
    files: tuple[FileText, ...] = ()
    profiles: tuple[ProfileTold, ...] = ()
    """The profiles of a scheduler; empty for an extender."""


class Row(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What changed about one node."""

    row: int
    node: NodeObject | None = None
    """The Node; ``None`` if unchanged."""
    pods: list[int | Pod] | None = None
    """The pods on the node: new ones, and indices of those that were there before; ``None`` if unchanged."""


class Waiting(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Changes of the pods on no known node: the indices of those that went, and the pods that came."""

    gone: list[int] = []
    came: list[Pod] = []


class Cluster(Line, frozen=True, kw_only=True, tag="cluster"):
    """The cluster, or what changed in it."""

    fresh: bool = False
    """Whether the cluster begins anew, without the rows before."""
    size: int
    """The number of nodes now."""
    rows: list[Row] = []
    waiting: Waiting | None = None
    unsettled: dict[str, str] | None = None
    """All binds with an unknown outcome, as node by UID; ``None`` if unchanged."""


class Whole(Line, frozen=True, kw_only=True, tag="whole"):
    """A whole cluster, such as that of a snapshot file."""

    nodes: list[NodeObject]
    pods: list[Pod] | None
    """``None`` if the pods are unknown."""


class ObjectsChanged(Line, frozen=True, kw_only=True, tag="objects"):
    """Changes of the objects of one kind, such as PersistentVolumeClaim."""

    kind: str
    gone: list[str] = []
    """By ``namespace/name`` or name."""
    came: list[Raw] = []
    """The objects that are new or changed."""


class LatchedKeys(Struct, frozen=True):
    """The nodes for which a latch was on."""

    column: str
    above: float
    below: float
    on: list[str]
    type: str = "float"


class RequestedBefore(Struct, frozen=True):
    """What pods requested when a source was read."""

    names: list[str]
    requests: list[dict[str, int]]


class SourceReading(Line, frozen=True, kw_only=True, tag="source"):
    """A reading of a source."""

    source: str
    fields: dict[str, dict[str, Scalar]]
    version: int = 0
    match: Match = "name"
    latched: list[LatchedKeys] = []
    before: RequestedBefore | None = None


class Item(Line, frozen=True, kw_only=True, tag="node"):
    """A full node of a request, as it was sent; requests refer to it by its number."""

    number: int
    text: str


class GivenUp(Struct, frozen=True):
    """A policy that exceeded its deadline."""

    kind: str
    text: str
    summary: str


class FullNodes(Struct, frozen=True):
    """The full nodes of a request: its list's metadata, and the numbers of its items."""

    metadata: str
    items: list[int]


class Seen(Line, frozen=True, kw_only=True):
    """What every call of the policies has in common."""

    at: str
    """What policies get as ``now``."""
    blind: bool = False
    """Whether no cluster was known."""
    expecting: dict[str, list[Pod]] = {}
    """Nominated pods, by node; they count there."""
    sources: list[str] = []
    given_up: dict[str, GivenUp] = {}
    turn: int = 0
    """How many shortened answers (``keep``) the pod got before."""

    @property
    def now(self) -> datetime:
        """The time of the call."""
        return datetime.fromisoformat(self.at)

    @property
    def shown_at(self) -> str:
        """The time of the call as commands print it, ending in ``Z``."""
        return re.sub(r"\+00:00$", "Z", self.at)


class Asked(Seen, frozen=True, kw_only=True, tag="asked"):
    """A request of kube-scheduler that policies answered, or an attempt of our own scheduler."""

    verb: str
    pod: str
    """``namespace/name``."""
    request: Raw
    """The request, without what no policy can read: environment, arguments, secrets."""
    nodes: FullNodes | None = None
    answer: Raw
    """The answer as it was sent; without the nodes if those came in full."""
    sha256: str = ""
    """The hash of the whole answer, if nodes came in full."""


class Committed(Seen, frozen=True, kw_only=True, tag="committed"):
    """The policies' last check before a bind (the commit)."""

    pod: Pod
    node: str
    refusal: str = ""
    annotations: dict[str, str] = {}


class Bound(Line, frozen=True, kw_only=True, tag="bound"):
    """The result of a bind."""

    at: str
    pod: str
    uid: str
    node: str
    error: str = ""


class Unjudged(Line, frozen=True, kw_only=True, tag="unjudged"):
    """A request that was answered without policies: unreadable, too late or too early."""

    at: str
    verb: str
    error: str


class Dropped(Line, frozen=True, kw_only=True, tag="dropped"):
    """The number of decisions that were dropped, since the disk was slower than the server."""

    count: int


AnyLine = (
    Header
    | Configuration
    | Cluster
    | Whole
    | ObjectsChanged
    | SourceReading
    | Item
    | Asked
    | Committed
    | Bound
    | Unjudged
    | Dropped
)


def moment(at: datetime) -> str:
    """A time as a recording writes it, exact to the microsecond."""
    return at.astimezone(UTC).isoformat()
