"""A gang hook that is slow, or fails, for one pod: nobody else waits for that, and no answer is lost."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

import bayplan
from bayplan import Gang
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import FailurePolicy, Policy
from bayplan.runtimes.scheduler import naming
from tests.runtimes.scheduler.gang_stage import DEFAULT, GangStage

QUICK_SECONDS = 0.5


class Hook:
    """Names gangs by the label ``job``; for the pod ``slow`` it comes back when the test is over."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.over = threading.Event()

    def policy(self, failure_policy: FailurePolicy = "Fail") -> Policy:
        @bayplan.gang
        def by_job(pod):  # type: ignore[no-untyped-def]
            self.asked[pod.name] += 1
            if pod.name.startswith("slow"):
                self.over.wait(20)
            return Gang(pod.labels["job"], size=2, within="rack") if "job" in pod.labels else None

        made = Definition("own", (("by_job", by_job),), None, ()).make()
        return replace(made, failure_policy=failure_policy)


@pytest.fixture
def hook() -> Iterator[Hook]:
    made = Hook()
    yield made
    made.over.set()


@pytest.fixture
def stage(hook: Hook) -> Iterator[GangStage]:
    made = GangStage(policies=(*DEFAULT, hook.policy()), policy_seconds=QUICK_SECONDS)
    made.node("n1", rack="r1", cpu=8)
    yield made
    made.close()


async def test_after_its_turn_the_pod_that_a_hook_is_slow_for_is_in_nobodys_way(
    stage: GangStage, hook: Hook
) -> None:
    for name in ("slow", "a", "b", "c"):
        stage.pod(name)

    assert await stage.turns() == ["a", "b", "c"]
    assert "by_job: still running after" in stage.told.said["slow"]
    assert stage.inbox.queue.count("backoff") == 1

    for round_, name in enumerate(("d", "e"), start=2):
        stage.clock.now += 10
        stage.pod(name, priority=1)
        assert await stage.turns() == [name]
        assert hook.asked["slow"] == round_, "in its own turn, and in no other"
    assert {name: count for name, count in hook.asked.items() if name != "slow"} == dict.fromkeys("abcde", 1)


async def test_whoever_meets_it_first_goes_on_with_the_answer_that_was_given_before(
    stage: GangStage, hook: Hook
) -> None:
    for name in ("a", "slow", "b"):
        stage.pod(name)

    assert await stage.turns() == ["a", "b"]
    assert hook.asked == {"a": 1, "slow": 2, "b": 1}


async def test_members_of_a_gang_wait_until_all_others_were_asked_about(stage: GangStage) -> None:
    stage.pod("j-0", labels={"job": "j"})
    stage.pod("slow")
    first = stage.inbox.queue.take()
    assert first is not None
    stage.pod("j-1", labels={"job": "j"})

    await stage.gangs.turn(first)
    assert stage.told.said["j-0"] == (
        "gang default/j: not all pods of the namespace could be asked about in time"
    )
    assert stage.places() == {}

    await stage.settle()
    assert stage.places() == {"j-0": "n1", "j-1": "n1"}


async def test_members_with_a_node_count_after_a_restart_although_a_hook_is_slow_for_somebody(
    stage: GangStage,
) -> None:
    stage.node("n2", rack="r2", cpu=64)
    stage.pod("slow", node="n1")
    for name in ("j-0", "j-1"):
        stage.pod(name, labels={"job": "j"}, node="n1")
    stage.pod("j-2", labels={"job": "j"})

    await stage.settle()
    assert stage.inbox.queue.count("backoff") == 1
    stage.clock.now += 1
    await stage.settle()

    assert stage.places()["j-2"] == "n1", "in the rack of the others"


async def test_where_the_policy_may_be_ignored_only_the_pod_that_it_is_slow_for_does_without_it(
    stage: GangStage, hook: Hook
) -> None:
    stage.policies = (*DEFAULT, hook.policy("Ignore"))
    stage.pod("slow")
    for name in ("j-0", "j-1"):
        stage.pod(name, labels={"job": "j"})

    assert await stage.turns() == ["slow"], "the others are a gang"
    await stage.placing.finish(timeout_seconds=5)

    assert stage.places() == {"j-0": "n1", "j-1": "n1"}
    assert hook.asked["slow"] == 1


async def test_an_attempt_that_takes_too_long_keeps_the_answers_it_has(hook: Hook) -> None:
    @bayplan.gang
    def leisurely(pod):  # type: ignore[no-untyped-def]
        hook.asked[pod.name] += 1
        time.sleep(0.1)

    policy = Definition("own", (("leisurely", leisurely),), None, ()).make()
    stage = GangStage(policies=(*DEFAULT, policy), attempt_seconds=0.45)
    names = [f"p-{number}" for number in range(8)]
    for name in names:
        stage.pod(name)

    assert await stage.turns() == names
    assert sum(hook.asked.values()) < 2 * len(names), "only the one at the deadline is asked about again"
    stage.close()


async def test_other_namespaces_have_their_turn_before_all_pods_of_one_are_asked_about(
    stage: GangStage, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(naming, "_AT_MOST_SECONDS", 0.0)
    for name in "abc":
        stage.pod(name)
    first = stage.inbox.queue.take()
    assert first is not None

    assert not await stage.gangs.turn(first)

    assert hook.asked == {"a": 1}


async def test_a_pod_that_a_hook_fails_for_is_not_asked_about_in_each_turn_of_others(
    stage: GangStage,
) -> None:
    asked: Counter[str] = Counter()

    @bayplan.gang
    def careless(pod):  # type: ignore[no-untyped-def]
        asked[pod.name] += 1
        if pod.name == "bad":
            raise RuntimeError("oh")

    stage.policies = (*DEFAULT, Definition("own", (("careless", careless),), None, ()).make())
    stage.pod("bad", node="n1")

    async def ask_for(name: str) -> int:
        stage.pod(name)
        assert await stage.turns() == [name]
        return asked["bad"]

    assert [await ask_for("a"), await ask_for("b")] == [1, 1]
    stage.clock.now += 30
    assert [await ask_for("c"), await ask_for("d")] == [2, 2]
    stage.clock.now += 30
    assert await ask_for("e") == 2, "it rests twice as long"
    for _ in range(10):
        stage.clock.now += 300
        await ask_for("f")
        stage.gone("f")
    assert asked["bad"] == 12, "and five minutes at most"
