"""What is remembered about pods of a kind gives the same answers as judging each of them anew."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

import bayplan
from bayplan.authoring.hooks import ReadsOf
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import Policy
from bayplan.config.profile import Profile
from bayplan.engine.choose import Choice, choose
from bayplan.engine.memory import Memory, likeness
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.node import NodeSpec, NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.draft import Draft
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.parity.draw import Json
from tests.parity.generator import make_round

NOW = datetime(2026, 11, 16, tzinfo=UTC)
_ROUNDS = 24
_BATCHES, _PODS = 3, 12


def _told(choice: Choice) -> object:
    """Everything that a choice says, node by node."""
    refusals = [choice.filtered.refusal(row) for row in range(len(choice.filtered.nodes))]
    total = None if choice.scored is None or choice.scored.total is None else choice.scored.total.tolist()
    by_policy = (
        {}
        if choice.scored is None
        else {
            (outcome.hook.policy, outcome.hook.name): outcome.normalised.tolist()
            for outcome in choice.scored.outcomes
            if outcome.normalised is not None
        }
    )
    return choice.feasible, choice.message, choice.best, refusals, total, by_policy


def _same(memory: Memory, policies: Sequence[Policy], pod: Pod, cluster: Snapshot) -> Choice:
    anew = choose(policies, pod, cluster, now=NOW)
    again = choose(policies, pod, cluster, now=NOW, memory=memory)
    assert _told(again) == _told(anew)
    return again


def _without_nulls(value: Any) -> Any:
    """As the API server keeps it."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


class _World:
    """A cluster of the generator in a cache, and pods of a few kinds to be placed in it."""

    def __init__(self, number: int) -> None:
        made = make_round(7, number)
        self.random = random.Random(number)
        self.cache = Cache()
        self._numbers = iter(range(10_000))
        for node in made.world.nodes:
            self.cache.put_node(msgspec.convert(node, NodeWithImages))
        for placed in made.world.pods:
            self.cache.put_pod(self._pod(placed))
        for one in made.world.objects:
            if one["kind"] in OBJECT_KINDS:
                part = OBJECT_KINDS[one["kind"]].part
                self.cache.objects.put(one["kind"], msgspec.convert(_without_nulls(one), part))
        kinds = [{**step.pod, "spec": {**step.pod["spec"], "volumes": []}} for step in made.steps]
        self.kinds = kinds[:4]

    def pods(self) -> Iterator[Pod]:
        for _ in range(_PODS):
            yield self._pod(self.random.choice(self.kinds))

    def something_happens(self) -> None:
        """Others place pods, pods go, now and then a node changes."""
        placed = [pod for pod in self.cache.pods if pod.node_name]
        if placed and self.random.random() < 0.5:
            self.cache.drop_pod(self.random.choice(placed).key)
        names = list(self.cache.snapshot().nodes.names)
        if names and self.random.random() < 0.5:
            other = {**self.random.choice(self.kinds)}
            other["spec"] = {**other["spec"], "nodeName": self.random.choice(names)}
            self.cache.put_pod(self._pod(other))
        if names and self.random.random() < 0.3:
            node = self.cache.node(self.random.choice(names))
            assert node is not None
            spec = msgspec.structs.replace(node.spec or NodeSpec(), unschedulable=True)
            self.cache.put_node(msgspec.structs.replace(node, spec=spec))

    def _pod(self, manifest: Json) -> Pod:
        number = next(self._numbers)
        metadata = {**manifest["metadata"], "name": f"p{number}", "uid": f"uid-{number}"}
        return msgspec.convert({**manifest, "metadata": metadata}, Pod)


@pytest.mark.parametrize("number", range(_ROUNDS))
def test_alike_pods_one_after_another_are_judged_as_if_nobody_remembered(number: int) -> None:
    policies = Profile.default().policies
    memory = Memory(most=1.0)
    world = _World(number)
    for _ in range(_BATCHES):
        draft = Draft(world.cache.snapshot())
        step_by_step = world.cache.snapshot()
        for pod in world.pods():
            choice = _same(memory, policies, pod, draft.snapshot)
            assert _told(choice) == _told(choose(policies, pod, step_by_step, now=NOW))
            if choice.feasible:
                node = world.random.choice(choice.best)
                draft.place(pod, node)
                step_by_step = step_by_step.placed(pod, node)
                # Of what was drafted not everything comes to be.
                if world.random.random() < 0.7:
                    world.cache.assume(pod, node)
        world.something_happens()


def _pods(count: int) -> list[Pod]:
    return [make_pod(f"p{number}", cpu=1) for number in range(count)]


class _Asked:
    """A policy that notes about how many nodes it is asked."""

    def __init__(self) -> None:
        self.filter: list[int] = []
        self.score: list[int] = []


def _counting(asked: _Asked, *, reads: ReadsOf, range: tuple[float, float] | None = (0, 100)) -> Policy:
    @bayplan.policy
    class Counting:
        @bayplan.filter(reads=reads)
        def fits(self, pod, nodes):  # type: ignore[no-untyped-def]
            asked.filter.append(len(nodes))
            return bayplan.Reason("full").where(nodes["cpu.free"] < pod.cpu_milli)

        @bayplan.score(range=range, reads=reads)
        def room(self, nodes):  # type: ignore[no-untyped-def]
            asked.score.append(len(nodes))
            return nodes["cpu.free"] / 1000

    return Definition("Counting", (), Counting, ()).make()


@pytest.mark.parametrize(
    ("reads", "asked"),
    [
        pytest.param("cluster", [10, 10, 10], id="who promises nothing is asked about every node"),
        pytest.param("pods", [10, 1, 1], id="who reads a node and its pods, about the nodes that changed"),
        pytest.param("node", [10], id="who reads nodes alone, once"),
        pytest.param(lambda *_: "cluster", [10, 10, 10], id="who promises nothing for this pod, as without"),
    ],
)
def test_hooks_are_asked_as_little_as_they_promise(reads: ReadsOf, asked: list[int]) -> None:
    noted = _Asked()
    policies = [_counting(noted, reads=reads)]
    cluster = _cluster(10)
    memory = Memory()
    draft = Draft(cluster)
    for pod in _pods(3):
        choice = choose(policies, pod, draft.snapshot, now=NOW, memory=memory)
        draft.place(pod, choice.best[0])

    assert noted.filter == asked
    assert noted.score == asked


@pytest.mark.parametrize(
    "range",
    [
        pytest.param((0, 100), id="scores as they are"),
        pytest.param((0, 3), id="scores on a scale of their own"),
        pytest.param(None, id="scores that are stretched"),
    ],
)
def test_a_node_that_is_full_is_told_with_its_numbers(range: tuple[float, float] | None) -> None:
    policies = [_counting(_Asked(), reads="pods", range=range)]
    memory = Memory()
    draft = Draft(_cluster(3))
    for pod in _pods(12):
        choice = _same(memory, policies, pod, draft.snapshot)
        draft.place(pod, choice.best[0])

    assert _same(memory, policies, make_pod("one-more", cpu=1), draft.snapshot).feasible == []


def test_what_was_drafted_and_never_came_to_be_is_looked_at_again() -> None:
    policies = [_counting(_Asked(), reads="pods")]
    memory = Memory(most=1.0)
    cluster = _cluster(4)
    first, second = _pods(2)
    draft = Draft(cluster)
    draft.place(first, "n1")
    choose(policies, second, draft.snapshot, now=NOW, memory=memory)

    assert sorted(_same(memory, policies, second, cluster).best) == ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(make_pod("b", cpu=2), id="asks for more"),
        pytest.param(make_pod("b", cpu=1, labels={"app": "b"}), id="other labels"),
        pytest.param(make_pod("b", cpu=1, annotations={"note": "b"}), id="other annotations"),
        pytest.param(make_pod("b", cpu=1, namespace="other"), id="another namespace"),
        pytest.param(make_pod("b", cpu=1, owner=("ReplicaSet", "b")), id="another owner"),
        pytest.param(make_pod("b", cpu=1, priority=5), id="another priority"),
    ],
)
def test_pods_that_differ_in_more_than_their_names_are_not_alike(other: Pod) -> None:
    assert likeness(make_pod("a", cpu=1)) != likeness(other)
    assert likeness(make_pod("a", cpu=1)) == likeness(make_pod("c", cpu=1))


def test_a_hook_that_failed_is_not_remembered() -> None:
    failing = iter([True, False])

    @bayplan.policy
    class Failing:
        @bayplan.filter(reads="node")
        def sometimes(self, nodes):  # type: ignore[no-untyped-def]
            if next(failing):
                raise RuntimeError("not now")
            return bayplan.Reason("no").where(np.ones(len(nodes), dtype=np.bool_))

    policies = [replace(Definition("Failing", (), Failing, ()).make(), failure_policy="Ignore")]
    memory, cluster = Memory(), _cluster(3)
    first, second = _pods(2)

    assert len(choose(policies, first, cluster, now=NOW, memory=memory).feasible) == 3
    assert choose(policies, second, cluster, now=NOW, memory=memory).feasible == []


def test_only_the_last_kinds_are_remembered() -> None:
    noted = _Asked()
    policies = [_counting(noted, reads="node")]
    memory, cluster = Memory(kinds=2), _cluster(3)
    for app in ("a", "b", "c", "a"):
        choose(policies, make_pod(app, cpu=1, labels={"app": app}), cluster, now=NOW, memory=memory)

    assert noted.filter == [3, 3, 3, 3]


def _cluster(count: int) -> Snapshot:
    cache = Cache()
    for number in range(count):
        cache.put_node(make_node(f"n{number}", cpu=4).object)
    return cache.snapshot()
