"""Children are watched, stopped, and do not outlive the tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.ports import free_port
from tests.controlplane.processes import Child, ChildDied
from tests.controlplane.waiting import Timeout, wait_until

# Says that it is there only when the handler is: a signal before that would kill it.
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""

STARTS_A_CHILD = """
import sys, time
from pathlib import Path
from tests.controlplane.processes import Child
child = Child("sleep", ["/bin/sleep", "600"], log=Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""


def python(code: str, log: Path) -> Child:
    return Child("a program", [sys.executable, "-c", code], log=log)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet buried does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_a_child_is_ready_when_its_condition_holds(tmp_path: Path) -> None:
    child = python("import time; print('here', flush=True); time.sleep(600)", tmp_path / "log")

    child.wait_until(lambda: "here" in child.log(), 20)
    assert child.alive
    child.stop()

    assert not child.alive
    assert child.exit_code == -signal.SIGTERM


def test_an_early_death_shows_the_end_of_the_log(tmp_path: Path) -> None:
    child = python("import sys; sys.exit('no such flag')", tmp_path / "log")

    with pytest.raises(ChildDied, match=r"a program \(pid \d+\) ended with 1\n(?s:.*)no such flag"):
        child.wait_until(lambda: False, 20)


def test_a_child_that_is_never_ready_runs_into_the_deadline(tmp_path: Path) -> None:
    child = python("import time; time.sleep(600)", tmp_path / "log")

    with pytest.raises(Timeout, match="a program is ready: not within"):
        child.wait_until(lambda: False, 0.1)
    child.stop()


def test_a_child_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = python(STUBBORN, tmp_path / "log")
    child.wait_until(lambda: "here" in child.log(), 20)

    child.stop(0.1)

    assert child.exit_code == -signal.SIGKILL


def test_a_child_may_end_by_itself(tmp_path: Path) -> None:
    assert python("raise SystemExit(3)", tmp_path / "log").wait_ended() == 3


def test_the_environment_is_not_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    child = python("import os; print(os.environ.get('HTTPS_PROXY'))", tmp_path / "log")

    child.wait_ended()

    assert child.log() == "None\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of the dead")
def test_a_child_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_A_CHILD, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        wait_until(lambda: b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes(), 20, what="exec")
        starter.kill()

    wait_until(lambda: not is_running(pid), 20, what="the child is dead")


def test_a_reserved_port_is_for_servers_that_know_it() -> None:
    port = free_port()

    with (
        socket.create_server(("127.0.0.1", port)) as server,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        accepted, address = server.accept()
        accepted.close()
        assert address == client.getsockname()

    assert free_port() != port


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_who_is_frozen_stands_still_and_goes_on(tmp_path: Path) -> None:
    code = (
        "import sys, threading\n"
        "def count():\n"
        "    while True:\n"
        "        print(1, flush=True)\n"
        "for _ in range(4): threading.Thread(target=count).start()\n"
    )
    child = Child("counter", [sys.executable, "-c", code], log=tmp_path / "log")
    size = (tmp_path / "log").stat
    try:
        wait_until(lambda: size().st_size > 1000, 30, what="it counts")
        with child.frozen():
            before = size().st_size
            sum(range(3_000_000))
            assert size().st_size == before
        wait_until(lambda: size().st_size > before, 30, what="it goes on")
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait_ended()
