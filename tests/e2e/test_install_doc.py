"""The page about installing, followed word for word: its commands run, and pods go where the policy says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.helm_binary import require
from tests.controlplane.plane import ControlPlane
from tests.e2e.extender import COMMAND
from tests.e2e.kubelet_stand_in import NAMESPACE, KubeletStandIn

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
FILES = dict(re.findall(r"as `([\w.]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
BUILD = "The image first"
"""Its command needs Docker and a registry; what it builds is tried by `tests/install/test_image.py`."""
UNDO = re.findall(r"To remove Bayplan: `([^`]+)`\.", PAGE)
MACHINES = ("machine-1", "machine-2", "machine-3", "machine-4")
PATIENCE_SECONDS = 60.0


def commands(section: str) -> list[str]:
    """What the section tells to type, line by line."""
    blocks = re.findall(r"^```console\n(.*?)^```", SECTIONS[section], re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


class Reader:
    """Somebody with a terminal, a kubeconfig, and the files of the page in his folder."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self.folder = folder
        self._env = {
            "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder.parent),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            # Nothing is fetched: what the page installs is there.
            "PIP_NO_INDEX": "1",
        }

    def types(self, command: str) -> str:
        """Run a command as it is printed; what it says."""
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, f"$ {command}\n{ended.stdout}{ended.stderr}"
        return ended.stdout

    def follows(self, section: str) -> list[str]:
        """Type everything of a section; what each command says."""
        return [self.types(command) for command in commands(section)]


@pytest.fixture
def reader(cluster: ControlPlane, tmp_path: Path) -> Iterator[Reader]:
    """One before an empty cluster of four machines, in a checkout."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, place in {
        "bayplan": COMMAND,
        "pip": COMMAND.with_name("pip"),
        "kubectl": require("kubectl"),
        "helm": require("helm"),
    }.items():
        (programs / name).symlink_to(place)
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "deploy").symlink_to(ROOT / "deploy")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    for name in MACHINES:
        cluster.api.create_node(name)
    following = Reader(cluster, folder)
    yield following
    # What the page leaves in the cluster, and what its programs have made there.
    ours = f"kubectl --namespace {NAMESPACE} delete --ignore-not-found"
    following.types(f"{ours} secret/bayplan-tls secret/bayplan-client-tls lease/bayplan lease/kube-scheduler")


def check_that_pods_follow_the_label(cluster: ControlPlane, *, scheduler: str) -> None:
    """The disk moves to another machine, and so does the next pod."""
    cluster.api.patch("nodes", "machine-1", {"metadata": {"labels": {"disk": None}}})
    cluster.api.patch("nodes", "machine-3", {"metadata": {"labels": {"disk": "ssd"}}})
    cluster.api.create_pod("another", scheduler_name=scheduler)

    assert cluster.api.wait_bound("another") == "machine-3"


def test_in_ten_minutes(cluster: ControlPlane, reader: Reader, tmp_path: Path) -> None:
    with KubeletStandIn(cluster, tmp_path / "pods") as kubelet:
        said = reader.follows("In ten minutes")

        assert "successfully rolled out" in "".join(said)
        assert "machine-1" in said[-1]
        assert cluster.api.node_of("web") == "machine-1"
        check_that_pods_follow_the_label(cluster, scheduler=pod_of_the_page()["spec"]["schedulerName"])
        assert not any("forbidden" in process.log() for process in kubelet.processes)
        (undo,) = UNDO
        reader.types(undo)
    assert reader.types(f"kubectl get deployments --namespace {NAMESPACE} -o name") == ""
    # Others may have left roles of their own behind: only ours must be gone.
    applied = yaml.safe_load_all((reader.folder / "install.yaml").read_text())
    ours = {one["metadata"]["name"] for one in applied if one["kind"] == "ClusterRole"}
    there = set(reader.types("kubectl get clusterroles -o name | cut -d/ -f2").split())
    assert ours
    assert not ours & there


def test_with_helm(cluster: ControlPlane, reader: Reader, tmp_path: Path) -> None:
    with KubeletStandIn(cluster, tmp_path / "pods") as kubelet:
        said = reader.follows("With Helm")
        try:
            kubelet.wait_up()

            assert "STATUS: deployed" in said[-1]
            check_that_pods_follow_the_label(cluster, scheduler="bayplan-scheduler")
        finally:
            reader.types(f"helm uninstall bayplan --namespace {NAMESPACE}")


@pytest.mark.parametrize("section", ["Certificates", "The control plane"])
def test_beside_the_default_scheduler(
    section: str, cluster: ControlPlane, reader: Reader, tmp_path: Path
) -> None:
    with KubeletStandIn(cluster, tmp_path / "pods") as kubelet:
        if section == "Certificates":
            reader.follows(section)
            written, shape = "install.yaml", "service"
        else:
            # Those that make the Secrets; the page has them one section above.
            for command in commands("Certificates")[:3]:
                reader.types(command)
            reader.follows(section)
            written, shape = "manifests", "control-plane"
        try:
            pod = kubelet.wait_up()[0]
            config = reader.types(f"bayplan render {shape} policy.py --ignorable --part scheduler-config")

            with cluster.scheduler(configuration=yaml.safe_load(pod.on_this_machine(config))):
                check_that_pods_follow_the_label(cluster, scheduler="default-scheduler")
        finally:
            reader.types(f"kubectl delete --wait=false -f {written}")


def pod_of_the_page() -> dict[str, dict[str, str]]:
    """The pod that the page shows."""
    pod: dict[str, dict[str, str]] = yaml.safe_load(FILES["pod.yaml"])
    return pod


def test_no_command_of_the_page_is_left_out_but_those_of_docker() -> None:
    followed = {"In ten minutes", "With Helm", "Certificates", "The control plane"}

    assert {name for name in SECTIONS if commands(name)} == followed | {BUILD}
    assert PAGE.count("```console") == sum(SECTIONS[name].count("```console") for name in (*followed, BUILD))
    assert all(command.startswith("docker ") for command in commands(BUILD))
    assert len(UNDO) == 1


def test_what_is_built_is_what_is_installed() -> None:
    (build,) = commands(BUILD)
    (image,) = re.findall(r"--tag (\S+)", build)
    rendered = [command for name in SECTIONS for command in commands(name) if " render " in command]

    assert len(rendered) == 4
    assert [command for command in rendered if f"--image {image} " not in command] == []
