"""The lines of a journal on disk: a header, names of nodes, and one line a decision.

A decision says in plain JSON what people look for: who, when, how many, why, the best nodes. Beside that it
holds all that the journal in memory holds, in packed arrays. Names of nodes stand before the first decision
that needs them, and again in each file.
"""

from msgspec import Struct

from bayplan.engine.ranking import Ranked
from bayplan.engine.why import LeftOut, RefusedGroup
from bayplan.recording.lines import Line
from bayplan.recording.packed import Packed, Value

JOURNAL_FORMAT = 1
"""Another number where older programs could not read the file."""


class JournalHeader(Line, frozen=True, kw_only=True, tag="journal"):
    """A server begins to write, or goes on in a new file. Numbers of nodes and decisions are its own."""

    format: int
    bayplan: str
    """Version of Bayplan."""
    started: str
    """When this file was opened."""
    cluster: bool
    """Whether it knew the cluster: then names are all nodes there were, and not only those it was sent."""
    schedules: bool = False
    """Whether it places pods itself, as ``bayplan schedule``."""


class NodeNames(Line, frozen=True, kw_only=True, tag="nodes"):
    """Names that the decisions after it refer to."""

    nodes: int
    """The number they refer to them by."""
    names: list[str]


class ReasonLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reason that a hook has, and what its details are made of."""

    reason: str
    detail: str = ""
    """With names in braces, which ``values`` has for each refused row."""
    values: dict[str, Value] = {}
    details: list[str] = []
    """In place of them the details of its own rows, where they could not be told otherwise."""
    preemptible: bool = False
    helped_by: list[str] = []
    also: list[str] = []
    of_pod: bool = False
    advice: str = ""


class HookLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one hook said about the nodes."""

    policy: str
    hook: str
    kind: str
    seconds: float
    weight: float = 0.0
    shadow: bool = False
    void: bool = False
    failure: str = ""
    ignored: bool = False
    reasons: list[ReasonLine] = []
    rows: Packed | None = None
    """Of a filter: the places, among the decision's nodes, of those it refused."""
    codes: Packed | None = None
    """For each of those the number of its reason; 1 is the first."""
    scores: Packed | None = None
    """Of a score: 0 to 100 a node, NaN for no opinion."""
    raw: Packed | None = None


class PodLine(Struct, frozen=True, rename="camel"):
    """Who a decision was about."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    requests: dict[str, int]
    priority: int
    scheduler: str


class DecisionLine(Line, frozen=True, kw_only=True, tag="decision"):
    """One decision; the keys without a default are in every line."""

    decision: int
    at: str
    verb: str
    generation: int
    pod: PodLine
    result: str
    offered: int
    passed: int
    refused: list[RefusedGroup]
    """By policy and reason, with the first few nodes; those of shadow policies come last."""
    ranking: list[Ranked]
    """The best few nodes."""
    seconds: float
    error: str
    observe: bool
    node: str
    """Of a bind and of an eviction: the node."""
    hooks: list[HookLine]
    not_in_view: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """Of a preemption: candidates by policy and reason, all of them."""
    nodes: int = 0
    """Number of the names; 0 where there are none."""
    rows: Packed | None = None
    """Which of the names it was about, in the order asked; all of them in theirs where it is left out."""
    refused_by: Packed | None = None
    """For each the number of the hook that refused it, from 0 on; -1 where it passed."""
    total: Packed | None = None
    kept: Packed | None = None
    """Of an answer that was cut down: the places of the nodes that were told, the best first."""
    turn: int = 0
    """How often the pod was told others before them."""
    others: tuple[str, ...] = ()
    """Of an eviction: who has to leave for the pod, or for whom it leaves."""


class PlacedPod(Struct, frozen=True):
    """A pod that was seen on a node."""

    namespace: str
    name: str
    uid: str


class Placed(Line, frozen=True, kw_only=True, tag="placed"):
    """What became of a pod that was decided about: it is on that node, whoever bound it."""

    at: str
    pod: PlacedPod
    node: str
