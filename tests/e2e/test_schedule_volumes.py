"""``bayplan schedule`` binds volumes: those that kube-scheduler would, each to one claim, come what may."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import ApiError, Json
from tests.controlplane.manifests import node_manifest
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.fault_proxy import Fault, FaultProxy
from tests.e2e.second_scheduler import NAME, SecondScheduler
from tests.e2e.volume_stand_in import CLAIMS, VOLUMES, VolumeStandIn
from tests.parity import volumes as of
from tests.parity.stage import Stage
from tests.parity.volumes import DRIVER, HOSTNAME, SELECTED_NODE
from tests.parity.world import World

pytestmark = pytest.mark.e2e

MADE = of.storage_class("made", provisioner=DRIVER)
CLASSES = (of.storage_class(), MADE)
HERE = {HOSTNAME: ["near"]}
ONLY_NEAR = {"nodeSelector": {HOSTNAME: "near"}}
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "schedule.md"
ALONE = ("--no-leader-elect",)


@pytest.fixture
def stage(cluster: ControlPlane) -> Iterator[Stage]:
    """Puts objects into the cluster, and takes away all claims and volumes in the end."""
    with Stage(cluster) as stage:
        yield stage
        sweep(cluster)


def sweep(cluster: ControlPlane) -> None:
    """Delete every claim and volume; the API server protects both by finalizers."""
    for path in (CLAIMS, VOLUMES):
        for one in cluster.api.request("GET", path)["items"]:
            where = f"{path}/{one['metadata']['name']}"
            with suppress(ApiError):
                cluster.api.request("DELETE", where)
                free = {"metadata": {"finalizers": None}}
                cluster.api.request("PATCH", where, body=free, content_type="application/merge-patch+json")


def nodes(*names: str) -> list[Json]:
    """Nodes that local volumes can name."""
    return [node_manifest(name, labels={HOSTNAME: name}) for name in names or ("near", "far")]


CASES: dict[str, tuple[list[str], list[Json]]] = {
    "the smallest of three": (
        ["data"],
        [of.claim("data", size="2Gi"), *(of.volume(f"v{n}", size=f"{n}Gi") for n in (9, 3, 5, 1))],
    ),
    "the one that the node reaches": (
        ["data"],
        [
            of.claim("data"),
            of.volume("elsewhere", within={HOSTNAME: ["far"]}),
            of.volume("local", size="5Gi", within=HERE),
        ],
    ),
    "the one that is kept for the claim": (
        ["data"],
        [
            of.claim("data"),
            of.volume("kept", size="5Gi", claim="data", phase="Available"),
            of.volume("small"),
        ],
    ),
    "two claims, the smaller one first": (
        ["one", "two"],
        [of.claim("one", size="4Gi"), of.claim("two"), of.volume("small"), of.volume("large", size="5Gi")],
    ),
    "one that the claim selects": (
        ["data"],
        [
            of.claim("data", spec={"selector": {"matchLabels": {"tier": "fast"}}}),
            of.volume("slow"),
            of.volume("fast", size="5Gi", labels={"tier": "fast"}),
        ],
    ),
    "one to be made": (["data"], [of.claim("data", storage_class="made")]),
    "one that is there and one to be made": (
        ["one", "two"],
        [of.claim("one"), of.claim("two", storage_class="made"), of.volume("there")],
    ),
    "made where a node was selected": (
        ["data"],
        [
            of.claim("data", storage_class="made", annotations={SELECTED_NODE: "near"}),
            of.volume("v", storage_class="made"),
        ],
    ),
}


def test_claims_get_the_volumes_that_kube_scheduler_gives_them(
    cluster: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    (role,) = [t for t in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "ClusterRole" in t]
    kubeconfig = cluster.kubeconfig_for("scheduler", yaml.safe_load(role)["rules"])
    outcomes: dict[str, list[Json]] = {name: [] for name in CASES}
    with (
        SecondScheduler(cluster.api, tmp_path, kubeconfig=kubeconfig) as bayplan,
        cluster.scheduler(),
        VolumeStandIn(cluster),
    ):
        for name, (claims, objects) in CASES.items():
            for number, scheduler in enumerate((NAME, "default-scheduler")):
                sweep(cluster)
                stage.put(World((*nodes(), *CLASSES, *objects)))
                pod = f"p{number}"
                spec = {**of.mounting(*claims), **ONLY_NEAR}
                cluster.api.create_pod(pod, scheduler_name=scheduler, spec=spec)
                cluster.api.wait_bound(pod)
                outcomes[name].append(written(cluster))

    for name, (ours, theirs) in outcomes.items():
        assert ours == theirs, name
    assert "forbidden" not in bayplan.log()


def written(cluster: ControlPlane) -> Json:
    """What a scheduler and the stand-in wrote on claims and volumes, without what differs from run to run."""
    claims = {one["metadata"]["name"]: one for one in cluster.api.request("GET", CLAIMS)["items"]}
    found: Json = {}
    for name, one in claims.items():
        annotations = one["metadata"].get("annotations", {})
        named = re.sub(r"pvc-.*", "made", one["spec"]["volumeName"])
        found[name] = {"volume": named, "selected": annotations.get(SELECTED_NODE)}
    for one in cluster.api.request("GET", VOLUMES)["items"]:
        name = re.sub(r"pvc-.*", "made", one["metadata"]["name"])
        keeper = one["spec"].get("claimRef", {})
        if keeper:
            assert keeper["uid"] == claims[keeper["name"]]["metadata"]["uid"]
        found[name] = {
            "claimRef": {key: keeper[key] for key in keeper if key not in ("uid", "resourceVersion")},
            "version": "resourceVersion" in keeper,
            "annotations": one["metadata"].get("annotations", {}),
        }
    return found


def test_many_pods_at_once_get_a_volume_each(cluster: ControlPlane, stage: Stage, tmp_path: Path) -> None:
    count = 20
    storage = [of.volume(f"v{n}", within={HOSTNAME: [f"n{n % 4}"]}) for n in range(count)]
    claims = [of.claim(f"c{n}") for n in range(count)]
    stage.put(World((*nodes("n0", "n1", "n2", "n3"), *CLASSES, *storage, *claims)))
    for number in range(count):
        cluster.api.create_pod(f"p{number}", scheduler_name=NAME, cpu="100m", spec=of.mounting(f"c{number}"))

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig), VolumeStandIn(cluster):
        places = {f"c{number}": cluster.api.wait_bound(f"p{number}") for number in range(count)}

    check_each_has_one(cluster, count)
    for one in cluster.api.request("GET", VOLUMES)["items"]:
        (term,) = one["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [places[one["spec"]["claimRef"]["name"]]]


def check_each_has_one(cluster: ControlPlane, count: int) -> None:
    """Every claim has a volume, and no volume has two claims."""
    claims = cluster.api.request("GET", CLAIMS)["items"]
    volumes = {one["metadata"]["name"]: one for one in cluster.api.request("GET", VOLUMES)["items"]}
    of_claim = {one["metadata"]["name"]: one["spec"]["volumeName"] for one in claims}
    assert len(of_claim) == len(set(of_claim.values())) == count
    assert {claim: volumes[name]["spec"]["claimRef"]["name"] for claim, name in of_claim.items()} == {
        claim: claim for claim in of_claim
    }
    kept = [one["spec"]["claimRef"]["uid"] for one in volumes.values() if "claimRef" in one["spec"]]
    assert len(kept) == len(set(kept)), "no claim has two volumes"


def test_a_pod_that_waits_for_its_volume_holds_nobody_up(
    cluster: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    config = tmp_path / "bayplan.yaml"
    section = {"profiles": [{"schedulerName": NAME}], "parallelBinds": 1}
    document = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration", "scheduler": section}
    config.write_text(yaml.safe_dump(document))
    stage.put(World((*nodes("near"), *CLASSES, of.claim("data", storage_class="made"))))
    flags = [f"--config={config}"]

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig, flags=flags) as bayplan:
        cluster.api.create_pod("waits", scheduler_name=NAME, spec=of.mounting("data"))
        wait_for_volumes(bayplan)
        for number in range(10):
            cluster.api.create_pod(f"plain{number}", cpu="100m", scheduler_name=NAME)
        for number in range(10):
            cluster.api.wait_bound(f"plain{number}")
        assert bayplan.metric("bayplan_binds_in_flight") == 0
        assert cluster.api.node_of("waits") is None
        with VolumeStandIn(cluster):
            assert cluster.api.wait_bound("waits") == "near"


def test_a_volume_that_cannot_be_made_there_is_made_elsewhere(
    cluster: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    near = node_manifest("near", labels={HOSTNAME: "near"}, unschedulable=True)
    stage.put(World((*nodes("far"), near, *CLASSES, of.claim("data", storage_class="made"))))
    with (
        SecondScheduler(cluster.api, tmp_path, kubeconfig=cluster.kubeconfig),
        VolumeStandIn(cluster, cannot=("far",)),
    ):
        cluster.api.create_pod("web", scheduler_name=NAME, spec=of.mounting("data"))
        said = cluster.api.wait_event("web", "FailedScheduling", containing="binding volumes")
        assert (
            said
            == 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
        )

        cluster.api.patch("nodes", "far", {"spec": {"unschedulable": True}})
        cluster.api.patch("nodes", "near", {"spec": {"unschedulable": False}})
        assert cluster.api.wait_bound("web") == "near"
        check_each_has_one(cluster, 1)


def test_without_the_right_to_write_the_pod_is_told_and_others_are_bound(
    cluster: ControlPlane, stage: Stage, tmp_path: Path
) -> None:
    (role,) = [t for t in re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL) if "ClusterRole" in t]
    rules = [
        rule
        for rule in yaml.safe_load(role)["rules"]
        if "persistentvolumes" not in rule["resources"] or "patch" not in rule["verbs"]
    ]
    kubeconfig = cluster.kubeconfig_for("no-volumes", rules)
    stage.put(World((*nodes("near"), *CLASSES, of.claim("data"), of.volume("disk"))))

    with SecondScheduler(cluster.api, tmp_path, kubeconfig=kubeconfig), VolumeStandIn(cluster):
        cluster.api.create_pod("web", scheduler_name=NAME, spec=of.mounting("data"))
        said = cluster.api.wait_event("web", "FailedScheduling", containing="cannot patch resource")
        assert "keeping volume disk for claim default/data" in said
        assert said.endswith("see the rights in docs/how-to/schedule.md")
        cluster.api.create_pod("plain", scheduler_name=NAME)
        assert cluster.api.wait_bound("plain") == "near"
        assert cluster.api.wait_unschedulable("web", reason="SchedulerError") == said
        assert "claimRef" not in cluster.api.request("GET", f"{VOLUMES}/disk")["spec"]


STEPS: dict[str, tuple[str, str, Fault]] = {
    "before the volume is written": ("PATCH", "/persistentvolumes/", "request swallowed"),
    "once the volume is written": ("PATCH", "/persistentvolumes/", "reply swallowed"),
    "before the node is selected": ("PATCH", "/persistentvolumeclaims/", "request swallowed"),
    "once the node is selected": ("PATCH", "/persistentvolumeclaims/", "reply swallowed"),
    "while it waits for its volumes": ("", "", ""),
    "before the pod is bound": ("POST", "/binding", "request swallowed"),
    "once the pod is bound": ("POST", "/binding", "reply swallowed"),
}


@pytest.mark.parametrize("step", STEPS)
def test_killed(cluster: ControlPlane, stage: Stage, tmp_path: Path, step: str) -> None:
    method, path, fault = STEPS[step]
    claims = [of.claim("one"), of.claim("made", storage_class="made"), of.claim("two")]
    stage.put(World((*nodes(), *CLASSES, *claims, of.volume("v1"), of.volume("v2"))))
    controller = VolumeStandIn(cluster)
    with FaultProxy(cluster, tmp_path) as proxy:
        bayplan = SecondScheduler(cluster.api, tmp_path, kubeconfig=proxy.kubeconfig, flags=ALONE)
        proxy.decide = lambda how, where: fault if how == method and path in where else ""
        with bayplan:
            cluster.api.create_pod("first", scheduler_name=NAME, spec=of.mounting("one", "made"))
            if method == "POST":
                with controller:
                    wait_until(lambda: proxy.faults, 30, what="it is on its way", explain=bayplan.log)
            elif method:
                wait_until(lambda: proxy.faults, 30, what="it is on its way", explain=bayplan.log)
            else:
                wait_for_volumes(bayplan)
            os.kill(bayplan.child.pid, signal.SIGKILL)
            assert bayplan.child.wait_ended() == -signal.SIGKILL
        proxy.decide = lambda _how, _where: ""
        with bayplan, VolumeStandIn(cluster):
            cluster.api.create_pod("second", scheduler_name=NAME, spec=of.mounting("two"))
            cluster.api.wait_bound("second")
            cluster.api.wait_bound("first")
        check_each_has_one(cluster, 3)


def wait_for_volumes(bayplan: SecondScheduler) -> None:
    """Wait until a pod waits for its volumes, and everything is written."""
    wait_until(
        lambda: bayplan.metric("bayplan_pods_waiting_for_volumes") == 1,
        30,
        what="a pod waits for its volumes",
        explain=bayplan.log,
    )
