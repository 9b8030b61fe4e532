"""What every benchmark says of itself: the machine it ran on, and its figures in the page that shows them."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

START, END = "<!-- figures -->", "<!-- /figures -->"

Machine = Mapping[str, str | float | None]


class MarkersMissing(ValueError):
    """A page has no place for figures; the text says what to write where."""


def machine() -> dict[str, str | float | None]:
    """What it runs on, and how busy that is now."""
    models = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "python": platform.python_version(),
        "go": _go_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def describe(about: Machine) -> str:
    """The machine in a sentence, for a page."""
    go = f" and Go {about['go']}" if about["go"] else ""
    return (
        f"{about['cores']} cores of {about['processor']}, Python {about['python']}{go}; "
        f"the load before the run was {about['load']}."
    )


def write_between_markers(path: Path, text: str) -> None:
    """Replace what a page has between the two markers; the words around them stay."""
    before, after = _around(path)
    path.write_text(f"{before}{START}\n\n{text.strip()}\n\n{END}{after}")


def check_markers(path: Path) -> None:
    """Raise `MarkersMissing` where a page has no place for figures."""
    _around(path)


def _around(path: Path) -> tuple[str, str]:
    if not path.exists():
        raise MarkersMissing(f"{path} is not there: write the page first, with {START} and {END} in it")
    before, start, rest = path.read_text().partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        missing = START if not start else END
        raise MarkersMissing(f"{path} has no line {missing}: write {START} and {END} where figures belong")
    return before, after


def _go_version() -> str | None:
    try:
        asked = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False)  # noqa: S607
    except OSError:
        return None
    return asked.stdout.strip().removeprefix("go") or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
