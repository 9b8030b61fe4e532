"""VolumeBinding: what is wrong with a pod's claims, and where bound ones are reached."""

from typing import Any

import msgspec
import pytest

from bayplan import Pod
from bayplan.policies.default_profile.volume_binding import VolumeBinding, VolumeBindingArgs
from bayplan.testing import make_node, make_pod, run_policy
from tests.parity.volumes import (
    ZONE,
    Json,
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

NODES = [make_node("near", zone="a"), make_node("far", zone="b")]
POD = make_pod("pod", uid="uid-of-pod", spec=mounting("data"))
EPHEMERAL = make_pod("pod", uid="uid-of-pod", spec=ephemeral("scratch"))
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-of-pod", "controller": True}
OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


def deleted(manifest: Json) -> Json:
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return manifest


@pytest.mark.parametrize(
    ("pod", "manifests", "text"),
    [
        pytest.param(POD, [], 'persistentvolumeclaim "data" not found', id="it is not there"),
        pytest.param(
            EPHEMERAL,
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"',
            id="it is not made yet",
        ),
        pytest.param(
            POD,
            [claim("data", volume="gone", phase="Lost")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
            id="it is lost",
        ),
        pytest.param(
            POD, [deleted(claim("data"))], 'persistentvolumeclaim "data" is being deleted', id="it is deleted"
        ),
        pytest.param(
            EPHEMERAL,
            [claim("pod-scratch", volume="x")],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="it is somebody else's",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("pod-scratch", volume="x", owner=OWNER | {"uid": "uid-of-another-pod"})],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="it is another pod's of that name",
        ),
        pytest.param(
            EPHEMERAL,
            [claim("pod-scratch", volume="x", owner=OWNER | {"controller": False})],
            "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)",
            id="the pod is not its controller",
        ),
        pytest.param(POD, [claim("data", storage_class=None)], UNBOUND, id="it has no class"),
        pytest.param(POD, [claim("data")], UNBOUND, id="its class is not there"),
        pytest.param(
            POD, [claim("data"), storage_class(immediate=True)], UNBOUND, id="its class does not wait"
        ),
        pytest.param(
            POD,
            [claim("data", spec={"volumeName": "chosen"}), storage_class(), volume("chosen")],
            UNBOUND,
            id="it names its volume and is not bound to it yet",
        ),
    ],
)
def test_a_pod_is_refused_for_a_claim_when(pod: Pod, manifests: list[Json], text: str) -> None:
    result = run_policy(VolumeBinding, pod, cluster_of(NODES, manifests))

    reason = reason_of(result)
    assert (reason.text, reason.of_pod, reason.preemptible) == (text, True, False)
    assert result.passed == []


def test_a_claim_made_for_the_pod_is_good() -> None:
    made = claim("pod-scratch", owner=OWNER, volume="scratch")

    assert run_policy(VolumeBinding, EPHEMERAL, cluster_of(NODES, [made, volume("scratch")])).refused == {}


def test_a_pod_without_claims_goes_everywhere() -> None:
    pod = make_pod(spec={"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "a"}}]})

    assert run_policy(VolumeBinding, pod, cluster_of(NODES, [])).refused == {}


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        pytest.param({}, [], id="it has no affinity"),
        pytest.param({"within": {ZONE: ["a"]}}, ["far"], id="it is in a zone"),
        pytest.param({"within": {ZONE: ["a", "b"]}}, [], id="it is in both zones"),
        pytest.param({"within": {ZONE: ["a"], "rack": ["r"]}}, ["near", "far"], id="it wants two labels"),
    ],
)
def test_a_bound_volume_is_reached_where_its_affinity_says(
    settings: dict[str, Any], refused: list[str]
) -> None:
    result = run_policy(VolumeBinding, POD, cluster_of(NODES, pair("data", **settings)))

    assert result.refused == dict.fromkeys(refused, OUT_OF_REACH)


@pytest.mark.parametrize(
    ("expressions", "refused"),
    [
        pytest.param([], [], id="of a name alone"),
        pytest.param([{"key": ZONE, "operator": "In", "values": ["b"]}], ["near"], id="of a name and a zone"),
    ],
)
@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_an_affinity_does_not_look_at_names(
    operator: str, expressions: list[Json], refused: list[str]
) -> None:
    bound, data = pair("data")
    fields = [{"key": "metadata.name", "operator": operator, "values": ["near"]}]
    terms = [{"matchFields": fields, "matchExpressions": expressions}]
    data["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}

    result = run_policy(VolumeBinding, POD, cluster_of(NODES, [bound, data]))

    assert list(result.refused) == refused


def test_a_volume_that_is_gone_is_told_for_every_node() -> None:
    result = run_policy(VolumeBinding, POD, cluster_of(NODES, [claim("data", volume="gone")]))

    assert result.refused == {"near": GONE, "far": GONE}
    assert not reason_of(result).preemptible


def test_the_first_bound_claim_that_fails_is_told() -> None:
    manifests = [*pair("data", within={ZONE: ["a"]}), claim("second", volume="gone")]
    pod = make_pod(spec=mounting("data", "second"))

    result = run_policy(VolumeBinding, pod, cluster_of(NODES, manifests))

    assert result.refused == {"near": GONE, "far": OUT_OF_REACH}


def test_a_node_is_told_what_is_wrong_with_bound_and_with_waiting_claims() -> None:
    manifests = [*pair("data", within={ZONE: ["a"]}), claim("second"), storage_class()]
    pod = make_pod(spec=mounting("data", "second"))

    result = run_policy(VolumeBinding, pod, cluster_of(NODES, manifests))

    near, far = (reason_of(result, row) for row in (0, 1))
    assert (near.text, near.also) == (NOTHING_TO_BIND, ())
    assert (far.text, far.also) == (OUT_OF_REACH, (NOTHING_TO_BIND,))


EBS, EBS_ZONE = {"awsElasticBlockStore": {"volumeID": "vol-a"}}, "topology.ebs.csi.aws.com/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
MIGRATED_NODES = [
    make_node("old-words", labels={ZONE: "a"}),
    make_node("driver-words", labels={EBS_ZONE: "a"}),
    make_node("driver-elsewhere", labels={EBS_ZONE: "b", ZONE: "a"}),
]


@pytest.mark.parametrize(
    ("settings", "passed"),
    [
        pytest.param({"within": {ZONE: ["a"]}}, ["old-words", "driver-words"], id="by its affinity"),
        pytest.param({"within": {OLD_ZONE: ["a"]}}, ["driver-words"], id="by an old affinity"),
        pytest.param({"labels": {ZONE: "a__c"}}, ["old-words", "driver-words"], id="by its label"),
        pytest.param({}, [node.name for node in MIGRATED_NODES], id="nowhere in particular"),
    ],
)
def test_a_disk_from_before_drivers_is_looked_up_in_the_words_of_nodes_that_migrated(
    settings: dict[str, Any], passed: list[str]
) -> None:
    migrated = [
        csi_node(name, {}, migrated="kubernetes.io/gce-pd,kubernetes.io/aws-ebs")
        for name in ("driver-words", "driver-elsewhere")
    ]
    cluster = cluster_of(MIGRATED_NODES, [*pair("data", spec=EBS, **settings), *migrated])

    assert run_policy(VolumeBinding, POD, cluster).passed == passed


def test_arguments_are_those_of_kube_scheduler() -> None:
    assert VolumeBindingArgs().bind_timeout_seconds == 600
    for wrong, text in (
        ({"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        ({"shape": [{"utilization": 0, "score": 0}]}, "StorageCapacityScoring"),
    ):
        with pytest.raises(msgspec.ValidationError, match=text):
            msgspec.convert(wrong, VolumeBindingArgs)
