"""Loading and rehearsing together: what can never work is an error, the rest is a problem."""

from pathlib import Path

import pytest

from bayplan.config.check import check, load_checked
from bayplan.config.flags import Flags
from bayplan.config.load import ConfigError


def policy(folder: Path, code: str) -> str:
    path = folder / "policy.py"
    path.write_text(f"import bayplan\n\n{code}")
    return str(path)


def test_a_sound_policy(tmp_path: Path) -> None:
    report = check([policy(tmp_path, "@bayplan.filter\ndef f(pod, node): ...\n")], Flags())

    assert [p.name for p in report.policies] == ["policy"]
    assert report.problems == []


def test_a_policy_that_fails_on_some_nodes_is_a_problem(tmp_path: Path) -> None:
    report = check(
        [policy(tmp_path, "@bayplan.filter\ndef f(pod, node):\n    return node.labels['x']\n")], Flags()
    )

    assert report.problems == ["policy.py:5 f: KeyError: 'x' (on node rehearsal-0)"]


def test_a_policy_that_needs_pods_can_never_work_on_requests_alone(tmp_path: Path) -> None:
    use = policy(tmp_path, "@bayplan.score\ndef s(pod, nodes):\n    return nodes['cpu.free']\n")

    with pytest.raises(ConfigError, match=r"cpu\.free"):
        load_checked([use], Flags())
    assert load_checked([use], Flags(in_cluster=True))[1] == []


def test_no_policies_are_an_error_that_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match=r"bayplan serve policy\.py"):
        check([], Flags())
