"""VolumeZone: volumes whose labels name zones or regions."""

import pytest

from bayplan.policies.default_profile.volume_zone import OTHER_ZONE, VolumeZone
from bayplan.testing import make_node, make_pod, run_policy
from tests.parity.volumes import Json, claim, cluster_of, ephemeral, mounting, pair, reason_of, storage_class

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def refused_nodes(labels_of_volume: dict[str, str], labels_of_node: dict[str, str]) -> bool:
    nodes = [make_node("asked", labels=labels_of_node)]
    manifests = pair("data", labels=labels_of_volume)
    result = run_policy(VolumeZone, make_pod(spec=mounting("data")), cluster_of(nodes, manifests))
    assert set(result.refused.values()) <= {"node(s) had no available volume zone"}
    return bool(result.refused)


@pytest.mark.parametrize(
    ("of_volume", "of_node", "refused"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, False, id="same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, True, id="other zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, False, id="one of several zones"),
        pytest.param({ZONE: " a __ b "}, {ZONE: "b"}, False, id="blanks round zones do not count"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, False, id="a list with a hole in it is not looked at"),
        pytest.param({ZONE: "a"}, {}, False, id="a node without zone or region takes everything"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, True, id="a node with a region must have the zone too"),
        pytest.param({}, {ZONE: "a"}, False, id="a volume without zone goes everywhere"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a"}, False, id="old label of the volume, new one of the node"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "b"}, True, id="old label of the volume, other zone"),
        pytest.param(
            {OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, True, id="the node's old label counts first"
        ),
        pytest.param({ZONE: "a"}, {OLD_ZONE: "a"}, True, id="new label of the volume, old one of the node"),
        pytest.param({OLD_REGION: "r"}, {REGION: "r"}, False, id="old and new region"),
        pytest.param(
            {ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, True, id="zone fits, region does not"
        ),
    ],
)
def test_a_volume_is_used_in_its_zone(
    of_volume: dict[str, str], of_node: dict[str, str], refused: bool
) -> None:
    assert refused_nodes(of_volume, of_node) is refused


@pytest.mark.parametrize(
    ("manifests", "text"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param(pair("data")[:1], 'persistentvolume "data" not found', id="no volume"),
        pytest.param(
            [claim("data", storage_class=None)],
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="no volume and no class",
        ),
        pytest.param(
            [claim("data")], 'storageclass.storage.k8s.io "waits" not found', id="class that is not there"
        ),
        pytest.param(
            [claim("data"), storage_class(immediate=True)],
            "PersistentVolume had no name",
            id="class that does not wait",
        ),
    ],
)
def test_a_pod_is_refused_for(manifests: list[Json], text: str) -> None:
    cluster = cluster_of([make_node("any", zone="a")], manifests)

    result = run_policy(VolumeZone, make_pod(spec=mounting("data")), cluster)

    reason = reason_of(result)
    assert (reason.text, reason.of_pod, reason.preemptible) == (text, True, False)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(mounting("data"), id="a claim that waits for the pod"),
        pytest.param(ephemeral("scratch"), id="an ephemeral volume"),
        pytest.param({}, id="no volumes"),
    ],
)
def test_nothing_is_said_about(spec: Json) -> None:
    cluster = cluster_of([make_node("any", zone="a")], [claim("data"), storage_class()])

    assert run_policy(VolumeZone, make_pod(spec=spec), cluster).refused == {}


def test_no_eviction_could_help() -> None:
    assert not OTHER_ZONE.preemptible
