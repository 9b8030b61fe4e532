"""The messages of ``k8s.io/kube-scheduler/extender/v1``, as typed structs.

The Go types have no JSON tags, so the envelope is PascalCase with explicit nulls; what is inside a
Pod or a Node is camelCase. Nodes stay raw bytes: they are echoed unchanged, since what we return
replaces the node for every later plugin.
"""

from typing import Annotated

from msgspec import Meta, Raw, Struct

from bayplan.kube.pod import Pod

# Acronyms, which no rule of capital letters gets right.
_GO_NAMES = {"uid": "UID", "pod_uid": "PodUID", "num_pdb_violations": "NumPDBViolations"}


def _go_name(field: str) -> str:
    return _GO_NAMES.get(field) or "".join(word.capitalize() for word in field.split("_"))


class Envelope(Struct, frozen=True, rename=_go_name, forbid_unknown_fields=True):
    """A message, or a part of one, whose names are Go's field names."""


class NodeList(Envelope, frozen=True, rename=None):
    """Full nodes, still as bytes. A Kubernetes list: its own names are camelCase."""

    metadata: Raw = Raw(b"{}")
    items: list[Raw] | None = None


class ExtenderArgs(Envelope, frozen=True):
    """The request of ``filter`` and ``prioritize``: ``NodeNames`` with nodeCacheCapable, else ``Nodes``."""

    pod: Pod | None = None
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class FilterResult(Envelope, frozen=True):
    """The answer of ``filter``."""

    nodes: NodeList | None
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class HostPriority(Envelope, frozen=True):
    """One line of the answer of ``prioritize``. Go reads an int64: 7.0 would make it fail."""

    host: str
    score: int


class MetaPod(Envelope, frozen=True):
    """A victim, by UID."""

    uid: str


class MetaVictims(Envelope, frozen=True):
    """Victims on one node. There is no way to say ``null`` here: kube-scheduler panics on it."""

    pods: list[MetaPod]
    num_pdb_violations: int = 0


class SentMetaVictims(Envelope, frozen=True):
    """Victims in a request, where anything may be null."""

    pods: list[MetaPod | None] | None = None
    num_pdb_violations: int | None = None


class SentVictims(Envelope, frozen=True):
    """Victims in a request with full pods, as an extender without ``nodeCacheCapable`` gets them."""

    pods: list[Pod | None] | None = None
    num_pdb_violations: int | None = None


class ExtenderPreemptionArgs(Envelope, frozen=True):
    """The request of ``preempt``."""

    pod: Pod | None = None
    node_name_to_victims: dict[str, SentVictims | None] | None = None
    node_name_to_meta_victims: dict[str, SentMetaVictims | None] | None = None


class ExtenderPreemptionResult(Envelope, frozen=True):
    """The answer of ``preempt``, in both modes."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class ExtenderBindingArgs(Envelope, frozen=True):
    """The request of ``bind``."""

    pod_name: Annotated[str, Meta(min_length=1)]
    pod_namespace: Annotated[str, Meta(min_length=1)]
    pod_uid: Annotated[str, Meta(min_length=1)]
    node: Annotated[str, Meta(min_length=1)]


class ExtenderBindingResult(Envelope, frozen=True):
    """The answer of ``bind``."""

    error: str = ""
