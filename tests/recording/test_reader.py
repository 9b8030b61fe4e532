"""Files that are no recordings, or were: an error in words, or what is left of them."""

import gzip
import random
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.recording.lines import FORMAT, RecordingError
from bayplan.recording.reader import Damage, read_lines
from bayplan.runtimes.simulator.cases import Recording
from bayplan.testing import make_node, make_pod
from tests.runtimes.simulator.desk import Desk, sent, write_config

HEADER = b'{"line":"header","format":1,"bayplan":"0","started":""}\n'

SNAPSHOT = b'{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","metadata":{"name":"n"}}]}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "empty", id="nothing"),
        pytest.param(b"\n", "no recording", id="an empty line"),
        pytest.param(b"\x00" * 5000 + b"\n", "no recording", id="zeros"),
        pytest.param(b'{"kind":"List"}\n', "no recording", id="another JSON"),
        pytest.param(b"[" * 100_000 + b"\n", "no recording", id="endless nesting"),
        pytest.param(b'{"line":"dropped","count":1}\n', "header", id="no header"),
        pytest.param(
            b'{"line":"journal","format":1}\n', "a journal of decisions.*why --journal", id="a journal"
        ),
        pytest.param(
            SNAPSHOT, "a snapshot of a cluster.*serve --record.*--snapshot", id="one line without end"
        ),
        pytest.param(SNAPSHOT + b"\n", "a snapshot of a cluster", id="a snapshot in one line"),
        pytest.param(
            SNAPSHOT.replace(b",", b",\n"), "a snapshot of a cluster", id="a snapshot in many lines"
        ),
        pytest.param(b"apiVersion: v1\nitems:\n- kind: Node\n", "a snapshot", id="a snapshot in YAML"),
        pytest.param(gzip.compress(SNAPSHOT), "a snapshot of a cluster", id="a snapshot, packed"),
        pytest.param(
            b"apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n", "no recording of", id="our own file"
        ),
        pytest.param(HEADER.replace(b"1", b"2", 1), "format 2", id="a format of tomorrow"),
    ],
)
def test_what_is_no_recording_is_refused_in_words(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "r").write_bytes(content)

    with pytest.raises(RecordingError, match=said):
        list(read_lines(tmp_path / "r"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"nowhere: No such file.* --record FILE` writes one"):
        list(read_lines(tmp_path / "nowhere"))


def test_the_format_has_not_changed_without_a_new_number() -> None:
    assert FORMAT == 1


def test_a_gzip_of_another_thing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(gzip.compress(b"hello\n"))

    with pytest.raises(RecordingError, match="no recording"):
        list(read_lines(tmp_path / "r"))


def test_a_small_file_that_unpacks_to_a_large_one_is_read_in_pieces(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(HEADER) + b"".join(packer.compress(b"\n" * (1 << 20)) for _ in range(2))
    (tmp_path / "r").write_bytes(bomb + packer.flush())

    found = sum(isinstance(line, Damage) for line in read_lines(tmp_path / "r"))

    assert found == 2 * (1 << 20)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording with changes in it."""
    folder = tmp_path_factory.mktemp("recorded")
    desk = Desk(write_config(folder), folder / "r")
    for number in range(6):
        desk.cache.put_node(make_node(f"n{number}").object)
        desk.cache.put_pod(make_pod(f"p{number}", node=f"n{number // 2}"))
        desk.ask("filter", sent(make_pod("web"), [f"n{n}" for n in range(number)]))
    desk.recorder.close()
    return desk.file.read_bytes()


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), packed=st.booleans(), cut=st.booleans())
def test_damage_anywhere_is_an_error_in_words_or_a_warning(
    recorded: bytes, tmp_path_factory: pytest.TempPathFactory, seed: int, packed: bool, cut: bool
) -> None:
    dice = random.Random(seed)
    content = bytearray(gzip.compress(recorded) if packed else recorded)
    for _ in range(dice.randrange(1, 4)):
        content[dice.randrange(len(content))] = dice.randrange(256)
    if cut:
        del content[dice.randrange(len(content)) :]
    file = tmp_path_factory.mktemp("damaged") / "r"
    file.write_bytes(content)

    recording = Recording(file)
    try:
        cases = list(recording.cases())
    except RecordingError:
        return

    assert len(cases) <= 6
