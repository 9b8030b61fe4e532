"""Another candidate while the server runs: its files, and the live ones, say which; a bad one is refused."""

import contextlib
import http.client
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.served import BAYPLAN, START_SECONDS
from tests.runtimes.extender.test_reload import Folder

PATIENCE_SECONDS = 60.0
PASSES = "import bayplan\n\n@bayplan.filter\ndef passes(pod, node):\n    return None\n"
REFUSES = PASSES.replace("return None", "return 'refused'")


class Beside:
    """A server with a candidate, and the folder that both are in."""

    def __init__(self, folder: Folder, tmp_path: Path) -> None:
        self.folder = folder
        self.port, self.ops_port, self.page_port = free_port(), free_port(), free_port()
        ports = (("listen", self.port), ("ops-listen", self.ops_port), ("page-listen", self.page_port))
        flags = [f"--{name}=127.0.0.1:{port}" for name, port in ports]
        command: list[str | Path] = [BAYPLAN, "serve", "--config", folder.path / "bayplan.yaml", *flags]
        self.child = Child("bayplan serve", command, log=tmp_path / "log")

    def get(self, port: int, path: str, body: object = None) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.closing(connection):
            sent = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, sent)
            return connection.getresponse().read().decode()

    def ready(self) -> bool:
        try:
            return self.get(self.ops_port, "/readyz") == "ok"
        except OSError:
            return False

    def ask(self) -> dict[str, Any]:
        """The live answer about one node."""
        body = {"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}
        answer: dict[str, Any] = json.loads(self.get(self.port, "/filter", body))
        assert not answer.get("Error"), answer
        return answer

    def shadow(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.get(self.page_port, "/api/shadow"))
        return report

    def until(self, wanted: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """What ``/api/shadow`` says, once it is as wanted."""
        wait_until(lambda: wanted(self.shadow()), PATIENCE_SECONDS, what=what, explain=self.child.log)
        return self.shadow()


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[Beside]:
    folder = Folder(tmp_path / "conf")
    folder.write("policy.py", PASSES)
    folder.write("next.py", PASSES)
    candidate(folder)
    folder.config(shadow={"config": "next.yaml"})
    running = Beside(folder, tmp_path)
    try:
        running.child.wait_until(running.ready, START_SECONDS)
        yield running
    finally:
        running.child.stop()


def candidate(folder: Folder, name: str = "next.yaml", **more: Any) -> None:
    head = {"apiVersion": "bayplan.dev/v1", "kind": "BayplanConfiguration"}
    folder.write(name, yaml.safe_dump({**head, "policies": [{"use": "next.py", "name": "p"}], **more}))


def test_a_candidate_that_changes_is_taken_over_and_counted_anew(beside: Beside) -> None:
    beside.ask()
    first = beside.until(lambda r: r["compared"] == 1, "the first is compared")

    beside.folder.write("next.py", REFUSES)
    beside.until(lambda r: r["generation"] == 2, "the second is loaded")
    answer = beside.ask()
    second = beside.until(lambda r: r["compared"] == 1, "the second is compared")

    assert (first["candidate"], first["generation"], first["disagreed"]) == ("next.yaml", 1, 0)
    assert (second["disagreed"], second["refusedPods"], second["liveGeneration"]) == (1, 1, 1)
    assert not answer["FailedAndUnresolvableNodes"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("next.py", "import bayplan\nthis is no python\n", "next.py", id="a policy with a typo"),
        pytest.param("next.py", PASSES.replace("None", "1/0"), "ZeroDivisionError", id="one that raises"),
        pytest.param("next.yaml", "policys: []\n", "did you mean 'policies'?", id="a wrong key"),
    ],
)
def test_a_bad_candidate_changes_nothing_and_is_told(beside: Beside, name: str, text: str, said: str) -> None:
    beside.folder.write(name, text)
    report = beside.until(lambda r: bool(r["problem"]), "the problem is told")
    beside.ask()
    beside.until(lambda r: r["compared"] == 1, "the old one is compared")

    assert said in report["problem"]
    assert report["generation"] == 1
    assert "candidate next.yaml is not used, the old one stays" in beside.child.log()
    metrics = beside.get(beside.ops_port, "/metrics")
    assert "bayplan_shadow_last_reload_successful 0.0" in metrics
    assert "bayplan_last_reload_successful 1.0" in metrics
    assert said in beside.get(beside.ops_port, "/healthz?verbose")
    assert beside.ready()


def test_the_live_configuration_can_be_changed_beside_a_bad_candidate(beside: Beside) -> None:
    beside.folder.write("next.py", "this is no python")
    beside.until(lambda r: bool(r["problem"]), "the problem is told")

    beside.folder.write("policy.py", REFUSES)

    wait_until(
        lambda: beside.ask()["FailedAndUnresolvableNodes"] == {"n": "refused"},
        PATIENCE_SECONDS,
        what="the live change is taken over",
        explain=beside.child.log,
    )
    report = beside.until(lambda r: r["disagreed"] >= 1, "the old candidate is compared with it")
    assert (report["liveGeneration"], report["generation"], report["admittedPods"] > 0) == (2, 1, True)


def test_the_live_file_says_which_candidate_there_is(beside: Beside) -> None:
    candidate(beside.folder, "other.yaml", page={"listen": "off"})
    beside.folder.config(shadow={"config": "other.yaml", "sampleRatio": 0.5})
    other = beside.until(lambda r: r["candidate"] == "other.yaml", "the other one is at work")
    assert (other["generation"], other["sampleRatio"]) == (2, 0.5)
    assert "page of other.yaml is ignored" in beside.child.log()

    beside.folder.config()

    beside.until(lambda r: r["candidate"] == "", "there is none any more")
    assert "bayplan_shadow_generation 0.0" in beside.get(beside.ops_port, "/metrics")


def test_a_bad_candidate_is_an_error_at_the_start(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "conf")
    folder.write("next.yaml", "policys: []\n")
    flags = [f"--config={folder.path / 'bayplan.yaml'}", f"--shadow={folder.path / 'next.yaml'}"]

    ended = subprocess.run(
        [BAYPLAN, "serve", *flags], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == 1
    assert "next.yaml:1: policys: unknown key; did you mean 'policies'?" in ended.stderr


def test_check_looks_at_the_candidate_too(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "conf")
    folder.write("next.py", PASSES.replace("None", "1/0"))
    candidate(folder)
    folder.config(shadow={"config": "next.yaml"})
    flag = f"--config={folder.path / 'bayplan.yaml'}"

    ended = subprocess.run([BAYPLAN, "check", flag], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    assert "shadow:" in ended.stdout + ended.stderr
    assert "ZeroDivisionError" in ended.stdout + ended.stderr
