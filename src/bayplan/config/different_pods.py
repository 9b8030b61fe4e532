"""Chooses a few pods of a cluster that differ as much as possible, for a dry run of hooks."""

from collections.abc import Iterable

import msgspec

from bayplan.kube.meta import NO_META
from bayplan.kube.pod import NO_SPEC, Pod

MOST_PODS = 20
# The limit of kinds in a large cluster, since comparing them takes time.
_KINDS = 2000
# The owner kind of static pods: the kubelet runs them, and they are never scheduled.
_STATIC = "Node"


def different_pods(pods: Iterable[Pod], *, most: int = MOST_PODS) -> list[Pod]:
    """One more pod of each kind, as it would be asked about; the most different ones first.

    Of a kind are pods of one owner, and those with the same labels and requests.
    """
    left = {number: (pod, _traits(pod)) for number, pod in enumerate(_kinds(pods))}
    seen: set[tuple[str, ...]] = set()
    chosen: list[Pod] = []
    while left and len(chosen) < most:
        # The pod with the most new traits; of several, the first.
        best = max(left, key=lambda number: sum(len(trait) for trait in left[number][1] - seen))
        pod, traits = left.pop(best)
        seen |= traits
        chosen.append(one_more(pod))
    return chosen


def one_more(pod: Pod) -> Pod:
    """A new pod like this one."""
    meta, spec = pod.metadata or NO_META, pod.spec or NO_SPEC
    uid = f"{meta.uid or pod.key}-one-more"
    fresh = msgspec.structs.replace(meta, uid=uid, deletion_timestamp=None)
    return Pod(metadata=fresh, spec=msgspec.structs.replace(spec, node_name=None))


def _kinds(pods: Iterable[Pod]) -> list[Pod]:
    """The first pod of each kind."""
    found: dict[object, Pod] = {}
    for pod in pods:
        owner = pod.owner
        if owner is not None and owner.kind == _STATIC:
            continue
        # Labels of one owner's pods may differ by an index.
        own = owner.uid if owner is not None else ""
        kind = own or (pod.namespace, frozenset(pod.labels.items()), frozenset(pod.requests.items()))
        found.setdefault(kind, pod)
        if len(found) == _KINDS:
            break
    return list(found.values())


def _traits(pod: Pod) -> frozenset[tuple[str, ...]]:
    """The traits of a pod that a hook may look at; a longer trait counts more."""
    owner = pod.owner
    traits: set[tuple[str, ...]] = {("namespace", pod.namespace), ("priority", str(pod.priority))}
    traits.update(("label", key, value) for key, value in pod.labels.items())
    traits.update(("label", key, "", "is there") for key in pod.labels)
    traits.update(("asks for", resource, "", "at all") for resource in pod.requests)
    traits.update(("asks for", resource, str(amount)) for resource, amount in pod.requests.items())
    traits.add(("owner", owner.kind if owner is not None else "", "", "of a kind"))
    return frozenset(traits)
