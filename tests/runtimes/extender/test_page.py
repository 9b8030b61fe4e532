"""The page of a real `bayplan serve`: what was asked is there, the state is true, it ends when told to."""

import contextlib
import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from bayplan.cli import showroom
from bayplan.cli.main import commands
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.runtimes.extender.ask import AskError
from bayplan.runtimes.extender.ask_why import ask_why
from bayplan.runtimes.extender.options import options_from
from bayplan.testing import make_cluster
from tests.controlplane.ports import free_port
from tests.runtimes.extender.caller import make_node, nodes_request
from tests.runtimes.extender.obedient import write_config
from tests.runtimes.extender.served import Served

FULL = nodes_request([make_node(f"node-{number}") for number in range(3)])


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[Served, int]]:
    """A server, and the port of its page."""
    port = free_port()
    server = Served(tmp_path, f"--page-listen=127.0.0.1:{port}")
    try:
        yield server, port
    finally:
        server.child.stop()


def look(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def told(port: int, path: str) -> Any:
    status, text = look(port, path)
    assert status == 200
    return json.loads(text)


def test_what_was_asked_is_on_the_page(shown: tuple[Served, int]) -> None:
    server, port = shown
    server.ask("filter", FULL)
    server.ask("prioritize", FULL)

    lines = told(port, "/api/decisions?verb=filter")

    assert [(line["verb"], line["offered"], line["passed"]) for line in lines] == [("filter", 3, 3)]
    for path in ("/", f"/decisions/{lines[0]['decision']}", "/cluster", "/state", "/static/page.js"):
        assert look(port, path)[0] == 200


def test_the_state_is_that_of_the_server(shown: tuple[Served, int]) -> None:
    state = told(shown[1], "/api/state")

    assert state["health"] == {"ready": True}
    assert state["policies"]["generation"] == 1
    assert state["threads"] == {"stuck": 0, "unhealthy": [], "overruns": 0}
    assert state["journal"]["decisions"] == 0


def test_a_reload_that_was_refused_stands_above_the_list_and_in_the_state(
    shown: tuple[Served, int], tmp_path: Path
) -> None:
    server, port = shown
    (config,) = tmp_path.glob("*.yaml")
    config.write_text(config.read_text() + "\npolicys: []\n")
    os.kill(server.child.pid, signal.SIGHUP)

    server.child.wait_until(lambda: "<b>reload</b>: " in look(port, "/")[1], 20)

    state = told(port, "/api/state")
    assert state["health"]["ready"] is True
    assert "policys" in state["health"]["problems"]["reload"]
    assert state["policies"]["generation"] == 1


def test_a_page_that_is_open_does_not_hold_up_the_end(shown: tuple[Served, int]) -> None:
    server, port = shown
    listening = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(listening):
        listening.request("GET", "/api/events")
        with listening.getresponse() as stream:
            assert stream.readline().startswith(b"retry:")
            start = time.monotonic()

            server.terminate()

            assert server.child.wait_ended() == 0
            assert time.monotonic() - start < 5


def test_who_asks_why_at_another_address_of_the_server_is_told_which_it_is(
    shown: tuple[Served, int],
) -> None:
    server, _ = shown

    for port, said in (
        (server.port, "this is the address that kube-scheduler calls (`extender.listen`), and not the page"),
        (server.ops_port, "this is the address for health and metrics (`opsListen`), and not the page"),
    ):
        with pytest.raises(AskError) as caught:
            ask_why([f"http://127.0.0.1:{port}"], "default/web", weight=1)
        assert f"http://127.0.0.1:{port}: {said}\n" in str(caught.value)


def test_a_page_for_other_machines_needs_a_token(tmp_path: Path) -> None:
    config = write_config(tmp_path)

    with pytest.raises(
        ConfigError, match=r"--page-listen: 0\.0\.0\.0:8890 is reached by others: give page\.token"
    ):
        options_from(load_all([], Flags(config=config, page_listen="0.0.0.0:8890")), version="0")


def test_the_demo_says_where_its_page_is_where_that_stays(capsys: pytest.CaptureFixture[str]) -> None:
    shown = CliRunner().invoke(commands, ["demo", "--once", "--pods", "3"])

    assert shown.exit_code == 0
    assert "Every decision" not in shown.output
    stage = showroom._Stage(Console(width=200), 1)
    stage.started("http://127.0.0.1:1", make_cluster(["a"]), page_url="http://127.0.0.1:2/")
    stage._bar.stop()
    assert "Every decision, and why: http://127.0.0.1:2/" in capsys.readouterr().out
