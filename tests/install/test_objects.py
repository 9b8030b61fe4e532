"""What is printed for each shape and version: complete, safe, and never in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.client.errors import ConnectError
from bayplan.config.cluster import open_cluster
from bayplan.config.load import parse_config
from bayplan.install.shapes import SHAPES
from bayplan.ops.health import Health
from tests.install.releases import (
    ONE_EACH,
    VERSIONS,
    configuration,
    containers,
    found,
    made,
    of_kind,
    pod_spec,
    policy,
)

Object = dict[str, Any]
EACH = pytest.mark.parametrize("shape", SHAPES)
CLUSTER_WIDE = {"Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}
MANAGED: dict[str, Any] = {"extender": {"managedResources": [{"name": "example.com/gpu"}]}}


def kinds(some: list[Object]) -> list[str]:
    return [one["kind"] for one in some]


@EACH
@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_whole(shape: str, version: str, tmp_path: Path) -> None:
    some = found(made(shape, policy(tmp_path), version=version))
    names = [(one["kind"], one["metadata"]["name"]) for one in some]

    assert len(set(names)) == len(names)
    for one in some:
        assert one["apiVersion"]
        assert ("namespace" in one["metadata"]) == (one["kind"] not in CLUSTER_WIDE)
        assert one["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "bayplan-render"
        assert None not in list(leaves(one))


@EACH
@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_workload_refers_to_is_printed(shape: str, version: str, tmp_path: Path) -> None:
    some = found(made(shape, policy(tmp_path), version=version))
    spec = pod_spec(some)
    there = {(one["kind"], one["metadata"]["name"]) for one in some}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}

    for volume in volumes.values():
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in there
    for container in containers(spec).values():
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    assert ("ServiceAccount", spec["serviceAccountName"]) in there
    used = {mount["name"] for each in containers(spec).values() for mount in each["volumeMounts"]}
    assert used == set(volumes)


@EACH
def test_our_own_pods_are_never_placed_by_a_scheduler_that_asks_us(shape: str, tmp_path: Path) -> None:
    assert pod_spec(found(made(shape, policy(tmp_path))))["schedulerName"] == "default-scheduler"


@EACH
@pytest.mark.parametrize("version", ["1.25", "1.36"])
def test_containers_can_do_little(shape: str, version: str, tmp_path: Path) -> None:
    spec = pod_spec(found(made(shape, policy(tmp_path), version=version)))

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(spec).values():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]


@EACH
def test_probes_ask_for_what_the_server_has(shape: str, tmp_path: Path) -> None:
    container = containers(pod_spec(found(made(shape, policy(tmp_path)))))["bayplan"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert Health().report(asked["path"].strip("/"), verbose=False) == (True, "ok")
        assert asked["port"] in ports


@EACH
def test_the_configuration_is_one_that_the_server_loads_and_listens_as_probes_ask(
    shape: str, tmp_path: Path
) -> None:
    some = found(made(shape, policy(tmp_path)))
    config, _ = parse_config(
        of_kind("ConfigMap", some, "bayplan-config")["data"]["bayplan.yaml"].encode(), source="rendered"
    )
    ports = {p["name"]: p["containerPort"] for p in containers(pod_spec(some))["bayplan"]["ports"]}
    section = config.scheduler if shape == "standalone" else config.extender

    assert config.cluster.source == "in-cluster"
    assert section.ops_listen.endswith(f":{ports['ops']}")
    assert ("127.0.0.1" in config.extender.listen) == (shape != "service")
    assert (config.extender.tls is not None) == (shape in ("service", "control-plane"))
    if config.extender.tls:
        assert config.extender.tls.require_client_cert
        assert config.extender.tls.allowed_names == ("kube-scheduler",)


def test_the_policy_and_what_it_imports_go_along(tmp_path: Path) -> None:
    policy(tmp_path, "FAST = 'ssd'", "speeds.py")
    code = "import bayplan\nfrom speeds import FAST\n\n@bayplan.filter\ndef f(pod, node): ...\n"
    policy(tmp_path, code, "rules.py")
    file = configuration(tmp_path, "policies: [{use: rules.py}]\n")

    data = of_kind("ConfigMap", found(made("sidecar", file)), "bayplan-config")["data"]

    assert set(data) == {"bayplan.yaml", "rules.py", "speeds.py"}
    assert data["rules.py"] == code


def test_a_candidate_and_a_profile_go_along(tmp_path: Path) -> None:
    policy(tmp_path)
    policy(tmp_path, ONE_EACH, "next.py")
    configuration(tmp_path, "policies: [{use: next.py}]\n", "next.yaml")
    (tmp_path / "profile.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    file = configuration(
        tmp_path,
        """
        policies: [{use: policy.py}]
        shadow: {config: next.yaml}
        scheduler: {profiles: [{schedulerName: mine, kubeSchedulerConfig: profile.yaml}]}
        """,
    )

    data = of_kind("ConfigMap", found(made("standalone", file)), "bayplan-config")["data"]

    assert set(data) == {"bayplan.yaml", "policy.py", "next.yaml", "next.py", "profile.yaml"}


@pytest.mark.parametrize(
    ("version", "sleeps", "native"),
    [
        pytest.param("1.28", False, False, id="1.28"),
        pytest.param("1.29", False, True, id="1.29"),
        pytest.param("1.30", True, True, id="1.30"),
    ],
)
def test_versions_get_what_they_know(version: str, sleeps: bool, native: bool, tmp_path: Path) -> None:
    sidecar = pod_spec(found(made("sidecar", policy(tmp_path), version=version)))
    service = pod_spec(found(made("service", policy(tmp_path), version=version)))
    before = containers(service)["bayplan"]["lifecycle"]["preStop"]

    assert [each["name"] for each in sidecar.get("initContainers", ())] == (["bayplan"] if native else [])
    assert containers(sidecar)["bayplan"].get("restartPolicy") == ("Always" if native else None)
    assert set(containers(sidecar)) == {"bayplan", "kube-scheduler"}
    assert set(before) == ({"sleep"} if sleeps else {"exec"})


def test_the_kube_scheduler_of_a_sidecar_is_of_the_clusters_version(tmp_path: Path) -> None:
    spec = pod_spec(found(made("sidecar", policy(tmp_path), version="1.31.4")))

    assert containers(spec)["kube-scheduler"]["image"].endswith("/kube-scheduler:v1.31.4")


def test_the_grace_period_is_longer_than_the_pause_and_the_drain(tmp_path: Path) -> None:
    policy(tmp_path)
    text = "policies: [{use: policy.py}]\nextender: {limits: {drainTimeout: 2m}}\n"
    spec = pod_spec(found(made("service", configuration(tmp_path, text))))
    pause = containers(spec)["bayplan"]["lifecycle"]["preStop"]["sleep"]["seconds"]

    assert spec["terminationGracePeriodSeconds"] > 120 + pause


def test_of_servers_that_bind_one_alone_is_ready_so_nothing_waits_for_two(tmp_path: Path) -> None:
    some = found(made("service", policy(tmp_path, ONE_EACH), **MANAGED))
    strategy = of_kind("Deployment", some)["spec"]["strategy"]["rollingUpdate"]
    config = yaml.safe_load(of_kind("ConfigMap", some, "bayplan-config")["data"]["bayplan.yaml"])

    assert "PodDisruptionBudget" not in kinds(some)
    assert strategy == {"maxSurge": "100%", "maxUnavailable": "100%"}
    assert config["extender"]["lease"] == {"use": "auto", "name": "bayplan"}


@pytest.mark.parametrize("shape", ["sidecar", "standalone", "service"])
def test_several_pods_are_drained_one_after_the_other(shape: str, tmp_path: Path) -> None:
    two = found(made(shape, policy(tmp_path)))
    one = found(made(shape, policy(tmp_path), replicaCount=1))

    assert of_kind("PodDisruptionBudget", two)["spec"]["maxUnavailable"] == 1
    assert of_kind("Deployment", two)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert "PodDisruptionBudget" not in kinds(one)


@EACH
def test_the_systems_priority_is_for_its_namespace(shape: str, tmp_path: Path) -> None:
    inside = found(made(shape, policy(tmp_path)))
    outside = found(made(shape, policy(tmp_path), namespace="team"))
    own = of_kind("PriorityClass", outside)

    assert pod_spec(inside)["priorityClassName"] == "system-cluster-critical"
    assert "PriorityClass" not in kinds(inside)
    assert pod_spec(outside)["priorityClassName"] == own["metadata"]["name"]
    assert own["value"] <= 1_000_000_000
    assert kinds(outside)[0] == "Namespace"


@pytest.mark.parametrize(
    ("shape", "standard"),
    [("sidecar", "restricted"), ("service", "restricted"), ("control-plane", "privileged")],
)
def test_the_namespace_lets_in_the_pods_that_it_is_for(shape: str, standard: str, tmp_path: Path) -> None:
    some = found(made(shape, policy(tmp_path), namespace="team"))
    labels = of_kind("Namespace", some)["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == standard
    assert pod_spec(some).get("hostNetwork", False) == (standard == "privileged")


def test_on_the_host_everything_listens_on_loopback(tmp_path: Path) -> None:
    some = found(made("control-plane", policy(tmp_path)))
    spec = pod_spec(some)
    container = containers(spec)["bayplan"]

    assert spec["hostNetwork"] is True
    assert spec["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
    assert {container[p]["httpGet"]["host"] for p in ("livenessProbe", "readinessProbe")} == {"127.0.0.1"}
    assert "NetworkPolicy" not in kinds(some)
    assert "Service" not in kinds(some)


@pytest.mark.parametrize(
    ("shape", "ports"),
    [
        pytest.param("sidecar", {8889, 10259}, id="sidecar"),
        pytest.param("standalone", {8891}, id="standalone"),
        pytest.param("service", {8888, 8889}, id="service"),
    ],
)
def test_only_our_ports_are_open(shape: str, ports: set[int], tmp_path: Path) -> None:
    policy_of_network = of_kind("NetworkPolicy", found(made(shape, policy(tmp_path))))
    rules = policy_of_network["spec"]["ingress"]

    assert {port["port"] for rule in rules for port in rule["ports"]} == ports


@pytest.mark.parametrize(
    ("listen", "open_ports"),
    [
        pytest.param(":8890", [8890], id="every address"),
        pytest.param("0.0.0.0:9000", [9000], id="every address of IPv4"),
        pytest.param("[::]:8890", [8890], id="every address of IPv6"),
        pytest.param("127.0.0.1:8890", [], id="loopback"),
        pytest.param("localhost:8890", [], id="loopback by name"),
        pytest.param("[::1]:8890", [], id="loopback of IPv6"),
        pytest.param("off", [], id="no page"),
    ],
)
@pytest.mark.parametrize("shape", ["sidecar", "standalone", "service"])
def test_a_page_for_others_can_be_reached(
    shape: str, listen: str, open_ports: list[int], tmp_path: Path
) -> None:
    policy(tmp_path)
    text = f"policies: [{{use: policy.py}}]\npage: {{listen: '{listen}', tokenFile: /etc/page/token}}\n"
    mounts = [{"name": "page", "mountPath": "/etc/page"}]
    some = found(made(shape, configuration(tmp_path, text), extraVolumeMounts=mounts))
    rules = of_kind("NetworkPolicy", some)["spec"]["ingress"]

    ports = {port["port"] for rule in rules for port in rule["ports"]}
    assert sorted(ports - {8888, 8889, 8891, 10259}) == open_ports


@EACH
@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("{source: snapshot, snapshot: cluster.json}", id="a file, as init writes it"),
        pytest.param("{source: kubeconfig, kubeconfig: /etc/kubeconfig, context: test}", id="a kubeconfig"),
    ],
)
def test_where_the_cluster_was_before_does_not_keep_the_server_from_starting(
    cluster: str, shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    policy(tmp_path)
    file = configuration(tmp_path, f"policies: [{{use: policy.py}}]\ncluster: {cluster}\n")
    text = of_kind("ConfigMap", found(made(shape, file)), "bayplan-config")["data"]["bayplan.yaml"]
    section = parse_config(text.encode(), source="rendered")[0].cluster

    # Past its own checks, and then it looks for the cluster around it, which is not there.
    with pytest.raises(ConnectError, match="not in a cluster"):
        open_cluster(section, tmp_path)


SOURCES = """
    sources:
    - {name: prices, file: {path: prices.yaml}}
    - {name: load, http: {url: "https://load.example", caFile: load-ca.crt}}
    policies: [{use: policy.py}]
"""


def test_what_sources_read_beside_the_configuration_goes_along(tmp_path: Path) -> None:
    policy(tmp_path)
    (tmp_path / "prices.yaml").write_text("node-1: 2\n")
    (tmp_path / "load-ca.crt").write_text("a certificate\n")
    release = made("sidecar", configuration(tmp_path, SOURCES))
    data = of_kind("ConfigMap", found(release), "bayplan-config")["data"]

    assert set(data) == {"bayplan.yaml", "policy.py", "prices.yaml", "load-ca.crt"}
    assert data["prices.yaml"] == "node-1: 2\n"
    assert release.warnings == ()


def test_what_a_candidates_sources_read_goes_along(tmp_path: Path) -> None:
    policy(tmp_path)
    (tmp_path / "prices.yaml").write_text("node-1: 2\n")
    (tmp_path / "load-ca.crt").write_text("a certificate\n")
    configuration(tmp_path, SOURCES, "next.yaml")
    file = configuration(tmp_path, "policies: [{use: policy.py}]\nshadow: {config: next.yaml}\n")

    assert {"prices.yaml", "load-ca.crt"} < set(made("sidecar", file).value("files"))


@pytest.mark.parametrize("version", ["1.28", "1.29", "1.31", "1.36"])
@pytest.mark.parametrize("shape", ["sidecar", "standalone", "service"])
def test_metrics_are_found_by_number_whatever_container_has_the_port(
    shape: str, version: str, tmp_path: Path
) -> None:
    some = found(made(shape, policy(tmp_path), version=version))
    (port,) = of_kind("Service", some, "bayplan-ops")["spec"]["ports"]
    named = {p["name"]: p["containerPort"] for p in containers(pod_spec(some))["bayplan"]["ports"]}

    assert port["targetPort"] == named["ops"]


def test_another_configuration_replaces_pods(tmp_path: Path) -> None:
    def digest(code: str) -> str:
        some = found(made("sidecar", policy(tmp_path, code)))
        annotations = of_kind("Deployment", some)["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert digest(ONE_EACH) == digest(ONE_EACH)
    assert digest(ONE_EACH) != digest(ONE_EACH.replace("taken", "used"))


def test_cert_manager_makes_what_is_mounted(tmp_path: Path) -> None:
    some = found(made("service", policy(tmp_path), tls={"mode": "cert-manager"}))
    certificates = [one["spec"] for one in some if one["kind"] == "Certificate"]
    (tls,) = [volume for volume in pod_spec(some)["volumes"] if volume["name"] == "tls"]

    assert tls["secret"]["secretName"] in {each["secretName"] for each in certificates}
    assert all(each["privateKey"]["algorithm"] == "ECDSA" for each in certificates)
    server = next(each for each in certificates if "server auth" in each.get("usages", ()))
    client = next(each for each in certificates if "client auth" in each.get("usages", ()))
    assert "bayplan.kube-system.svc" in server["dnsNames"]
    assert client["commonName"] == "kube-scheduler"


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from leaves(value)
    else:
        yield tree
