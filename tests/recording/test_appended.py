"""A file of lines that goes on: whole lines, its owner's alone, and put aside when it is full."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from bayplan.recording.appended import AppendedFile


def opened(path: Path, *, max_bytes: int = 10, keep: int = 2) -> AppendedFile:
    file = AppendedFile(path, max_bytes=max_bytes, keep=keep)
    file.open()
    return file


def write(file: AppendedFile, *lines: str) -> None:
    """As a writer does: a full file is put aside."""
    for line in lines:
        file.open()
        file.write(f"{line}\n".encode())
        if file.full:
            file.put_aside()


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    for line in ("one", "two"):
        file = opened(tmp_path / "j", max_bytes=100)
        write(file, line)
        file.close()

    assert contents(tmp_path) == {"j": "one\ntwo\n"}


def test_after_half_a_line_the_next_one_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("one\nha")
    file = opened(tmp_path / "j", max_bytes=100)
    write(file, "two")
    file.close()

    assert contents(tmp_path) == {"j": "one\nha\ntwo\n"}


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        pytest.param(2, {"j": "eeeeee\n", "j.1": "cccccc\ndddddd\n", "j.2": "aaaaaa\nbbbbbb\n"}, id="two"),
        pytest.param(1, {"j": "eeeeee\n", "j.1": "cccccc\ndddddd\n"}, id="one"),
        pytest.param(0, {"j": "eeeeee\n"}, id="none"),
    ],
)
def test_full_files_are_put_aside_and_so_many_are_kept(
    tmp_path: Path, keep: int, left: dict[str, str]
) -> None:
    file = opened(tmp_path / "j", keep=keep)
    write(file, *(letter * 6 for letter in "abcde"))
    file.close()

    assert contents(tmp_path) == left


def test_where_fewer_are_kept_than_before_the_oldest_go(tmp_path: Path) -> None:
    for number in range(1, 5):
        (tmp_path / f"j.{number}").write_text("old")
    file = opened(tmp_path / "j", keep=1)
    write(file, "a" * 20)
    file.close()

    assert contents(tmp_path) == {"j.1": "a" * 20 + "\n"}


def test_it_is_its_owners_alone_also_where_it_was_everybodys(tmp_path: Path) -> None:
    (tmp_path / "j").touch(mode=0o644)
    file = opened(tmp_path / "j")
    write(file, "a" * 20, "b")
    file.close()

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"j": 0o600, "j.1": 0o600}


def test_a_file_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    file = opened(tmp_path / "j", max_bytes=100)
    write(file, "one")
    (tmp_path / "j").unlink()
    assert file.open()
    write(file, "two")
    file.close()

    assert contents(tmp_path) == {"j": "two\n"}


def test_two_servers_cannot_write_one_file(tmp_path: Path) -> None:
    first = opened(tmp_path / "j")

    with pytest.raises(OSError, match="another server writes it"):
        opened(tmp_path / "j")

    first.close()
    opened(tmp_path / "j").close()


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match=r"not a regular file|No such device|Illegal seek"):
        opened(tmp_path / "pipe")


def test_half_a_line_does_not_stay_where_the_disk_was_full(tmp_path: Path) -> None:
    file = opened(tmp_path / "j", max_bytes=100)
    write(file, "one")
    real = file._file
    assert real is not None
    halves = [real.write]

    def write_half(data: memoryview) -> int:
        if not halves:
            raise OSError(28, "No space left on device")
        return halves.pop()(data[:2]) or 0

    nearly = SimpleNamespace(truncate=real.truncate, close=real.close, write=write_half)
    file._file = nearly  # type: ignore[assignment]
    with pytest.raises(OSError, match="No space left"):
        file.write(b"three\n")
    write(file, "two")
    file.close()

    assert contents(tmp_path) == {"j": "one\ntwo\n"}
