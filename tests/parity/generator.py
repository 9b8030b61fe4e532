"""Clusters and pods out of a seed: the same seed and number give the same case, whatever ran before."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping

from tests.parity.draw import NAMESPACES, Draw, Json
from tests.parity.mounts import add_volumes
from tests.parity.neighbours import add_pod_affinity, add_spread
from tests.parity.nodes import node
from tests.parity.places import add_node_affinity, add_selector, add_tolerations
from tests.parity.requests import (
    add_containers,
    add_image_volume,
    add_ports,
    add_restart_rule,
    fit_exactly,
)
from tests.parity.resizes import add_resize
from tests.parity.storage import storage
from tests.parity.workloads import owner, workloads
from tests.parity.world import HOLD, NEVER, Case, Round, Step, World

CASES_IN_A_ROUND = 20

_CHANCES: Mapping[str, int] = {
    "exact fit": 12,
    "ports": 8,
    "node selector": 8,
    "node affinity": 20,
    "tolerations": 50,
    "pod affinity": 20,
    "spread": 20,
    "volumes": 12,
    "owner": 25,
    "gates": 2,
}
"""In a hundred pods. Each round has a theme, of which its pods have more."""
_THEMES = ("volumes", "pod affinity", "volumes", "spread", "node affinity", "ports", "volumes", "exact fit")
_MUCH = 65


def make_round(seed: int, number: int, cases: int = CASES_IN_A_ROUND) -> Round:
    """One cluster, and the pods that are tried in it."""
    draw = Draw(f"{seed}/{number}")
    chances = {**_CHANCES, _THEMES[number % len(_THEMES)]: _MUCH}
    world = _cluster(draw, number, chances)
    steps = []
    now = world
    for case in range(cases if world.nodes else 1):
        draw = Draw(f"{seed}/{number}/{case}")
        first = None
        if now.nodes and draw.chance(20):
            first = _placed(draw, now, f"more-{number}-{case}", chances)
            now = now.plus(first)
        steps.append(Step(make_pod(draw, now, f"case-{number}-{case}", chances), first))
    return Round(number, world, tuple(steps))


def every_case(seed: int, count: int) -> Iterator[Case]:
    """The first cases of a seed, each with its cluster."""
    found = (case for number in itertools.count() for case in cases_of(make_round(seed, number)))
    return itertools.islice(found, count)


def cases_of(one: Round) -> Iterator[Case]:
    """The cases of a round."""
    world = one.world
    for index, step in enumerate(one.steps):
        if step.first is not None:
            world = world.plus(step.first)
        yield Case(one.number * CASES_IN_A_ROUND + index, world, step.pod)


def make_pod(draw: Draw, world: World, name: str, chances: Mapping[str, int] = _CHANCES) -> Json:
    """A pod, of which most have a few of the things that scheduling looks at, and none all."""
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": draw.choice(NAMESPACES), "labels": draw.pod_labels()},
        "spec": {"terminationGracePeriodSeconds": 0},
    }
    _about_nodes(draw, pod["spec"], world, chances)
    _about_others(draw, pod, world, chances)
    if draw.chance(chances["gates"]):
        pod["spec"]["schedulingGates"] = [{"name": "parity.example/wait"}]
    if not draw.chance(10):
        pod["spec"]["priorityClassName"] = NEVER
    return pod


def _about_nodes(draw: Draw, spec: Json, world: World, chances: Mapping[str, int]) -> None:
    add_containers(draw, spec)
    if world.nodes and draw.chance(chances["exact fit"]):
        fit_exactly(draw, spec, world)
    if draw.chance(chances["ports"]):
        add_ports(draw, spec)
    if draw.chance(chances["node selector"]):
        add_selector(draw, spec)
    if draw.chance(chances["node affinity"]):
        add_node_affinity(draw, spec, world)
    if draw.chance(chances["tolerations"]):
        add_tolerations(draw, spec)


def _about_others(draw: Draw, pod: Json, world: World, chances: Mapping[str, int]) -> None:
    labels = pod["metadata"]["labels"]
    if draw.chance(chances["pod affinity"]):
        add_pod_affinity(draw, pod["spec"], labels)
    if draw.chance(chances["spread"]):
        add_spread(draw, pod["spec"], labels)
    if draw.chance(chances["volumes"]):
        add_volumes(draw, pod, world)
    if draw.chance(5):
        add_image_volume(draw, pod["spec"])
    if draw.chance(6):
        add_restart_rule(draw, pod["spec"])
    if draw.chance(chances["owner"]) and (above := owner(draw, world, pod["metadata"])):
        pod["metadata"]["ownerReferences"] = [above]


def _cluster(draw: Draw, number: int, chances: Mapping[str, int]) -> World:
    count = 0 if number % 10 == 4 else draw.randint(3, 12)
    objects = [_namespace(draw, name) for name in NAMESPACES]
    roomy = draw.chance(50)
    objects += [node(draw, index, roomy=roomy) for index in range(count)]
    objects += workloads(draw)
    world = World(tuple(objects))
    world = world.plus(*storage(draw, world, always=chances["volumes"] == _MUCH))
    for index in range(draw.randint(0, 3 * count)):
        world = world.plus(_placed(draw, world, f"placed-{number}-{index}", chances))
    return world


def _placed(draw: Draw, world: World, name: str, chances: Mapping[str, int]) -> Json:
    """A pod that is on a node already, fit or not; some are about to go, some have ended."""
    pod = copy.deepcopy(make_pod(draw, world, name, chances))
    spec = pod["spec"]
    spec.pop("schedulingGates", None)
    spec["nodeName"] = draw.choice(world.nodes)["metadata"]["name"]
    kind = draw.random()
    if kind < 0.08:
        pod["metadata"]["finalizers"] = [HOLD]
    elif kind < 0.14:
        pod["status"] = {"phase": draw.choice(("Succeeded", "Failed"))}
        # kube-scheduler keeps ports as a set: of two pods with one port, the end of one frees it for both.
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container.pop("ports", None)
    elif kind < 0.4:
        pod["status"] = {"phase": "Running"}
        if kind < 0.24:
            # Dice of its own: what else is drawn stays as it was.
            add_resize(Draw(f"resize/{name}/{kind}"), pod)
    return pod


def _namespace(draw: Draw, name: str) -> Json:
    labels = {"env": draw.choice(("prod", "test"))} if draw.chance(70) else {"env": None}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
