"""Which pods are of one kind, by what hooks ask for and whom policies are for."""

from dataclasses import replace
from typing import Any

import pytest

import bayplan
from bayplan.authoring.expression import Expression, from_expressions
from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import PolicyScope
from bayplan.runtimes.extender.alike import Alike
from bayplan.testing import make_pod
from bayplan.testing.run import ready

WEB, OTHER = make_pod("web", labels={"app": "web"}), make_pod("other", labels={"app": "db"}, namespace="data")


@bayplan.filter(reads="node")
def blind(nodes: bayplan.NodeTable) -> None:
    return None


@bayplan.score(reads="node")
def looks(pod: bayplan.Pod, node: bayplan.Node) -> float:
    return float(pod.priority)


def policies(*hooks: Any) -> list[Policy]:
    return [policy for hook in hooks for policy in ready(hook, None)]


def test_pods_that_nobody_looks_at_are_of_one_kind() -> None:
    alike = Alike(policies(blind))

    assert alike.kind(WEB) == alike.kind(OTHER) != b""


def test_pods_that_somebody_looks_at_must_be_alike() -> None:
    alike = Alike(policies(blind, looks))

    assert alike.kind(WEB) != alike.kind(OTHER)
    assert alike.kind(WEB) == alike.kind(make_pod("web-2", labels={"app": "web"}))


def test_whom_policies_are_for_tells_kinds_apart() -> None:
    ours = [replace(policy, scope=PolicyScope(namespaces=("default",))) for policy in policies(looks)]
    alike = Alike([*policies(blind), *ours])

    assert alike.kind(OTHER) == alike.kind(make_pod("more", namespace="elsewhere"))
    assert alike.kind(WEB) not in (alike.kind(OTHER), b"")
    assert alike.kind(WEB) != alike.kind(make_pod("web", labels={"app": "api"}))


def test_a_pod_that_no_policy_is_for_is_of_no_kind() -> None:
    ours = [replace(policy, scope=PolicyScope(namespaces=("default",))) for policy in policies(blind)]

    assert Alike(ours).kind(OTHER) == b""


@pytest.mark.parametrize(
    ("text", "one"),
    [
        pytest.param("node.metadata.name != 'x'", True, id="the node alone"),
        pytest.param("node.metadata.name != pod.metadata.namespace", False, id="the pod too"),
    ],
)
def test_an_expression_looks_at_what_it_names(text: str, one: bool) -> None:
    alike = Alike([from_expressions("rule", {"filter": Expression(text, "f.yaml:1")})])

    assert (alike.kind(WEB) == alike.kind(OTHER)) is one
