"""Processes that a policy or a source forks: they are no servers, and their signals are their own."""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.caller import make_node, make_pod, nodes_request
from tests.runtimes.extender.served import served

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NODE = make_node("node-0")
ENDED = ("", "Z")
SOURCE = """
import asyncio, os, pathlib
import bayplan

@bayplan.filter
def passes(pod, node):
    return None

@bayplan.source(every="1s", max_age="5m")
async def forks():
    told = pathlib.Path("child")
    if not told.exists():
        if child := os.fork():
            told.write_text(str(child))
    await asyncio.sleep(0.1)
    return {"node-0": {"weight": 1}}
"""


def state(pid: int) -> str:
    """The state of a process, as ``ps`` shows it; ``Z`` if it has ended and nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def filter_request(**annotations: str) -> dict[str, object]:
    return nodes_request([NODE], pod=make_pod(**annotations))


def test_a_child_that_lives_on_has_no_port_and_ends_with_sigterm(tmp_path: Path) -> None:
    told = tmp_path / "child"
    with served(tmp_path) as server:
        asked = server.ask("filter", filter_request(do="fork", file=str(told), seconds="600"))
        child = int(told.read_text())
        try:
            assert asked["Error"] == ""
            assert server.ask("filter", filter_request())["Error"] == ""
            server.terminate()
            assert server.child.wait_ended() == 0
            assert state(child) not in ENDED
            with pytest.raises(ConnectionRefusedError):
                server.ask("filter", filter_request())
        finally:
            os.kill(child, signal.SIGTERM)
        wait_until(lambda: state(child) in ENDED, 5, what="the child ends")


def test_a_child_that_comes_back_from_its_hook_ends(tmp_path: Path) -> None:
    told = tmp_path / "child"
    with served(tmp_path) as server:
        assert server.ask("filter", filter_request(do="fork", file=str(told), seconds="0"))["Error"] == ""

        child = int(told.read_text())
        wait_until(lambda: state(child) in ENDED, 5, what="the child ends")
        assert "forked, and the child came back from it: the child ends" in server.child.log()
        assert server.ask("filter", filter_request())["Error"] == ""


def test_who_terminates_a_process_of_its_own_does_not_stop_the_server(tmp_path: Path) -> None:
    told = tmp_path / "exit code"
    with served(tmp_path) as server:
        for _ in range(5):
            server.ask("filter", filter_request(do="terminate a process", file=str(told)))

            assert int(told.read_text()) == -signal.SIGTERM
        assert server.ask("filter", filter_request())["Error"] == ""
        assert server.child.alive


def test_a_child_that_comes_back_from_its_source_ends(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(SOURCE)
    told = tmp_path / "child"
    with served(tmp_path, entry={"use": "forking.py"}) as server:
        wait_until(lambda: told.exists() and told.read_text() != "", 10, what="the source has forked")
        child = int(told.read_text())
        wait_until(lambda: state(child) in ENDED, 5, what="the child ends")
        assert "forked, and the child came back from it: the child ends" in server.child.log()
        for _ in range(20):
            assert server.ask("filter", filter_request())["Error"] == ""
        server.terminate()
        assert server.child.wait_ended() == 0
