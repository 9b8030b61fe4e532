"""Doctor against the real thing: kube-scheduler starts exactly where doctor says so, and a live cluster."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bayplan.doctor.files import read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.fix import fix
from bayplan.doctor.manifests import ANNOTATION
from bayplan.doctor.scheduler_file import SchedulerFile
from bayplan.doctor.setting import Version
from bayplan.doctor.tls import certificate_files
from bayplan.install.evaluate import holds
from bayplan.install.names import Release
from bayplan.install.rights import RIGHTS
from tests.controlplane.certs import KeyPair, make_ca
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.manifests import node_manifest, pod_manifest
from tests.controlplane.plane import ControlPlane
from tests.doctor.cases import CASES, FOLDER, Case, read_case

pytestmark = pytest.mark.e2e

COMMAND = Path(sys.executable).with_name("bayplan")
# With each of these, the reference says, kube-scheduler does not start.
FATAL = {
    "api-version",
    "bad-value",
    "extenders-in-a-profile",
    "key-case",
    "managed-resource-name",
    "managed-resource-twice",
    "no-bind-plugin",
    "plugin-gone",
    "plugin-point",
    "plugin-twice",
    "plugin-without-name",
    "profile-name",
    "queue-sort",
    "timeout-unit",
    "two-binders",
    "unknown-key",
    "value-out-of-range",
    "weight",
}
SCHEDULES = Release({"shape": "standalone", "verbs": {"bind": False}, "config": {}}, namespace="", minor=36)
NODES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
VIEW = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]


def loadable(case: Case) -> bool:
    """For 1.36, and with certificates that are here and are some."""
    if (
        case.path.name.startswith("policy.")
        or case.version != "1.36"
        or case.path.name == "certificates.yaml"
    ):
        return False
    pages = read_text(case.path.read_bytes(), source=str(case.path)).schedulers
    named = [path for page in pages for _, path in certificate_files(SchedulerFile(page))]
    return bool(pages) and all(path.is_file() for path in named) and case.path.name != "clean-mutual-tls.yaml"


def loads(plane: ControlPlane, folder: Path, configuration: Mapping[str, Any]) -> str:
    """What kube-scheduler says when it refuses the configuration; empty where it takes it."""
    client = configuration.get("clientConnection")
    kubeconfig = {"kubeconfig": str(plane.kubeconfig)}
    document = {
        **configuration,
        "clientConnection": {**(client if isinstance(client, dict) else {}), **kubeconfig},
    }
    (folder / "scheduler.json").write_text(json.dumps(document))
    command: list[str | Path] = [
        plane.binaries / "kube-scheduler",
        f"--config={folder / 'scheduler.json'}",
        "--secure-port=0",
        f"--write-config-to={folder / 'written.yaml'}",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=FOLDER)
    return ended.stderr if ended.returncode else ""


def fatal(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings} & FATAL


@pytest.mark.parametrize("case", [pytest.param(case, id=case.path.name) for case in CASES if loadable(case)])
def test_kube_scheduler_starts_exactly_where_doctor_says_that_it_does(
    case: Case, control_plane: ControlPlane, tmp_path: Path
) -> None:
    (page,) = read_text(case.path.read_bytes(), source=str(case.path)).schedulers

    refused = loads(control_plane, tmp_path, page.data)

    assert bool(refused) == bool(fatal(case.examine())), refused


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.path.name)
        for case in CASES
        if (loadable(case) and case.expected) or case.path.name == "policy.json"
    ],
)
def test_a_corrected_file_is_taken_by_kube_scheduler(
    case: Case, control_plane: ControlPlane, tmp_path: Path
) -> None:
    text = fix(case.path.read_bytes(), case.examine, source=str(case.path), version=Version(36)).text
    (page,) = read_text(text, source=str(case.path)).schedulers

    refused = loads(control_plane, tmp_path, page.data)

    assert bool(refused) == bool(fatal(case.examine(text))), refused


@pytest.mark.parametrize(
    ("tls", "starts"),
    [
        pytest.param({"caData": "CA"}, True, id="a CA"),
        pytest.param({}, True, id="none, which checks nothing"),
        pytest.param({"insecure": True, "caData": "CA"}, False, id="a CA, and not to be heeded"),
        pytest.param({"caData": "CA", "certData": "CA"}, True, id="half a pair, which is passed over"),
    ],
)
def test_what_kube_scheduler_makes_of_certificates(
    tls: dict[str, Any], starts: bool, control_plane: ControlPlane, tmp_path: Path
) -> None:
    ca = base64.b64encode((FOLDER / "certificates" / "good.crt").read_bytes()).decode()
    entry = {
        "urlPrefix": "https://10.0.0.1:8888",
        "enableHTTPS": True,
        "bindVerb": "bind",
        "tlsConfig": {key: ca if value == "CA" else value for key, value in tls.items()},
    }
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [entry],
    }

    refused = loads(control_plane, tmp_path, configuration)

    assert (refused == "") == starts, refused


def test_a_converted_policy_places_a_pod(cluster: ControlPlane) -> None:
    case = read_case(FOLDER / "policy.json")
    text = fix(case.path.read_bytes(), case.examine, source=str(case.path), version=Version(36)).text
    (page,) = read_text(text, source="policy.json").schedulers
    cluster.api.create("nodes", node_manifest("small", cpu="2"))
    cluster.api.create("nodes", node_manifest("large", cpu="64"))

    with cluster.scheduler(configuration={"profiles": page.data["profiles"]}):
        cluster.api.create("pods", pod_manifest("web", cpu="1", memory="1Gi"))

        # MostRequestedPriority packs: the fuller node wins.
        assert cluster.api.wait_bound("web") == "small"


def doctor(*arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    command: list[str | Path] = [COMMAND, "doctor", "-o", "json", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    return ended.returncode, json.loads(ended.stdout)["findings"]


def of(findings: list[dict[str, Any]], trap: str) -> list[str]:
    return [finding["what"] for finding in findings if finding["id"] == trap]


def bayplan_pod(account: str, **options: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "bayplan"}
    return pod_manifest("server", labels=labels, spec={"serviceAccountName": account}, **options)


@contextmanager
def showing(pair: KeyPair) -> Iterator[int]:
    """A server that shows a certificate and hangs up; its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(5)
            try:
                with context.wrap_socket(connection, server_side=True) as shaken:
                    shaken.recv(1)
            except OSError:
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_a_healthy_cluster_is_clean(cluster: ControlPlane) -> None:
    cluster.kubeconfig_for("healthy", VIEW, credential="token")
    cluster.api.create("pods", bayplan_pod("healthy"))

    code, findings = doctor("--live", "--kubeconfig", cluster.kubeconfig)

    assert findings == []
    assert code == 0


def test_a_scheduler_of_ours_needs_the_rights_of_one(cluster: ControlPlane) -> None:
    table = [line for line in RIGHTS if not line.own and holds(line.when, SCHEDULES)]
    rules = [
        {"apiGroups": [line.group], "resources": list(line.resources), "verbs": list(line.verbs)}
        for line in table
    ]
    cluster.kubeconfig_for("schedules", rules, credential="token")
    command = {"name": "bayplan", "image": "bayplan", "command": ["bayplan"], "args": ["schedule"]}
    pod = bayplan_pod("schedules")
    pod["spec"]["containers"] = [command]
    cluster.api.create("pods", pod)

    assert doctor("--live", "--kubeconfig", cluster.kubeconfig) == (0, [])

    less = [rule for rule in rules if "pods/binding" not in rule["resources"]]
    cluster.kubeconfig_for("schedules", less, credential="token")
    findings = doctor("--live", "--kubeconfig", cluster.kubeconfig)[1]
    assert of(findings, "rbac-missing") == [
        "service account default/schedules may not create pods/binding: bind"
    ]


def test_a_server_that_follows_nodes_alone_needs_no_right_to_pods(cluster: ControlPlane) -> None:
    cluster.kubeconfig_for("nodes", NODES, credential="token")
    cluster.api.create("pods", bayplan_pod("nodes"))
    said = {finding["id"] for finding in doctor("--live", "--kubeconfig", cluster.kubeconfig)[1]}
    text = (
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: policy.py}]\n"
        "cluster: {source: in-cluster, nodesOnly: true}\n"
    )
    files = {"bayplan.yaml": text, "policy.py": "import bayplan  # nodesOnly"}
    cluster.api.create("configmaps", {"metadata": {"name": "bayplan-config"}, "data": files})

    assert said == {"rbac-missing"}
    assert doctor("--live", "--kubeconfig", cluster.kubeconfig) == (0, [])


def test_rights_that_are_missing_are_named(cluster: ControlPlane) -> None:
    cluster.kubeconfig_for("poor", VIEW[1:], credential="token")
    cluster.api.create("pods", bayplan_pod("poor"))
    config = FOLDER / "clean-sidecar.yaml"

    code, findings = doctor(config, "--live", "--kubeconfig", cluster.kubeconfig)

    assert code == 1
    assert [text.partition(":")[0] for text in of(findings, "rbac-missing")] == [
        f"service account default/poor may not {right}"
        for right in ("list nodes", "watch nodes", "list pods", "watch pods")
    ]


def test_a_service_account_that_may_do_anything_is_named_with_its_binding(cluster: ControlPlane) -> None:
    cluster.kubeconfig_for("mighty", VIEW, credential="token")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "quick-and-dirty"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "mighty", "namespace": "default"}],
    }
    cluster.api.create("clusterrolebindings", binding)
    cluster.api.create("pods", bayplan_pod("mighty"))
    try:
        code, findings = doctor("--live", "--kubeconfig", cluster.kubeconfig)
    finally:
        cluster.api.delete("clusterrolebindings", "quick-and-dirty")

    assert of(findings, "rbac-too-wide") == [
        "service account default/mighty may do everything with every object (`*` on `*`)"
        " through ClusterRoleBinding quick-and-dirty"
    ]
    assert code == 0


def test_what_the_user_may_not_see_is_a_note(cluster: ControlPlane) -> None:
    kubeconfig = cluster.kubeconfig_for("blindfolded", VIEW)

    code, findings = doctor("--live", "--kubeconfig", kubeconfig)

    assert [finding["id"] for finding in findings] == ["not-looked-at"]
    assert "configmaps is forbidden" in findings[0]["what"]
    assert code == 0


def test_pods_of_another_time_and_the_hen_and_the_egg(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.kubeconfig_for("healthy", VIEW, credential="token")
    cluster.api.create("pods", bayplan_pod("healthy", scheduler_name="bayplan"))
    cluster.api.create("pods", pod_manifest("old", annotations={ANNOTATION: "bayplan"}))
    config = FOLDER / "clean-sidecar.yaml"

    code, findings = doctor(config, "--live", "--kubeconfig", cluster.kubeconfig)

    assert {finding["path"]: finding["id"] for finding in findings if finding["severity"] == "error"} == {
        "pod default/old": "scheduler-name-annotation",
        "pod default/server": "hen-and-egg",
    }
    assert code == 1


def test_the_configuration_of_a_sidecar_is_found_in_its_config_map(cluster: ControlPlane) -> None:
    cluster.kubeconfig_for("healthy", VIEW, credential="token")
    cluster.api.create("pods", bayplan_pod("healthy"))
    text = (FOLDER / "tutorial.yaml").read_text()
    cluster.api.create("configmaps", {"metadata": {"name": "scheduler"}, "data": {"config.yaml": text}})

    code, findings = doctor("--live", "--kubeconfig", cluster.kubeconfig)

    found = {finding["id"]: finding for finding in findings}
    assert found["filter-without-preempt"]["file"] == "configmap default/scheduler (config.yaml)"
    # Not one node, so that all of them are offered; and the pod is placed by the one that waits for it.
    assert "sampling" not in found
    assert "hen-and-egg" in found
    assert code == 1


def test_the_version_of_the_cluster_counts_unless_another_is_given(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies:\n- use: LeastAllocated\n"
        'cluster: {source: in-cluster}\nextender: {kubeSchedulerVersion: "1.38"}\n'
    )
    live = ("--config", config, "--live", "--kubeconfig", cluster.kubeconfig)

    assert of(doctor(*live)[1], "version-skew") == ["the file says 1.38, and kube-scheduler is 1.36.4"]
    assert of(doctor(*live, "--kubernetes-version", "1.38")[1], "version-skew") == []


@pytest.mark.parametrize(
    ("days", "name", "trap"),
    [
        pytest.param(365.0, "127.0.0.1", None, id="a good one"),
        pytest.param(3.0, "127.0.0.1", "certificate-expiring", id="one that ends soon"),
        pytest.param(-1.0, "127.0.0.1", "certificate-expired", id="one that ended"),
        pytest.param(365.0, "127.0.0.9", "certificate-refused", id="one of another host"),
    ],
)
def test_the_certificate_that_the_extender_shows_is_looked_at(
    days: float, name: str, trap: str | None, cluster: ControlPlane, tmp_path: Path
) -> None:
    authority = make_ca("extenders", tmp_path / "ca", days=400)
    pair = authority.issue("extender", ips=[name], server=True, days=days)
    text = (FOLDER / "clean-sidecar.yaml").read_text()
    with showing(pair) as port:
        secured = text.replace("http://127.0.0.1:8888", f"https://127.0.0.1:{port}")
        file = tmp_path / "scheduler.yaml"
        file.write_text(f"{secured}  enableHTTPS: true\n  tlsConfig: {{caFile: {authority.cert}}}\n")

        _, findings = doctor(file, "--live", "--kubeconfig", cluster.kubeconfig)

    about = [f["id"] for f in findings if f["id"].startswith(("certificate", "extender"))]
    assert about == ([trap] if trap else [])


def test_a_ca_that_cannot_be_looked_at_is_not_looked_at(cluster: ControlPlane, tmp_path: Path) -> None:
    authority = make_ca("extenders", tmp_path / "ca", days=400)
    pair = authority.issue("extender", ips=["127.0.0.1"], server=True, days=365)
    text = (FOLDER / "clean-sidecar.yaml").read_text()
    with showing(pair) as port:
        secured = text.replace("http://127.0.0.1:8888", f"https://127.0.0.1:{port}")
        file = tmp_path / "scheduler.yaml"
        # A folder that is for root alone is an error of the same kind, but not to root.
        file.write_text(f"{secured}  enableHTTPS: true\n  tlsConfig: {{caFile: /{'x' * 300}/ca.crt}}\n")

        _, findings = doctor(file, "--live", "--kubeconfig", cluster.kubeconfig)

    assert not [f["id"] for f in findings if f["id"].startswith("certificate")]


def test_a_cluster_that_does_not_answer_is_no_cluster(tmp_path: Path, control_plane: ControlPlane) -> None:
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", "https://127.0.0.1:1", ca=control_plane.ca.cert, user="x", token="x"
    )
    command: list[str | Path] = [COMMAND, "doctor", "--live", "--kubeconfig", kubeconfig]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: ")
    assert "Traceback" not in ended.stderr
