"""VolumeRestrictions: disks and claims that only one pod may have."""

from typing import Any

import pytest

from bayplan.policies.default_profile.volume_restrictions import CLAIM_IN_USE, DISK_IN_USE, VolumeRestrictions
from bayplan.testing import make_node, make_pod, run_policy
from tests.parity.volumes import Json, claim, cluster_of, mounting, reason_of

NODES = [make_node("taken"), make_node("free")]


def gce(name: str, **more: Any) -> Json:
    return {"gcePersistentDisk": {"pdName": name, **more}}


def ebs(name: str, **more: Any) -> Json:
    return {"awsElasticBlockStore": {"volumeID": name, **more}}


def iscsi(name: str, **more: Any) -> Json:
    return {"iscsi": {"targetPortal": "192.0.2.1", "iqn": name, "lun": 0, **more}}


def rbd(*monitors: str, pool: str = "pool", image: str = "image", **more: Any) -> Json:
    return {"rbd": {"monitors": list(monitors), "pool": pool, "image": image, **more}}


READ = {"readOnly": True}


@pytest.mark.parametrize(
    ("mine", "theirs", "refused"),
    [
        pytest.param(gce("a"), gce("a"), True, id="a GCE disk is written to"),
        pytest.param(gce("a", **READ), gce("a"), True, id="a GCE disk is read here and written there"),
        pytest.param(gce("a", **READ), gce("a", **READ), False, id="a GCE disk is only read"),
        pytest.param(gce("a"), gce("b"), False, id="another GCE disk"),
        pytest.param(ebs("a", **READ), ebs("a", **READ), True, id="an EBS volume is never shared"),
        pytest.param(ebs("a"), ebs("b"), False, id="another EBS volume"),
        pytest.param(iscsi("a"), iscsi("a", **READ), True, id="an iSCSI target is written to"),
        pytest.param(iscsi("a", **READ), iscsi("a", **READ), False, id="an iSCSI target is only read"),
        pytest.param(rbd("m1", "m2"), rbd("m2", "m3"), True, id="an RBD image with one monitor in common"),
        pytest.param(rbd("m1"), rbd("m2"), False, id="RBD images of other monitors"),
        pytest.param(rbd("m1"), rbd("m1", pool="other"), False, id="RBD images of other pools"),
        pytest.param(rbd("m1"), rbd("m1", image="other"), False, id="other RBD images"),
        pytest.param(
            rbd("m1", readOnly=True), rbd("m1", readOnly=True), False, id="an RBD image is only read"
        ),
        pytest.param(gce("a"), ebs("a"), False, id="disks of two kinds"),
    ],
)
def test_a_disk_is_not_given_to_a_second_pod_on_a_node(mine: Json, theirs: Json, refused: bool) -> None:
    there = make_pod(node="taken", spec={"volumes": [{"name": "disk", **theirs}]})
    pod = make_pod(spec={"volumes": [{"name": "disk", **mine}]})

    result = run_policy(VolumeRestrictions, pod, cluster_of(NODES, [], [there]))

    assert result.refused == ({"taken": "node(s) had no available disk"} if refused else {})


def test_a_claim_for_one_pod_is_refused_on_every_node_while_another_pod_has_it() -> None:
    data = claim("data", modes=["ReadWriteOncePod"])
    there = make_pod(node="taken", spec=mounting("data"))

    result = run_policy(
        VolumeRestrictions, make_pod(spec=mounting("data")), cluster_of(NODES, [data], [there])
    )

    text = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        " already in-use by another pod"
    )
    assert result.refused == {"taken": text, "free": text}


@pytest.mark.parametrize(
    ("modes", "namespace", "node"),
    [
        pytest.param(["ReadWriteOnce"], "default", "taken", id="pods on one node may share the claim"),
        pytest.param(["ReadWriteOncePod"], "other", "taken", id="the claim is one of another namespace"),
        pytest.param(["ReadWriteOncePod"], "default", None, id="the other pod has no node yet"),
    ],
)
def test_a_claim_is_free_where(modes: list[str], namespace: str, node: str | None) -> None:
    other = make_pod(namespace=namespace, node=node, spec=mounting("data"))
    cluster = cluster_of(NODES, [claim("data", modes=modes)], [other])

    assert run_policy(VolumeRestrictions, make_pod(spec=mounting("data")), cluster).refused == {}


def test_a_claim_that_is_not_there_is_told_of_the_pod() -> None:
    pod = make_pod(spec=mounting("data", "gone"))

    result = run_policy(VolumeRestrictions, pod, cluster_of(NODES, [claim("data")]))

    (reason,) = {reason_of(result, row) for row in range(2)}
    assert (reason.text, reason.of_pod, reason.preemptible) == (
        'persistentvolumeclaim "gone" not found',
        True,
        False,
    )


def test_evicting_a_pod_could_help() -> None:
    assert DISK_IN_USE.preemptible
    assert CLAIM_IN_USE.preemptible


def test_a_pod_is_not_in_its_own_way() -> None:
    pod = make_pod(node="taken", spec={"volumes": [{"name": "disk", **ebs("a")}]})

    assert run_policy(VolumeRestrictions, pod, cluster_of(NODES, [], [pod])).refused == {}
