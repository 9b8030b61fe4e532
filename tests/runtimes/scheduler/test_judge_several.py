"""Pods that are judged in one go end up where each would have gone alone, one after another."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

import bayplan
from bayplan import Pod
from bayplan.authoring.load import Definition, load
from bayplan.authoring.registry import Policy
from bayplan.config.profile import Profile
from bayplan.engine.guard import Attempt
from bayplan.runtimes.scheduler.judge import Judge
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_LONG_SECONDS = 60.0
_PODS = 60


@bayplan.filter
def two_a_node(pod: Pod, nodes: bayplan.NodeTable) -> bayplan.Verdict:
    """A rule of a user, which promises nothing."""
    return bayplan.Reason("two are there").where(nodes.count(bayplan.PodLabel("app").same_as(pod)) >= 2)


def _spec(pod: Pod, **more: Any) -> Pod:
    spec = {**msgspec.to_builtins(pod.spec), **more}
    return msgspec.structs.replace(pod, spec=msgspec.convert(spec, type(pod.spec)))


def _plain(number: int) -> Pod:
    return make_pod(f"p{number}", cpu="700m", memory="1Gi", labels={"app": f"app-{number % 3}"})


def _asking_for_nothing(number: int) -> Pod:
    return make_pod(f"p{number}", labels={"app": "app-0"})


def _apart(number: int) -> Pod:
    pod = make_pod(f"p{number}", cpu="100m", labels={"app": f"app-{number % 5}"})
    term = {"labelSelector": {"matchLabels": {"app": pod.labels["app"]}}, "topologyKey": HOST}
    return _spec(
        pod, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )


def _some_apart(number: int) -> Pod:
    return _apart(number) if number % 4 == 0 else _plain(number)


def _spread(number: int) -> Pod:
    pod = make_pod(f"p{number}", cpu="100m", labels={"app": "spread"})
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule" if number % 2 else "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return _spec(pod, topologySpreadConstraints=[constraint])


def _with_port(number: int) -> Pod:
    container = {"name": "c", "ports": [{"hostPort": 8000 + number % 2, "containerPort": 80}]}
    return _spec(make_pod(f"p{number}"), containers=[container])


def _cache(pods: Sequence[Pod]) -> Cache:
    cache = Cache()
    for number in range(30):
        size = 2 + number % 3
        labels = {HOST: f"n{number}"}
        node = make_node(f"n{number}", cpu=size, memory=f"{size}Gi", zone=f"z{number % 4}", labels=labels)
        cache.put_node(node.object)
    for pod in pods:
        cache.put_pod(pod)
    return cache


def _policies(profile: str) -> tuple[Policy, ...]:
    default = tuple(Profile.default().policies)
    own = {
        "default": (),
        "own": (Definition("two_a_node", (("two_a_node", two_a_node),), None, ()).make(),),
        "packing": (load("MostAllocated")[0].make(),),
    }[profile]
    return (*default, *own)


def _alone(policies: Sequence[Policy], pods: Sequence[Pod]) -> Iterator[str]:
    judge, cache = Judge(policies, rng=random.Random(3)), _cache(pods)
    for pod in pods:
        # Another judge's eyes for each: nobody remembers anything.
        fresh = Judge(policies, rng=judge._rng)
        found = fresh.judge(pod, cache.snapshot(), Attempt())
        yield found.node
        if found.node:
            cache.assume(pod, found.node)


def _together(policies: Sequence[Policy], pods: Sequence[Pod], *, at_once: int) -> Iterator[str]:
    judge, cache = Judge(policies, rng=random.Random(3)), _cache(pods)
    left = list(pods)
    while left:
        placed = judge.place_some(left[:at_once], cache.snapshot(), Attempt(), seconds=_LONG_SECONDS)
        for pod, one in zip(left, placed, strict=False):
            cache.assume(pod, one.found.node)
            yield one.found.node
        left = left[len(placed) :]
        if left and len(placed) < at_once:
            found = judge.judge(left[0], cache.snapshot(), Attempt())
            yield found.node
            if found.node:
                cache.assume(left[0], found.node)
            left = left[1:]


@pytest.mark.parametrize("at_once", [2, 7, 64])
@pytest.mark.parametrize(
    ("profile", "make"),
    [
        pytest.param("default", _plain, id="plain pods of three kinds"),
        pytest.param("default", _asking_for_nothing, id="pods that ask for nothing"),
        pytest.param("default", _apart, id="pods that keep apart"),
        pytest.param("default", _some_apart, id="some that keep apart among others"),
        pytest.param("default", _spread, id="pods that spread"),
        pytest.param("default", _with_port, id="pods that want a port of the node"),
        pytest.param("own", _plain, id="with a rule that promises nothing"),
        pytest.param("packing", _plain, id="with a score that fills nodes up"),
    ],
)
def test_pods_in_one_go_get_the_nodes_they_would_have_got_one_by_one(
    profile: str, make: Any, at_once: int
) -> None:
    policies, pods = _policies(profile), [make(number) for number in range(_PODS)]
    alone = list(_alone(policies, pods))

    assert list(_together(policies, pods, at_once=at_once)) == alone
    assert len(set(alone)) > 1, "they do not all go to one node"


def test_it_ends_before_the_first_pod_that_does_not_fit_and_says_nothing_about_it() -> None:
    told: list[str] = []
    judge = Judge(Profile.default().policies, record=lambda verb, d: told.append(f"{verb} {d.pod.name}"))
    pods = [make_pod("fits", cpu=1), make_pod("too-large", cpu=64), make_pod("fits-too", cpu=1)]

    placed = judge.place_some(pods, _cache(pods).snapshot(), Attempt(), seconds=_LONG_SECONDS)

    assert [one.found.choice.filtered.pod.name for one in placed] == ["fits"]
    assert told == ["filter fits", "prioritize fits"]


def test_it_ends_when_its_time_is_over() -> None:
    pods = [_plain(number) for number in range(5)]
    judge = Judge(Profile.default().policies)

    assert len(judge.place_some(pods, _cache(pods).snapshot(), Attempt(), seconds=0.0)) == 1
