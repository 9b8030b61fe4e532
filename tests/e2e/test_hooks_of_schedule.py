"""The hooks around the queue of ``bayplan schedule``: who is let in, who is next, who is told of a bind."""

from __future__ import annotations

import re
import textwrap
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.api import Api
from tests.controlplane.client import Json
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.e2e.asking import why
from tests.e2e.extender import Extender
from tests.e2e.second_scheduler import NAME, SecondScheduler

pytestmark = pytest.mark.e2e


def test_a_gate_keeps_a_pod_out_until_a_node_has_the_label(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_node("n1")
    policy = write(
        tmp_path,
        """
        NOT_OPEN = bayplan.Reason("no node is open for the team", helped_by={"nodes"})

        @bayplan.gate
        def open_for(pod, cluster):
            if pod.labels.get("team") is None:
                return None
            opened = cluster.nodes[bayplan.Label("open-for")].isin([pod.labels["team"]])
            return None if opened.any() else NOT_OPEN
        """,
    )
    with SecondScheduler(api, tmp_path, policy, kubeconfig=cluster.kubeconfig) as bayplan:
        api.create_pod("held", scheduler_name=NAME, labels={"team": "a"})
        api.create_pod("other", scheduler_name=NAME)
        assert api.wait_bound("other") == "n1"
        condition = wait_until(lambda: gated(api, "held"), 30, what="the condition is written")
        assert condition["message"] == "no node is open for the team"
        assert bayplan.metric("bayplan_pending_pods", queue="gated") == 1
        told = why("pod/held", f"http://127.0.0.1:{bayplan.page_port}")
        assert told["keptOut"] == "policy policy: no node is open for the team"
        assert bayplan.metric("bayplan_policy_duration_seconds_count", point="gate") >= 1

        api.patch("nodes", "n1", {"metadata": {"labels": {"open-for": "a"}}})
        assert api.wait_bound("held") == "n1"
        assert bayplan.metric("bayplan_pending_pods") == 0
    assert "pod default/held: let in" in bayplan.log()


def test_the_order_of_a_policy_decides_who_is_bound_first(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    api.create_priority_class("high", 1000)
    for namespace in ("urgent", "usual"):
        api.create_namespace(namespace)
    api.create_node("n1")
    policy = write(
        tmp_path,
        """
        @bayplan.order
        def urgent_first(pod):
            if pod.name.startswith("broken"):
                return float("nan")
            return (0 if pod.namespace == "urgent" else 1, pod.name)
        """,
    )
    for name in ("b", "a"):
        api.create_pod(name, namespace="usual", scheduler_name=NAME, priority_class="high")
        api.create_pod(name, namespace="urgent", scheduler_name=NAME)
    api.create_pod("broken", namespace="usual", scheduler_name=NAME, priority_class="high")

    # One bind at a time, and all pods are there before it starts: the log tells the order.
    config = tmp_path / "bayplan.yaml"
    config.write_text(
        "apiVersion: bayplan.dev/v1\nkind: BayplanConfiguration\n"
        f"policies:\n- use: {policy}\nscheduler: {{parallelBinds: 1}}\n"
    )
    flags = [f"--config={config}"]
    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig, flags=flags) as bayplan:
        bound = wait_until(
            lambda: len(found := order_of_binds(bayplan.log())) == 5 and found,
            30,
            what="five pods are bound",
            explain=bayplan.log,
        )
    # Without a key a pod counts by its priority, of which a thousand is far in front.
    assert bound == ["usual/broken", "urgent/a", "urgent/b", "usual/a", "usual/b"]
    assert "NaN comes neither before nor after anything" in bayplan.log()
    assert "stands by its priority" in bayplan.log()


def test_policies_are_told_of_a_bind_and_one_that_fails_harms_nobody(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("n1", labels={"rack": "r1"})
    told = tmp_path / "told.txt"
    policy = write(
        tmp_path,
        f"""
        @bayplan.bound
        def breaks(pod):
            raise RuntimeError("nobody is there")

        @bayplan.bound
        def note(pod, node):
            with open({str(told)!r}, "a") as file:
                file.write(f"{{pod.key}} {{pod.node_name}} {{node.name}} {{node.labels['rack']}}\\n")
        """,
    )
    with SecondScheduler(api, tmp_path, policy, kubeconfig=cluster.kubeconfig) as bayplan:
        for number in range(3):
            api.create_pod(f"p{number}", scheduler_name=NAME)
        wait_until(lambda: len(lines(told)) == 3, 30, what="three binds are told", explain=bayplan.log)
        assert bayplan.metric("bayplan_policy_failures_total", policy="policy", kind="exception") == 3
    assert sorted(lines(told)) == [f"default/p{number} n1 n1 r1" for number in range(3)]
    assert "nobody is there" in bayplan.log()


def test_an_extender_tells_of_its_binds_and_says_that_it_has_no_queue(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("n1")
    told = tmp_path / "told.txt"
    policy = write(
        tmp_path,
        f"""
        @bayplan.bound
        def note(pod, node):
            with open({str(told)!r}, "a") as file:
                file.write(f"{{pod.key}} {{node.name}}\\n")

        @bayplan.gate
        def never(pod):
            return "never"
        """,
    )
    with (
        Extender(api, tmp_path, policy, name="extender", kubeconfig=cluster.kubeconfig) as extender,
        cluster.scheduler(extenders=[extender.entry(bind=True)]),
    ):
        api.create_pod("web")
        assert api.wait_bound("web") == "n1"
        wait_until(lambda: lines(told), 30, what="the bind is told")
    assert lines(told) == ["default/web n1"]
    assert "`gate` is of `bayplan schedule` alone" in extender.log()


def test_the_same_refusal_again_and_again_is_one_event_with_a_count(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api = cluster.api
    api.create_node("small", cpu="1")
    with SecondScheduler(api, tmp_path, kubeconfig=cluster.kubeconfig) as bayplan:
        api.create_pod("large", cpu="8", scheduler_name=NAME)
        api.wait_event("large", "FailedScheduling")
        for attempts in (2, 3):
            api.patch("nodes", "small", {"metadata": {"labels": {"try": str(attempts)}}})
            wait_until(partial(tried, bayplan, attempts), 30, what="it is tried again")
        event = wait_until(lambda: series(api, "large"), 30, what="the event is a series")
        assert event["series"]["count"] == 2
        assert event["series"]["lastObservedTime"] > event["eventTime"]
        assert bayplan.metric("bayplan_schedule_reports_total", result="failed") == 0


def write(folder: Path, text: str) -> Path:
    """A file with a policy in it."""
    path = folder / "policy.py"
    path.write_text("import bayplan\n\n" + textwrap.dedent(text))
    return path


def gated(api: Api, pod: str) -> dict[str, str] | None:
    """The condition of a pod that is kept out."""
    conditions = api.get("pods", pod)["status"].get("conditions", ())
    return next((each for each in conditions if each["reason"] == "SchedulingGated"), None)


def series(api: Api, pod: str) -> Json | None:
    """The one event about a pod, once it is a series."""
    (event,) = [each for each in api.items("events") if each["involvedObject"]["name"] == pod]
    return event if event.get("series") else None


def tried(bayplan: SecondScheduler, attempts: int) -> bool:
    """Whether there were so many attempts that found no node."""
    return bayplan.metric("bayplan_schedule_attempts_total", result="unschedulable") >= attempts


def order_of_binds(log: str) -> list[str]:
    """The pods in the order in which they were bound."""
    return re.findall(r"pod (\S+) is bound to", log)


def lines(path: Path) -> list[str]:
    """What is in a file, if there is one."""
    return path.read_text().splitlines() if path.exists() else []
