"""Which volumes the claims of a pod get on the node that was chosen."""

import numpy as np
import pytest

from bayplan import Pod
from bayplan.policies.default_profile.volume_offers import Offers
from bayplan.policies.default_profile.volume_picks import Picks, pick_volumes
from bayplan.testing import make_node, make_pod
from tests.parity.volumes import (
    DRIVER,
    HOSTNAME,
    SELECTED_NODE,
    ZONE,
    Json,
    claim,
    cluster_of,
    mounting,
    pair,
    storage_class,
    volume,
)

NODES = [make_node(name, labels={HOSTNAME: name, ZONE: zone}) for name, zone in (("near", "a"), ("far", "b"))]
MADE = storage_class("made", provisioner=DRIVER)


def picks(pod: Pod, *manifests: Json, node: str = "near") -> Picks:
    cluster = cluster_of(NODES, [storage_class(), MADE, *manifests])
    row = cluster.nodes.take(np.array([cluster.rows[node]], dtype=np.intp), [node])
    return pick_volumes(pod, row, cluster.objects, Offers(cluster.objects.of_kind("PersistentVolume")))


def found(picks: Picks) -> dict[str, str]:
    return {claim.name: volume.name for claim, volume in picks.found}


ONE = make_pod(spec=mounting("data"))
TWO = make_pod(spec=mounting("one", "two"))


def test_the_smallest_that_the_node_reaches_and_of_equals_the_first_by_name() -> None:
    volumes = [
        volume("a-elsewhere", within={HOSTNAME: ["far"]}),
        volume("b-large", size="9Gi"),
        volume("d-small", size="2Gi"),
        volume("c-small", size="2Gi"),
    ]

    assert found(picks(ONE, claim("data"), *volumes)) == {"data": "c-small"}
    assert found(picks(ONE, claim("data"), *volumes, node="far")) == {"data": "a-elsewhere"}


def test_the_volume_that_is_kept_for_the_claim_comes_before_smaller_ones() -> None:
    kept = volume("kept", claim="data", size="9Gi")

    assert found(picks(ONE, claim("data"), kept, volume("small"))) == {"data": "kept"}


def test_the_smaller_claim_chooses_first() -> None:
    volumes = [volume("small"), volume("large", size="5Gi")]

    assert found(picks(TWO, claim("one", size="5Gi"), claim("two"), *volumes)) == {
        "two": "small",
        "one": "large",
    }


def test_what_is_not_there_is_to_be_made() -> None:
    done = picks(
        TWO,
        claim("one", storage_class="made"),
        claim("two", storage_class="made"),
        volume("v", storage_class="made"),
    )

    assert found(done) == {"one": "v"}
    assert [each.name for each in done.to_make] == ["two"]


def test_a_claim_with_a_node_selected_is_made_though_a_volume_is_there() -> None:
    chosen = claim("data", storage_class="made", annotations={SELECTED_NODE: "near"})

    done = picks(ONE, chosen, volume("v", storage_class="made"))

    assert (done.found, [each.name for each in done.to_make]) == ((), ["data"])


def test_claims_that_have_their_volume_are_left_alone() -> None:
    done = picks(TWO, *pair("one"), claim("two"), volume("free"))

    assert found(done) == {"two": "free"}


def test_a_claim_that_is_mounted_twice_gets_one_volume() -> None:
    twice = make_pod(spec=mounting("data", "data"))

    assert found(picks(twice, claim("data"), volume("first"), volume("second"))) == {"data": "first"}


@pytest.mark.parametrize(
    ("manifests", "problem"),
    [
        pytest.param([claim("data")], "the volume for claim default/data is not there any more", id="taken"),
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
    ],
)
def test_what_could_be_had_a_moment_ago_may_be_gone(manifests: list[Json], problem: str) -> None:
    assert picks(ONE, *manifests).problem == problem
