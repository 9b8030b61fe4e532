"""Verification compares the view with fresh lists; a difference that stays is drift."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import ALLOCATION, Units
from bayplan.state.view import LiveView

log = logging.getLogger(__name__)

_LOOKS = 3
_PAUSE_SECONDS = 1.0
_CATCH_UP_SECONDS = 0.1
"""The pause between comparisons while a new holder of the Lease waits for the view to catch up."""
_LISTED_AGAIN_SECONDS = 5.0
"""How long a difference may last until everything is listed again; doubled each time."""


@dataclass(frozen=True)
class Verification:
    """The result of a verification."""

    nodes: int
    pods: int | None
    """The number of pods; ``None`` if pods are not watched."""
    drift: list[str]
    """One line for each difference; empty if the view is right."""
    unaccounted: list[str]
    """Pods that hold a managed resource on an unknown device: they count on every device of the node."""
    overcommitted: list[str]
    """Devices of which more is allocated than they have; there must be none."""
    seconds: float


class Compare(Protocol):
    """Finds the differences between the view and the truth."""

    def __call__(self, view: Snapshot, truth: Snapshot, *, assumed: Collection[str]) -> list[str]:
        """One line for each difference; pods with an ``assumed`` UID are skipped."""
        ...


async def verify(
    current: Callable[[], Snapshot | None],
    fresh: Callable[[], Awaitable[Snapshot]],
    *,
    managed: Collection[Units] = (),
    assumed: Callable[[], Collection[str]] = tuple,
    compare: Compare | None = None,
    pause_seconds: float = _PAUSE_SECONDS,
) -> Verification:
    """Compare the view with fresh lists until they agree, a few times at most.

    The cluster changes while it is listed, so a difference is drift only if every comparison finds it.
    ``managed`` are the resources that policies allocate, ``assumed`` the UIDs of pods that are being bound.
    ``compare`` finds the differences, by default all that policies can see.
    """
    start = time.perf_counter()
    lasting: set[str] | None = None
    nodes, pods = 0, None
    for look in range(_LOOKS):
        if look:
            await asyncio.sleep(pause_seconds)
        truth = await fresh()
        view = current()
        nodes, pods = len(truth.nodes), len(truth.pods) if truth.pods_known else None
        if view is None:
            found = {"nothing is listed yet"}
        else:
            # In a thread: a large cluster takes most of a second, and requests must not wait for that.
            found = set(await asyncio.to_thread(compare or differences, view, truth, assumed=assumed()))
        lasting = found if lasting is None else lasting & found
        if not lasting:
            break
    unknown = await asyncio.to_thread(unaccounted, truth, managed)
    beyond = await asyncio.to_thread(overcommitted, truth, managed)
    return Verification(nodes, pods, sorted(lasting or ()), unknown, beyond, time.perf_counter() - start)


async def caught_up(view: LiveView, fresh: Callable[[], Awaitable[Snapshot]], *, since: float) -> None:
    """Return once the view has all binds made before ``since`` (of the monotonic clock).

    A watch catches up within moments. If a difference lasts, the watch will never report it, for example
    after etcd was restored from a backup: then everything is listed again. Only binds are compared: other
    changes need not be waited for.
    """
    lasting: set[str] = set()
    differs_at, patience = time.monotonic(), _LISTED_AGAIN_SECONDS
    while await view.listed() < since:
        try:
            found = await verify(
                lambda: view.current,
                fresh,
                assumed=lambda: view.cache.assumed_uids,
                compare=misplaced,
                pause_seconds=_CATCH_UP_SECONDS,
            )
        except (ApiError, ConnectError) as error:
            log.warning("cannot see yet whether the view is up to date: %s", error)
        else:
            if not found.drift:
                return
            log.warning("the view is not up to date yet: %s", found.drift[0])
            lasting &= set(found.drift)
            if not lasting:
                lasting, differs_at = set(found.drift), time.monotonic()
            elif time.monotonic() >= differs_at + patience:
                log.error("the cluster is listed again, since the view is wrong: %s", min(lasting))
                view.list_again()
                lasting, patience = set(), 2 * patience
        await asyncio.sleep(_PAUSE_SECONDS)


def overcommitted(cluster: Snapshot, managed: Collection[Units]) -> list[str]:
    """Devices of which more is allocated than they have, after a late bind or a bind by other software."""
    found = []
    for units in managed:
        for row, node in enumerate(cluster.nodes.objects):
            owners: dict[int, list[tuple[str, int]]] = {}
            for pod in cluster.nodes.pods(row):
                for device, amount in units.given_to(pod).items():
                    owners.setdefault(device, []).append((pod.key, amount))
            sizes = units.sizes(node) if owners else ()
            for device, pods in sorted(owners.items()):
                given, has = sum(amount for _, amount in pods), sizes[device] if device < len(sizes) else 0
                if given > has:
                    names = ", ".join(sorted(key for key, _ in pods))
                    there = f"node {node.name}: device {device} has {has} of {units.resource}"
                    found.append(f"{there}, {given} was given: {names}")
    return found


def unaccounted(cluster: Snapshot, managed: Collection[Units]) -> list[str]:
    """Bound pods that request one of these resources and have no allocation of it."""
    if not managed:
        return []
    return sorted(pod.key for pod in cluster.pods if pod.node_name and _lacks_allocation(pod, managed))


def _lacks_allocation(pod: Pod, managed: Collection[Units]) -> bool:
    return any(units.need(pod) and not units.given_to(pod) for units in managed)


def differences(view: Snapshot, truth: Snapshot, *, assumed: Collection[str] = ()) -> list[str]:
    """The differences between the view and the truth, in everything that policies can see.

    Pods with an ``assumed`` UID are skipped: we are binding them, so no list has them on their node yet.
    """
    return misplaced(view, truth, assumed=assumed) + _outdated(view, truth, assumed=assumed)


def misplaced(view: Snapshot, truth: Snapshot, *, assumed: Collection[str] = ()) -> list[str]:
    """Nodes and pods that are only in the view or only in the truth; pods with another node or allocation.

    Pods with an ``assumed`` UID are skipped.
    """
    found = []
    ours, theirs = set(view.rows), set(truth.rows)
    found += [f"node {name} is gone and still in view" for name in sorted(ours - theirs)]
    found += [f"node {name} is there and not in view" for name in sorted(theirs - ours)]
    if not view.pods_known:
        return found
    here, there = _whereabouts(view), _whereabouts(truth)
    found += [
        f"pod {here[uid][0]} is gone and still in view" for uid in here.keys() - there.keys() - set(assumed)
    ]
    found += [f"pod {there[uid][0]} is there and not in view" for uid in there.keys() - here.keys()]
    for uid in (here.keys() & there.keys()) - set(assumed):
        key, node, held = here[uid]
        _, true_node, truly_held = there[uid]
        if node != true_node:
            found.append(f"pod {key} is on {true_node or 'no node'}, in view on {node or 'no node'}")
        elif held != truly_held:
            found.append(f"pod {key} holds {truly_held or 'nothing'}, in view {held or 'nothing'}")
    return found


def _whereabouts(cluster: Snapshot) -> dict[str, tuple[str, str, str]]:
    """The name, the node and the allocation of each pod, by UID."""
    return {pod.uid: (pod.key, pod.node_name, pod.annotations.get(ALLOCATION, "")) for pod in cluster.pods}


def _outdated(view: Snapshot, truth: Snapshot, *, assumed: Collection[str]) -> list[str]:
    """Nodes and pods of which the view has another state than the truth."""
    found = []
    true_nodes = truth.nodes.objects
    for node in view.nodes.objects:
        row = truth.rows.get(node.name)
        if row is not None and (parts := _other_parts(node, true_nodes[row])):
            found.append(f"node {node.name} has {_told(parts, node, true_nodes[row])}")
    if not view.pods_known:
        return found
    true_pods = truth.pods_by_uid
    for pod in view.pods:
        true = true_pods.get(pod.uid)
        if true is None or pod.uid in assumed:
            continue
        parts = _other_parts(pod, true)
        # `misplaced` tells of pods on another node, or with another allocation.
        if parts and _place(pod) == _place(true):
            found.append(f"pod {pod.key} has {_told(parts, pod, true)}")
    return found


def _place(pod: Pod) -> tuple[str, str]:
    return pod.node_name, pod.annotations.get(ALLOCATION, "")


def _other_parts(ours: NodeObject | Pod, true: NodeObject | Pod) -> list[str]:
    """The fields in which two states of an object differ, such as ``metadata.labels``; not the version."""
    if (ours.metadata, ours.spec, ours.status) == (true.metadata, true.spec, true.status):
        return []
    found = []
    for name in ("metadata", "spec", "status"):
        mine, theirs = getattr(ours, name), getattr(true, name)
        # The nodes in view may have images, which are not listed again.
        part = theirs if theirs is not None else mine
        if part is None:
            continue
        for field, spelled in zip(part.__struct_fields__, part.__struct_encode_fields__, strict=True):
            # An empty map, or no map at all, is the same to a policy.
            one, other = (getattr(each, field, None) or None for each in (mine, theirs))
            if one != other and field != "resource_version":
                found.append(f"{name}.{spelled}")
    return found


def _told(parts: Sequence[str], ours: NodeObject | Pod, true: NodeObject | Pod) -> str:
    """What differs, with both versions: while the watch is only late, that is another text each time."""
    now, seen = ((each.metadata or NO_META).resource_version or "?" for each in (true, ours))
    return f"other {', '.join(parts)} than in view: version {now}, in view {seen}"
