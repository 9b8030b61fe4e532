"""The lines of a recording, each a JSON object that says what it is.

What a decision needs stands before it: the configuration at work, the cluster as it was seen, what sources
said. Only what changed since the decision before is written.
"""

from datetime import UTC, datetime

from msgspec import Raw, Struct

from bayplan.engine.keep import Refusals
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.bynode import Scalar
from bayplan.snapshot.sources import Match

FORMAT = 1
"""Another number where older programs could not read the file."""


class RecordingError(ValueError):
    """The file is no recording, or not one that can be used; the text says what to do."""


class Line(Struct, frozen=True, kw_only=True, rename="camel", tag_field="line", omit_defaults=True):
    """One line."""


class Header(Line, frozen=True, kw_only=True, tag="header"):
    """The first line of every file."""

    format: int
    bayplan: str
    """Version of Bayplan."""
    started: str


class FileText(Struct, frozen=True):
    """A file that the configuration is made of. It is there to be read, and never run."""

    path: str
    sha256: str
    text: str = ""


class ProfileTold(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whose pods a scheduler placed, and which profile of kube-scheduler it followed."""

    scheduler_name: str
    kube_scheduler_config: str = ""
    """Path of the file with the profile; ``""`` for the default one."""


class Configuration(Line, frozen=True, kw_only=True, tag="configuration"):
    """What the decisions after it were made with. Nothing that was told before it is needed any more."""

    generation: int = 1
    config: str = ""
    """Path of the configuration file; ``""`` where there was none."""
    uses: tuple[str, ...] = ()
    """Policy files of the command line."""
    observe: bool = False
    failed_nodes_heeded: bool = False
    keep: int | None = None
    """With how many of the nodes that passed a filter answered; ``None`` for all."""
    refusals: Refusals = "always"
    """When refused nodes were told."""
    text: str = ""
    """The configuration with the flags laid over it, and without what may be secret."""
    files: tuple[FileText, ...] = ()
    profiles: tuple[ProfileTold, ...] = ()
    """Of a scheduler; an extender has none."""


class Row(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What changed about one node."""

    row: int
    node: NodeObject | None = None
    """``None`` where it is as before."""
    pods: list[int | Pod] | None = None
    """The pods on it: new ones, and numbers of those that were there before; ``None``: as before."""


class Waiting(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Pods that are on no known node: who is gone, by place, and who came after the rest."""

    gone: list[int] = []
    came: list[Pod] = []


class Cluster(Line, frozen=True, kw_only=True, tag="cluster"):
    """The cluster, or what changed in it."""

    fresh: bool = False
    """Nothing that was known before holds."""
    size: int
    """How many nodes there are now."""
    rows: list[Row] = []
    waiting: Waiting | None = None
    unsettled: dict[str, str] | None = None
    """All binds that may have happened or not, as node by UID; ``None`` for no change."""


class Whole(Line, frozen=True, kw_only=True, tag="whole"):
    """A cluster that was put together at once, from a file."""

    nodes: list[NodeObject]
    pods: list[Pod] | None
    """``None`` where nobody knows the pods."""


class ObjectsChanged(Line, frozen=True, kw_only=True, tag="objects"):
    """What changed of the objects of one kind, such as PersistentVolumeClaim."""

    kind: str
    gone: list[str] = []
    """By ``namespace/name`` or name."""
    came: list[Raw] = []
    """Those that are new, or not what they were."""


class LatchedKeys(Struct, frozen=True):
    """Which nodes a switch with a memory was on for."""

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
    """What a source said."""

    source: str
    fields: dict[str, dict[str, Scalar]]
    version: int = 0
    match: Match = "name"
    latched: list[LatchedKeys] = []
    before: RequestedBefore | None = None


class Item(Line, frozen=True, kw_only=True, tag="node"):
    """A full node of a request, as it came; requests name it by its number."""

    number: int
    text: str


class GivenUp(Struct, frozen=True):
    """A policy that was not waited for any longer."""

    kind: str
    text: str
    summary: str


class FullNodes(Struct, frozen=True):
    """The full nodes of a request: its list's metadata, and the numbers of its items."""

    metadata: str
    items: list[int]


class Seen(Line, frozen=True, kw_only=True):
    """What every question to the policies has."""

    at: str
    """What policies get as ``now``."""
    blind: bool = False
    """No cluster was known."""
    expecting: dict[str, list[Pod]] = {}
    """Pods that wait, by the node which is kept for each: they count there."""
    sources: list[str] = []
    given_up: dict[str, GivenUp] = {}
    turn: int = 0
    """How often the pod had been told a part of its nodes before."""

    @property
    def now(self) -> datetime:
        """The moment of the question."""
        return datetime.fromisoformat(self.at)


class Asked(Seen, frozen=True, kw_only=True, tag="asked"):
    """A request of kube-scheduler that policies answered, or a pod that a scheduler of ours judged."""

    verb: str
    pod: str
    """``namespace/name``."""
    request: Raw
    """Without what no policy can read: environment, arguments, secrets."""
    nodes: FullNodes | None = None
    answer: Raw
    """As it was sent; without the nodes where those came in full."""
    sha256: str = ""
    """Of the whole answer, where nodes came in full."""


class Committed(Seen, frozen=True, kw_only=True, tag="committed"):
    """The policies' last word before a bind."""

    pod: Pod
    node: str
    refusal: str = ""
    annotations: dict[str, str] = {}


class Bound(Line, frozen=True, kw_only=True, tag="bound"):
    """How a bind ended."""

    at: str
    pod: str
    uid: str
    node: str
    error: str = ""


class Unjudged(Line, frozen=True, kw_only=True, tag="unjudged"):
    """A request that no policy had a say in: it could not be read, came too late or too early."""

    at: str
    verb: str
    error: str


class Dropped(Line, frozen=True, kw_only=True, tag="dropped"):
    """So many were not recorded: the disk was slower than the server."""

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
    """How a recording writes a moment; it is read back to the microsecond."""
    return at.astimezone(UTC).isoformat()
