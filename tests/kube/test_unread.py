"""A file that cannot be read is told with the one that was probably meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bayplan.authoring.load import load
from bayplan.config.kube_scheduler import read_kube_scheduler_config
from bayplan.config.load import load_config
from bayplan.doctor.files import read_bytes
from bayplan.kube.unread import file_meant, unread
from bayplan.recording.reader import read_lines
from bayplan.runtimes.simulator.manifest import read_pod
from bayplan.snapshot.files import load_snapshot


@pytest.mark.parametrize(
    ("read", "typed", "there"),
    [
        pytest.param(lambda path: load(str(path)), "polcy.py", "policy.py", id="a policy"),
        pytest.param(load_config, "byplan.yaml", "bayplan.yaml", id="a configuration"),
        pytest.param(load_snapshot, "clster.json", "cluster.json", id="a snapshot"),
        pytest.param(read_kube_scheduler_config, "scheduler.yml", "scheduler.yaml", id="a profile"),
        pytest.param(lambda path: read_pod(str(path)), "pod.yml", "pod.yaml", id="a manifest"),
        pytest.param(lambda path: list(read_lines(path)), "rec.jsonl", "rec.jsonl.gz", id="a recording"),
        pytest.param(read_bytes, "policy.jsn", "policy.json", id="what doctor examines"),
    ],
)
def test_a_mistyped_file_is_told_with_the_right_one(
    read: Callable[[Path], Any], typed: str, there: str, tmp_path: Path
) -> None:
    (tmp_path / there).write_text("")

    with pytest.raises(Exception, match=rf"{typed}: [Nn]o such file.*; did you mean '{there}'\?$"):
        read(tmp_path / typed)


def test_where_nothing_is_close_it_says_what_to_do(tmp_path: Path) -> None:
    error = FileNotFoundError(2, "No such file or directory")

    said = unread(tmp_path / "a.yaml", error, or_else="; write one")

    assert said == f"{tmp_path}/a.yaml: No such file or directory; write one"


def test_a_folder_that_is_not_there_has_no_neighbours(tmp_path: Path) -> None:
    assert file_meant(tmp_path / "none" / "a.yaml") == ""


def test_a_file_that_may_not_be_read_is_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("")

    assert unread(tmp_path / "policy.jsn", PermissionError(13, "Permission denied")).endswith("denied")
