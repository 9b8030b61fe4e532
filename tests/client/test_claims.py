"""Writing whose a volume is, and where one is to be made: once, on the version that was looked at."""

from typing import Any

import msgspec
import pytest

from bayplan.client.claims import BOUND_BY_CONTROLLER, WriteRefused, keep_volume, select_node
from bayplan.client.errors import ApiError, ConnectError
from bayplan.kube.volumes import PersistentVolume, PersistentVolumeClaim
from tests.client.storage_api import StorageApi, path_of
from tests.parity.volumes import SELECTED_NODE, Json, claim, volume

LOST = ConnectError("the reply was lost")
DISK = path_of(volume("disk"))
DATA = path_of(claim("data"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayplan.client.claims._RETRY_SECONDS", (0.0, 0.0))


class Stage:
    """An API server with a claim and a volume, and both as we saw them."""

    def __init__(self, disk: Json | None = None) -> None:
        self.api = StorageApi(claim("data"), disk or volume("disk"))
        self.volume = msgspec.convert(self.api.objects[DISK], PersistentVolume)
        self.claim = msgspec.convert(self.api.objects[DATA], PersistentVolumeClaim)

    async def keep(self) -> PersistentVolume:
        client: Any = self.api
        return await keep_volume(client, self.volume, self.claim, timeout_seconds=5.0)

    async def select(self, node: str = "n1") -> PersistentVolumeClaim:
        client: Any = self.api
        return await select_node(client, self.claim, node, timeout_seconds=5.0)


async def test_a_volume_gets_its_claim_as_kube_scheduler_writes_it() -> None:
    stage = Stage()

    done = await stage.keep()

    written = stage.api.objects[DISK]
    assert written["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": "uid-of-data",
        "resourceVersion": stage.api.objects[DATA]["metadata"]["resourceVersion"],
    }
    assert written["metadata"]["annotations"] == {BOUND_BY_CONTROLLER: "yes"}
    assert done == msgspec.convert(written, PersistentVolume)


async def test_a_volume_that_a_person_meant_for_the_claim_is_not_marked_as_chosen_by_us() -> None:
    stage = Stage(volume("disk", claim="data"))

    await stage.keep()

    assert stage.api.objects[DISK]["spec"]["claimRef"]["uid"] == "uid-of-data"
    assert "annotations" not in stage.api.objects[DISK]["metadata"]


async def test_a_claim_gets_its_node_and_keeps_what_it_has() -> None:
    stage = Stage()
    stage.claim = msgspec.convert(
        stage.api.change(DATA, lambda one: one["metadata"]["annotations"].update(mine="yes")),
        PersistentVolumeClaim,
    )

    done = await stage.select()

    assert done.annotations == {"mine": "yes", SELECTED_NODE: "n1"}


async def test_whoever_changed_a_volume_meanwhile_wins() -> None:
    stage = Stage()
    theirs = {"namespace": "default", "name": "other", "uid": "uid-of-other"}
    stage.api.change(DISK, lambda one: one["spec"].update(claimRef=theirs))

    with pytest.raises(WriteRefused, match="keeping volume disk for claim default/data: it was changed"):
        await stage.keep()

    assert stage.api.objects[DISK]["spec"]["claimRef"] == theirs


async def test_whoever_changed_a_claim_meanwhile_wins() -> None:
    stage = Stage()
    stage.api.change(DATA, lambda one: one["metadata"]["annotations"].update({SELECTED_NODE: "n2"}))

    with pytest.raises(WriteRefused, match="selecting node n1 for claim default/data: it was changed"):
        await stage.select("n1")


async def test_a_lost_reply_to_what_worked_is_no_conflict() -> None:
    stage = Stage()
    stage.api.faults = [("after", LOST)]

    assert (await stage.keep()).spec.claim_ref is not None
    assert [method for method, _ in stage.api.asked] == ["PATCH", "PATCH", "GET"]

    stage.api.faults = [("after", ApiError(504, "timeout", doing="writing"))]
    assert (await stage.select()).annotations[SELECTED_NODE] == "n1"


async def test_what_did_not_get_there_is_sent_again_and_given_up_in_the_end() -> None:
    stage = Stage()
    stage.api.faults = [("before", LOST), ("before", ApiError(429, "later", doing="writing"))]
    assert (await stage.keep()).spec.claim_ref is not None

    stage = Stage()
    stage.api.faults = [("before", LOST)] * 3
    with pytest.raises(WriteRefused, match="the reply was lost"):
        await stage.keep()
    assert "claimRef" not in stage.api.objects[DISK]["spec"]


async def test_a_missing_right_is_told_with_where_to_read_about_it() -> None:
    stage = Stage()
    stage.api.faults = [("before", ApiError(403, "cannot patch persistentvolumes", doing="writing"))]

    with pytest.raises(
        WriteRefused, match=r"403: cannot patch persistentvolumes; see the rights in docs/how-to"
    ):
        await stage.keep()
    assert len(stage.api.asked) == 1


async def test_a_volume_that_is_gone_is_refused() -> None:
    stage = Stage()
    del stage.api.objects[DISK]

    with pytest.raises(WriteRefused, match="not found"):
        await stage.keep()
