"""What is made of a cluster that was looked at: each trap, and none in a healthy one."""

from datetime import timedelta
from typing import Any

import pytest

from bayplan.doctor import traps_of_clusters
from bayplan.doctor.cluster import Cluster, Handshake, check_cluster
from bayplan.doctor.files import read_text
from bayplan.doctor.finding import Where
from bayplan.doctor.managed import check_managed_resources
from bayplan.doctor.manifests import ANNOTATION, schedules
from bayplan.doctor.ours import read_ours
from bayplan.doctor.rights import Right, Rights, needed, needed_to_schedule
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Setting, Version
from tests.doctor.cases import FOLDER, NOW, read_case

SERVER = "https://10.0.0.1:6443"
HERE = Where("scheduler.yaml", 6, "extenders[0].urlPrefix")


def scheduler(name: str = "clean-sidecar.yaml") -> SchedulerFile:
    (page,) = read_text((FOLDER / name).read_bytes(), source=name).schedulers
    return SchedulerFile(page)


def pod(name: str = "web", *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": {
            "containers": [{"image": "registry.example/bayplan:1" if name == "bayplan" else "nginx"}],
            **spec,
        },
    }


HEALTHY = Cluster(
    SERVER,
    version="v1.36.4",
    skew_seconds=0.4,
    pods=[
        pod("bayplan", schedulerName="default-scheduler"),
        pod(annotations={ANNOTATION: "bayplan"}, schedulerName="bayplan"),
    ],
    rights=[Rights("service account shop/bayplan", "serviceaccount shop/bayplan")],
    handshakes=[Handshake(HERE, "https://10.0.0.9:8888", ends=NOW + timedelta(days=31))],
)


def found(cluster: Cluster, *, version: str = "1.36") -> list[str]:
    setting = Setting(Version.read(version), now=NOW)
    return [f"{f.severity}:{f.id}" for f in check_cluster(cluster, [scheduler()], setting)]


def test_in_a_healthy_cluster_nothing_is_found() -> None:
    assert found(HEALTHY) == []


LISTING = Right("list", "pods", "to watch")
TRAPS = [
    pytest.param({"skew_seconds": -90.0}, "warning:clock-skew", id="a clock that is behind"),
    pytest.param({"skew_seconds": 6.0}, "warning:clock-skew", id="a clock that is ahead"),
    pytest.param(
        {"pods": [pod(annotations={ANNOTATION: "bayplan"})]},
        "error:scheduler-name-annotation",
        id="a pod of another time",
    ),
    pytest.param(
        {"pods": [pod("bayplan", schedulerName="bayplan")]}, "error:hen-and-egg", id="the hen and the egg"
    ),
    pytest.param(
        {"rights": [Rights("x", "x", missing=[LISTING])]}, "error:rbac-missing", id="a right that is missing"
    ),
    pytest.param(
        {"rights": [Rights("x", "x", wide=[LISTING])]}, "warning:rbac-too-wide", id="a right too many"
    ),
    pytest.param(
        {"rights": [Rights("x", "x", wide=[LISTING], own=True)]},
        "note:rbac-too-wide",
        id="rights of whoever asks",
    ),
    pytest.param(
        {"handshakes": [Handshake(HERE, "x", problem="refused")]},
        "note:extender-unreachable",
        id="nobody answers",
    ),
    pytest.param(
        {"handshakes": [Handshake(HERE, "x", ends=NOW - timedelta(days=1), refused="expired")]},
        "error:certificate-expired",
        id="a certificate that ended",
    ),
    pytest.param(
        {"handshakes": [Handshake(HERE, "x", ends=NOW + timedelta(days=29))]},
        "warning:certificate-expiring",
        id="a certificate that ends soon",
    ),
    pytest.param(
        {"handshakes": [Handshake(HERE, "x", ends=NOW + timedelta(days=99), refused="self-signed")]},
        "error:certificate-refused",
        id="a certificate of somebody else",
    ),
    pytest.param({"unseen": ["pods: forbidden"]}, "note:not-looked-at", id="what nobody shows us"),
]


@pytest.mark.parametrize(("change", "expected"), TRAPS)
def test_each_trap_of_a_cluster_is_found_alone(change: dict[str, Any], expected: str) -> None:
    from dataclasses import replace

    assert found(replace(HEALTHY, **change)) == [expected]


def test_every_trap_of_a_cluster_has_a_test_here() -> None:
    met = {str(param.values[1]).partition(":")[2] for param in TRAPS}

    assert {trap.id for trap in traps_of_clusters.ALL} - met == set()


def test_a_version_that_nobody_has_tried_is_said() -> None:
    assert found(HEALTHY, version="1.39") == ["note:version-untested"]


def test_of_many_pods_with_the_annotation_some_are_named_and_the_rest_counted() -> None:
    from dataclasses import replace

    many = replace(HEALTHY, pods=[pod(f"web-{n}", annotations={ANNOTATION: "x"}) for n in range(50)])

    findings = list(check_cluster(many, [], Setting(now=NOW)))

    assert len(findings) == 21
    assert findings[-1].what == "so do 30 more pods"


def test_a_static_pod_is_no_egg() -> None:
    from dataclasses import replace

    mirror = pod("bayplan", schedulerName="bayplan", annotations={"kubernetes.io/config.mirror": "x"})

    assert found(replace(HEALTHY, pods=[mirror])) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("clean-sidecar.yaml", set(), id="a view is always needed"),
        pytest.param("binders.yaml", {"create pods/binding", "get pods"}, id="to bind"),
        pytest.param(
            "clean-with-bayplan.yaml",
            {
                "create pods/binding",
                "get pods",
                "get leases.coordination.k8s.io",
                "create leases.coordination.k8s.io",
                "update leases.coordination.k8s.io",
            },
            id="to bind by a rule between pods",
        ),
    ],
)
def test_the_rights_that_are_needed_follow_from_the_files(name: str, expected: set[str]) -> None:
    case = read_case(FOLDER / name)
    setting = Setting(ours=case.ours())

    rights = {str(right) for right in needed([scheduler(name)], setting)}

    assert rights - {"list nodes", "watch nodes", "get nodes", "list pods", "watch pods"} == expected
    assert {"list nodes", "watch pods"} <= rights


def test_a_scheduler_of_ours_needs_what_its_own_table_has() -> None:
    rights = {str(right) for right in needed_to_schedule(Setting())}

    assert {"create pods/binding", "patch pods/status", "watch persistentvolumes"} <= rights
    # A node that nobody has told it of is nothing to it, and the name of its Lease is not known here.
    assert "get nodes" not in rights
    assert not [right for right in rights if "leases" in right]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({"command": ["bayplan"], "args": ["schedule", "--config=x"]}, True, id="as printed"),
        pytest.param({"command": ["bayplan", "schedule"]}, True, id="in one list"),
        pytest.param({"command": ["bayplan"], "args": ["serve", "--config=x"]}, False, id="an extender"),
        pytest.param({"command": ["kube-scheduler"]}, False, id="beside kube-scheduler"),
        pytest.param({}, False, id="nothing said"),
    ],
)
def test_a_pod_that_schedules_is_told_from_one_that_is_asked(
    container: dict[str, list[str]], expected: bool
) -> None:
    assert schedules({"spec": {"containers": [container]}}) is expected


def test_the_lease_is_asked_about_by_its_name_as_roles_allow_it() -> None:
    setting = Setting(ours=read_case(FOLDER / "clean-with-bayplan.yaml").ours())

    rights = needed([scheduler("clean-with-bayplan.yaml")], setting)

    named = {right.verb: right.name for right in rights if right.resource == "leases"}
    assert named == {"get": "bayplan", "update": "bayplan", "create": ""}
    assert not any(right.name for right in rights if right.resource != "leases")


def test_the_lease_is_asked_about_where_it_is() -> None:
    file = FOLDER / "bayplan" / "one-per-node.yaml"
    text = file.read_text().replace("extender:\n", "extender:\n  lease: {namespace: locks}\n")
    (page,) = read_text(text, source=str(file)).configurations

    rights = needed([scheduler("clean-with-bayplan.yaml")], Setting(ours=read_ours(page)))

    assert {right.namespace for right in rights if right.resource == "leases"} == {"locks"}
    assert {right.namespace for right in rights if right.resource != "leases"} == {""}


@pytest.mark.parametrize(
    ("advertised", "expected"),
    [
        pytest.param(None, ["note"], id="nobody knows"),
        pytest.param(frozenset({"cpu"}), ["error"], id="no node has it"),
        pytest.param(frozenset({"example.com/gpu-memory"}), [], id="nodes have it"),
    ],
)
def test_what_a_policy_counts_is_looked_for_on_nodes(
    advertised: frozenset[str] | None, expected: list[str]
) -> None:
    setting = Setting(ours=read_case(FOLDER / "shared-gpu.yaml").ours(), advertised=advertised)

    findings = check_managed_resources(scheduler("shared-gpu.yaml"), setting)

    assert [f.severity for f in findings if f.id == "resource-not-advertised"] == expected


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        pytest.param(99, "", [], id="all of few nodes are offered"),
        pytest.param(100, "", ["warning"], id="not all of many"),
        pytest.param(None, "", ["note"], id="nobody knows how many"),
        pytest.param(5000, "percentageOfNodesToScore: 100\n", [], id="all were asked for"),
        pytest.param(50, "percentageOfNodesToScore: 10\n", [], id="a sample of few is all"),
    ],
)
def test_samples_matter_from_a_hundred_nodes_on(
    nodes: int | None, percentage: str, expected: list[str]
) -> None:
    from bayplan.doctor.profiles import check_profiles

    text = (FOLDER / "clean-sidecar.yaml").read_text().replace("percentageOfNodesToScore: 100\n", percentage)
    (page,) = read_text(text, source="x").schedulers

    findings = check_profiles(SchedulerFile(page), Setting(nodes=nodes))

    assert [finding.severity for finding in findings] == expected


def test_the_right_to_everything_is_told_in_words() -> None:
    from dataclasses import replace

    setting = Setting(Version.read("1.36"), now=NOW)
    cluster = replace(HEALTHY, rights=[Rights("account a", "x", wide=[Right("*", "*", group="*"), LISTING])])

    (finding,) = check_cluster(cluster, [scheduler()], setting)

    assert "account a may do everything with every object (`*` on `*`), list pods" in finding.what
