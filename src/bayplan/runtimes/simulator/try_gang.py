"""Tries a gang that was not created: whether all its members would fit at the same time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bayplan.authoring.gang import Gang
from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice
from bayplan.engine.guard import Attempt
from bayplan.engine.membership import membership
from bayplan.engine.settle import Settled, on_nodes, settle
from bayplan.kube.meta import NO_META
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings


class GangTried(msgspec.Struct, frozen=True, rename="camel"):
    """The result for a gang."""

    name: str
    """``namespace/name``."""
    size: int
    members: int
    """How many members the manifest makes."""
    fits: bool
    """Whether all members have a node."""
    said: str
    """The result in a sentence."""
    domain: str
    """The rack or zone, if the gang must be in one."""
    nodes: dict[str, str]
    """The node of each member, by name; empty if a member has none."""
    refused: dict[str, str]
    """The message for each member without a node, by name."""


@dataclass(frozen=True)
class Tried:
    """The result for the gang, and the choice to explain."""

    gang: GangTried
    choice: Choice | None
    """The choice for the member without a node, else for the first one; ``None`` if none was judged."""
    node: str
    """The node of that member; ``""`` for none."""
    kept_out: str
    """Why the members would not be judged at all; ``""`` if they would."""


def try_gang(
    policies: Sequence[Policy],
    gang: Gang,
    first: Pod,
    templates: Sequence[tuple[Pod, int, Readings]],
    cluster: Snapshot,
) -> Tried:
    """Place the gang's members among these templates, each with its count; members with a node count too."""
    attempt = Attempt()
    pods: list[Pod] = []
    readings: dict[str, Readings] = {}
    for number, (pod, count, read) in enumerate(templates):
        copies = [_copy(pod, number, index if count > 1 else None) for index in range(count)]
        mine = [one for one in copies if _is_in(gang, first, one, policies, attempt)]
        pods += mine
        readings |= dict.fromkeys((one.uid for one in mine), read)
    found = settle(
        policies, pods, cluster, attempt=attempt, look=lambda seen, pod: seen.with_readings(readings[pod.uid])
    )
    return _told(gang, first, pods, found)


def missing(policies: Sequence[Policy], gang: Gang, pod: Pod, cluster: Snapshot) -> int:
    """How many pods like this one the gang still needs, at least one."""
    attempt = Attempt()
    there = on_nodes(cluster, pod, lambda one: _is_in(gang, pod, one, policies, attempt))
    return max(1, gang.size - len(there))


def _told(gang: Gang, first: Pod, pods: Sequence[Pod], found: Settled) -> Tried:
    names = {pod.uid: pod.name for pod in pods}
    refused = {names[uid]: why for uid, why in found.refused.items()}
    domain = found.domains.get((first.namespace, gang.name), "")
    tried = GangTried(
        name=f"{first.namespace}/{gang.name}",
        size=gang.size,
        members=len(pods),
        fits=bool(pods) and not refused,
        said=_sentence(gang, first, pods, refused, domain),
        domain=domain,
        nodes={names[uid]: seat.node for uid, seat in found.seats.items()},
        refused=refused,
    )
    if found.misfits:
        return Tried(tried, found.misfits[0].choice, "", "")
    seat = next(iter(found.seats.values()), None)
    if seat is None:
        return Tried(tried, None, "", kept_out=tried.said)
    return Tried(tried, seat.choice, seat.node, "")


def _sentence(gang: Gang, first: Pod, pods: Sequence[Pod], refused: Mapping[str, str], domain: str) -> str:
    title = f"gang {first.namespace}/{gang.name}"
    if not pods:
        return f"{title}: the manifest makes none of its {gang.size} members"
    if refused:
        # The message for the other members names the one that does not fit.
        return next((why for why in refused.values() if why.startswith(title)), next(iter(refused.values())))
    where = f", in {gang.domain.key} {domain}" if gang.domain is not None and domain else ""
    return f"{title}: all {len(pods)} members have a place{where}"


def _is_in(gang: Gang, first: Pod, pod: Pod, policies: Sequence[Policy], attempt: Attempt) -> bool:
    if pod.namespace != first.namespace:
        return False
    said = membership(policies, pod, attempt).gang
    return said is not None and said.name == gang.name


def _copy(pod: Pod, number: int, index: int | None) -> Pod:
    """One of several pods of a template, with a name and UID of its own."""
    name = pod.name if index is None else f"{pod.name.removesuffix('-')}-{index}"
    metadata = msgspec.structs.replace(pod.metadata or NO_META, name=name, uid=f"manifest-{number}-{index}")
    return msgspec.structs.replace(pod, metadata=metadata)
