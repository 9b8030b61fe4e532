"""Volumes are kept for a pod at once, and written before it is bound: each for one claim."""

import msgspec
import pytest

from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.volumes import PersistentVolumeClaim
from tests.client.storage_api import path_of
from tests.parity.volumes import (
    SELECTED_NODE,
    Json,
    claim,
    pair,
    volume,
)
from tests.runtimes.scheduler.volumes_stage import PLUGIN, TO_MAKE, Stage, quick
from tests.state.test_ledger import until

__all__ = ["quick"]

pytestmark = pytest.mark.usefixtures("quick")


async def test_the_smallest_volume_is_written_and_the_pod_is_bound_once_its_claim_is() -> None:
    stage = Stage(claim("data"), volume("small"), volume("large", size="5Gi"))

    await stage.place("web", "data")
    await stage.written(volume("small"))
    assert stage.object(volume("small"))["spec"]["claimRef"]["uid"] == "uid-of-data"
    assert stage.api.bound == {}
    assert stage.placing.waiting_for_volumes == 1
    assert stage.placing.count == 0
    stage.bind("data", "small")
    await stage.done()

    assert stage.api.bound == {"web": "n1"}
    assert stage.said == [("web", "n1")]
    assert stage.writes == ["small"]
    assert stage.cache.objects.assumed_count == 0


async def test_the_next_pod_does_not_take_the_same_volume() -> None:
    stage = Stage(claim("one"), claim("two"), volume("a"), volume("b"))
    stage.api.hold.clear()

    await stage.place("first", "one")
    await stage.place("second", "two")

    assert (stage.kept_for("a"), stage.kept_for("b")) == ("one", "two")
    stage.api.hold.set()
    await until(lambda: stage.volumes.wait.count == 2)
    stage.bind("one", "a")
    stage.bind("two", "b")
    await stage.done()
    assert stage.api.bound == {"first": "n1", "second": "n1"}


async def test_who_finds_his_volume_taken_meanwhile_is_told_and_comes_again() -> None:
    stage = Stage(claim("one"), claim("two"), volume("a"))
    stage.api.hold.clear()

    await stage.place("first", "one")
    await stage.place("second", "two")

    assert stage.inbox.queue.count("backoff") == 1
    assert [name for name, _ in stage.said] == ["second"]
    assert stage.said[0][1].startswith('running Reserve plugin "VolumeBinding": ')


class TestARefusedWrite:
    async def test_frees_the_volume_and_leaves_what_was_written(self) -> None:
        stage = Stage(claim("one"), claim("two"), volume("a"), volume("b"))
        forbidden = ApiError(403, "cannot patch persistentvolumes", doing="writing")
        stage.api.faults = [("", None), ("before", forbidden)]

        await stage.place("web", "one", "two")
        await stage.done()

        assert (stage.kept_for("a"), stage.kept_for("b")) == ("one", "")
        (told,) = stage.said
        assert "cannot patch persistentvolumes; see the rights in docs/how-to/schedule.md" in told[1]
        assert stage.cache.objects.assumed_count == 0
        assert stage.inbox.queue.count("backoff") == 1

    async def test_of_a_volume_that_somebody_else_took_is_no_harm_to_them(self) -> None:
        stage = Stage(claim("data"), volume("disk"))
        stage.unseen()
        theirs = {"namespace": "default", "name": "other", "uid": "uid-of-other"}
        stage.api.change(path_of(volume("disk")), lambda one: one["spec"].update(claimRef=theirs))

        await stage.place("web", "data")
        await stage.done()

        assert stage.object(volume("disk"))["spec"]["claimRef"] == theirs
        assert "it was changed meanwhile" in stage.said[0][1]

    async def test_whose_reply_was_lost_is_found_to_have_worked(self) -> None:
        stage = Stage(claim("data"), volume("disk"))
        stage.api.faults = [("after", ConnectError("lost"))]

        await stage.place("web", "data")
        await until(lambda: stage.volumes.wait.count == 1)
        stage.bind("data", "disk")
        await stage.done()

        assert stage.api.bound == {"web": "n1"}


class TestWithoutTheLease:
    async def test_nothing_is_written(self) -> None:
        stage = Stage(claim("one"), claim("two", storage_class="made"), volume("disk"))
        stage.why_not = "not the leader"

        await stage.place("web", "one", "two")
        await stage.done()

        assert stage.writes == []
        assert stage.said == [("web", f"{PLUGIN}not the leader")]
        assert stage.kept_for("disk") == ""

    async def test_nothing_more_is_written_once_it_is_lost(self) -> None:
        stage = Stage(claim("one"), claim("two", storage_class="made"), volume("disk"))

        def lose(_: Json) -> None:
            stage.why_not = "not the leader"

        stage.api.on_write = lose
        await stage.place("web", "one", "two")
        await stage.done()

        assert stage.writes == ["disk"]

    @pytest.mark.parametrize(
        ("why_not", "term", "told"),
        [
            pytest.param("not the leader", 1, "not the leader", id="it is gone"),
            pytest.param("", 2, "another one was the leader meanwhile", id="it is ours again"),
        ],
    )
    async def test_a_pod_that_waits_is_given_up(self, why_not: str, term: int, told: str) -> None:
        stage = Stage(TO_MAKE)

        await stage.place("web", "data")
        await stage.written(TO_MAKE)
        stage.why_not, stage.term = why_not, term
        await stage.done()

        assert stage.said == [("web", f"{PLUGIN}{told}")]
        assert stage.api.bound == {}


class TestAfterARestart:
    async def test_a_volume_with_the_claim_on_it_is_that_claims_and_not_written_again(self) -> None:
        kept = volume("kept", claim="data", size="5Gi")
        kept["spec"]["claimRef"]["uid"] = "uid-of-data"
        stage = Stage(claim("data"), kept, volume("small"))

        await stage.place("web", "data")
        await until(lambda: stage.volumes.wait.count == 1)
        stage.bind("data", "kept")
        await stage.done()

        assert stage.writes == []
        assert stage.api.bound == {"web": "n1"}

    async def test_a_claim_with_its_node_selected_is_only_waited_for(self) -> None:
        chosen = claim("data", storage_class="made", annotations={SELECTED_NODE: "n1"})
        stage = Stage(chosen, volume("made", claim="data"))

        await stage.place("web", "data")
        await until(lambda: stage.volumes.wait.count == 1)
        stage.bind("data", "made")
        await stage.done()

        assert stage.writes == []
        assert stage.api.bound == {"web": "n1"}


async def test_two_pods_of_one_claim_get_one_volume() -> None:
    stage = Stage(claim("data"), volume("a"), volume("b"))
    stage.api.hold.clear()

    await stage.place("first", "data")
    await stage.place("second", "data")
    stage.api.hold.set()
    await until(lambda: stage.volumes.wait.count == 2)
    stage.bind("data", "a")
    await stage.done()

    assert stage.api.bound == {"first": "n1", "second": "n1"}
    assert (stage.kept_for("a"), stage.kept_for("b")) == ("data", "")


async def test_what_was_taken_while_the_pod_was_judged_brings_it_back_at_once() -> None:
    stage = Stage(claim("data"))

    await stage.place("web", "data")

    assert stage.inbox.queue.count("backoff") == 1
    assert stage.cache.snapshot().nodes.count().tolist() == [0, 0]


async def test_what_changed_before_it_was_written_is_not_written() -> None:
    stage = Stage(claim("data"), volume("disk"))

    await stage.place("web", "data")
    stage.api.change(path_of(volume("disk")), lambda one: one["spec"].update(capacity={"storage": "1Mi"}))
    await stage.done()

    assert stage.writes == []
    assert stage.said == [("web", f"{PLUGIN}PersistentVolume disk was changed meanwhile")]


async def test_no_volume_is_given_to_a_claim_that_is_gone() -> None:
    stage = Stage(claim("data"), volume("disk"))

    await stage.place("web", "data")
    gone = msgspec.convert(stage.object(claim("data")), PersistentVolumeClaim)
    stage.cache.objects.drop("PersistentVolumeClaim", gone)
    await stage.done()

    assert stage.writes == []
    assert stage.said == [("web", f"{PLUGIN}claim default/data is gone")]


@pytest.mark.parametrize(
    ("claims", "scheduler"),
    [
        pytest.param((), "ours", id="no claims"),
        pytest.param(("bound",), "ours", id="claims that have their volume"),
        pytest.param(("data",), "without", id="a profile that binds no volumes"),
    ],
)
async def test_other_pods_are_bound_as_ever(claims: tuple[str, ...], scheduler: str) -> None:
    stage = Stage(*pair("bound"), claim("data"), volume("disk"))

    await stage.place("web", *claims, scheduler=scheduler)
    await stage.done()

    assert stage.writes == []
    assert stage.api.bound == {"web": "n1"}
