"""Which pods are ours to place, and for whom a node is kept."""

import msgspec
import pytest

from bayplan import Pod
from bayplan.kube.pod import PodStatus
from bayplan.runtimes.scheduler.inbox import Inbox
from bayplan.runtimes.scheduler.nominations import Nominations
from bayplan.runtimes.scheduler.queue import PodQueue
from bayplan.testing import make_cluster, make_pod

OURS = {"schedulerName": "ours"}


def make_inbox() -> Inbox:
    return Inbox(["ours"], PodQueue(), Nominations())


def nominated(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, status=PodStatus(nominated_node_name=node))


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(spec={"schedulerName": "theirs"}), id="of another scheduler"),
        pytest.param(make_pod(), id="of the default scheduler"),
        pytest.param(make_pod(spec=OURS, node="a"), id="that has a node"),
        pytest.param(make_pod(spec=OURS, phase="Succeeded"), id="that is finished"),
    ],
)
def test_a_pod_is_not_ours(pod: Pod) -> None:
    inbox = make_inbox()

    inbox.pod_is(pod)

    assert len(inbox.queue) == 0


def test_pods_of_a_name_that_went_leave_and_those_of_one_that_came_are_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inbox = make_inbox()
    other = {"schedulerName": "theirs"}
    ours, theirs = make_pod("a", uid="a", spec=OURS), make_pod("b", uid="b", spec=other)
    inbox.pod_is(ours)
    inbox.nominations.keep(ours, "node")

    with caplog.at_level("INFO"):
        inbox.serve(["theirs"], [ours, theirs, make_pod("c", uid="c", node="n", spec=other)])

    assert [pod.name for pod in inbox.queue.pods()] == ["b"]
    assert inbox.nominations.of("a") is None
    assert "pod default/a is not ours any more: there is no scheduler ours" in caplog.text

    inbox.pod_is(ours)
    assert "a" not in inbox.queue


def test_a_pod_waits_until_it_has_a_node_or_is_gone() -> None:
    inbox = make_inbox()
    inbox.pod_is(make_pod("a", uid="a", spec=OURS))
    inbox.pod_is(make_pod("b", uid="b", spec=OURS))
    assert inbox.wake.is_set()
    assert len(inbox.queue) == 2

    inbox.pod_is(make_pod("a", uid="a", spec=OURS, node="n"))
    inbox.pod_gone(make_pod("b", uid="b", spec=OURS))

    assert len(inbox.queue) == 0


def test_while_a_bind_is_under_way_the_watch_decides_nothing() -> None:
    inbox = make_inbox()
    pod = make_pod("a", uid="a", spec=OURS)
    inbox.pod_is(pod)
    inbox.binding.add("a")

    inbox.pod_is(make_pod("a", uid="a", spec=OURS, node="assumed"))

    assert "a" in inbox.queue


def test_a_node_that_was_kept_before_a_restart_is_kept_again_and_later_events_change_nothing() -> None:
    inbox = make_inbox()
    pod = nominated(make_pod("a", uid="a", spec=OURS), "n1")
    inbox.pod_is(pod)
    kept = inbox.nominations.of("a")
    assert kept is not None
    assert kept.node == "n1"

    inbox.nominations.drop("a")
    inbox.pod_is(pod)

    assert inbox.nominations.of("a") is None


def test_a_kept_node_is_taken_for_those_who_are_not_more_important() -> None:
    nominations = Nominations()
    pod = make_pod("kept", priority=5)
    nominations.keep(pod, "n1")

    assert nominations.before(make_pod(priority=5)) == {"n1": [pod]}
    assert nominations.before(make_pod(priority=6)) == {}
    assert nominations.before(pod) == {}
    assert nominations.after(make_pod(priority=6), "n1") == [pod]
    assert nominations.after(make_pod(priority=5), "n1") == []
    assert nominations.after(make_pod(priority=6), "n2") == []


def test_a_cluster_that_expects_a_pod_counts_it_on_its_node() -> None:
    coming = make_pod("coming", cpu=3)
    cluster = make_cluster(["n1", "n2"], [coming])

    seen = cluster.expecting({"n1": [coming], "gone": [make_pod("lost")]})

    assert seen.nodes["cpu.requested"].tolist() == [3000, 0]
    assert [pod.name for pod in seen.pods] == ["coming"]
    assert cluster.expecting({}) is cluster


def test_while_somebody_else_schedules_the_nodes_that_he_keeps_are_kept_here_too() -> None:
    inbox = make_inbox()
    inbox.stands_by = lambda: True
    pod = make_pod("a", uid="a", spec=OURS)
    inbox.pod_is(pod)

    inbox.pod_is(nominated(pod, "n1"))
    kept = inbox.nominations.of("a")
    assert kept is not None
    assert kept.node == "n1"
    inbox.pod_is(pod)

    assert inbox.nominations.of("a") is None


def test_whom_we_told_to_leave_is_known_also_while_we_stand_by() -> None:
    inbox = make_inbox()
    inbox.stands_by = lambda: True
    pod = make_pod("a", uid="a", spec=OURS)
    inbox.nominations.keep(pod, "n1", {"victim"})

    inbox.pod_is(nominated(pod, "n1"))

    kept = inbox.nominations.of("a")
    assert kept is not None
    assert kept.victims == {"victim"}


def test_of_a_pod_that_was_ours_before_a_reload_is_told_that_it_is_gone() -> None:
    gone: list[str] = []
    inbox = Inbox(["ours"], PodQueue(), Nominations(), on_gone=gone.append)
    pod = make_pod("a", uid="a", spec=OURS)
    inbox.pod_is(pod)
    inbox.serve(["others"], [])

    inbox.pod_gone(pod)

    assert gone == ["a"]


def test_pods_of_a_name_that_came_are_known_also_where_they_have_a_node() -> None:
    seen: list[str] = []
    inbox = Inbox(["others"], PodQueue(), Nominations())
    inbox.on_pod = lambda pod: seen.append(pod.name)

    inbox.serve(["ours"], [make_pod("a", uid="a", spec=OURS, node="n1")])

    assert seen == ["a"]
    assert len(inbox.queue) == 0


@pytest.mark.parametrize(
    ("becomes", "freed"),
    [
        pytest.param(None, True, id="it is deleted"),
        pytest.param(make_pod("a", uid="a", spec=OURS, phase="Failed"), True, id="it has failed"),
        pytest.param(make_pod("a", uid="a", spec=OURS, node="other"), True, id="it is on another node"),
        pytest.param(make_pod("a", uid="a", spec=OURS, node="n1"), False, id="it is on that node"),
    ],
)
def test_a_node_that_is_not_kept_any_more_is_news_for_whoever_waits_for_room(
    becomes: Pod | None, freed: bool
) -> None:
    """No pod left a node, so that no other news would come before the safety net of five minutes."""
    inbox = make_inbox()
    first = make_pod("a", uid="a", spec=OURS)
    inbox.pod_is(first)
    inbox.nominations.keep(first, "n1")
    inbox.pod_is(make_pod("b", uid="b", spec=OURS))
    inbox.queue.take()
    other = inbox.queue.take()
    assert other is not None
    inbox.refused(other, helped_by=frozenset({"pods"}), by=())
    inbox.wake.clear()

    if becomes is None:
        inbox.pod_gone(first)
    else:
        inbox.pod_is(becomes)

    assert inbox.nominations.of("a") is None
    assert (other.place == "backoff") == freed
    assert inbox.wake.is_set() == freed
