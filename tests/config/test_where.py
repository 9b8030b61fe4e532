"""A setting that cannot be used is named with its file and line, or with the flag that gave it."""

from pathlib import Path
from typing import Any

import pytest

from bayplan.config.cluster import take_snapshot
from bayplan.config.flags import Flags, load_all
from bayplan.config.load import ConfigError
from bayplan.runtimes.extender.options import check_section, options_from

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
