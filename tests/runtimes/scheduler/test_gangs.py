"""Gangs in the scheduler: nobody is assumed before all fit, and the turn of one is the turn of all."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan import Gang
from bayplan.authoring.load import Definition
from bayplan.client.errors import ApiError, ConnectError
from bayplan.state import ledger as ledger_module
from tests.runtimes.scheduler.gang_stage import DEFAULT, GangStage

REFUSED = ApiError(403, "no", doing="binding")


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


@bayplan.gang
def by_job(pod):  # type: ignore[no-untyped-def]
    return Gang(pod.labels["job"], size=2) if "job" in pod.labels else None


@bayplan.gang
def careless(pod):  # type: ignore[no-untyped-def]
    raise RuntimeError("oh")


def failures(stage: Any) -> float | None:
    labels = {"policy": "own", "kind": "exception"}
    found: float | None = stage.metrics.registry.get_sample_value("bayplan_policy_failures_total", labels)
    return found


def own(hook: Any) -> Any:
    return Definition("own", ((hook.__name__, hook),), None, ()).make()


async def test_members_wait_beside_the_queue_until_enough_are_there(stages: Any) -> None:
    stage = stages()
    stage.node("n1")
    stage.gang("g", 2, members=1)
    await stage.settle()
    assert stage.inbox.queue.count("gang") == 1
    assert stage.places() == {}

    stage.gang("g", 2, members=1, first=1)
    await stage.settle()

    assert stage.places() == {"g-0": "n1", "g-1": "n1"}
    assert stage.api.bound == {"g-0": "n1", "g-1": "n1"}
    assert len(stage.inbox.queue) == 0
    assert stage.count("placed") == 1


async def test_whoever_is_in_no_gang_goes_on_meanwhile(stages: Any) -> None:
    stage = stages()
    stage.gang("g", 3, members=2)
    stage.pod("alone")

    assert await stage.turns() == ["alone"]


async def test_while_one_is_missing_each_is_told_once_in_a_while(stages: Any) -> None:
    stage = stages()
    stage.gang("g", 3, members=2)
    await stage.settle()
    assert stage.told.said == {}, "not with each that comes"

    stage.later(1)

    text = "gang default/g: 2 of 3 members are there"
    assert stage.told.said == {"g-0": text, "g-1": text}
    assert {decision.pod.name for decision in stage.decisions} == {"g-0", "g-1"}


async def test_where_one_does_not_fit_nobody_is_assumed_and_each_is_told_why(stages: Any) -> None:
    stage = stages()
    stage.node("n1", cpu=2)
    stage.gang("g", 3)

    await stage.settle()

    assert stage.places() == {}
    assert stage.api.posts == []
    reason = "0/1 nodes are available: 1 Insufficient cpu."
    assert stage.told.said == {
        "g-0": f"gang default/g: member g-2 does not fit: {reason}",
        "g-1": f"gang default/g: member g-2 does not fit: {reason}",
        "g-2": f"{reason} gang default/g: 2 others would fit. A gang evicts nobody.",
    }
    assert stage.inbox.queue.count("unschedulable") == 3
    by_pod = {decision.pod.name: decision for decision in stage.decisions}
    refusals = {name: decision.refusal(0) for name, decision in by_pod.items()}
    assert {name: found.reason.text for name, found in refusals.items() if found} == {
        "g-0": "pod waits for its gang",
        "g-1": "pod waits for its gang",
        "g-2": "Insufficient cpu",
    }


async def test_more_room_brings_the_whole_gang_back(stages: Any) -> None:
    stage = stages()
    stage.node("n1", cpu=2)
    stage.gang("g", 3)
    await stage.settle()

    stage.node("n2", cpu=2)
    stage.inbox.told(frozenset({"nodes"}))
    stage.clock.now += 1
    await stage.settle()

    assert len(stage.places()) == 3


async def test_two_gangs_that_each_need_more_than_half_do_not_lock_each_other_out(stages: Any) -> None:
    stage = stages()
    stage.node("n1", cpu=5)
    for number in range(3):
        for name in ("a", "b"):
            stage.pod(f"{name}-{number}", gang=name, size=3)
    await stage.settle()

    (winner,) = {name.partition("-")[0] for name in stage.places()}
    assert len(stage.places()) == 3
    for number in range(3):
        stage.gone(f"{winner}-{number}")
    stage.clock.now += 1
    await stage.settle()

    assert Counter(name.partition("-")[0] for name in stage.places()) == {"b" if winner == "a" else "a": 3}


async def test_a_member_whose_bind_is_refused_comes_again_into_the_rack_of_the_others(stages: Any) -> None:
    stage = stages(REFUSED)
    stage.node("small", rack="r1", cpu=2)
    stage.gang("g", 2, within="rack")
    await stage.settle()
    assert len(stage.places()) == 1, "who is bound is bound"
    stage.node("large", rack="r2", cpu=64)

    stage.clock.now += 10
    await stage.settle()

    assert set(stage.places().values()) == {"small"}
    assert len(stage.api.bound) == 2


async def test_a_member_whose_bind_is_in_doubt_keeps_its_place_until_that_is_known(stages: Any) -> None:
    stage = stages(ConnectError("broken"), None)
    stage.node("n1")
    stage.gang("g", 2)

    await stage.settle()

    assert stage.api.bound == {"g-0": "n1", "g-1": "n1"}


async def test_bound_members_count_and_decide_the_rack_after_a_restart(stages: Any) -> None:
    stage = stages()
    stage.node("a", rack="r1", cpu=64)
    stage.node("b", rack="r2", cpu=3)
    stage.pod("g-0", gang="g", size=3, within="rack", node="b")
    stage.gang("g", 3, members=2, first=1, within="rack")

    await stage.settle()

    assert stage.places() == {"g-0": "b", "g-1": "b", "g-2": "b"}


async def test_a_member_that_ends_neither_counts_nor_decides_the_rack(stages: Any) -> None:
    stage = stages()
    stage.node("a", rack="r1")
    stage.node("b", rack="r2")
    pod = stage.pod("g-0", gang="g", size=2, within="rack", node="a")
    ends = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    stage.cache.put_pod(msgspec.structs.replace(pod, metadata=ends))
    stage.gang("g", 2, members=1, first=1, within="rack")
    await stage.settle()
    stage.later(1)
    assert stage.told.said == {"g-1": "gang default/g: 1 of 2 members are there"}

    stage.gang("g", 2, members=1, first=2, within="rack")
    await stage.settle()

    assert stage.places() == {"g-0": "a", "g-1": "b", "g-2": "b"}, "where both have room"


async def test_whoever_comes_late_joins_the_gang_in_its_rack(stages: Any) -> None:
    stage = stages()
    stage.node("a", rack="r1", cpu=4)
    stage.node("b", rack="r2", cpu=3)
    stage.gang("g", 2, members=2, within="rack")
    await stage.settle()
    (rack,) = set(stage.places().values())

    stage.pod("g-late", gang="g", size=2, within="rack")
    await stage.settle()

    assert stage.places()["g-late"] == rack


async def test_one_too_many_waits_for_those_before_it_and_is_placed_then(stages: Any) -> None:
    stage = stages()
    stage.node("n1", cpu=1)
    stage.gang("g", 2, members=3)
    await stage.settle()
    assert stage.places() == {}
    assert stage.inbox.queue.count("gang") == 1

    stage.node("n2", cpu=4)
    stage.inbox.told(frozenset({"nodes"}))
    stage.clock.now += 1
    await stage.settle()

    assert len(stage.places()) == 3


async def test_when_the_one_that_did_not_fit_is_gone_the_others_are_placed(stages: Any) -> None:
    stage = stages()
    for node in ("n1", "n2"):
        stage.node(node, cpu=2)
    stage.pod("g-big", gang="g", size=2, cpu=8)
    for name in ("g-1", "g-2"):
        stage.pod(name, gang="g", size=2, cpu=1)
    await stage.settle()
    assert stage.places() == {}

    stage.gone("g-big")
    stage.later(10)
    await stage.settle()

    assert set(stage.places()) == {"g-1", "g-2"}


async def test_members_that_do_not_agree_are_told_and_wait(stages: Any) -> None:
    stage = stages()
    stage.node("n1")
    stage.pod("g-0", gang="g", size=2)
    stage.pod("g-1", gang="g", size=3)
    await stage.settle()
    stage.later(1)

    text = "gang default/g: members do not agree: g-0 says 2 members in 60 s, g-1 3 members in 60 s"
    assert stage.told.said == {"g-0": text, "g-1": text}
    assert stage.places() == {}


async def test_a_pod_with_bad_labels_is_told_and_tried_again_when_it_says_something_else(stages: Any) -> None:
    stage = stages()
    stage.node("n1")
    stage.pod("typo", labels={"bayplan.dev/gang": "g", "bayplan.dev/gang-size": "two"})
    await stage.settle()
    assert stage.told.said["typo"].endswith("got 'two'")
    assert stage.inbox.queue.count("gang") == 1

    stage.pod("typo", gang="g", size=1)
    await stage.settle()

    assert stage.places() == {"typo": "n1"}


async def test_a_hook_names_the_gang_of_waiting_and_of_bound_pods(stages: Any) -> None:
    stage = stages(policies=(*DEFAULT, own(by_job)))
    stage.node("n1", cpu=4)
    stage.pod("j-0", labels={"job": "j"}, node="n1")
    stage.pod("j-1", labels={"job": "j"})
    stage.pod("alone")

    assert await stage.turns() == ["alone"]
    await stage.placing.finish(timeout_seconds=5)

    assert stage.places() == {"j-0": "n1", "j-1": "n1"}


async def test_a_pod_of_which_a_hook_said_nothing_can_be_judged_with_others(stages: Any) -> None:
    stage = stages(policies=(*DEFAULT, own(by_job)))
    first, other = stage.pod("first"), stage.pod("other")
    assert stage.gangs.concerns(other)

    await stage.turns()

    assert not stage.gangs.concerns(first)
    assert not stage.gangs.concerns(other)
    assert stage.gangs.concerns(stage.pod("other", labels={"job": "j"})), "it is another one now"


async def test_a_hook_that_fails_brings_the_pod_back_after_a_pause(stages: Any) -> None:
    stage = stages(policies=(*DEFAULT, own(careless)))
    stage.pod("p")

    await stage.settle()

    assert "RuntimeError: oh" in stage.told.said["p"]
    assert stage.inbox.queue.count("backoff") == 1
    assert failures(stage) == 1


async def test_a_hook_that_fails_and_is_ignored_is_told_and_counted(
    stages: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage = stages(policies=(*DEFAULT, replace(own(careless), failure_policy="Ignore")))
    stage.node("n1")
    stage.pod("p")

    assert await stage.turns() == ["p"], "it is placed for itself"

    assert "RuntimeError: oh (pod default/p, gang)" in caplog.text
    assert failures(stage) == 1


async def test_other_policies_may_say_otherwise_who_is_in_a_gang(stages: Any) -> None:
    stage = stages(policies=(*DEFAULT, own(by_job)))
    stage.pod("j-0", labels={"job": "j"})
    await stage.settle()
    assert stage.inbox.queue.count("gang") == 1

    stage.policies = DEFAULT
    stage.gangs.reload()

    assert await stage.turns() == ["j-0"]


async def test_a_node_that_goes_while_the_gang_is_judged_leaves_nobody_assumed(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages()
    stage.node("n1")
    stage.gang("g", 2)
    judge = stage.gangs._judge.judge

    async def node_goes(*args: Any) -> Any:
        found = await judge(*args)
        stage.cache.drop_node("n1")
        return found

    monkeypatch.setattr(stage.gangs._judge, "judge", node_goes)
    await stage.settle()

    assert stage.places() == {}
    assert stage.inbox.queue.count("backoff") == 2


async def test_a_member_that_goes_while_the_gang_is_judged_leaves_nobody_assumed(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages()
    stage.node("n1")
    stage.gang("g", 2)
    judge = stage.gangs._judge.judge

    async def member_goes(*args: Any) -> Any:
        found = await judge(*args)
        if "g-1" in stage.inbox.queue:
            stage.gone("g-1")
        return found

    monkeypatch.setattr(stage.gangs._judge, "judge", member_goes)
    await stage.settle()

    assert stage.places() == {}
    assert stage.inbox.queue.count("backoff") == 1


async def test_a_surprise_in_the_judgement_forgets_nobody(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stages()
    stage.gang("g", 2)

    async def surprise(*_: Any) -> Any:
        raise RuntimeError("what was that")

    monkeypatch.setattr(stage.gangs._judge, "judge", surprise)
    await stage.settle()

    assert stage.inbox.queue.count("backoff") == 2


async def test_what_is_kept_for_somebody_more_important_is_not_for_a_gang(stages: Any) -> None:
    stage = stages()
    stage.node("n1", cpu=2)
    stage.inbox.nominations.keep(stage.pod("urgent", cpu=2, priority=10), "n1")
    stage.inbox.queue.drop("urgent")
    stage.gang("g", 2)

    await stage.settle()

    assert stage.places() == {}


async def test_a_node_that_a_gang_gives_up_is_news_for_whoever_waits_for_room(stages: Any) -> None:
    stage = stages()
    stage.gang("g", 2)
    stage.inbox.nominations.keep(stage.cache.pod("default/g-0"), "n1")
    stage.pod("other", priority=10)
    other = stage.inbox.queue.take()
    assert other.pod.name == "other"
    stage.inbox.refused(other, helped_by=frozenset({"pods"}), by=())

    await stage.turns()

    assert list(stage.inbox.nominations) == []
    assert other.place == "backoff"


STEPS = st.one_of(
    st.tuples(st.just("member"), st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("alone"), st.just("")),
    st.tuples(st.just("node"), st.sampled_from(["r1", "r2"])),
    st.tuples(st.just("turns"), st.just("")),
    st.tuples(st.just("watch"), st.just("")),
)
SIZES = {"a": 2, "b": 3, "c": 4}


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_whatever_happens_no_gang_is_placed_in_part_and_each_is_in_one_rack(
    steps: list[tuple[str, str]],
) -> None:
    asyncio.run(_no_part_of_a_gang(steps))


async def _no_part_of_a_gang(steps: list[tuple[str, str]]) -> None:
    stage = GangStage()
    try:
        for number, (what, which) in enumerate([*steps, ("turns", "")]):
            if what == "member":
                stage.pod(f"{which}-{number}", gang=which, size=SIZES[which], within="rack")
            elif what == "alone":
                stage.pod(f"alone-{number}")
            elif what == "node":
                stage.node(f"{which}-{number}", rack=which, cpu=2)
                stage.inbox.told(frozenset({"nodes"}))
            elif what == "watch":
                stage.later(5)
            else:
                stage.clock.now += 20
                while (waiting := stage.inbox.queue.take()) is not None:
                    if not await stage.gangs.turn(waiting):
                        stage.inbox.queue.drop(waiting.pod.uid)
                    check_whole(stage)
        await stage.placing.finish(timeout_seconds=5)
        check_whole(stage)
        assert set(stage.api.bound) == set(stage.places())
        assert (stage.cache.snapshot().nodes["cpu.free"] >= 0).all()
    finally:
        stage.close()


def check_whole(stage: GangStage) -> None:
    places = stage.places()
    count = Counter(name.partition("-")[0] for name in places)
    racks = {(name.partition("-")[0], node.partition("-")[0]) for name, node in places.items()}
    assert all(count[name] >= SIZES[name] for name in count)
    assert len(racks) == len(count)
