"""Gangs when something comes between: gates, conflicts, nodes that go, another leader, a reload."""

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import bayplan
from bayplan import Gang
from bayplan.authoring.load import Definition
from bayplan.client.errors import ApiError
from bayplan.snapshot.sources import NO_READINGS, Readings
from bayplan.state import ledger as ledger_module
from bayplan.testing import make_pod
from tests.runtimes.scheduler.gang_stage import DEFAULT, GangStage
from tests.state.test_ledger import until

CONFLICT = ApiError(409, "it was changed", doing="binding")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "_ROLL_FORWARD_SECONDS", (0.001, 0.002))
    monkeypatch.setattr("bayplan.client.bind._RETRY_SECONDS", ())


@pytest.fixture
def stages() -> Iterator[Any]:
    made: list[GangStage] = []

    def make(*script: Exception | None, **settings: Any) -> GangStage:
        made.append(GangStage(*script, **settings))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


async def test_a_member_that_a_policy_keeps_out_is_waited_for(stages: Any) -> None:
    stage = stages(gated=True)
    stage.node("n1")
    stage.gang("g", 2)
    stage.answer("g-1")

    await stage.settle()
    assert stage.places() == {}
    stage.later(1)
    assert stage.told.said == {"g-0": "gang default/g: 1 of 2 members are there"}

    stage.inbox.told(frozenset({"nodes"}))
    stage.inbox.queue.lobby.begin_round()
    assert stage.answer() == ["g-1"]
    await stage.settle()

    assert stage.places() == {"g-0": "n1", "g-1": "n1"}


async def test_a_refused_member_is_asked_about_again_before_the_gang_is_judged_again(stages: Any) -> None:
    stage = stages(gated=True)
    stage.node("n1", cpu=1)
    stage.gang("g", 2)
    stage.answer()
    await stage.settle()
    assert stage.inbox.queue.count("unschedulable") == 2
    stage.node("n2", cpu=1)
    stage.clock.now += 10
    stage.inbox.queue.wake("g-0")
    assert stage.answer() == ["g-0"], "the other one has heard nothing"

    await stage.settle()
    assert stage.answer("g-1") == ["g-1"], "it comes along, and so it is asked about"
    await stage.settle()

    assert stage.places() == {}
    assert (stage.inbox.queue.count("held"), stage.inbox.queue.count("gang")) == (1, 1)


async def test_with_everybody_let_in_again_the_gang_is_judged_again(stages: Any) -> None:
    stage = stages(gated=True)
    stage.node("n1", cpu=1)
    stage.gang("g", 3)
    stage.answer()
    await stage.settle()
    stage.node("n2", cpu=2)
    stage.clock.now += 10
    stage.inbox.queue.wake("g-0")
    stage.answer()

    await stage.settle()
    assert stage.answer() == ["g-1", "g-2"]
    await stage.settle()

    assert len(stage.api.bound) == 3


@pytest.mark.parametrize(
    ("node", "bound"),
    [
        pytest.param(None, 2, id="it has no node: it comes again"),
        pytest.param("elsewhere", 1, id="somebody else was faster: it is left to the watch"),
    ],
)
async def test_a_conflict_is_of_that_member_alone(node: str | None, bound: int, stages: Any) -> None:
    stage = stages(CONFLICT)
    stage.node("n1")
    stage.gang("g", 2)
    there = make_pod("g-0", uid="g-0", spec={"schedulerName": "ours"}, node=node)
    stage.api.pods["default/g-0"] = there
    await stage.settle()
    assert list(stage.api.bound) == ["g-1"]
    assert stage.inbox.queue.count("backoff") == 1
    if node is not None:
        stage.cache.put_pod(there)
        stage.inbox.pod_is(there)

    stage.clock.now += 10
    await stage.settle()

    assert len(stage.api.bound) == bound
    assert len(stage.inbox.queue) == 0
    assert stage.inbox.binding == set()


async def test_who_is_not_sent_yet_does_not_go_to_a_node_that_is_gone(stages: Any) -> None:
    stage = stages(at_once=1)
    stage.node("gone", cpu=3)
    stage.gang("g", 3)
    stage.api.hold.clear()
    await stage.turns()
    await until(lambda: len(stage.api.posts) == 1)

    stage.cache.drop_node("gone")
    stage.api.hold.set()
    await stage.placing.finish(timeout_seconds=5)

    assert stage.api.posts == ["gone"], "what was sent cannot be called back"
    assert stage.inbox.queue.count("backoff") == 2
    assert stage.told.said == {"g-1": "node gone is gone", "g-2": "node gone is gone"}
    assert stage.cache.assumed_count == 1


def _lost(stage: GangStage) -> None:
    stage.why_not = "another server binds"


def _lost_and_had_again(stage: GangStage) -> None:
    stage.term += 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_lost, id="the Lease is lost"),
        pytest.param(_lost_and_had_again, id="somebody else had it meanwhile"),
    ],
)
async def test_a_gang_that_is_half_sent_when_another_one_leads_is_decided_anew(
    change: Callable[[GangStage], None], stages: Any
) -> None:
    stage = stages(at_once=1)
    stage.node("small", rack="r1", cpu=3)
    stage.gang("g", 3, within="rack")
    stage.api.hold.clear()
    await stage.turns()
    await until(lambda: len(stage.api.posts) == 1)

    change(stage)
    stage.api.hold.set()
    await stage.placing.finish(timeout_seconds=5)
    assert stage.api.posts == ["small"]
    assert stage.inbox.queue.count("backoff") == 2
    assert stage.places() == {"g-0": "small"}

    stage.why_not = ""
    stage.node("large", rack="r2", cpu=64)
    stage.clock.now += 10
    await stage.settle()

    assert set(stage.places().values()) == {"small"}, "in the rack of the one that was sent"
    assert len(stage.api.bound) == 3


async def test_what_policies_said_before_a_reload_does_not_count_after_it(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    @bayplan.gang
    def named(pod):  # type: ignore[no-untyped-def]
        return Gang("old", size=2)

    @bayplan.gang
    def nobody(pod):  # type: ignore[no-untyped-def]
        return None

    stage = stages()
    fresh = copy.copy(stage)
    stage.policies = (*DEFAULT, Definition("own", (("named", named),), None, ()).make())
    fresh.policies = (*DEFAULT, Definition("own", (("nobody", nobody),), None, ()).make())
    stage.pod("p")
    run = stage.workers.run

    async def loaded_meanwhile(*args: Any, **more: Any) -> Any:
        answers = await run(*args, **more)
        stage.generation = fresh
        stage.gangs.reload()
        return answers

    monkeypatch.setattr(stage.workers, "run", loaded_meanwhile)
    assert await stage.turns() == []
    stage.clock.now += 10

    assert await stage.turns() == ["p"], "alone, as the new policies have it"


async def test_a_gang_whose_rack_is_nowhere_waits_for_a_node_and_is_not_tried_all_the_time(
    stages: Any,
) -> None:
    stage = stages()
    stage.node("plain")
    stage.gang("g", 2, within="rack")
    await stage.settle()

    assert stage.told.said["g-0"].startswith("no node has the label rack.")
    assert stage.inbox.queue.count("unschedulable") == 2

    stage.node("racked", rack="r1")
    stage.clock.now += 10
    stage.inbox.told(frozenset({"nodes"}))
    await stage.settle()

    assert set(stage.places().values()) == {"racked"}


async def test_a_gang_that_cannot_be_judged_counts_as_errors(stages: Any) -> None:
    @bayplan.gang
    def careless(pod):  # type: ignore[no-untyped-def]
        raise RuntimeError("oh")

    stage = stages(policies=(*DEFAULT, Definition("own", (("careless", careless),), None, ()).make()))
    stage.pod("p")
    await stage.turns()

    labels = {"result": "error", "profile": "ours"}
    assert stage.registry.get_sample_value("bayplan_schedule_attempts_total", labels) == 1


async def test_a_surprise_with_a_gang_counts_as_errors_and_each_member_is_told(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages()
    stage.node("n1")

    async def surprise(*_: Any) -> None:
        raise RuntimeError("what was that")

    monkeypatch.setattr(stage.gangs, "_attempt", surprise)
    stage.gang("g", 2)
    await stage.turns()

    labels = {"result": "error", "profile": "ours"}
    assert stage.registry.get_sample_value("bayplan_schedule_attempts_total", labels) == 2
    text = "gang default/g: RuntimeError: what was that"
    assert stage.told.said == {"g-0": text, "g-1": text}
    assert stage.inbox.queue.count("backoff") == 2


async def test_what_helps_in_a_rack_that_refused_the_first_member_brings_the_gang_back(stages: Any) -> None:
    """Another rack was tried, for it had a node for that member, and had too little room for all."""
    hot = True

    @bayplan.filter
    def cool(pod, node):  # type: ignore[no-untyped-def]
        if hot and node.labels["rack"] == "large":
            return bayplan.Reason("too hot", helped_by={"source:heat"})
        return None

    stage = stages(policies=(*DEFAULT, Definition("own", (("cool", cool),), None, ()).make()))
    stage.node("s1", rack="small", cpu=1)
    stage.node("l1", rack="large", cpu=8)
    stage.gang("g", 2, within="rack")
    await stage.settle()
    assert "does not fit in rack small, the best of 2" in stage.told.said["g-0"]

    hot = False
    stage.inbox.told(frozenset({"source:heat"}))
    stage.clock.now += 10
    await stage.settle()

    assert set(stage.places().values()) == {"l1"}


async def test_what_happens_while_a_source_is_asked_about_members_counts(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages()
    stage.node("n1", cpu=2)

    async def about(*_: object, **__: object) -> Readings:
        stage.cache.put_pod(make_pod("theirs", uid="theirs", node="n1", cpu=1))
        return NO_READINGS

    sources = SimpleNamespace(asked={"inventory": None}, current=NO_READINGS, about=about)
    monkeypatch.setattr(GangStage, "sources", sources)
    stage.gang("g", 2)

    await stage.settle()

    assert stage.places() == {"theirs": "n1"}
