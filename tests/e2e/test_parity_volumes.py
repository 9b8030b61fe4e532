"""Volumes, case by case: what kube-scheduler says of a pod is what the default profile says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from bayplan import Profile
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.parity import volumes as of
from tests.parity.answer import PLACED, Answer, differences
from tests.parity.judges import KubeScheduler, bayplan_answer, kube_scheduler
from tests.parity.stage import Stage
from tests.parity.volumes import DRIVER, HOSTNAME, SELECTED_NODE, ZONE, Json
from tests.parity.world import HOLD, NEVER, World

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("one kube-scheduler")]

# kube-scheduler sees what was created some milliseconds later; only what differs every time counts.
TRIES = 3
EBS = {"awsElasticBlockStore": {"volumeID": "vol-a"}}
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
READ_WRITE_ONCE_POD = ["ReadWriteOncePod"]

NODES = (
    node_manifest("near", labels={ZONE: "a", "topology.ebs.csi.aws.com/zone": "a"}),
    node_manifest("far", labels={ZONE: "b", "topology.ebs.csi.aws.com/zone": "b"}),
    node_manifest("nowhere"),
)
WAITS = of.storage_class()
MADE = of.storage_class("made", provisioner=DRIVER)
HERE = {HOSTNAME: ["near"]}


@dataclass(frozen=True)
class Both:
    """Both judges, and the API server that they look at."""

    stage: Stage
    kube: KubeScheduler
    profile: Profile

    def answers(self, name: str, spec: Json, objects: Sequence[Json]) -> tuple[Answer, Answer]:
        """What each says of a pod; asked again while they differ."""
        for attempt in range(TRIES):
            self.stage.put(World((*NODES, *objects)))
            manifest = pod_manifest(f"{name}-{attempt}", priority_class=NEVER, spec=spec)
            cluster = self.stage.snapshot()
            pod = self.stage.create(manifest)
            kube = self.kube.answer(pod.key)
            ours = bayplan_answer(self.profile.policies, pod, cluster)
            self.stage.delete(manifest)
            if not differences(kube, ours):
                break
        return kube, ours


@pytest.fixture(scope="module")
def both(control_plane: ControlPlane) -> Iterator[Both]:
    """A kube-scheduler and the default profile."""
    control_plane.api.clear()
    with Stage(control_plane) as stage, kube_scheduler(control_plane) as kube:
        yield Both(stage, kube, Profile.default())
    control_plane.api.clear()


def placed(name: str, node: str, spec: Json) -> Json:
    """A pod that runs already."""
    return pod_manifest(name, node_name=node, priority_class=NEVER, spec=spec)


def disk(**source: Json) -> Json:
    """The ``spec`` of a pod with one disk of its own."""
    return {"volumes": [{"name": "disk", **source}]}


def held(manifest: Json) -> Json:
    """An object that is deleted and does not go."""
    manifest["metadata"]["finalizers"] = [HOLD]
    return manifest


def by_name(bound: list[Json], operator: str) -> list[Json]:
    """A claim and its volume, whose affinity names a node and no label."""
    fields = [{"key": "metadata.name", "operator": operator, "values": ["near"]}]
    bound[1]["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    return bound


def limits(count: int, driver: str = DRIVER) -> list[Json]:
    """How many volumes two of the nodes take."""
    return [of.csi_node(name, {driver: count}) for name in ("near", "far")]


DATA = of.mounting("data")
TWO = of.mounting("one", "two")
GCE_READ = disk(gcePersistentDisk={"pdName": "a", "readOnly": True})
RBD = disk(rbd={"monitors": ["m1", "m2"], "pool": "p", "image": "i"})
CHOSEN = of.claim("data", storage_class="made", annotations={SELECTED_NODE: "near"})
ONE_FREE = of.volume("free", within=HERE)
POOL = of.capacity("pool", storage_class="made", free="5Gi", nodes={"matchLabels": {ZONE: "a"}})

CASES: dict[str, tuple[Json, list[Json]]] = {
    "disk-taken": (disk(gcePersistentDisk={"pdName": "a"}), [placed("there", "near", GCE_READ)]),
    "disk-only-read": (GCE_READ, [placed("there", "near", GCE_READ)]),
    "ebs-read-twice": (
        disk(awsElasticBlockStore={"volumeID": "a", "readOnly": True}),
        [placed("there", "far", disk(awsElasticBlockStore={"volumeID": "a", "readOnly": True}))],
    ),
    "rbd-everywhere": (RBD, [placed(f"on-{node}", node, RBD) for node in ("near", "far", "nowhere")]),
    "claim-of-one-pod": (
        DATA,
        [*of.pair("data", modes=READ_WRITE_ONCE_POD), placed("there", "near", DATA)],
    ),
    "no-claim": (DATA, []),
    "second-claim-missing": (TWO, of.pair("one")),
    "lost": (DATA, [of.claim("data", volume="gone", phase="Lost")]),
    "being-deleted": (DATA, [held(of.claim("data")), WAITS]),
    "not-made-yet": (of.ephemeral("scratch"), [WAITS]),
    "somebody-elses": (
        of.ephemeral("scratch"),
        [of.claim(f"somebody-elses-{attempt}-scratch") for attempt in range(TRIES)],
    ),
    "unbound-immediate": (
        DATA,
        [of.claim("data", storage_class="now"), of.storage_class("now", immediate=True)],
    ),
    "unbound-without-class": (DATA, [of.claim("data", storage_class="")]),
    "unbound-with-unknown-class": (DATA, [of.claim("data")]),
    "volume-named-and-not-bound": (
        DATA,
        [of.claim("data", spec={"volumeName": "free"}), WAITS, of.volume("free")],
    ),
    "volume-gone": (DATA, [of.claim("data", volume="gone")]),
    "bound-in-a-zone": (DATA, of.pair("data", within={ZONE: ["a"]})),
    "bound-out-of-reach": (DATA, of.pair("data", within={ZONE: ["c"]})),
    "bound-by-name-of-node": (DATA, by_name(of.pair("data"), "In")),
    "bound-by-no-name-of-node": (DATA, by_name(of.pair("data"), "NotIn")),
    "bound-and-waiting": (
        TWO,
        [*of.pair("one", within={ZONE: ["a"]}), of.claim("two"), WAITS],
    ),
    "zone-label": (DATA, of.pair("data", labels={ZONE: "a__c"})),
    "zone-label-elsewhere": (DATA, of.pair("data", labels={ZONE: "c"}, within={HOSTNAME: ["near", "far"]})),
    "old-zone-label": (DATA, of.pair("data", labels={OLD_ZONE: "b"}, spec=EBS)),
    "migrated-nodes": (
        DATA,
        [
            *of.pair("data", within={OLD_ZONE: ["b"]}, spec=EBS),
            of.csi_node("far", {}, migrated="kubernetes.io/aws-ebs"),
            of.csi_node("near", {}, migrated="kubernetes.io/aws-ebs"),
        ],
    ),
    "migrated-label": (
        DATA,
        [
            *of.pair("data", labels={ZONE: "a"}, spec=EBS),
            of.csi_node("nowhere", {}, migrated="kubernetes.io/aws-ebs"),
        ],
    ),
    "waiting-finds-one": (DATA, [WAITS, of.claim("data"), ONE_FREE]),
    "waiting-finds-none": (DATA, [WAITS, of.claim("data", size="2Gi"), ONE_FREE]),
    "waiting-not-available": (DATA, [WAITS, of.claim("data"), of.volume("free", phase="Released")]),
    "waiting-other-mode": (DATA, [WAITS, of.claim("data", modes=["ReadWriteMany"]), ONE_FREE]),
    "waiting-selects": (
        DATA,
        [
            WAITS,
            of.claim("data", spec={"selector": {"matchLabels": {"tier": "fast"}}}),
            ONE_FREE,
            of.volume("fast", labels={"tier": "fast"}, within={ZONE: ["b"]}),
        ],
    ),
    "waiting-kept": (
        DATA,
        [
            WAITS,
            of.claim("data"),
            of.volume("kept", claim="data", phase="Available", within=HERE),
            of.volume("free"),
        ],
    ),
    "two-claims-one-volume": (TWO, [WAITS, of.claim("one"), of.claim("two"), of.volume("free")]),
    "two-claims-two-volumes": (
        TWO,
        [WAITS, of.claim("one", size="5Gi"), of.claim("two"), ONE_FREE, of.volume("large", size="5Gi")],
    ),
    "smaller-claim-first": (
        TWO,
        [
            WAITS,
            of.claim("one", size="2Gi"),
            of.claim("two", modes=["ReadWriteMany"]),
            of.volume("first", size="2Gi", modes=["ReadWriteOnce", "ReadWriteMany"]),
            of.volume("second", size="3Gi"),
        ],
    ),
    "one-claim-twice": (of.mounting("data", "data"), [WAITS, of.claim("data"), of.volume("free")]),
    "made": (DATA, [MADE, of.claim("data", storage_class="made")]),
    "made-in-zones": (
        DATA,
        [of.storage_class("zoned", provisioner=DRIVER, zones=["b"]), of.claim("data", storage_class="zoned")],
    ),
    "made-with-room": (
        DATA,
        [MADE, of.claim("data", storage_class="made", size="5Gi"), of.csi_driver(), POOL],
    ),
    "made-without-room": (
        DATA,
        [MADE, of.claim("data", storage_class="made", size="6Gi"), of.csi_driver(), POOL],
    ),
    "made-in-zones-without-room": (
        DATA,
        [
            of.storage_class("made", provisioner=DRIVER, zones=["b"]),
            of.claim("data", storage_class="made"),
            of.csi_driver(),
            POOL,
        ],
    ),
    "made-where-chosen": (DATA, [MADE, CHOSEN]),
    "chosen-elsewhere": (
        DATA,
        [MADE, of.claim("data", storage_class="made", annotations={SELECTED_NODE: "gone"})],
    ),
    "limit": (
        DATA,
        [*limits(1), *of.pair("data"), *of.pair("old"), placed("there", "near", of.mounting("old"))],
    ),
    "limit-shared": (
        DATA,
        [*limits(1), *of.pair("data"), placed("there", "near", DATA)],
    ),
    "limit-attached": (
        DATA,
        [*limits(1), *of.pair("data"), of.volume("old"), of.attachment("a", node="far", volume="old")],
    ),
    "limit-attached-own": (
        DATA,
        [*limits(1), *of.pair("data"), of.attachment("a", node="far", volume="data")],
    ),
    "limit-of-claims-to-be": (
        of.mounting("data", "more"),
        [
            *limits(1),
            MADE,
            of.claim("data", storage_class="made"),
            of.claim("more", storage_class="made"),
        ],
    ),
    "limit-of-migrated": (
        disk(awsElasticBlockStore={"volumeID": "vol-b"}),
        [
            *limits(1, "ebs.csi.aws.com"),
            *of.pair("old", spec=EBS),
            placed("there", "near", of.mounting("old")),
            placed("also", "far", disk(awsElasticBlockStore={"volumeID": "aws://z/vol-b"})),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_say_the_same(both: Both, name: str) -> None:
    spec, objects = CASES[name]

    kube, ours = both.answers(name, spec, objects)

    assert differences(kube, ours) == []


def test_the_cases_are_of_both_kinds(both: Both) -> None:
    kube, _ = both.answers("goes", DATA, of.pair("data"))
    assert kube.outcome == PLACED
    kube, _ = both.answers("stays", DATA, of.pair("data", within={ZONE: ["c"]}))
    assert "3 node(s) didn't match PersistentVolume's node affinity" in str(kube.message)
