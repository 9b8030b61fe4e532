"""The page about ``bayplan why``: its commands run, and they print what it shows."""

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

from tests.controlplane.ports import free_port
from tests.controlplane.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "why.md").read_text()
BAYPLAN = Path(sys.executable).parent / "bayplan"
WAITING, TRIED, WITH_PLUGINS, OF_A_GANG = re.findall(
    r"^```console\n\$ bayplan (why pod/trainer|why -f [^\n]*)\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL
)

SCHEDULES = """
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
cluster: {source: snapshot, snapshot: cluster.json}
scheduler: {profiles: [{schedulerName: bayplan-scheduler}]}
"""
TRAIN = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 4
  template:
    metadata:
      labels: {bayplan.dev/gang: train, bayplan.dev/gang-size: "4"}
      annotations: {bayplan.dev/gang-within: example.com/rack}
    spec:
      schedulerName: bayplan-scheduler
      containers:
      - name: main
        resources: {requests: {cpu: "3"}}
"""


def snippet(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def steady(text: str) -> str:
    """Without what is another thing each time."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "NOW", text)
    text = re.sub(r"(?<= )\d+\.\d\d(?=[,\n])", "0.00", text)
    return re.sub(r"http://127.0.0.1:\d+", "http://127.0.0.1:8890", text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    subprocess.run([BAYPLAN, "init", tmp_path / "mine"], check=True, capture_output=True)
    (tmp_path / "mine" / "policy.py").write_text(snippet("python"))
    (tmp_path / "mine" / "web.yaml").write_text(snippet("yaml"))
    return tmp_path / "mine"


@pytest.fixture
def page(folder: Path) -> Iterator[str]:
    """A server that was asked about two of three nodes for a hungry pod; the address of its page."""
    listen, ops, page = (f"127.0.0.1:{free_port()}" for _ in range(3))
    flags = ["--listen", listen, "--ops-listen", ops, "--page-listen", page]
    log = folder / "serve.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            [BAYPLAN, "serve", "--config", "bayplan.yaml", *flags], cwd=folder, stdout=out, stderr=out
        ) as server,
    ):
        try:
            wait_until(lambda: _ready(ops), 30, what="the server", explain=log.read_text)
            metadata = {"name": "trainer", "namespace": "default", "uid": "u", "labels": {"power": "high"}}
            question = {"Pod": {"metadata": metadata}, "NodeNames": ["node-2", "node-3"]}
            urllib.request.urlopen(f"http://{listen}/filter", json.dumps(question).encode()).close()
            yield f"http://{page}"
        finally:
            os.kill(server.pid, signal.SIGINT)


def test_a_waiting_pod_is_explained_as_shown(page: str) -> None:
    command, shown = WAITING

    said = subprocess.run(
        [BAYPLAN, *command.split(), "--server", page], capture_output=True, text=True, check=True
    )

    assert steady(said.stdout) == steady(shown)


def test_a_manifest_is_tried_as_shown(folder: Path) -> None:
    command, shown = TRIED

    said = subprocess.run([BAYPLAN, *command.split()], cwd=folder, capture_output=True, text=True, check=True)

    assert steady(said.stdout) == steady(shown)


def test_kube_schedulers_plugins_are_asked_as_shown(folder: Path) -> None:
    command, shown = WITH_PLUGINS

    said = subprocess.run([BAYPLAN, *command.split()], cwd=folder, capture_output=True, text=True, check=True)

    # Which of them take longest is another thing each time.
    told = said.stdout.partition("\nTime of policies")[0]
    assert steady(told) == steady(shown.removesuffix("...\n"))


def test_the_json_has_what_the_page_picks_from_it(page: str) -> None:
    picked = re.search(r"\$ bayplan (why [^|\n]*) \| jq '\.refused\[\] \| \{(.*)\}'", PAGE)
    assert picked is not None

    said = subprocess.run(
        [BAYPLAN, *picked[1].split(), "--server", page], capture_output=True, text=True, check=True
    )

    group = json.loads(said.stdout)["refused"][0]
    assert [group[key] for key in picked[2].split(", ")] == ["Power", "rack has too little power", 2]


def test_options_that_the_page_names_are_there() -> None:
    known = subprocess.run([BAYPLAN, "why", "--help"], capture_output=True, text=True, check=True).stdout

    named = set(re.findall(r"(--[a-z][a-z-]+)", PAGE))
    assert {option for option in named if option not in known} == set()


def _ready(ops: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{ops}/readyz") as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_gang_is_tried_as_shown(folder: Path) -> None:
    command, shown = OF_A_GANG
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"example.com/rack": name[0]}},
            "status": {"allocatable": amounts},
        }
        for name in ("a1", "a2", "a3", "b1")
    ]
    (folder / "cluster.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    (folder / "bayplan.yaml").write_text(SCHEDULES)
    (folder / "train.yaml").write_text(TRAIN)

    said = subprocess.run(
        [BAYPLAN, *command.split()], cwd=folder, capture_output=True, text=True, check=False
    )

    assert said.returncode == 1, said.stderr
    for part in steady(shown).split("...\n"):
        assert part in steady(said.stdout)
