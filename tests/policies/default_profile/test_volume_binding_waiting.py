"""VolumeBinding of claims that wait for the pod: volumes that are there, and volumes that can be made."""

from collections.abc import Sequence
from typing import Any

import pytest

from bayplan import Node, Pod
from bayplan.policies.default_profile.volume_binding import VolumeBinding, VolumeBindingArgs
from bayplan.testing import make_node, make_pod, run_policy
from tests.parity.volumes import (
    DRIVER,
    HOSTNAME,
    SELECTED_NODE,
    ZONE,
    Json,
    capacity,
    claim,
    cluster_of,
    csi_driver,
    mounting,
    storage_class,
    volume,
)

NODES = [
    make_node("near", labels={HOSTNAME: "near", ZONE: "a"}),
    make_node("far", labels={HOSTNAME: "far", ZONE: "b"}),
]
POD = make_pod("pod", spec=mounting("data"))
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
HERE = {HOSTNAME: ["near"]}


def refused(pod: Pod, *manifests: Json, nodes: Sequence[Node] = NODES) -> dict[str, str]:
    return run_policy(VolumeBinding, pod, cluster_of(nodes, [storage_class(), *manifests])).refused


def passed(pod: Pod, *manifests: Json, nodes: Sequence[Node] = NODES) -> list[str]:
    return run_policy(VolumeBinding, pod, cluster_of(nodes, [storage_class(), *manifests])).passed


def test_a_claim_gets_a_volume_where_one_is() -> None:
    assert refused(POD, claim("data"), volume("disk", within=HERE)) == {"far": NOTHING_TO_BIND}
    assert refused(POD, claim("data")) == {"near": NOTHING_TO_BIND, "far": NOTHING_TO_BIND}
    assert refused(POD, claim("data"), volume("anywhere")) == {}


@pytest.mark.parametrize(
    ("asked", "settings", "fits"),
    [
        pytest.param({"size": "2Gi"}, {"size": "2Gi"}, True, id="exactly as large"),
        pytest.param({"size": "2Gi"}, {"size": "1Gi"}, False, id="too small"),
        pytest.param({}, {"storage_class": "other"}, False, id="of another class"),
        pytest.param({}, {"phase": "Released"}, False, id="not available"),
        pytest.param({}, {"claim": "other", "phase": "Available"}, False, id="kept for another claim"),
        pytest.param({}, {"modes": ["ReadOnlyMany"]}, False, id="of another access mode"),
        pytest.param({}, {"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, True, id="of more access modes"),
        pytest.param({"spec": {"volumeMode": "Block"}}, {}, False, id="no block device"),
        pytest.param({"spec": {"volumeMode": "Filesystem"}}, {}, True, id="a file system, which is not said"),
        pytest.param({"spec": {"selector": {"matchLabels": {"tier": "fast"}}}}, {}, False, id="not selected"),
        pytest.param(
            {"spec": {"selector": {"matchLabels": {"tier": "fast"}}}},
            {"labels": {"tier": "fast"}},
            True,
            id="selected",
        ),
        pytest.param({"spec": {"volumeAttributesClassName": "gold"}}, {}, False, id="of no attributes class"),
        pytest.param(
            {"spec": {"volumeAttributesClassName": ""}}, {}, True, id="of no attributes class, as it is asked"
        ),
        pytest.param(
            {"annotations": {"volume.beta.kubernetes.io/storage-class": "waits"}, "storage_class": "other"},
            {},
            True,
            id="of the class in the old annotation",
        ),
    ],
)
def test_a_volume_fits_when_it_is(asked: dict[str, Any], settings: dict[str, Any], fits: bool) -> None:
    assert bool(passed(POD, claim("data", **asked), volume("disk", **settings))) is fits


def test_a_volume_that_is_being_deleted_does_not_fit() -> None:
    disk = volume("disk")
    disk["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert passed(POD, claim("data"), disk) == []


class TestAVolumeThatIsKeptForTheClaim:
    def test_is_taken_whatever_its_phase_and_nothing_else_is(self) -> None:
        kept = volume("kept", claim="data", within=HERE, phase="Bound")

        assert passed(POD, claim("data"), kept, volume("anywhere")) == ["near"]

    def test_is_not_kept_for_a_later_claim_of_that_name(self) -> None:
        kept = volume("kept", claim="data", phase="Available")
        kept["spec"]["claimRef"]["uid"] = "uid-of-a-former-one"

        assert passed(POD, claim("data", uid="uid-of-this-one"), kept) == []

    def test_must_be_large_enough(self) -> None:
        kept = volume("kept", claim="data", within=HERE, size="1Gi")

        assert passed(POD, claim("data", size="2Gi"), kept, volume("large", size="2Gi")) == ["near", "far"]


TWO = make_pod("pod", spec=mounting("one", "two"))


def test_two_claims_need_two_volumes() -> None:
    claims = (claim("one"), claim("two"))

    assert passed(TWO, *claims, volume("disk")) == []
    assert passed(TWO, *claims, volume("disk"), volume("near-disk", within=HERE)) == ["near"]


def test_the_smaller_claim_does_not_take_what_the_larger_one_needs() -> None:
    claims = (claim("one", size="5Gi"), claim("two", size="1Gi"))

    assert passed(TWO, *claims, volume("large", size="5Gi"), volume("small")) == ["near", "far"]
    assert passed(TWO, *claims, volume("large", size="5Gi")) == []


def test_the_smaller_claim_chooses_first() -> None:
    claims = (claim("one", size="2Gi"), claim("two", size="1Gi", modes=["ReadWriteMany"]))
    both = ["ReadWriteOnce", "ReadWriteMany"]

    # The larger claim would take the first volume too, and leave nothing that fits the smaller one.
    disks = (volume("first", size="2Gi", modes=both), volume("second", size="3Gi"))
    assert passed(TWO, *claims, *disks) == ["near", "far"]


def test_claims_of_two_classes_do_not_take_volumes_from_each_other() -> None:
    claims = (claim("one"), claim("two", storage_class="other"))
    disks = (volume("disk"), volume("of-other", storage_class="other"))

    assert passed(TWO, *claims, *disks, storage_class("other")) == ["near", "far"]


def test_a_claim_that_is_mounted_twice_needs_two_volumes() -> None:
    twice = make_pod("pod", spec=mounting("data", "data"))

    assert passed(twice, claim("data"), volume("disk")) == []
    assert passed(twice, claim("data"), volume("disk"), volume("another")) == ["near", "far"]
    kept = volume("kept", claim="data")
    assert passed(twice, claim("data"), kept) == []
    assert passed(twice, claim("data"), kept, volume("near-disk", within=HERE)) == ["near"]


def test_volumes_of_several_places_are_each_found() -> None:
    claims = [claim("one"), claim("two")]
    pairs = [
        volume(f"{node}-{number}", within={HOSTNAME: [node]}) for node in ("near", "far") for number in (1, 2)
    ]
    zones = [
        volume("zone", within={ZONE: ["a"]}),
        volume("both", within={ZONE: ["a", "b"], HOSTNAME: ["far"]}),
    ]

    assert passed(TWO, *claims, *pairs[:3]) == ["near"]
    assert passed(TWO, *claims, *pairs) == ["near", "far"]
    assert passed(TWO, *claims, pairs[0], pairs[2], *zones) == ["near", "far"]
    assert passed(TWO, *claims, *zones) == []


def provisioned(**settings: Any) -> Json:
    return storage_class("made", provisioner=DRIVER, **settings)


MADE = claim("data", storage_class="made", size="5Gi")


def test_a_volume_is_made_where_none_is() -> None:
    assert refused(POD, MADE, provisioned()) == {}


def test_a_class_makes_volumes_in_its_topologies_alone() -> None:
    assert refused(POD, MADE, provisioned(zones=["a"])) == {"far": NOTHING_TO_BIND}
    assert refused(POD, MADE, provisioned(zones=["a", "b"])) == {}


def test_a_topology_without_labels_is_nowhere() -> None:
    nowhere = provisioned() | {"allowedTopologies": [{}]}

    assert list(refused(POD, MADE, nowhere)) == ["near", "far"]


def test_a_volume_that_is_there_need_not_be_made() -> None:
    there = volume("disk", storage_class="made", size="5Gi", within={HOSTNAME: ["far"]})

    assert refused(POD, MADE, provisioned(zones=["a"]), there) == {}


@pytest.mark.parametrize(
    ("pools", "roomy"),
    [
        pytest.param([], [], id="no pool"),
        pytest.param([{"free": "10Gi", "nodes": {"matchLabels": {ZONE: "a"}}}], ["near"], id="one zone"),
        pytest.param([{"free": "10Gi", "nodes": {}}], ["near", "far"], id="all nodes"),
        pytest.param([{"free": "10Gi"}], [], id="no nodes said"),
        pytest.param([{"nodes": {}}], [], id="no room said"),
        pytest.param([{"free": "4Gi", "nodes": {}}], [], id="too little"),
        pytest.param([{"free": "5Gi", "nodes": {}}], ["near", "far"], id="just enough"),
        pytest.param([{"free": "10Gi", "largest": "1Gi", "nodes": {}}], [], id="in pieces too small"),
        pytest.param(
            [
                {
                    "free": "10Gi",
                    "nodes": {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
                }
            ],
            ["far"],
            id="nodes by expression",
        ),
        pytest.param(
            [{"free": "10Gi", "nodes": {}, "storage_class": "other"}], [], id="a pool of another class"
        ),
        pytest.param(
            [{"free": size, "nodes": {"matchLabels": {ZONE: "a"}}} for size in ("1Gi", "10Gi", "2Gi")],
            ["near"],
            id="one of several pools of a zone",
        ),
    ],
)
def test_a_driver_that_reports_its_room_is_believed(pools: list[dict[str, Any]], roomy: list[str]) -> None:
    made = [
        capacity(f"pool-{number}", **{"storage_class": "made", **pool}) for number, pool in enumerate(pools)
    ]

    said = refused(POD, MADE, provisioned(), csi_driver(), *made)

    assert said == {name: NO_SPACE for name in ("near", "far") if name not in roomy}


@pytest.mark.parametrize(
    "drivers",
    [
        pytest.param([csi_driver(capacity=False)], id="it does not report"),
        pytest.param([], id="it is not registered"),
        pytest.param([csi_driver("other.example")], id="it is another one"),
    ],
)
def test_room_is_not_looked_at_for_a_driver_when(drivers: list[Json]) -> None:
    assert refused(POD, MADE, provisioned(), *drivers) == {}


def test_a_claim_that_asks_for_no_space_finds_it() -> None:
    nothing = claim("data", storage_class="made", spec={"resources": {}})

    assert refused(POD, nothing, provisioned(), csi_driver()) == {}


def test_topologies_are_told_before_room() -> None:
    zoned = provisioned(zones=["a"])

    assert refused(POD, MADE, zoned, csi_driver()) == {"near": NO_SPACE, "far": NOTHING_TO_BIND}


def test_a_claim_whose_node_was_chosen_is_made_there() -> None:
    chosen = claim("data", storage_class="made", annotations={SELECTED_NODE: "near"})
    there = volume("disk", storage_class="made")

    assert refused(POD, chosen, provisioned(), there) == {"far": NOTHING_TO_BIND}
    # A volume that is there is not looked for any more.
    assert list(refused(POD, chosen, provisioned(zones=["b"]), there)) == ["near", "far"]
    assert refused(POD, chosen, provisioned(), csi_driver()) == {"near": NO_SPACE, "far": NOTHING_TO_BIND}


def test_claims_whose_nodes_differ_fit_nowhere() -> None:
    claims = [
        claim(name, storage_class="made", annotations={SELECTED_NODE: node})
        for name, node in (("one", "near"), ("two", "far"))
    ]

    assert refused(TWO, *claims, provisioned()) == {"near": NOTHING_TO_BIND, "far": NOTHING_TO_BIND}


def test_a_volume_that_comes_later_is_seen() -> None:
    policy = VolumeBinding(VolumeBindingArgs())
    for volumes, wanted in (([], ["near", "far"]), ([volume("disk")], [])):
        cluster = cluster_of(NODES, [storage_class(), claim("data"), *volumes])
        prepared = policy.claims(POD, cluster)
        verdict = policy.volumes_found(cluster.nodes, cluster, prepared)
        assert verdict is not None
        assert verdict.rejected_names(cluster.nodes) == wanted
