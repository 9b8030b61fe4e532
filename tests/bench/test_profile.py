"""The benchmark of the default profile runs, and leaves no policy out."""

import re

import pytest

from bayplan.policies.default_profile import DEFAULT_PROFILE
from bench import profile


def test_every_policy_has_a_line_in_every_world(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["profile", "--nodes", "40", "--pods", "200", "--rounds", "2"])

    profile.main()

    printed = capsys.readouterr().out
    lines = re.findall(r"^\| ([^|]+) \| [\d.]+ \| [\d.]+ \|$", printed, re.MULTILINE)
    assert [lines.count(name) for name in DEFAULT_PROFILE] == [len(profile.KINDS)] * len(DEFAULT_PROFILE)
    assert lines.count("the whole profile") == len(profile.KINDS)


def test_the_pods_of_the_world_with_terms_have_them() -> None:
    (with_terms,) = [kind for kind in profile.KINDS if kind.terms]

    assert profile.make_one(1, with_terms).affinity_text
    assert not profile.make_one(1, profile.KINDS[0]).affinity_text
