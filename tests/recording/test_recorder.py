"""The recorder never makes the server wait, and says what it could not write."""

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.engine.guard import Attempt
from bayplan.recording import recorder as module
from bayplan.recording.lines import Configuration, Dropped, RecordingError
from bayplan.recording.notes import Basis
from bayplan.recording.reader import read_lines
from bayplan.recording.recorder import Recorder, RecordOptions
from bayplan.recording.redact import without_secrets
from bayplan.recording.sink import RecordingFile
from bayplan.snapshot.sources import NO_READINGS
from tests.controlplane.waiting import wait_until

BODY = b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":[]}'
ANSWER = b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
BASIS = Basis(Configuration(), None, NO_READINGS, Attempt())


def note(recorder: Recorder, times: int = 1, *, body: bytes = BODY) -> None:
    for _ in range(times):
        recorder.answered("filter", body, ANSWER, basis=BASIS)


def kinds(file: Path) -> list[str]:
    return [type(line).__name__ for line in read_lines(file)]


def test_a_disk_that_is_too_slow_costs_decisions_and_the_file_says_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUEUE", 3)
    slow, counted = threading.Event(), list[str]()
    recorder = Recorder(RecordOptions(tmp_path / "r"), version="", count=counted.append)
    put = RecordingFile.write
    monkeypatch.setattr(RecordingFile, "write", lambda self, data: (slow.wait(30), put(self, data))[1])
    note(recorder)
    wait_until(recorder._queue.empty, 5, what="the first is being written")

    note(recorder, 10)
    assert counted.count("dropped") == 7
    slow.set()
    recorder.close()

    assert [line.count for line in read_lines(tmp_path / "r") if isinstance(line, Dropped)] == [7]
    assert kinds(tmp_path / "r").count("Asked") == counted.count("written") == 4


def test_large_requests_that_wait_are_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUEUE_BYTES", 10_000)
    slow, counted = threading.Event(), list[str]()
    recorder = Recorder(RecordOptions(tmp_path / "r"), version="", count=counted.append)
    monkeypatch.setattr(RecordingFile, "write", lambda *_: slow.wait(30))
    note(recorder)
    wait_until(recorder._queue.empty, 5, what="the first is being written")

    note(recorder, 5, body=BODY + b" " * 4_000)

    assert counted.count("dropped") == 3
    slow.set()
    recorder.close()


def test_a_disk_that_is_full_ends_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counted: list[str] = []
    recorder = Recorder(RecordOptions(tmp_path / "r"), version="", count=counted.append)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordingFile, "write", full)
    note(recorder)
    wait_until(lambda: recorder.problem, 5, what="it gave up")
    note(recorder)
    recorder.close()

    assert "No space left" in recorder.problem
    assert counted == ["dropped"]
    assert "nothing is recorded any more" in caplog.text


def test_what_cannot_be_told_is_counted_and_the_next_decision_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counted: list[str] = []
    recorder = Recorder(RecordOptions(tmp_path / "r"), version="", count=counted.append)
    note(recorder)
    note(recorder, body=b"no JSON")
    note(recorder)
    recorder.close()

    assert counted == ["written", "failed", "written"]
    assert kinds(tmp_path / "r") == ["Header", "Configuration", "Asked", "Configuration", "Asked"]
    caplog.clear()


def test_a_cluster_larger_than_a_file_may_be_is_said_and_not_tried_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder(RecordOptions(tmp_path / "r", max_bytes=10), version="")
    note(recorder)
    wait_until(lambda: recorder.problem, 5, what="it gave up")
    recorder.close()

    assert "larger than maxBytes, 10" in recorder.problem
    caplog.clear()


@pytest.mark.parametrize("name", [pytest.param("r", id="plain"), pytest.param("r.gz", id="compressed")])
def test_what_was_counted_can_be_read_while_the_server_runs(tmp_path: Path, name: str) -> None:
    counted: list[str] = []
    recorder = Recorder(RecordOptions(tmp_path / name), version="", count=counted.append)
    note(recorder)
    wait_until(lambda: counted == ["written"], 5, what="it is written")

    assert "Asked" in kinds(tmp_path / name)
    recorder.close()


def test_a_file_from_before_is_kept(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("from before")
    Recorder(RecordOptions(tmp_path / "r"), version="").close()

    assert (tmp_path / "r.1").read_text() == "from before"
    assert kinds(tmp_path / "r") == ["Header"]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    Recorder(RecordOptions(tmp_path / "folder" / "r"), version="").close()

    assert (tmp_path / "folder" / "r").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_made_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RecordingError, match="file/r: "):
        Recorder(RecordOptions(tmp_path / "file" / "r"), version="")


def test_headers_and_passwords_of_a_configuration_are_left_out() -> None:
    plain = {
        "sources": [{"http": {"url": "https://u:hunter2@h/p", "headers": {"Authorization": "hunter2"}}}],
        "weight": 2,
    }

    kept = without_secrets(plain)

    assert kept["sources"][0]["http"]["url"] == "https://h/p"
    assert kept["weight"] == 2
    assert b"hunter2" not in msgspec.json.encode(kept)
