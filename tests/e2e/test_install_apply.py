"""Everything that is rendered is taken by a real API server, and what it describes schedules a pod.

With the rights that are printed, and no others.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import ApiError
from tests.controlplane.helm_binary import require
from tests.controlplane.plane import ControlPlane
from tests.controlplane.scheduler import Scheduler
from tests.e2e.extender import COMMAND
from tests.e2e.installed import Installed, kubectl, render
from tests.install.releases import ONE_EACH, ONLY_SSD, configuration, policy

pytestmark = pytest.mark.e2e

RUNBOOK = Path(__file__).parents[2] / "docs" / "how-to" / "upgrade.md"
RESOURCE = "example.com/slot"
COUNTED = "example.com/gpu-milli"
LEASES = ("bayplan", "kube-scheduler")
NONE_NEEDED: list[str] = []
IGNORABLE = ["--ignorable"]


@pytest.fixture
def nodes(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster where only one node has an SSD; nobody holds a Lease in it."""
    cluster.api.create_node("with-ssd", labels={"disk": "ssd"}, extended={RESOURCE: "8"})
    cluster.api.create_node("without", extended={RESOURCE: "8"})
    yield cluster
    for name in LEASES:
        cluster.api.delete("leases", name, namespace="kube-system")


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    """Certificates for a server that is called by its Service's name and on loopback."""
    folder = tmp_path / "certs"
    names = ["--dns", "bayplan.kube-system.svc", "--ip", "127.0.0.1"]
    subprocess.run([COMMAND, "certs", "create", "--out", folder, *names], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        pytest.param("sidecar", NONE_NEEDED, id="sidecar"),
        pytest.param("standalone", NONE_NEEDED, id="standalone"),
        pytest.param("service", IGNORABLE, id="service"),
        pytest.param("control-plane", IGNORABLE, id="control-plane"),
    ],
)
@pytest.mark.parametrize("version", ["1.25", "1.36"])
def test_the_api_server_takes_everything(
    shape: str, options: list[str], version: str, cluster: ControlPlane, tmp_path: Path
) -> None:
    text = render(shape, policy(tmp_path), "--kubernetes-version", version, *options)
    installed = Installed(cluster, tmp_path, text)

    # Strict: a field that this API server does not know is an error.
    tried = kubectl(
        cluster, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text
    )
    with installed.applied():
        kept = kubectl(cluster, "get", "--output=name", "-f", "-", stdin=text)

    assert len(tried.splitlines()) == len(installed.objects)
    assert len(kept.splitlines()) == len(installed.objects)
    assert any(f"/{kind}" in kept or kind in kept for kind in ("deployment", "daemonset"))


def test_what_an_upgrade_leaves_behind_is_what_the_runbook_lists(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    (command,) = re.findall(r"^\$ (comm .*)$", RUNBOOK.read_text(), re.MULTILINE)
    old, new = render("sidecar", policy(tmp_path)), render("standalone", policy(tmp_path))
    (tmp_path / "install.yaml").write_text(old)
    (tmp_path / "next-install.yaml").write_text(new)
    env = {
        "PATH": f"{require('kubectl').parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(cluster.kubeconfig),
    }
    with Installed(cluster, tmp_path, old).applied(), Installed(cluster, tmp_path, new).applied():
        left = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )

    assert not left.stderr
    assert left.stdout.splitlines() == [
        "clusterrolebinding.rbac.authorization.k8s.io/kube-system-bayplan-kube-scheduler",
        "clusterrolebinding.rbac.authorization.k8s.io/kube-system-bayplan-volume-scheduler",
        "configmap/bayplan-scheduler-config",
        "rolebinding.rbac.authorization.k8s.io/kube-system-bayplan-authentication-reader",
    ]


@pytest.mark.parametrize("shape", ["sidecar", "standalone", "service"])
@pytest.mark.parametrize("version", ["1.28", "1.36"])
def test_pods_keep_to_the_restricted_standard(
    shape: str, version: str, cluster: ControlPlane, tmp_path: Path
) -> None:
    options = ["--ignorable"] if shape == "service" else []
    namespace = ["--namespace", "bayplan", "--kubernetes-version", version]
    text = render(shape, policy(tmp_path), *namespace, *options)
    installed = Installed(cluster, tmp_path, text)
    (deployment,) = [one for one in installed.objects if one["kind"] == "Deployment"]
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"]["name"] = "one-of-them"

    with installed.applied():
        made = cluster.api.create("pods", pod, namespace="bayplan")
        pod["spec"]["securityContext"] = {}
        pod["metadata"]["name"] = "another"
        with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
            cluster.api.create("pods", pod, namespace="bayplan")

    assert made["spec"]["priority"] == 1_000_000_000
    assert made["spec"]["schedulerName"] == "default-scheduler"


def test_a_sidecar_schedules_the_pods_that_ask_for_it(nodes: ControlPlane, tmp_path: Path) -> None:
    installed = Installed(nodes, tmp_path, render("sidecar", policy(tmp_path)))
    with installed.applied():
        account = installed.account(may={"verb": "list", "group": "storage.k8s.io", "resource": "csinodes"})
        config = (installed.files("bayplan-scheduler-config") / "kube-scheduler.yaml").read_text()
        with installed.bayplan(account), installed.kube_scheduler(account, config):
            nodes.api.create_pod("ours", scheduler_name="bayplan-scheduler")
            nodes.api.create_pod("not-ours")

            assert nodes.api.wait_bound("ours") == "with-ssd"
            assert nodes.api.node_of("not-ours") is None
            assert nodes.api.get("leases", "bayplan", namespace="kube-system")["spec"]["holderIdentity"]


def test_a_sidecar_whose_policies_bind_binds(nodes: ControlPlane, tmp_path: Path) -> None:
    installed = Installed(nodes, tmp_path, render("sidecar", policy(tmp_path, ONE_EACH)))
    with installed.applied():
        account = installed.account(may={"verb": "create", "resource": "pods", "subresource": "binding"})
        config = (installed.files("bayplan-scheduler-config") / "kube-scheduler.yaml").read_text()
        with installed.bayplan(account) as bayplan, installed.kube_scheduler(account, config):
            for name in ("one", "two"):
                nodes.api.create_pod(name, scheduler_name="bayplan-scheduler")

            assert {nodes.api.wait_bound("one"), nodes.api.wait_bound("two")} == {"with-ssd", "without"}
            assert "bind" in bayplan.log()


def test_a_sidecar_places_pods_by_what_only_we_count(nodes: ControlPlane, tmp_path: Path) -> None:
    devices = {"metadata": {"annotations": {"example.com/gpus": "2x1000"}}}
    nodes.api.patch("nodes", "with-ssd", devices)
    file = configuration(
        tmp_path,
        f"""
        policies:
        - use: SharedResource
          args: {{resource: {COUNTED}, capacity: example.com/gpus}}
        """,
    )
    installed = Installed(nodes, tmp_path, render("sidecar", "--config", file))
    with installed.applied():
        account = installed.account(may={"verb": "create", "resource": "pods", "subresource": "binding"})
        config = (installed.files("bayplan-scheduler-config") / "kube-scheduler.yaml").read_text()
        with installed.bayplan(account), installed.kube_scheduler(account, config):
            # No node has it in its status.
            nodes.api.create_pod("asks", scheduler_name="bayplan-scheduler", requests={COUNTED: "600"})
            nodes.api.create_pod("asks-not", scheduler_name="bayplan-scheduler")

            assert nodes.api.wait_bound("asks") == "with-ssd"
            assert nodes.api.wait_bound("asks-not")
            given = nodes.api.get("pods", "asks")["metadata"]["annotations"]["bayplan.dev/allocation"]
            assert COUNTED in given


@pytest.mark.parametrize("shape", ["service", "control-plane"])
def test_an_extender_of_the_default_scheduler_is_called_with_certificates(
    shape: str, nodes: ControlPlane, certs: Path, tmp_path: Path
) -> None:
    options: list[str | Path] = ["--ignorable", "--tls", "certs", "--certs", certs]
    installed = Installed(nodes, tmp_path, render(shape, policy(tmp_path, ONLY_SSD), *options))
    config = render(shape, policy(tmp_path, ONLY_SSD), "--ignorable", "--part", "scheduler-config")
    with installed.applied():
        account = installed.account(may={"verb": "watch", "resource": "pods"})
        with installed.bayplan(account) as bayplan, as_default_scheduler(nodes, installed, config):
            nodes.api.create_pod("p")

            assert nodes.api.wait_bound("p") == "with-ssd"
            assert "certificate" not in bayplan.log()


def test_a_service_whose_policies_bind_holds_its_lease(
    nodes: ControlPlane, certs: Path, tmp_path: Path
) -> None:
    managed = ["--managed-resource", RESOURCE]
    file = policy(tmp_path, ONE_EACH)
    installed = Installed(
        nodes, tmp_path, render("service", file, *managed, "--tls", "certs", "--certs", certs)
    )
    config = render("service", file, *managed, "--part", "scheduler-config")
    with installed.applied():
        account = installed.account(
            may={
                "verb": "create",
                "group": "coordination.k8s.io",
                "resource": "leases",
                "namespace": "kube-system",
            }
        )
        with installed.bayplan(account), as_default_scheduler(nodes, installed, config):
            nodes.api.create_pod("one", requests={RESOURCE: "1"})
            nodes.api.create_pod("two", requests={RESOURCE: "1"})

            assert {nodes.api.wait_bound("one"), nodes.api.wait_bound("two")} == {"with-ssd", "without"}
            assert nodes.api.get("leases", "bayplan", namespace="kube-system")["spec"]["holderIdentity"]


def test_a_standalone_scheduler_schedules_the_pods_that_ask_for_it(
    nodes: ControlPlane, tmp_path: Path
) -> None:
    installed = Installed(nodes, tmp_path, render("standalone", policy(tmp_path)))
    with installed.applied():
        account = installed.account(may={"verb": "create", "group": "events.k8s.io", "resource": "events"})
        with installed.bayplan(account) as bayplan:
            nodes.api.create_pod("ours", scheduler_name="bayplan-scheduler")

            assert nodes.api.wait_bound("ours") == "with-ssd"
            assert nodes.api.wait_event("ours", "Scheduled")
            assert "forbidden" not in bayplan.log()


def as_default_scheduler(cluster: ControlPlane, installed: Installed, config: str) -> Scheduler:
    """kube-scheduler as a control plane has it: with its own account and its own Lease."""
    return cluster.scheduler(configuration=yaml.safe_load(installed.on_this_machine(config)))
