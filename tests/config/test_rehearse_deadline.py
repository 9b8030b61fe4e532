"""A hook that never returns is found in the dry run, before anything is served."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

import bayplan
from bayplan.authoring.hooks import HookSpec, Kind
from bayplan.authoring.load import load
from bayplan.authoring.registry import Hook
from bayplan.config.in_time import NOT_LONG, Limits
from bayplan.config.load import parse_config
from bayplan.config.rehearse import Rehearsal, rehearse
from bayplan.config.time_limits import TimeLimit, time_limits
from bayplan.testing import make_pod

# In place of an endless loop, which would take half of the processor for the rest of the tests.
WAITS = """\
import threading
import bayplan

released = threading.Event()

@bayplan.filter
def waits(pod, node):
    released.wait()

@bayplan.score
def quick(pod, node):
    return 1
"""

SLOW = """\
import time
import bayplan

@bayplan.filter
def f(pod, node):
    time.sleep(0.05)

@bayplan.score
def quick(pod, node):
    return 1
"""
LOADS = """\
import time
import bayplan

loaded = []

@bayplan.filter
def f(pod, nodes):
    if not loaded:
        loaded.append(time.sleep(0.2))
"""


def test_a_hook_that_never_returns_is_named(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(WAITS)
    (definition,) = load(str(file))
    policy = definition.make()

    with pytest.raises(bayplan.PolicyError, match=r"^slow.py:6 waits: still running after 0.1 s in the dry"):
        rehearse([policy], pods_known=True, limits=Limits(one_call=0.1, all_calls=5))

    released: threading.Event = policy.hooks[0].function.__globals__["released"]
    released.set()
    assert rehearse([policy], pods_known=True, limits=NOT_LONG) == []


def test_many_calls_that_each_return_are_not_one_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (definition,) = load(str(tmp_path / "slow.py"))

    with pytest.raises(bayplan.PolicyError, match=r"^slow.py:4 f: the dry run of policy 'slow' is not over"):
        rehearse([definition.make()], pods_known=True, limits=Limits(one_call=5, all_calls=0.02))


def limit_of(_: object) -> TimeLimit:
    return TimeLimit("extender.limits.policyTimeout", 0.12)


def test_a_hook_for_which_the_server_would_not_wait_is_told_and_its_policy_not_asked_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    policy = load(str(tmp_path / "slow.py"))[0].make()
    rehearsal = Rehearsal(pods_known=True, limit_of=limit_of)

    rehearsal.of(policy)

    (problem,) = rehearsal.late
    assert re.fullmatch(
        r"slow.py:4 f: took 0\.\d+ s on 3 nodes, extender.limits.policyTimeout is 0.12 s:"
        " it would fail for each pod",
        problem,
    )
    assert rehearsal.failures == []


def test_a_first_call_that_loads_something_is_not_slow(tmp_path: Path) -> None:
    (tmp_path / "loads.py").write_text(LOADS)
    policy = load(str(tmp_path / "loads.py"))[0].make()
    rehearsal = Rehearsal(pods_known=True, limit_of=limit_of)

    rehearsal.of(policy)

    assert rehearsal.late == []


@pytest.mark.parametrize(
    ("sections", "kind", "setting"),
    [
        pytest.param("", "filter", "extender.limits.policyTimeout 1", id="an extender by default"),
        pytest.param("", "gang", "scheduler.policyTimeout 1", id="whom only a scheduler asks"),
        pytest.param(
            "extender: {limits: {policyTimeout: 300ms}}",
            "score",
            "extender.limits.policyTimeout 0.3",
            id="an extender with a limit",
        ),
        pytest.param(
            "scheduler: {policyTimeout: 2s}", "score", "scheduler.policyTimeout 2", id="a scheduler alone"
        ),
        pytest.param(
            "extender: {listen: ':1'}\nscheduler: {policyTimeout: 2s}",
            "score",
            "extender.limits.policyTimeout 1",
            id="both",
        ),
    ],
)
def test_the_limit_is_that_of_who_asks(sections: str, kind: Kind, setting: str) -> None:
    head = "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\npolicies: [{use: Spread}]\n"
    config, _ = parse_config(f"{head}{sections}\n".encode(), source="test")
    hook = Hook("policy", "h", HookSpec(kind, ("pod",), "policy.py:1"), print)

    limit = time_limits(config)(hook)

    assert f"{limit.setting} {limit.seconds:g}" == setting


def test_a_policy_is_asked_about_no_more_pods_than_there_is_time_for(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    policy = load(str(tmp_path / "slow.py"))[0].make()
    limits = Limits(all_calls=60, other_pods=0.1, all_other_pods=0.15)
    rehearsal = Rehearsal(pods_known=True, given=[make_pod(f"p{n}") for n in range(5)], limits=limits)

    rehearsal.of(policy)
    rehearsal.of(policy)

    first, second = rehearsal.cut_short
    assert first == (
        "policy 'slow': time was up (0.1 s) after 1 of 5 questions about other pods than a plain one"
    )
    assert "after 0 of 5" in second


def test_a_hook_that_is_slow_for_some_pods_is_told_with_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.replace("    time", "    if pod.labels:\n        time"))
    policy = load(str(tmp_path / "slow.py"))[0].make()
    pods = [make_pod("quick"), make_pod("slow", namespace="shop", labels={"a": "b"})]
    rehearsal = Rehearsal(pods_known=True, given=pods, limit_of=limit_of)

    rehearsal.of(policy)

    (problem,) = rehearsal.late
    assert problem.endswith("it would fail for pods like shop/slow")
