"""The configurations beside this file: what each says of itself, and what doctor finds in it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bayplan.doctor.examine import examine, with_files
from bayplan.doctor.files import read_bytes, read_text
from bayplan.doctor.finding import Finding
from bayplan.doctor.ours import Ours, read_ours
from bayplan.doctor.setting import Setting, Version

FOLDER = Path(__file__).parent / "configurations"
# The certificates beside the configurations end before, soon after, and long after this day.
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """A file, what it is examined against, and what it says is found."""

    path: Path
    expected: tuple[str, ...]
    clean_of: frozenset[str]
    version: str
    config: Path | None

    def ours(self) -> Ours | None:
        """Bayplan's configuration, where one goes with it."""
        if self.config is None:
            return None
        (page,) = read_text(read_bytes(self.config), source=str(self.config)).configurations
        return read_ours(page)

    def examine(self, text: str | None = None) -> list[Finding]:
        """What doctor finds in the file, or in this text in its place."""
        setting = Setting(Version.read(self.version), self.ours(), NOW)
        given = read_text(self.path.read_bytes() if text is None else text, source=str(self.path))
        return examine(given, with_files(given, setting))


def read_case(path: Path) -> Case:
    """The header of a file, or its neighbour ``FILE.expect``, where it has no room for comments."""
    aside = path.with_name(f"{path.name}.expect")
    header = aside.read_text() if aside.exists() else path.read_text()
    said: dict[str, list[str]] = {"expect": [], "clean-of": [], "version": [], "config": []}
    for line in header.splitlines():
        key, colon, value = line.removeprefix("# ").partition(":")
        if colon and key in said:
            said[key] += value.split()
    return Case(
        path,
        tuple(sorted(said["expect"])),
        frozenset(said["clean-of"]),
        "".join(said["version"]) or "1.36",
        FOLDER / said["config"][0] if said["config"] else None,
    )


CASES = [read_case(path) for path in sorted(FOLDER.iterdir()) if path.suffix in (".yaml", ".json")]


def every_case(*, converted: bool = True) -> list[Any]:
    """For ``pytest.mark.parametrize``; without those that ``--fix`` makes another kind of file of."""
    return [
        pytest.param(case, id=case.path.name)
        for case in CASES
        if converted or not case.path.name.startswith("policy.")
    ]
