"""The benchmark of policies runs, and leaves no built-in out."""

import re

import pytest

from bayplan.policies import BUILT_INS
from bench import policies


def test_every_built_in_has_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["policies", "--nodes", "40", "--pods", "200", "--rounds", "2"])

    policies.main()

    lines = re.findall(r"^\| (\S+) \| [\d.]+ \| [\d.]+ \|$", capsys.readouterr().out, re.MULTILINE)
    assert set(BUILT_INS) <= set(lines)
