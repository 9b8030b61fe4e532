"""The runbook for upgrades, followed: its commands run, and each stage of a policy does what it says."""

import contextlib
import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bayplan.cli.starter import first_files
from tests.controlplane.ports import free_port
from tests.controlplane.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "upgrade.md").read_text()
COMMANDS = re.findall(r"^ *\$ (bayplan .*)$", PAGE, re.MULTILINE)
(POLICY,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
OBSERVE, SHADOW, LIVE = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BIN = Path(sys.executable).parent
REJECTIONS = "bayplan_rejections_total"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u", "labels": {"disk": "ssd"}}}


class Server:
    """``bayplan serve`` in a folder, asked about one pod that wants an SSD."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port, self.ops_port = free_port(), free_port()
        cluster = json.loads((folder / "cluster.json").read_text())
        labels = {
            n["metadata"]["name"]: n["metadata"]["labels"] for n in cluster["items"] if n["kind"] == "Node"
        }
        self.nodes = list(labels)
        self.fast = [name for name in labels if labels[name].get("disk") == "ssd"]
        assert 0 < len(self.fast) < len(self.nodes)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """From its first answer on; in the end its recording is complete."""
        command = [
            str(BIN / "bayplan"),
            "serve",
            "--config=bayplan.yaml",
            "--snapshot=cluster.json",
            "--record=recording.jsonl.gz",
            f"--listen=127.0.0.1:{self.port}",
            f"--ops-listen=127.0.0.1:{self.ops_port}",
            "--page-listen=off",
        ]
        log = self._folder / "serve.log"
        with (
            log.open("w") as out,
            subprocess.Popen(command, cwd=self._folder, stdout=out, stderr=out) as process,
        ):
            try:
                wait_until(lambda: "cluster: " in log.read_text(), 30, what="ready", explain=log.read_text)
                yield
            finally:
                os.kill(process.pid, signal.SIGTERM)

    def passing(self) -> tuple[str, list[str]]:
        """The generation of the answer, and the nodes that pass."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", "/filter", json.dumps({"Pod": POD, "NodeNames": self.nodes}))
            answer = connection.getresponse()
            return answer.headers["Bayplan-Generation"], json.loads(answer.read())["NodeNames"]

    def refused(self, mode: str) -> float:
        """How many nodes were refused, or would have been."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        counted = [line for line in lines if line.startswith(REJECTIONS) and f'mode="{mode}"' in line]
        return sum(float(line.rpartition(" ")[2]) for line in counted if "node has no SSD" in line)

    def becomes(self, stage: str, generation: int) -> list[str]:
        """Change the file, wait until it is used; the nodes that pass then."""
        (self._folder / "bayplan.yaml").write_text(stage)
        wait_until(lambda: self.passing()[0] == str(generation), 30, what=f"generation {generation}")
        return self.passing()[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the page, a picture of a cluster, and a kubeconfig that leads nowhere."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "ssd.py").write_text(POLICY)
    (tmp_path / "bayplan.yaml").write_text(OBSERVE)
    (tmp_path / "next.yaml").write_text(LIVE)
    (tmp_path / "cluster.json").write_text(first_files()["cluster.json"])
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Type a command in that folder."""

    def typed(command: str) -> subprocess.CompletedProcess[str]:
        line, _, target = command.partition(" > ")
        ended = subprocess.run(
            [str(BIN / "bayplan"), *shlex.split(line)[1:]],
            cwd=folder,
            env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if target:
            (folder / target).write_text(ended.stdout)
        return ended

    return typed


def test_a_policy_goes_from_observing_to_the_shadow_to_live(folder: Path) -> None:
    server = Server(folder)
    slow = len(server.nodes) - len(server.fast)
    with server.running():
        assert server.passing() == ("1", server.nodes)
        assert server.refused("observe") == slow

        assert server.becomes(SHADOW, 2) == server.nodes
        assert server.refused("shadow") >= slow
        assert server.refused("decide") == 0

        assert server.becomes(LIVE, 3) == server.fast
        assert server.refused("decide") >= slow

        # And back.
        assert server.becomes(SHADOW, 4) == server.nodes


def test_every_command_of_ours_that_needs_no_cluster_runs(
    folder: Path, run: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    (folder / "bayplan.yaml").write_text(SHADOW)
    server = Server(folder)
    with server.running():
        assert server.passing()[1] == server.nodes
    assert run("bayplan certs create --out certs --dns bayplan.kube-system.svc").returncode == 0
    offline = [command for command in COMMANDS if "--live" not in command]
    assert len(offline) == len(COMMANDS) - 1 == 13

    for command in offline:
        # It would list the cluster of the kubeconfig.
        known = " --snapshot cluster.json" if command.startswith("bayplan check") else ""
        ended = run(command + known)

        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
    assert "pods placed" in run("bayplan compare recording.jsonl.gz -c bayplan.yaml -c next.yaml").stdout
    assert "kube-scheduler:v1.38" in (folder / "next-install.yaml").read_text()
    assert (folder / "secrets.yaml").read_text().count("kind: Secret") == 2
