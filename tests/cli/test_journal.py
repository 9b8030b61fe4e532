"""``bayplan serve --journal-file`` and ``bayplan why --journal``, as somebody runs them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bayplan.cli.main import commands
from tests.controlplane.waiting import wait_until
from tests.runtimes.extender.caller import make_node, make_pod, nodes_request
from tests.runtimes.extender.obedient import write_config
from tests.runtimes.extender.served import BAYPLAN, Served, served

NODES = [make_node(name) for name in ("node-0", "node-1", "node-2")]


def why(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["why", *map(str, arguments)])


def ask(server: Served, name: str, **wishes: str) -> None:
    """A filter, and a prioritize where a node is left."""
    pod = make_pod(name, refuse=json.dumps(wishes), score='{"node-2": 50}')
    left = [node for node in NODES if node["metadata"]["name"] not in wishes]
    server.ask("filter", nodes_request(NODES, pod=pod))
    if left:
        server.ask("prioritize", nodes_request(left, pod=pod))


@contextmanager
def writing(folder: Path, file: Path, **options: Any) -> Iterator[Served]:
    with served(folder, f"--journal-file={file}", **options) as server:
        yield server


def wait_written(server: Served, count: int) -> None:
    told = f'bayplan_journal_lines_total{{result="written"}} {count}.0'
    wait_until(lambda: told in server.look("/metrics")[1], 10, what=f"{count} lines are written")


@pytest.mark.parametrize(
    "how", [pytest.param(signal.SIGTERM, id="ended"), pytest.param(signal.SIGKILL, id="killed")]
)
def test_a_server_that_is_gone_still_says_why(tmp_path: Path, how: signal.Signals) -> None:
    file = tmp_path / "folder" / "journal.jsonl"
    with writing(tmp_path, file) as server:
        ask(server, "waits", **{"node-0": "too hot", "node-1": "too hot", "node-2": "too far"})
        ask(server, "goes", **{"node-0": "too hot"})
        wait_written(server, 3)
        assert "[!]journal" not in server.look("/healthz?verbose")[1]
        os.kill(server.child.pid, how)
        server.child.wait_ended(20)

    waits, goes = (json.loads(why(pod, "--journal", file, "-o", "json").stdout) for pod in ("waits", "goes"))

    assert waits["event"] == "0/3 nodes are available: 1 too far, 2 too hot."
    assert (goes["offered"], goes["passed"], goes["refused"][0]["nodes"]) == (3, 2, ["node-0"])
    assert goes["ranking"][0]["node"] == "node-2"
    assert goes["server"] == str(file)
    assert goes["warnings"] == []
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(why("default/goes", "--journal", file, "-o", "json").stdout) == goes
    table = why("pod/waits", "--journal", file)
    # A long name goes over several lines.
    assert f"toldby{file}" in "".join(table.output.split())
    assert "2 too hot" in table.output


def test_a_server_that_starts_again_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "j"
    with writing(tmp_path, file) as server:
        ask(server, "first")
        wait_written(server, 2)
        os.kill(server.child.pid, signal.SIGKILL)
        server.child.wait_ended(20)
    file.write_bytes(file.read_bytes()[:-10])
    with writing(tmp_path, file) as server:
        ask(server, "second")
        wait_written(server, 2)

    ended = why("second", "--journal", file)

    assert ended.exit_code == 0, ended.output
    assert "Not all could be read\n  j: line " in ended.output
    assert why("first", "--journal", file).exit_code == 0
    unknown = why("third", "--journal", file)
    assert unknown.exit_code == 1
    assert "no journal can say why about pod default/third" in unknown.output
    assert "is left out" in unknown.output


def test_of_several_journals_the_newest_answer_counts(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with writing(tmp_path / name, tmp_path / name / "j") as server:
            ask(server, "web")
            wait_written(server, 2)
    files = [tmp_path / name / "j" for name in ("two", "one")]

    said = json.loads(why("web", "--journal", files[0], "--journal", files[1], "-o", "json").stdout)

    assert said["server"] == str(files[0])
    assert [other["server"] for other in said["others"]] == [str(files[1])]


def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    config = write_config(tmp_path)
    config.write_text(config.read_text() + "journal: {file: {path: taken/j, keep: 1}}\n")

    ended = subprocess.run(
        [BAYPLAN, "serve", "--config", config, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert ended.returncode == 1
    assert f"Error: journal {tmp_path / 'taken/j'}: {tmp_path / 'taken'} is not a directory\n" in ended.stderr
