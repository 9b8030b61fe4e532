"""Pods of one controller: what is equal is one object, what is not stays each pod's own."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.kube.pod import Pod
from bayplan.state.siblings import Siblings
from bayplan.testing import make_pod

WEB = ("ReplicaSet", "web")
OTHER_SPECS: dict[str, Mapping[str, Any]] = {
    "a resized container": {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
    "an init container": {"initContainers": [{"resources": {"requests": {"cpu": "3"}}}]},
    "overhead": {"overhead": {"cpu": "1"}},
    "requests of the whole pod": {"resources": {"requests": {"cpu": "5"}}},
    "a port of the node": {"containers": [{"ports": [{"hostPort": 80}]}]},
    "a term about other pods": {"affinity": {"podAntiAffinity": {}}},
}


MORE = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "9"}}}]}
HELD = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]}
TOO_MUCH = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
STATUSES: dict[str, dict[str, Any]] = {
    "as it asks": {},
    "the kubelet has not made it smaller yet": MORE,
    "the kubelet says that it cannot be as large": HELD | TOO_MUCH,
    "it has not been made smaller as a whole yet": {"resources": {"requests": {"memory": "2Gi"}}},
}


def told(name: str, status: str) -> Pod:
    """A pod that runs, and what the kubelet says of its requests."""
    whole = {"resources": {"requests": {"memory": "1Gi"}}}
    pod = make_pod(name, uid=name, cpu="8", owner=WEB, node="a", spec=whole)
    body = msgspec.to_builtins(pod) | {"status": {"phase": "Running", **STATUSES[status]}}
    return msgspec.convert(body, type=Pod)


def worked_out(pod: Pod) -> tuple[object, ...]:
    return pod.requests, pod.nonzero_requests, pod.host_ports, pod.affinity_text


def fresh(pod: Pod) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def test_what_is_equal_is_kept_once_and_worked_out_once() -> None:
    siblings = Siblings()
    first = make_pod("web-1", cpu="1", labels={"app": "web"}, owner=WEB, node="a")
    second = make_pod("web-2", cpu="1", labels={"app": "web"}, owner=WEB, node="b")
    assert worked_out(first)

    siblings.join(first, None)
    siblings.join(second, None)

    assert first.spec is not None
    assert second.spec is not None
    assert second.spec.containers is first.spec.containers
    assert first.metadata is not None
    assert second.metadata is not None
    assert second.metadata.labels is first.metadata.labels
    assert second.requests is first.requests
    assert (second.name, second.node_name) == ("web-2", "b")


@pytest.mark.parametrize("change", OTHER_SPECS)
def test_a_pod_that_differs_keeps_its_own(change: str) -> None:
    siblings = Siblings()
    first = make_pod("web-1", cpu="1", owner=WEB)
    second = make_pod("web-2", cpu="1", owner=WEB, spec=OTHER_SPECS[change])
    own = worked_out(fresh(second))
    assert worked_out(first) != own

    siblings.join(first, None)
    siblings.join(second, None)

    assert worked_out(second) == own


@pytest.mark.parametrize("before", STATUSES)
@pytest.mark.parametrize("now", STATUSES)
@pytest.mark.parametrize("known", [True, False], ids=["of itself", "of a sibling"])
def test_how_far_the_kubelet_is_with_a_resize_is_each_pods_own(before: str, now: str, known: bool) -> None:
    siblings = Siblings()
    first, second = told("web-1", before), told("web-1" if known else "web-2", now)
    own = worked_out(fresh(second))
    siblings.join(first, None)
    assert worked_out(first)

    siblings.join(second, first if known else None)

    assert worked_out(second) == own


def test_labels_of_its_own_do_not_keep_a_pod_from_sharing_its_containers() -> None:
    siblings = Siblings()
    first = make_pod("db-0", cpu="1", labels={"index": "0"}, owner=("StatefulSet", "db"))
    second = make_pod("db-1", cpu="1", labels={"index": "1"}, owner=("StatefulSet", "db"))

    siblings.join(first, None)
    siblings.join(second, None)

    assert first.spec is not None
    assert second.spec is not None
    assert second.spec.containers is first.spec.containers
    assert second.labels == {"index": "1"}


def test_the_pod_that_was_known_comes_before_a_sibling() -> None:
    siblings = Siblings()
    known, sibling = make_pod("web-1", cpu="2", owner=WEB), make_pod("web-2", cpu="1", owner=WEB)
    again = make_pod("web-1", cpu="2", owner=WEB)
    assert known.requests
    siblings.join(known, None)
    siblings.join(sibling, None)

    siblings.join(again, known)

    assert again.requests is known.requests


def test_pods_without_a_controller_share_with_nobody_but_themselves() -> None:
    siblings = Siblings()
    first, second = make_pod("one", cpu="1"), make_pod("two", cpu="1")
    assert first.requests

    siblings.join(first, None)
    siblings.join(second, None)

    assert second.requests is not first.requests


def test_only_so_many_controllers_are_remembered() -> None:
    siblings = Siblings(limit=2)
    pods = [make_pod(f"p-{each}", cpu="1", owner=("Job", str(each))) for each in range(3)]
    for pod in pods:
        assert pod.requests
        siblings.join(pod, None)
    forgotten, remembered = (make_pod("again", cpu="1", owner=("Job", each)) for each in "02")

    siblings.join(remembered, None)
    siblings.join(forgotten, None)

    assert remembered.requests is pods[2].requests
    assert forgotten.requests is not pods[0].requests


@given(st.lists(st.sampled_from([{}, *OTHER_SPECS.values()]), min_size=2, max_size=8))
def test_whatever_comes_before_it_a_pod_says_what_it_said(specs: list[Mapping[str, Any]]) -> None:
    siblings = Siblings()
    for number, spec in enumerate(specs):
        pod = make_pod(f"web-{number}", cpu="1", owner=WEB, spec=spec)
        sent = msgspec.json.encode(pod)
        siblings.join(pod, None)

        assert msgspec.json.encode(pod) == sent
        assert worked_out(pod) == worked_out(msgspec.json.decode(sent, type=Pod))


def test_a_pod_of_which_nothing_is_known_is_left_alone() -> None:
    siblings = Siblings()
    known, empty = make_pod("p"), Pod()

    siblings.join(empty, known)

    assert empty == Pod()
