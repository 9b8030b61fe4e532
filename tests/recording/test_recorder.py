"""The recorder never makes the server wait, and says what it could not write."""

import errno
import os
import threading
import zlib
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.engine.guard import Attempt
from bayplan.recording import recorder as module
from bayplan.recording import sink
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


def record(path: Path, *, decisions: int = 1) -> bytes:
    """A recording, and what it holds."""
    recorder = Recorder(RecordOptions(path), version="")
    note(recorder, decisions)
    recorder.close()
    return path.read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", [pytest.param("r", id="plain"), pytest.param("r.gz", id="compressed")])
@pytest.mark.parametrize("room", [pytest.param(0, id="nothing"), pytest.param(20, id="half a header")])
def test_a_disk_that_is_full_at_the_start_costs_the_recording_and_no_file(
    tmp_path: Path, name: str, room: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = {f"{name}.1": record(tmp_path / name), name: record(tmp_path / name, decisions=2)}

    def full(file: FileIO, data: bytes) -> None:
        file.write(data[:room])
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(sink, "put_all", full)
            counted: list[str] = []
            recorder = Recorder(RecordOptions(tmp_path / name), version="", count=counted.append)
            note(recorder)
            recorder.close()

        assert recorder.problem == f"{tmp_path / name}: No space left on device"
        assert counted == ["dropped"]
        assert contents(tmp_path) == before
    assert caplog.text.count("nothing is recorded any more") == 2
    caplog.clear()


def test_a_disk_that_is_full_at_the_turn_of_a_file_keeps_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "r.1").write_text("older")
    recorder = Recorder(RecordOptions(tmp_path / "r", max_bytes=1000), version="")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "RecordingFile", full)
    note(recorder, 20)
    recorder.close()

    assert "No space left" in recorder.problem
    assert (tmp_path / "r.1").read_text() == "older"
    assert "Asked" in kinds(tmp_path / "r")
    caplog.clear()


@pytest.mark.parametrize("name", [pytest.param("r", id="plain"), pytest.param("r.gz", id="compressed")])
@pytest.mark.parametrize("left", ["nothing", "the header", "half a cluster"])
def test_a_file_without_a_decision_takes_no_other_ones_place(tmp_path: Path, name: str, left: str) -> None:
    good = record(tmp_path / name)
    Recorder(RecordOptions(tmp_path / name), version="").close()
    if left == "nothing":
        (tmp_path / name).write_bytes(b"")
    elif left == "half a cluster":
        lines = zlib.decompress(good, wbits=31) if name == "r.gz" else good
        header, configuration, asked = lines.splitlines(keepends=True)
        half = zlib.compressobj(wbits=31) if name == "r.gz" else None
        text = header + configuration + asked[:50]
        written = half.compress(text) + half.flush(zlib.Z_SYNC_FLUSH) if half else text
        (tmp_path / name).write_bytes(written)

    Recorder(RecordOptions(tmp_path / name), version="").close()

    assert sorted(contents(tmp_path)) == [name, f"{name}.1"]
    assert (tmp_path / f"{name}.1").read_bytes() == good
    assert kinds(tmp_path / name) == ["Header"]


def test_a_file_of_requests_that_no_policy_judged_is_kept(tmp_path: Path) -> None:
    recorder = Recorder(RecordOptions(tmp_path / "r"), version="")
    recorder.unjudged("filter", "not readable")
    recorder.close()
    Recorder(RecordOptions(tmp_path / "r"), version="").close()

    assert kinds(tmp_path / "r.1") == ["Header", "Unjudged"]


def test_what_a_kill_left_half_done_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "r.new").write_text("half")
    record(tmp_path / "r")

    assert sorted(contents(tmp_path)) == ["r"]


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    Recorder(RecordOptions(tmp_path / "folder" / "r"), version="").close()

    assert (tmp_path / "folder" / "r").stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_made_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RecordingError, match="file/r: "):
        Recorder(RecordOptions(tmp_path / "file" / "r"), version="")


@pytest.mark.parametrize(
    "what", ["a directory", "a pipe", "a device", "a link to a directory", "a dead link"]
)
def test_what_is_no_file_is_left_where_it_is(tmp_path: Path, what: str) -> None:
    place, folder = tmp_path / "place", tmp_path / "folder"
    folder.mkdir()
    if what == "a directory":
        place.mkdir()
    elif what == "a pipe":
        os.mkfifo(place)
    elif what == "a device":
        place.symlink_to("/dev/null")
    else:
        place.symlink_to(folder if what == "a link to a directory" else "gone")
    before = place.lstat()

    with pytest.raises(RecordingError, match=r"place: (not a regular file|a link to gone, which is not)"):
        Recorder(RecordOptions(place), version="")

    assert (place.lstat().st_ino, place.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "place"]


def test_headers_and_passwords_of_a_configuration_are_left_out() -> None:
    plain = {
        "sources": [{"http": {"url": "https://u:hunter2@h/p", "headers": {"Authorization": "hunter2"}}}],
        "weight": 2,
    }

    kept = without_secrets(plain)

    assert kept["sources"][0]["http"]["url"] == "https://h/p"
    assert kept["weight"] == 2
    assert b"hunter2" not in msgspec.json.encode(kept)
