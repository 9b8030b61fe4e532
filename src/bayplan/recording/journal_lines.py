"""The lines of a journal on disk: a header, names of nodes, and one line per decision.

A decision has in plain JSON what people search for: pod, time, counts, reasons, the best nodes. Beside that
it has all that the journal in memory has, in packed arrays. Names of nodes come before the first decision
that needs them, and again in each file.
"""

from msgspec import Struct

from bayplan.engine.ranking import Ranked
from bayplan.engine.why import LeftOut, RefusedGroup
from bayplan.recording.lines import Line
from bayplan.recording.packed import Packed, Value

JOURNAL_FORMAT = 1
"""The version of the format; grows when older programs cannot read it."""


class JournalHeader(Line, frozen=True, kw_only=True, tag="journal"):
    """The first line of a server, or of a new file. Numbers of nodes and decisions are per server."""

    format: int
    bayplan: str
    """Version of Bayplan."""
    started: str
    """When this file was opened."""
    cluster: bool
    """Whether the server knew the cluster: then names are all nodes, and not only the candidates."""
    schedules: bool = False
    """Whether the server places pods itself (``bayplan schedule``)."""


class NodeNames(Line, frozen=True, kw_only=True, tag="nodes"):
    """Names of nodes, to which later decisions refer by number."""

    nodes: int
    """The number of this list of names."""
    names: list[str]


class ReasonLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reason of a hook, and the values of its details."""

    reason: str
    detail: str = ""
    """The format string; ``values`` has its names for each refused row."""
    values: dict[str, Value] = {}
    details: list[str] = []
    """The finished details of its rows, if they cannot be written as a format string with values."""
    preemptible: bool = False
    helped_by: list[str] = []
    also: list[str] = []
    of_pod: bool = False
    advice: str = ""


class HookLine(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of one hook."""

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
    """For a filter: the indices of the refused nodes among the decision's nodes."""
    codes: Packed | None = None
    """The number of the reason for each refused node; 1 is the first."""
    scores: Packed | None = None
    """For a score: 0 to 100 per node, NaN for no opinion."""
    raw: Packed | None = None
    detail: str = ""
    """For a score: the format string of its detail; ``values`` has its names for each node."""
    values: dict[str, Value] = {}
    details: list[str] = []
    """The finished details of all nodes, if they cannot be written as a format string with values."""


class PodLine(Struct, frozen=True, rename="camel"):
    """The pod of a decision."""

    namespace: str
    name: str
    uid: str
    labels: dict[str, str]
    requests: dict[str, int]
    priority: int
    scheduler: str


class DecisionLine(Line, frozen=True, kw_only=True, tag="decision"):
    """One decision; keys without a default are in every line."""

    decision: int
    at: str
    verb: str
    generation: int
    pod: PodLine
    result: str
    offered: int
    passed: int
    refused: list[RefusedGroup]
    """Refused nodes by policy and reason, with the first few names; those of shadow policies come last."""
    ranking: list[Ranked]
    """The best few nodes."""
    seconds: float
    error: str
    observe: bool
    node: str
    """The node of a bind or of an eviction."""
    hooks: list[HookLine]
    not_in_view: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """For a preemption: all candidates that were dropped, by policy and reason."""
    nodes: int = 0
    """The number of the list of names (`NodeNames`); 0 if there is none."""
    rows: Packed | None = None
    """The indices of the candidates in that list, in the order of the request; all of them if left out."""
    refused_by: Packed | None = None
    """The number of the hook that refused each candidate, from 0 on; -1 if it passed."""
    total: Packed | None = None
    kept: Packed | None = None
    """For a shortened answer (``keep``): the indices of the nodes in the answer, the best first."""
    turn: int = 0
    """How many shortened answers the pod got before."""
    others: tuple[str, ...] = ()
    """For an eviction: the victims, or the pod that the victim leaves for."""


class PlacedPod(Struct, frozen=True):
    """A pod that was seen on a node."""

    namespace: str
    name: str
    uid: str


class Placed(Line, frozen=True, kw_only=True, tag="placed"):
    """The node that a pod was seen on after its decision, whoever bound it."""

    at: str
    pod: PlacedPod
    node: str
