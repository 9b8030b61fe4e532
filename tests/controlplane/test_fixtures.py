"""`-m` with one of our markers opens only the files that can hold such a test."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.controlplane.fixtures import pytest_ignore_collect


@pytest.mark.parametrize(
    ("expression", "opened"),
    [
        pytest.param("", ["plain", "slow"], id="no marker"),
        pytest.param("e2e and not big", ["slow"], id="a marker"),
        pytest.param("alone and e2e", [], id="a marker that nobody has"),
        pytest.param("not e2e", ["plain", "slow"], id="those without it"),
        pytest.param("e2e or not big", ["plain", "slow"], id="this or that"),
        pytest.param("asyncio", ["plain", "slow"], id="a marker that is not ours"),
    ],
)
def test_files_are_opened_that_can_hold_a_wanted_test(
    tmp_path: Path, expression: str, opened: list[str]
) -> None:
    (tmp_path / "test_plain.py").write_text("def test_what_is_no_e2e_is_left_alone(): ...\n")
    (tmp_path / "test_slow.py").write_text("import pytest\npytestmark = pytest.mark.e2e\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))

    left = [path for path in sorted(tmp_path.iterdir()) if not pytest_ignore_collect(path, config)]

    assert [path.stem.removeprefix("test_") for path in left] == opened


def test_what_is_no_test_file_is_left_to_pytest(tmp_path: Path) -> None:
    helper = tmp_path / "asking.py"
    helper.write_text("")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr="e2e"))

    assert [pytest_ignore_collect(path, config) for path in (helper, tmp_path)] == [None, None]
