"""A snapshot never changes; what-if copies of it do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.pod import Pod
from bayplan.kube.quantity import INT64_MAX, QuantityError
from bayplan.snapshot.cluster import DuplicateNode, Snapshot
from bayplan.snapshot.load import PodsUnknown
from bayplan.testing import make_cluster, make_node, make_pod


def cluster() -> Snapshot:
    return make_cluster(
        [make_node("busy", cpu=4), make_node("idle", cpu=4)],
        [
            make_pod("small", uid="u-small", cpu="500m", node="busy"),
            make_pod("large", uid="u-large", cpu=2, node="busy"),
            make_pod("waiting", uid="u-waiting", cpu=1),
            make_pod("lost", uid="u-lost", cpu=1, node="gone-node"),
            make_pod("done", uid="u-done", cpu=3, node="idle", phase="Succeeded"),
        ],
    )


def state(snapshot: Snapshot) -> dict[str, list[object]]:
    """Everything that a reader can see of the pods."""
    return {
        "free": snapshot.nodes["cpu.free"].tolist(),
        "counts": snapshot.nodes["pods.requested"].tolist(),
        "on": [[pod.uid for pod in snapshot.pods_on(node)] for node in snapshot.nodes.names],
        "pods": [pod.uid for pod in snapshot.pods],
        "by uid": sorted(snapshot.pods_by_uid),
    }


def test_placed_pods_use_their_node_and_finished_ones_nothing() -> None:
    assert state(cluster()) == {
        "free": [1500, 4000],
        "counts": [2, 0],
        "on": [["u-small", "u-large"], []],
        "pods": ["u-small", "u-large", "u-waiting", "u-lost"],
        "by uid": ["u-large", "u-lost", "u-small", "u-waiting"],
    }


def test_without_pods_their_node_is_freed() -> None:
    after = cluster().without({"u-large"})

    assert state(after) == {
        "free": [3500, 4000],
        "counts": [1, 0],
        "on": [["u-small"], []],
        "pods": ["u-small", "u-waiting", "u-lost"],
        "by uid": ["u-lost", "u-small", "u-waiting"],
    }


@pytest.mark.parametrize(
    "uids",
    [
        pytest.param(set(), id="nobody"),
        pytest.param({"u-nobody"}, id="a pod that nobody knows"),
        pytest.param({""}, id="a pod without a UID"),
    ],
)
def test_without_unknown_pods_nothing_changes(uids: set[str]) -> None:
    assert state(cluster().without(uids)) == state(cluster())


def test_pods_without_a_uid_are_not_mistaken_for_each_other() -> None:
    nameless = [Pod(), Pod()]
    snapshot = Snapshot.build(cluster().nodes.objects, nameless)

    assert len(snapshot.without({""}).pods) == 2
    assert len(snapshot.placed(Pod(), "idle").pods) == 3


def test_a_placed_pod_uses_its_node() -> None:
    after = cluster().placed(make_pod("new", uid="u-new", cpu=1), "idle")

    assert state(after)["free"] == [1500, 3000]
    assert state(after)["on"] == [["u-small", "u-large"], ["u-new"]]
    assert after.pods_by_uid["u-new"].node_name == "idle"


def test_a_waiting_pod_that_is_placed_is_there_once() -> None:
    before = cluster()

    after = before.placed(before.pods_by_uid["u-waiting"], "idle")

    assert state(after)["on"] == [["u-small", "u-large"], ["u-waiting"]]
    assert [pod.uid for pod in after.pods].count("u-waiting") == 1


def test_a_pod_that_is_placed_elsewhere_leaves_its_node() -> None:
    before = cluster()

    after = before.placed(before.pods_by_uid["u-large"], "idle")

    assert state(after)["on"] == [["u-small"], ["u-large"]]
    assert state(after)["free"] == [3500, 2000]


def test_a_placed_pod_can_be_taken_away_again() -> None:
    before = cluster()

    after = before.placed(make_pod("new", uid="u-new", cpu=1), "idle").without({"u-new"})

    assert state(after) == state(before)


def test_placing_on_an_unknown_node_is_an_error() -> None:
    with pytest.raises(KeyError):
        cluster().placed(make_pod(), "nowhere")


@settings(deadline=None, max_examples=50)
@given(st.sets(st.sampled_from(["u-small", "u-large", "u-waiting", "u-lost", "u-none"])), st.booleans())
def test_overlays_leave_the_original_as_it_was(uids: set[str], read_first: bool) -> None:
    original, untouched = cluster(), cluster()
    if read_first:
        state(original)

    state(original.without(uids).placed(make_pod("new", cpu=1), "busy"))
    state(original.placed(make_pod("new", cpu=1), "idle").without(uids))

    assert state(original) == state(untouched)


@settings(deadline=None, max_examples=50)
@given(st.sets(st.sampled_from(["u-small", "u-large", "u-waiting", "u-lost"])))
def test_a_cluster_without_pods_is_one_built_without_them(uids: set[str]) -> None:
    whole = cluster()

    overlaid = whole.without(uids)

    rebuilt = Snapshot.build(whole.nodes.objects, [pod for pod in whole.pods if pod.uid not in uids])
    assert state(overlaid) == state(rebuilt)


def test_rows_are_found_by_name_and_unknown_names_are_marked() -> None:
    assert cluster().find(["idle", "nowhere", "busy"]).tolist() == [1, -1, 0]
    assert cluster().find([]).dtype == np.intp


def test_two_nodes_of_one_name_are_an_error() -> None:
    with pytest.raises(DuplicateNode, match="node 'twin' is there twice"):
        make_cluster(["twin", "other", "twin"])


def test_nodes_of_a_request_get_the_pods_that_are_known() -> None:
    sent = make_cluster([make_node("busy", cpu=8)]).nodes.objects

    known = cluster().with_nodes(sent)

    assert known.nodes.row("busy")["cpu.free"] == 5500
    assert list(known.nodes.names) == list(cluster().nodes.names), "the others stay in the cluster"


def test_nodes_of_a_request_may_be_new() -> None:
    sent = make_cluster([make_node("new", cpu=2)]).nodes.objects

    known = cluster().with_nodes(sent)

    assert known.nodes.row("new")["cpu.free"] == 2000
    assert known.nodes.row("new")["pods.requested"] == 0


def test_a_snapshot_without_pods_says_so() -> None:
    bare = Snapshot.build(cluster().nodes.objects, None)

    assert (bare.pods_known, bare.pods_by_uid) == (False, {})
    for ask in (lambda: bare.pods, lambda: bare.pods_on("busy"), lambda: bare.without({"u"})):
        with pytest.raises(PodsUnknown, match="needs the placed pods"):
            ask()


def test_sums_stop_at_the_largest_int64() -> None:
    pods = [make_pod(f"huge-{i}", memory="7E", node="full") for i in range(2)]

    assert make_cluster(["full"], pods).nodes["memory.requested"].tolist() == [INT64_MAX]


def test_a_malformed_request_names_its_pod() -> None:
    asks = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]}

    with pytest.raises(QuantityError, match="pod default/broken: 'lots' is not a quantity"):
        make_cluster(["a"], [make_pod("broken", spec=asks, node="a")])
