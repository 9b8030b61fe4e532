"""NodeVolumeLimits: how many volumes of a driver a node takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bayplan import Pod, Snapshot
from bayplan.policies.default_profile.node_volume_limits import TOO_MANY, NodeVolumeLimits
from bayplan.testing import make_node, make_pod, run_policy
from tests.parity.volumes import (
    DRIVER,
    Json,
    attachment,
    claim,
    cluster_of,
    csi_node,
    ephemeral,
    mounting,
    pair,
    reason_of,
    storage_class,
    volume,
)

NODES = [make_node("limited"), make_node("other")]
GCE, EBS = "pd.csi.storage.gke.io", "ebs.csi.aws.com"
POD = make_pod("pod", uid="uid-of-pod", spec=mounting("new"))


def refused(
    pod: Pod, manifests: list[Json], pods: Sequence[Pod] = (), *, limit: int | None = 1, driver: str = DRIVER
) -> list[str]:
    """The nodes refused, where one of two has a limit."""
    cluster = cluster_of(NODES, [csi_node("limited", {driver: limit}), *manifests], pods)
    result = run_policy(NodeVolumeLimits, pod, cluster)
    assert set(result.refused.values()) <= {"node(s) exceed max volume count"}
    return list(result.refused)


def there(*claims: str, name: str = "there", **settings: Any) -> Pod:
    return make_pod(name, node="limited", spec=mounting(*claims), **settings)


def test_a_pod_does_not_fit_where_the_driver_has_as_many_as_it_can() -> None:
    manifests = [*pair("old"), *pair("new")]

    assert refused(POD, manifests, [there("old")]) == ["limited"]
    assert refused(POD, manifests, [there("old")], limit=2) == []
    assert refused(POD, manifests) == []


def test_a_limit_of_nothing_takes_nothing() -> None:
    assert refused(POD, pair("new"), limit=0) == ["limited"]


def test_a_driver_without_a_limit_takes_any_number() -> None:
    assert refused(POD, [*pair("old"), *pair("new")], [there("old")], limit=None) == []


def test_volumes_of_another_driver_do_not_count() -> None:
    manifests = [*pair("old", driver="other.example"), *pair("new")]

    assert refused(POD, manifests, [there("old")]) == []


def test_all_volumes_of_the_pod_count() -> None:
    pod = make_pod(spec=mounting("one", "two"))

    assert refused(pod, [*pair("one"), *pair("two")]) == ["limited"]
    assert refused(pod, [*pair("one"), *pair("two")], limit=2) == []


def test_a_volume_that_pods_share_counts_once() -> None:
    manifests = [*pair("new"), *pair("old")]

    assert refused(POD, manifests, [there("new"), there("new", name="too")]) == []
    assert refused(POD, manifests, [there("new"), there("old", name="too")], limit=1) == []


def test_a_claim_that_is_to_be_provisioned_counts_for_its_class() -> None:
    manifests = [storage_class(provisioner=DRIVER), claim("new"), *pair("old")]

    assert refused(POD, manifests, [there("old")]) == ["limited"]
    assert refused(POD, [*manifests, claim("also")], [there("also")]) == ["limited"]
    assert refused(POD, manifests, [there("new")]) == []


@pytest.mark.parametrize(
    "manifests",
    [
        pytest.param([claim("new", storage_class=None)], id="no class"),
        pytest.param([claim("new")], id="class that is not there"),
        pytest.param([storage_class(), claim("new")], id="class of another provisioner"),
        pytest.param(
            [storage_class(provisioner="kubernetes.io/vsphere-volume"), claim("new")],
            id="class whose volumes nobody counts",
        ),
    ],
)
def test_a_claim_does_not_count_with(manifests: list[Json]) -> None:
    assert refused(POD, manifests, limit=0) == []


def test_a_claim_whose_volume_is_gone_counts_for_its_class() -> None:
    manifests = [storage_class(provisioner=DRIVER), claim("new", volume="gone")]

    assert refused(POD, manifests, limit=0) == ["limited"]


def test_what_is_still_attached_counts_though_no_pod_uses_it() -> None:
    old = volume("old")
    attached = attachment("a", node="limited", volume="old")

    assert refused(POD, [*pair("new"), old, attached]) == ["limited"]
    assert refused(POD, [*pair("new"), old, attachment("a", node="other", volume="old")]) == []


def test_what_a_pod_there_uses_is_not_counted_again_as_attached() -> None:
    manifests = [*pair("new"), *pair("old"), attachment("a", node="limited", volume="old")]

    assert refused(POD, manifests, [there("old")], limit=2) == []


def test_the_pods_own_volume_counts_twice_while_it_is_attached_and_unused() -> None:
    manifests = [*pair("new"), attachment("a", node="limited", volume="new")]

    assert refused(POD, manifests, limit=1) == ["limited"]
    assert refused(POD, manifests, limit=2) == []


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([attachment("a", node="limited", volume="gone")], id="its volume is gone"),
        pytest.param(
            [
                volume("old", spec={"hostPath": {"path": "/x"}}),
                attachment("a", node="limited", volume="old"),
            ],
            id="its volume is none of a driver",
        ),
        pytest.param(
            [volume("old"), attachment("a", node="limited", volume="old", driver="other.example")],
            id="it is of another driver",
        ),
    ],
)
def test_an_attachment_does_not_count_where(more: list[Json]) -> None:
    assert refused(POD, [*pair("new"), *more]) == []


def test_an_ephemeral_volume_counts_where_its_claim_was_made_for_the_pod() -> None:
    pod = make_pod("pod", uid="uid-of-pod", spec=ephemeral("scratch"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-of-pod", "controller": True}
    manifests = [storage_class(provisioner=DRIVER), claim("pod-scratch", owner=owner)]

    assert refused(pod, manifests, limit=0) == ["limited"]


def test_a_volume_of_a_driver_in_the_pod_itself_does_not_count() -> None:
    pod = make_pod(spec={"volumes": [{"name": "inline", "csi": {"driver": DRIVER}}]})

    assert refused(pod, [], limit=0) == []


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "a"}}, GCE, id="GCE"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-a"}}, EBS, id="EBS"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/vol-a"}}, EBS, id="EBS with its zone"),
        pytest.param({"azureDisk": {"diskName": "a", "diskURI": "/a"}}, "disk.csi.azure.com", id="Azure"),
        pytest.param({"cinder": {"volumeID": "a"}}, "cinder.csi.openstack.org", id="Cinder"),
        pytest.param({"portworxVolume": {"volumeID": "a"}}, "pxd.portworx.com", id="Portworx"),
    ],
)
def test_a_disk_from_before_drivers_counts_for_the_driver_that_serves_it_now(
    source: Json, driver: str
) -> None:
    pod = make_pod(spec={"volumes": [{"name": "disk", **source}]})

    assert refused(pod, [], limit=0, driver=driver) == ["limited"]
    assert refused(POD, pair("new", spec=source), limit=0, driver=driver) == ["limited"]
    assert refused(pod, [], limit=1, driver=driver) == []


def test_a_class_from_before_drivers_counts_for_the_driver_that_serves_it_now() -> None:
    manifests = [storage_class(provisioner="kubernetes.io/aws-ebs"), claim("new")]

    assert refused(POD, manifests, limit=0, driver=EBS) == ["limited"]


def test_one_disk_by_two_names_is_one() -> None:
    mine = {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-a"}}
    theirs = {"awsElasticBlockStore": {"volumeID": "vol-a"}}
    pod = make_pod(spec={"volumes": [{"name": "disk", **mine}]})
    other = make_pod("other", node="limited", spec={"volumes": [{"name": "disk", **theirs}]})

    assert refused(pod, [], [other], driver=EBS) == []


def test_disks_of_one_name_in_two_zones_are_two() -> None:
    disk = {"gcePersistentDisk": {"pdName": "a"}}
    zone = "topology.kubernetes.io/zone"
    manifests = [*pair("new", spec=disk, labels={zone: "a"}), *pair("old", spec=disk, labels={zone: "b"})]

    assert refused(POD, manifests, [there("old")], driver=GCE) == ["limited"]


def test_a_claim_that_is_not_there_is_told() -> None:
    cluster = cluster_of(NODES, [])

    result = run_policy(NodeVolumeLimits, POD, cluster)

    text = 'looking up PVC default/new: persistentvolumeclaim "new" not found'
    assert result.refused == {"limited": text, "other": text}
    assert not reason_of(result).preemptible


def test_evicting_a_pod_could_help() -> None:
    assert TOO_MANY.preemptible


def test_a_changed_limit_is_seen() -> None:
    policy = NodeVolumeLimits()
    for limit, wanted in ((0, ["limited"]), (1, [])):
        cluster = cluster_of(NODES, [csi_node("limited", {DRIVER: limit}), *pair("new")])
        verdict = policy.within_limits(POD, cluster.nodes, cluster)
        assert verdict is not None
        assert verdict.rejected_names(cluster.nodes) == wanted


def test_a_pod_that_arrives_later_counts() -> None:
    before = cluster_of(NODES, [csi_node("limited", {DRIVER: 1}), *pair("old"), *pair("new")])
    assert run_policy(NodeVolumeLimits, POD, before).refused == {}
    after = before.placed(there("old"), "limited")
    nothing, limited = np.empty(0, dtype=np.intp), np.array([0], dtype=np.intp)

    assert after.nodes.load is not None
    patched = before.nodes.followed_by(
        before.nodes.objects, after.nodes.load, changed=nothing, loaded=limited
    )

    cluster = Snapshot(patched, after.pods, objects=before.objects)
    assert list(run_policy(NodeVolumeLimits, POD, cluster).refused) == ["limited"]
