"""The tutorial, followed word for word: its commands run, and they print what it shows."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.cli.starter import first_files
from tests.controlplane.ports import free_port
from tests.controlplane.waiting import wait_until

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)
QUESTION, ANSWER = re.findall(
    r"^\$ curl -si localhost:8888/filter -d '(.*)'$|^(\{\"Nodes\".*)$", TUTORIAL, re.M
)
BIN = Path(sys.executable).parent


class Reader:
    """Somebody in a folder, with a terminal or two."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = (free_port(), free_port())

    def runs(self, *command: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        return subprocess.run(
            [str(BIN / program), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def edits(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def asks(self) -> tuple[str, str]:
        """The generation and the body of the answer."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.ports[0]}/filter", QUESTION[0].encode()
        ) as answer:
            return answer.headers["Bayplan-Generation"], answer.read().decode()

    def looks_at(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[1]}{path}") as answer:
            said: str = answer.read().decode()
            return said


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """One who has come to the end of step 5, with the made-up cluster for a picture of his own."""
    subprocess.run([BIN / "bayplan", "init", tmp_path / "my-policy"], check=True, capture_output=True)
    one = Reader(tmp_path / "my-policy")
    for name, code in zip(("policy.py", "test_policy.py", "test_ours.py"), PYTHON, strict=True):
        (one.folder / name).write_text(code)
    (one.folder / "ours.json").write_text(first_files()["cluster.json"])
    return one


@pytest.fixture
def served(reader: Reader) -> Iterator[Reader]:
    """The same, with the server running in another terminal."""
    listen, ops = (f"127.0.0.1:{port}" for port in reader.ports)
    command = [
        "serve",
        "--config",
        "bayplan.yaml",
        "--listen",
        listen,
        "--ops-listen",
        ops,
        "--page-listen=off",
    ]
    log = reader.folder / "serve.log"
    with (
        log.open("w") as out,
        subprocess.Popen([BIN / "bayplan", *command], cwd=reader.folder, stdout=out, stderr=out) as server,
    ):
        try:
            wait_until(
                lambda: "cluster: 3 nodes" in log.read_text(), 30, what="the server", explain=log.read_text
            )
            yield reader
        finally:
            os.kill(server.pid, signal.SIGINT)


def test_the_tests_of_the_tutorial_pass_and_the_check_is_content(reader: Reader) -> None:
    tested = reader.runs("python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    checked = reader.runs("bayplan", "check", "--config", "bayplan.yaml")

    assert "5 passed" in tested.stdout, tested.stdout
    assert checked.returncode == 0, checked.stdout
    assert "every hook ran on 0, 1 and 3 nodes, and on the cluster's 3" in checked.stdout


def test_lines_that_no_pod_comes_to_are_named(reader: Reader) -> None:
    reader.edits("cluster.json", ', "power": "high"', "")

    said = reader.runs("bayplan", "check", "--config", "bayplan.yaml").stdout

    assert "hint policy.py:13-14 enough_power: these lines were not run by any pod of the dry run" in said


def test_a_typo_in_a_parameter_is_named(reader: Reader) -> None:
    reader.edits("policy.py", "most_power(pod, nodes)", "most_power(pod, nods)")

    said = reader.runs("bayplan", "check", "--config", "bayplan.yaml").stderr

    assert "policy.py:17 most_power: unknown parameter 'nods'; did you mean 'nodes'?" in said


def test_a_rule_that_would_do_harm_is_found_on_the_picture_of_the_cluster(reader: Reader) -> None:
    reader.edits("policy.py", '!= "high"', '== "high"')

    said = reader.runs("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_ours.py").stdout

    assert "test_a_pod_of_today_may_stay_where_it_is[default/web]" in said


def test_the_columns_are_listed_with_the_values_of_the_picture(reader: Reader) -> None:
    said = reader.runs("bayplan", "columns", "policy.py", "--snapshot", "ours.json").stdout

    assert 'Label("example.com/watts-free", float)' in said
    assert "100.0 to 900.0 (1 node without)" in said


def test_the_server_answers_what_is_shown_and_follows_changes(served: Reader) -> None:
    assert served.asks() == ("1", ANSWER[1])
    shown = next(line for line in TUTORIAL.splitlines() if line.startswith("bayplan_rejections_total{"))
    assert shown in served.looks_at("/metrics").splitlines()

    served.edits("policy.py", "~(watts >= 400)", "~(watts >= 100)")
    wait_until(lambda: served.asks()[0] == "2", 30, what="a second generation")
    assert json.loads(served.asks()[1])["NodeNames"] == ["node-1", "node-2"]
    log = served.folder / "serve.log"
    message = re.findall(r"^(INFO +generation 2.*)$", TUTORIAL, re.MULTILINE)
    assert message
    assert message[0] in log.read_text()

    served.edits("policy.py", "most_power(pod, nodes)", "most_power(pod, nods)")
    wait_until(lambda: "the old one stays" in log.read_text(), 30, what="a refusal", explain=log.read_text)
    assert served.asks()[0] == "2"


def test_built_ins_are_written_beside_it(reader: Reader) -> None:
    command = re.findall(r"^\$ bayplan (init \.\./.*)$", TUTORIAL, re.MULTILINE)[0]

    assert reader.runs("bayplan", *command.split()).returncode == 0
    assert (reader.folder.parent / "my-limits" / "bayplan.yaml").exists()
