"""The map of the source names every room, and no file that is not there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bayplan"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROWS = {row[1]: row[2] for row in re.finditer(r"^\| `(\w+)` \|.*\|(.*)\|$", PAGE, re.MULTILINE)}


def test_every_room_is_on_the_map() -> None:
    assert sorted(ROWS) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_what_to_read_first_is_there(room: str) -> None:
    files = re.findall(r"`([^`]+)`", ROWS[room])

    assert files
    assert [file for file in files if not (SOURCE / room / file).exists()] == []


def test_files_that_are_named_with_their_room_are_there() -> None:
    named = {file for file in re.findall(r"`(\w+/[\w/]+\.py)`", PAGE) if file.split("/")[0] in ROOMS}

    assert len(named) > 15
    assert sorted(file for file in named if not (SOURCE / file).exists()) == []
