"""A setting that cannot be used is named with its file and line, or with the flag that gave it."""

from pathlib import Path
from typing import Any

import pytest

from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.runtimes.extender.options import check_section, options_from
from bayplan.runtimes.scheduler.options import check_section as check_scheduler_section

HEAD = """\
apiVersion: bayplan.dev/v1
kind: BayplanConfiguration
policies:
- use: MostAvailableCPU
"""


def complaint(folder: Path, text: str, **flags: Any) -> str:
    """What is said when a server with these settings, in line 5 and below, is about to start."""
    path = folder / "bayplan.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError) as caught:
        options_from(load_all([], Flags(config=path, **flags)), version="0")
    return str(caught.value).removeprefix(f"{folder}/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "page:\n  listen: nowhere\n", "bayplan.yaml:6: page.listen: 'nowhere' is not HOST", id="the page"
        ),
        pytest.param(
            "extender: {listen: ':99999'}\n",
            "bayplan.yaml:5: extender.listen: ':99999': there is no port above",
            id="no such port",
        ),
        pytest.param(
            "cluster:\n  source: request\n  nodesOnly: true\n",
            "bayplan.yaml:7: cluster.nodesOnly needs a cluster that is followed",
            id="no cluster",
        ),
        pytest.param(
            "tracing: {otlpEndpoint: collector}\n",
            "bayplan.yaml:5: tracing.otlpEndpoint: 'collector' is no address",
            id="tracing",
        ),
    ],
)
def test_the_line_of_the_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, text).startswith(said)


def test_a_flag_is_named_instead_of_what_the_file_says(tmp_path: Path) -> None:
    said = complaint(tmp_path, "page: {listen: ':1'}\n", page_listen="nowhere")

    assert said.startswith("--page-listen: 'nowhere' is not HOST:PORT")


def test_what_the_file_leaves_out_has_no_line(tmp_path: Path) -> None:
    said = complaint(tmp_path, "extender: {limits: {requestTimeout: 50s}, lease: {use: always}}\n")

    assert said.startswith("bayplan.yaml:5: extender.lease.use is always")
    path = tmp_path / "bayplan.yaml"
    with pytest.raises(ConfigError, match=r"^extender\.lease\.duration: 15s is too short"):
        check_section(load_all([], Flags(config=path)))


def test_it_is_so_for_commands_that_only_look_at_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "bayplan.yaml"
    path.write_text(f"{HEAD}cluster: {{source: request, snapshot: cluster.json}}\n")

    with pytest.raises(ConfigError, match=r"bayplan\.yaml:5: cluster\.snapshot is given"):
        take_snapshot(load_all([], Flags(config=path)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "page: {listen: '127.0.0.1:8888'}\n",
            "bayplan.yaml:5: page.listen: port 8888 is also that of extender.listen",
            id="the page on the port for calls",
        ),
        pytest.param(
            "extender:\n  listen: 127.0.0.1:7000\n  opsListen: :7000\n",
            "bayplan.yaml:7: extender.opsListen: port 7000 is also that of extender.listen",
            id="one of them on every address",
        ),
        pytest.param(
            "extender: {opsListen: ':8890'}\n",
            "page.listen: port 8890 is also that of extender.opsListen",
            id="a default",
        ),
    ],
)
def test_two_listeners_on_one_port_are_found_before_it_is_taken(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, text).startswith(said)


def test_one_port_on_two_addresses_of_the_machine_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "bayplan.yaml"
    path.write_text(f"{HEAD}extender: {{listen: '127.0.0.1:7', opsListen: '127.0.0.2:7'}}\n")

    check_section(load_all([], Flags(config=path)))


def test_a_scheduler_tells_its_ports_apart_too(tmp_path: Path) -> None:
    path = tmp_path / "bayplan.yaml"
    path.write_text(f"{HEAD}scheduler: {{opsListen: '127.0.0.1:8890'}}\n")

    with pytest.raises(ConfigError, match=r"page\.listen: port 8890 is also that of scheduler\.opsListen"):
        check_scheduler_section(load_all([], Flags(config=path)))
