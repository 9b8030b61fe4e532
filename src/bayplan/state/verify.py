"""Is the view true? Compares it with a fresh list; what differs twice in a row is drift."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from bayplan.client.errors import ApiError, ConnectError
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import ALLOCATION
from bayplan.state.view import LiveView

log = logging.getLogger(__name__)

_LOOKS = 3
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Verification:
    """What a comparison found."""

    nodes: int
    pods: int
    drift: list[str]
    """One line for each difference; empty when the view is true."""
    unaccounted: list[str]
    """Pods that hold a managed resource, and nobody knows which device: they count on every one."""
    seconds: float


async def verify(
    current: Callable[[], Snapshot | None],
    fresh: Callable[[], Awaitable[Snapshot]],
    *,
    managed: Collection[str] = (),
    pause_seconds: float = _PAUSE_SECONDS,
) -> Verification:
    """Compare the view with a fresh list until they agree, a few times at most.

    The cluster changes while it is listed, so a difference counts only if it is there each time.
    ``managed`` are the resources that our policies hand out.
    """
    start = time.perf_counter()
    lasting: set[str] | None = None
    nodes = pods = 0
    for look in range(_LOOKS):
        if look:
            await asyncio.sleep(pause_seconds)
        truth = await fresh()
        view = current()
        nodes, pods = len(truth.nodes), len(truth.pods)
        found = set(differences(view, truth)) if view is not None else {"nothing is listed yet"}
        lasting = found if lasting is None else lasting & found
        if not lasting:
            break
    unknown = await asyncio.to_thread(unaccounted, truth, managed)
    return Verification(nodes, pods, sorted(lasting or ()), unknown, time.perf_counter() - start)


async def caught_up(view: LiveView, fresh: Callable[[], Awaitable[Snapshot]], *, since: float) -> None:
    """Return when everything that was bound before ``since`` (of the monotonic clock) is in view."""
    while await view.listed() < since:
        try:
            found = await verify(lambda: view.current, fresh)
        except (ApiError, ConnectError) as error:
            log.warning("cannot see yet whether the view is up to date: %s", error)
        else:
            if not found.drift:
                return
            log.warning("the view is not up to date yet: %s", found.drift[0])
        await asyncio.sleep(_PAUSE_SECONDS)


def unaccounted(cluster: Snapshot, managed: Collection[str]) -> list[str]:
    """Bound pods that ask for one of these resources and were bound by somebody else."""
    if not managed:
        return []
    return sorted(
        pod.key
        for pod in cluster.pods
        if pod.node_name and ALLOCATION not in pod.annotations and any(map(pod.request, managed))
    )


def differences(view: Snapshot, truth: Snapshot) -> list[str]:
    """What the view has wrong: nodes, pods, where pods are, and what they hold."""
    found = []
    ours, theirs = set(view.rows), set(truth.rows)
    found += [f"node {name} is gone and still in view" for name in sorted(ours - theirs)]
    found += [f"node {name} is there and not in view" for name in sorted(theirs - ours)]
    here = {pod.uid: (pod.key, pod.node_name, pod.annotations.get(ALLOCATION, "")) for pod in view.pods}
    there = {pod.uid: (pod.key, pod.node_name, pod.annotations.get(ALLOCATION, "")) for pod in truth.pods}
    found += [f"pod {here[uid][0]} is gone and still in view" for uid in here.keys() - there.keys()]
    found += [f"pod {there[uid][0]} is there and not in view" for uid in there.keys() - here.keys()]
    for uid in here.keys() & there.keys():
        key, node, held = here[uid]
        _, true_node, truly_held = there[uid]
        if node != true_node:
            found.append(f"pod {key} is on {true_node or 'no node'}, in view on {node or 'no node'}")
        elif held != truly_held:
            found.append(f"pod {key} holds {truly_held or 'nothing'}, in view {held or 'nothing'}")
    return found
