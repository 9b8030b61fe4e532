"""A pod waits until its volumes are bound, and comes back where that fails; nobody else notices."""

import asyncio

import msgspec
import pytest

from bayplan.config.profile import Profile
from bayplan.kube.volumes import PersistentVolumeClaim
from bayplan.runtimes.scheduler.volumes_kept import bind_seconds
from bayplan.testing import make_node
from tests.client.storage_api import path_of
from tests.parity.volumes import (
    HOSTNAME,
    SELECTED_NODE,
    claim,
    volume,
)
from tests.runtimes.scheduler.volumes_stage import PLUGIN, TO_MAKE, Stage, quick
from tests.state.test_ledger import until

__all__ = ["quick"]

pytestmark = pytest.mark.usefixtures("quick")


async def test_a_volume_is_made_on_the_node_and_the_pod_waits_for_it() -> None:
    stage = Stage(TO_MAKE)

    await stage.place("web", "data", node="n2")
    await stage.written(TO_MAKE)
    assert stage.object(TO_MAKE)["metadata"]["annotations"] == {SELECTED_NODE: "n2"}
    stage.bind("data", "made")
    await asyncio.sleep(0)
    assert stage.api.bound == {}, "the volume is not in view yet"
    stage.api.create(volume("made", claim="data", within={HOSTNAME: ["n2"]}))
    await stage.done()

    assert stage.api.bound == {"web": "n2"}


async def test_a_provisioner_that_takes_the_node_off_the_claim_means_judge_it_anew() -> None:
    stage = Stage(TO_MAKE)

    await stage.place("web", "data")
    await stage.written(TO_MAKE)
    stage.api.change(path_of(TO_MAKE), lambda one: one["metadata"]["annotations"].pop(SELECTED_NODE))
    await stage.done()

    assert stage.said == [("web", f'{PLUGIN}provisioning failed for PVC "data"')]
    assert stage.inbox.queue.count("backoff") == 1
    assert stage.cache.snapshot().nodes.count().tolist() == [0, 0]


async def test_volumes_that_take_too_long_bring_the_pod_back() -> None:
    stage = Stage(TO_MAKE, seconds=0.02)

    await stage.place("web", "data")
    await stage.done()

    timed_out = f"{PLUGIN}timed out after 0 s: no volume is bound to claim default/data"
    assert stage.said == [("web", timed_out)]
    assert stage.object(TO_MAKE)["metadata"]["annotations"] == {SELECTED_NODE: "n1"}, "it stays"


async def test_a_volume_whose_claim_was_taken_off_again_brings_the_pod_back() -> None:
    stage = Stage(claim("data"), volume("disk"))

    await stage.place("web", "data")
    await stage.written(volume("disk"))
    stage.api.change(path_of(volume("disk")), lambda one: one["spec"].pop("claimRef"))
    await stage.done()

    assert stage.said == [("web", f'{PLUGIN}ClaimRef got reset for pv "disk"')]


async def test_a_volume_that_the_node_does_not_reach_brings_the_pod_back() -> None:
    stage = Stage(TO_MAKE)

    await stage.place("web", "data")
    await stage.written(TO_MAKE)
    stage.api.create(volume("made", claim="data", within={HOSTNAME: ["n2"]}))
    stage.bind("data", "made")
    await stage.done()

    assert stage.said == [("web", f'{PLUGIN}pv "made" node affinity doesn\'t match node "n1"')]


async def test_a_pod_that_waits_for_volumes_takes_no_ones_turn() -> None:
    stage = Stage(TO_MAKE, at_once=1)

    await stage.place("waits", "data")
    await stage.written(TO_MAKE)
    await asyncio.wait_for(stage.place("plain"), 5)
    await until(lambda: stage.api.bound == {"plain": "n1"})

    assert stage.placing.waiting_for_volumes == 1
    await stage.placing.finish(timeout_seconds=5)


async def test_a_pod_that_is_deleted_is_not_waited_for() -> None:
    stage = Stage(TO_MAKE)

    pod = await stage.place("web", "data")
    await stage.written(TO_MAKE)
    stage.cache.drop_pod(pod.key)
    stage.inbox.pod_gone(pod)
    await stage.done()

    assert stage.said == []
    assert len(stage.inbox.queue) == 0


async def test_a_node_that_is_gone_is_not_waited_for() -> None:
    stage = Stage(TO_MAKE)

    await stage.place("web", "data")
    await stage.written(TO_MAKE)
    stage.cache.drop_node("n1")
    await stage.done()

    assert stage.said == [("web", f"{PLUGIN}node n1 is gone")]


class TestALateWatch:
    async def test_does_not_free_a_volume_that_is_written(self) -> None:
        stage = Stage(claim("one"), claim("two"), volume("a"))
        stage.unseen()
        before = stage.object(volume("a"))
        stage.api.version = 200

        await stage.place("first", "one")
        await stage.written(volume("a"))
        stage.see({**before, "metadata": {**before["metadata"], "resourceVersion": "150"}})
        await stage.place("second", "two")

        assert stage.kept_for("a") == "one"
        assert stage.inbox.queue.count("backoff") == 1
        await stage.placing.finish(timeout_seconds=5)

    async def test_does_not_free_a_claim_whose_node_is_written(self) -> None:
        stage = Stage(TO_MAKE)
        stage.unseen()
        before = stage.object(TO_MAKE)
        stage.api.version = 200

        await stage.place("web", "data")
        await stage.written(TO_MAKE)
        stage.see({**before, "metadata": {**before["metadata"], "resourceVersion": "150"}})

        seen = stage.cache.snapshot().objects.claims["default/data"]
        assert seen.annotations[SELECTED_NODE] == "n1"
        assert stage.said == [], "nobody took the node off the claim"
        stage.api.create(volume("made", claim="data"))
        stage.bind("data", "made")
        stage.see(stage.object(volume("made")))
        stage.see(stage.object(TO_MAKE))
        await stage.done()
        assert stage.api.bound == {"web": "n1"}


async def test_a_node_that_is_labelled_anew_may_not_reach_the_volume_any_more() -> None:
    stage = Stage(claim("data"), volume("disk", within={HOSTNAME: ["n1"]}))

    await stage.place("web", "data")
    await stage.written(volume("disk"))
    stage.cache.put_node(make_node("n1", labels={HOSTNAME: "renamed"}).object)
    await stage.done()

    assert stage.said == [("web", f'{PLUGIN}pv "disk" node affinity doesn\'t match node "n1"')]


@pytest.mark.parametrize("last", ["the claim", "the volume", "a new list"])
async def test_news_of_its_claims_and_volumes_wake_a_pod_at_once(
    monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    monkeypatch.setattr("bayplan.runtimes.scheduler.volumes_wait._LOOK_SECONDS", 3600.0)
    stage = Stage(TO_MAKE)

    await stage.place("web", "data")
    await stage.written(TO_MAKE)
    if last == "the claim":
        stage.api.create(volume("made", claim="data"))
        stage.bind("data", "made")
    elif last == "the volume":
        stage.bind("data", "made")
        stage.api.create(volume("made", claim="data"))
    else:
        stage.api.create(volume("made", claim="data"))
        stage.unseen()
        stage.bind("data", "made")
        fresh = msgspec.convert(stage.object(TO_MAKE), PersistentVolumeClaim)
        stage.cache.objects.replace("PersistentVolumeClaim", [fresh])
    await stage.done()

    assert stage.api.bound == {"web": "n1"}


async def test_a_scheduler_that_stops_waits_for_no_volumes_and_says_nothing() -> None:
    stage = Stage(TO_MAKE)

    await stage.place("web", "data")
    await stage.written(TO_MAKE)
    await asyncio.wait_for(stage.placing.finish(timeout_seconds=60), 5)

    assert stage.said == []
    assert stage.api.bound == {}


def test_how_long_volumes_may_take() -> None:
    policies = Profile.default().policies
    others = [policy for policy in policies if policy.name != "VolumeBinding"]

    assert bind_seconds(policies, None) == 600
    assert bind_seconds(policies, 30.0) == 30
    assert bind_seconds(others, 30.0) is None
