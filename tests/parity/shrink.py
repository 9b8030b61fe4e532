"""Makes a failing case small: drops nodes, pods, objects and fields as long as the two sides still differ."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator

from tests.parity.world import Json, World

Differs = Callable[[World, Json], bool]

_KEEP = frozenset({"containers", "name", "image", "terminationGracePeriodSeconds", "priorityClassName"})


def shrink(
    world: World, pod: Json, differs: Differs, *, trials: int = 60, seconds: float = 30.0
) -> tuple[World, Json]:
    """The smallest cluster and pod found for which `differs` holds, within so many trials and seconds."""
    deadline = time.monotonic() + seconds
    left = trials
    progress = True
    while progress:
        progress = False
        for smaller_world, smaller_pod in _smaller(world, pod):
            if not smaller_world.nodes:
                continue
            if left == 0 or time.monotonic() > deadline:
                return world, pod
            left -= 1
            if _holds(differs, smaller_world, smaller_pod):
                world, pod = smaller_world, smaller_pod
                progress = True
                break
    return world, pod


def _holds(differs: Differs, world: World, pod: Json) -> bool:
    try:
        return differs(world, pod)
    except Exception:
        # Without that field the API server does not take it, or nobody answers: not a smaller case.
        return False


def _smaller(world: World, pod: Json) -> Iterator[tuple[World, Json]]:
    """Simpler cases, the ones that leave most out first."""
    others = [one for one in world.objects if one["kind"] not in ("Namespace", "Node", "Pod")]
    if others:
        yield world.minus(others), pod
    if world.pods:
        yield world.minus(world.pods), pod
    for some in (world.nodes, world.pods):
        half = len(some) // 2
        if half:
            yield world.minus(some[:half]), pod
            yield world.minus(some[half:]), pod
    for path in _fields(pod["spec"]):
        yield world, {**pod, "spec": _without(pod["spec"], path)}
    for some in (world.nodes, world.pods, others):
        for one in some:
            yield world.minus([one]), pod


def _fields(spec: Json) -> Iterator[tuple[str | int, ...]]:
    """Paths of what may be left out: fields of the spec, then parts of them."""
    for key in spec:
        if key not in _KEEP:
            yield (key,)
    for key, value in spec.items():
        if key not in _KEEP and isinstance(value, list | dict) and len(value) > 1:
            yield from ((key, part) for part in (value if isinstance(value, dict) else range(len(value))))
    for number, container in enumerate(spec["containers"]):
        for part in ("ports", "resources"):
            if container.get(part):
                yield ("containers", number, part)
    if len(spec["containers"]) > 1:
        yield from (("containers", number) for number in range(len(spec["containers"])))


def _without(spec: Json, path: tuple[str | int, ...]) -> Json:
    changed = copy.deepcopy(spec)
    *way, last = path
    place = changed
    for step in way:
        place = place[step]  # type: ignore[index]
    del place[last]  # type: ignore[arg-type]
    return changed
