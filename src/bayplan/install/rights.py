"""What we may do in a cluster: one table, each line with the reason for it and when it is needed.

kube-scheduler's own rights, where we run one, are those that Kubernetes brings along for it.
"""

from dataclasses import dataclass

from bayplan.install.evaluate import holds
from bayplan.install.names import Release
from bayplan.install.shapes import LEASED, SIDECAR, STANDALONE
from bayplan.install.tree import All, Condition, Configured, Either, Given, Named, Not, Tree, When
from bayplan.kube.kinds import OBJECT_KINDS

_CORE = ""
_EXTENDER = Not(STANDALONE)
_BINDING = All(_EXTENDER, Given("verbs.bind"))


@dataclass(frozen=True)
class Right:
    """Verbs on resources of one group, and why."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    when: Condition
    own: bool = False
    """In the namespace of our Lease alone, and on the object that is called as we are."""


def _watched() -> list[Right]:
    """What the second scheduler follows beside nodes and pods: whatever kinds it knows."""
    by_group: dict[str, list[str]] = {}
    for kind in OBJECT_KINDS.values():
        parts = kind.path.strip("/").split("/")
        by_group.setdefault(parts[1] if parts[0] == "apis" else _CORE, []).append(parts[-1])
    return [
        Right(group, tuple(sorted(names)), ("list", "watch"), "what the default profile looks at", STANDALONE)
        for group, names in sorted(by_group.items())
    ]


RIGHTS: tuple[Right, ...] = (
    Right(
        _CORE,
        ("nodes",),
        ("get", "list", "watch"),
        "the view of the cluster; a node that kube-scheduler hears of first is read at once",
        _EXTENDER,
    ),
    Right(
        _CORE,
        ("pods",),
        ("list", "watch"),
        "the view of the cluster; not with cluster.nodesOnly",
        All(_EXTENDER, Not(Configured("cluster.nodesOnly"))),
    ),
    Right(_CORE, ("pods",), ("get",), "a bind whose reply was lost is looked into", _BINDING),
    Right(_CORE, ("pods/binding",), ("create",), "bind", _BINDING),
    Right(
        _CORE,
        ("pods",),
        ("patch",),
        "cluster.nudge touches pods that wait",
        All(_EXTENDER, Configured("cluster.nudge.enabled")),
    ),
    Right(_CORE, ("nodes",), ("list", "watch"), "the view of the cluster", STANDALONE),
    Right(
        _CORE,
        ("pods",),
        ("get", "list", "watch", "delete"),
        "the view of the cluster, binds whose reply was lost, and eviction",
        STANDALONE,
    ),
    *_watched(),
    Right(
        _CORE,
        ("persistentvolumeclaims", "persistentvolumes"),
        ("get", "patch"),
        "claims that wait for their first pod get a volume; a reply that was lost is looked into",
        STANDALONE,
    ),
    Right(_CORE, ("pods/binding",), ("create",), "bind", STANDALONE),
    Right(_CORE, ("pods/status",), ("patch",), "why a pod waits, and which node is kept for it", STANDALONE),
    Right(
        "events.k8s.io",
        ("events",),
        ("create", "patch"),
        "Scheduled, FailedScheduling, Preempted; and how often",
        STANDALONE,
    ),
    Right(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "one of several acts; kube-scheduler's own Lease in a sidecar",
        Either(LEASED, STANDALONE, SIDECAR),
        own=True,
    ),
    # A Lease that does not exist has no name to be allowed by.
    Right(
        "coordination.k8s.io",
        ("leases",),
        ("create",),
        "the Lease is made by whoever comes first",
        Either(LEASED, STANDALONE),
        own=True,
    ),
)

LEASE_IS_USED = Either(LEASED, STANDALONE, SIDECAR)


def rules(*, own: bool) -> list[Tree]:
    """The rules of the role beside our Lease, or of that for the cluster."""
    return [When(right.when, _rule(right)) for right in RIGHTS if right.own is own]


def rights_of(release: Release) -> list[Right]:
    """The lines of the table that count for an installation."""
    return [right for right in RIGHTS if holds(right.when, release)]


def _rule(right: Right) -> Tree:
    rule: dict[str, Tree] = {
        "apiGroups": [right.group],
        "resources": list(right.resources),
        "verbs": list(right.verbs),
    }
    if right.own and "create" not in right.verbs:
        rule["resourceNames"] = [Named("fullname")]
    return rule
