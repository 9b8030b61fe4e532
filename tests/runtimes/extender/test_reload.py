"""Another configuration while the server runs: whole or not at all, and no request is lost."""

import contextlib
import http.client
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.served import BAYPLAN, START_SECONDS

POLICY = """
import bayplan
from words import WORD

@bayplan.filter
def says(pod, node):
    return WORD + " TEXT"
"""


def policy(text: str) -> str:
    return POLICY.replace("TEXT", text)


class Folder:
    """The files of a configuration, written so that no reader sees half of one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.write("words.py", 'WORD = "says"\n')
        self.write("policy.py", policy("one"))
        self.config()

    def write(self, name: str, text: str) -> None:
        fresh = self.path / f".{name}.new"
        fresh.write_text(text)
        fresh.rename(self.path / name)

    def config(self, **more: Any) -> None:
        config = {
            "apiVersion": "bayplan.dev/v1",
            "kind": "BayplanConfiguration",
            "policies": [{"use": "policy.py", "name": "p"}],
            **more,
        }
        self.write("bayplan.yaml", yaml.safe_dump(config))


@dataclass
class Reloading:
    """A server, and the folder that it was started from."""

    folder: Folder
    child: Child
    port: int
    ops_port: int
    said: list[tuple[str, int]] = field(default_factory=list)

    def ask(self) -> tuple[str, int]:
        """The reason of the only node, and the generation that gave it."""
        body = {"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            connection.request("POST", "/filter", json.dumps(body))
            response = connection.getresponse()
            content = json.loads(response.read())
            assert response.status == 200
        assert not content.get("Error"), content
        refused = content["FailedAndUnresolvableNodes"]
        return refused.get("n", ""), int(response.headers["Bayplan-Generation"])

    def wait_for(self, reason: str) -> int:
        """Wait until it answers so; the generation."""
        wait_until(
            lambda: self.ask()[0] == reason, 20, what=f"the answer is {reason!r}", explain=self.child.log
        )
        return self.ask()[1]

    def wait_refused(self, text: str) -> None:
        """Wait until it says that it does not take something over, and why."""
        wait_until(lambda: text in self.child.log(), 20, what=f"the log has {text!r}", explain=self.child.log)
        assert "the old one stays" in self.child.log()

    def hang_up(self) -> None:
        """Have it look at once: the next look by itself may be two seconds away."""
        os.kill(self.child.pid, signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Memory that the process has in use."""
        fields = Path(f"/proc/{self.child.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def metrics(self) -> str:
        return self.look("/metrics")

    def look(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.ops_port, timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", path)
            return connection.getresponse().read().decode()


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    with serving(Folder(tmp_path / "conf"), tmp_path) as running:
        yield running


@contextlib.contextmanager
def serving(folder: Folder, tmp_path: Path) -> Iterator[Reloading]:
    port, ops_port = free_port(), free_port()
    command: list[str | Path] = [BAYPLAN, "serve", "--config", folder.path / "bayplan.yaml"]
    addresses = [f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops_port}", "--page-listen=off"]
    child = Child("bayplan serve", [*command, *addresses], log=tmp_path / "log")
    running = Reloading(folder, child, port, ops_port)

    def ready() -> bool:
        try:
            return running.look("/readyz") == "ok"
        except OSError:
            return False

    try:
        child.wait_until(ready, START_SECONDS)
        yield running
    finally:
        child.stop()


def test_a_policy_that_changes_is_taken_over(reloading: Reloading) -> None:
    assert reloading.ask() == ("says one", 1)

    reloading.folder.write("policy.py", policy("two"))

    assert reloading.wait_for("says two") == 2
    assert "bayplan_generation 2.0" in reloading.metrics()
    assert 'bayplan_reloads_total{result="ok"} 1.0' in reloading.metrics()
    assert "generation 2: policies: p" in reloading.child.log()


def test_a_file_beside_the_policy_is_part_of_it(reloading: Reloading) -> None:
    reloading.folder.write("words.py", 'WORD = "means"\n')

    assert reloading.wait_for("means one") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_policy_is_in_memory_once_however_often_it_changes(reloading: Reloading) -> None:
    large = "BIG = bytearray(b'x') * 30_000_000\n"
    sizes = []
    for number in range(9):
        reloading.folder.write("policy.py", large + policy(str(number)))
        reloading.hang_up()
        reloading.wait_for(f"says {number}")
        sizes.append(reloading.resident_bytes())

    # One of them, and half of another for the rest.
    wait_until(
        lambda: reloading.resident_bytes() < sizes[0] + 45_000_000, 20, what=f"it is freed: before {sizes}"
    )


def test_arguments_and_policies_of_the_configuration_change(reloading: Reloading) -> None:
    reloading.folder.config(
        policies=[{"use": "policy.py", "name": "p", "for": {"namespaces": ["other"]}}],
    )
    reloading.hang_up()

    wait_until(lambda: reloading.ask() == ("", 2), 20, what="nobody refuses any more")


def test_sighup_reloads_at_once_and_without_a_change(reloading: Reloading) -> None:
    reloading.hang_up()

    wait_until(lambda: reloading.ask() == ("says one", 2), 20, what="the next generation answers")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        pytest.param("policy.py", "def broken(:", "policy.py:1: invalid syntax", id="a policy with a typo"),
        pytest.param("policy.py", "x = 1 / 0", "policy.py:1: ZeroDivisionError", id="a policy that raises"),
        pytest.param(
            "policy.py",
            "import bayplan\n\n@bayplan.filter\ndef bad(pod, nodes):\n    return 'x'[3]\n",
            "policy.py:5 bad: IndexError",
            id="a policy that fails its dry run",
        ),
        pytest.param("bayplan.yaml", "apiVersion: bayplan.dev/v1\nkindd: X", "unknown key", id="a typo"),
        pytest.param("bayplan.yaml", "policies: [", "bayplan.yaml", id="half a file"),
    ],
)
def test_what_cannot_be_used_changes_nothing(reloading: Reloading, file: str, text: str, said: str) -> None:
    before = (reloading.folder.path / file).read_text()
    reloading.folder.write(file, text)
    reloading.hang_up()

    reloading.wait_refused(said)
    assert reloading.ask() == ("says one", 1)
    assert "[!]reload:" in reloading.look("/healthz?verbose")
    assert 'bayplan_reloads_total{result="refused"} 1.0' in reloading.metrics()

    # What is refused once is not tried again and again; a file that is right again is used.
    reloading.folder.write(file, before.replace("one", "three"))
    reloading.hang_up()
    if file == "policy.py":
        assert reloading.wait_for("says three") == 2
        assert "[!]reload:" not in reloading.look("/healthz?verbose")


@pytest.mark.parametrize(
    ("section", "key"),
    [
        pytest.param({"extender": {"path": "/other"}}, "extender.path", id="where it listens"),
        pytest.param(
            {"cluster": {"source": "kubeconfig", "kubeconfig": "x"}}, "cluster.source", id="the cluster"
        ),
        pytest.param({"extender": {"limits": {"maxInFlight": 3}}}, "extender.limits", id="limits"),
        pytest.param({"journal": {"file": {"path": "j"}}}, "journal.file", id="a journal on disk"),
    ],
)
def test_what_needs_a_restart_is_named_and_nothing_of_the_change_is_used(
    reloading: Reloading, section: dict[str, Any], key: str
) -> None:
    reloading.folder.config(**section, policies=[{"use": "policy.py", "for": {"namespaces": ["other"]}}])
    reloading.hang_up()

    reloading.wait_refused(f"restart the server to change {key}")
    assert reloading.ask() == ("says one", 1)


def test_observe_can_be_turned_on_and_off(reloading: Reloading) -> None:
    reloading.folder.config(extender={"observe": True})
    reloading.hang_up()
    wait_until(lambda: reloading.ask() == ("", 2), 20, what="it only looks on")

    reloading.folder.config()
    reloading.hang_up()
    wait_until(lambda: reloading.ask() == ("says one", 3), 20, what="it decides again")


def test_a_config_map_that_is_swapped(tmp_path: Path) -> None:
    """The kubelet writes a new folder beside the old one and moves a link: ``..data``."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def swap(number: int) -> None:
        fresh = Folder(mount / f"..{number}")
        fresh.write("policy.py", policy(f"version {number}"))
        link = mount / "..data_tmp"
        link.symlink_to(fresh.path.name)
        link.rename(mount / "..data")

    swap(1)
    for name in ("bayplan.yaml", "policy.py", "words.py"):
        (mount / name).symlink_to(Path("..data") / name)
    folder = Folder.__new__(Folder)
    folder.path = mount
    with serving(folder, tmp_path) as running:
        assert running.ask()[0] == "says version 1"
        for number in (2, 3):
            swap(number)
            assert running.wait_for(f"says version {number}") == number


METERED = """
import bayplan
from prometheus_client import Counter, Gauge

SEEN = Counter("licences_seen_total", "Pods that were asked about.", ["text"])
CLASH = Gauge("bayplan_generation", "Not ours to tell.")

@bayplan.filter
def says(pod, node):
    SEEN.labels("TEXT").inc()
    return "says TEXT"
"""


def test_a_policy_has_metrics_of_its_own_which_go_with_it(reloading: Reloading) -> None:
    def seen(text: str) -> list[str]:
        wanted = f'licences_seen_total{{text="{text}"}} '
        return [line for line in reloading.metrics().splitlines() if line.startswith(wanted)]

    reloading.folder.write("policy.py", METERED.replace("TEXT", "two"))
    assert reloading.wait_for("says two") == 2
    before = seen("two")
    reloading.ask()
    assert len(before) == len(seen("two")) == 1
    assert seen("two") != before

    reloading.folder.write("policy.py", METERED.replace("TEXT", "broken") + "\n1 / 0\n")
    reloading.hang_up()
    reloading.wait_refused("ZeroDivisionError")
    assert seen("two")

    reloading.folder.write("policy.py", METERED.replace("TEXT", "three"))
    assert reloading.wait_for("says three") == 3
    assert seen("three")
    text = reloading.metrics()
    assert 'text="two"' not in text
    assert 'text="broken"' not in text
    families = Counter(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE"))
    assert {name: count for name, count in families.items() if count > 1} == {}
    assert "bayplan_generation 3.0" in text

    reloading.folder.write("policy.py", policy("four"))
    assert reloading.wait_for("says four") == 4
    assert "licences_seen" not in reloading.metrics()


def test_a_server_ends_though_an_import_hangs(reloading: Reloading) -> None:
    here = reloading.folder.path / "reached"
    hangs = f"import pathlib, time\npathlib.Path({str(here)!r}).touch()\ntime.sleep(600)\n"
    reloading.folder.write("policy.py", hangs + policy("late"))
    wait_until(here.exists, 20, what="the import hangs", explain=reloading.child.log)
    assert reloading.ask() == ("says one", 1)

    start = time.monotonic()
    os.kill(reloading.child.pid, signal.SIGTERM)
    wait_until(lambda: not reloading.child.alive, 20, what="it has ended", explain=reloading.child.log)

    assert time.monotonic() - start < 5
    assert reloading.child.exit_code == 0


def test_no_request_is_lost_while_it_reloads(reloading: Reloading) -> None:
    """Callers ask all the time while ten good and ten bad configurations come by."""
    stop = threading.Event()
    answers: Counter[tuple[str, int]] = Counter()
    failures: list[str] = []
    lock = threading.Lock()

    def keep_asking() -> None:
        while not stop.is_set():
            try:
                said = reloading.ask()
            except Exception as error:
                failures.append(repr(error))
                return
            with lock:
                answers[said] += 1

    callers = [threading.Thread(target=keep_asking) for _ in range(4)]
    for caller in callers:
        caller.start()
    try:
        for number in range(10):
            reloading.folder.write("policy.py", "def broken(:")
            reloading.hang_up()
            reloading.folder.write("policy.py", policy(str(number)))
            reloading.hang_up()
            reloading.wait_for(f"says {number}")
    finally:
        stop.set()
        for caller in callers:
            caller.join()

    assert failures == []
    assert {reason for reason, _ in answers} <= {"says one", *(f"says {number}" for number in range(10))}
    generations = {generation: reason for reason, generation in answers}
    assert len(generations) == len(answers), "a generation always says the same"
    print(f"\n{sum(answers.values())} answers over {len(answers)} generations, none lost, none mixed")
