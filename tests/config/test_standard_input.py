"""``-`` for a file where there is no standard input: an error that says so."""

import io
import sys
from pathlib import Path

import pytest

from bayplan.config.load import ConfigError
from bayplan.config.standard_input import read_standard_input
from bayplan.doctor.files import STDIN, UnreadableError, read_bytes
from bayplan.runtimes.simulator.manifest import read_pod


def test_all_of_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"kind: \xc3\xa4\n")))

    assert read_standard_input() == b"kind: \xc3\xa4\n"


def test_one_that_was_closed_before_the_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(UnreadableError, match=r"^-: standard input is closed$"):
        read_bytes(STDIN)
    with pytest.raises(ConfigError, match=r"^-: standard input is closed$"):
        read_pod("-")


def test_a_file_is_still_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    (tmp_path / "a.yaml").write_bytes(b"kind: Pod\n")

    assert read_bytes(tmp_path / "a.yaml") == b"kind: Pod\n"
