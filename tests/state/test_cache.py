"""The cache after any events is the cluster that a fresh list would give."""

import random
import threading
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from bayplan.kube.node import NodeObject
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import Label
from bayplan.snapshot.conditions import PodLabel
from bayplan.snapshot.load import PodsUnknown
from bayplan.snapshot.tally import _FOLD
from bayplan.state import cache as cache_module
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod

RACK, APP = Label("rack"), PodLabel("app")
NODES, PODS = 12, 40


class Story:
    """Random events, told to the cache and written down beside it."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cache = Cache()
        self.nodes: dict[str, NodeObject] = {}
        self.pods: dict[str, Pod] = {}

    def step(self) -> None:
        happenings: list[tuple[int, Callable[[], None]]] = [
            (20, self.put_node),
            (8, self.drop_node),
            (50, self.put_pod),
            (15, self.drop_pod),
            (2, self.relist_nodes),
            (2, self.relist_pods),
        ]
        weights, actions = zip(*happenings, strict=True)
        self.dice.choices(actions, weights)[0]()

    def put_node(self) -> None:
        labels = {"rack": str(self.dice.randrange(3))} if self.dice.random() < 0.8 else {}
        name = f"n{self.dice.randrange(NODES)}"
        node = make_node(name, labels=labels, cpu=self.dice.randrange(1, 9)).object
        self.nodes[name] = node
        self.cache.put_node(node)

    def drop_node(self) -> None:
        name = f"n{self.dice.randrange(NODES)}"
        self.nodes.pop(name, None)
        self.cache.drop_node(name)

    def put_pod(self) -> None:
        pod = make_pod(
            f"p{self.dice.randrange(PODS)}",
            cpu=f"{self.dice.randrange(1, 5)}00m",
            labels={"app": self.dice.choice("abc")},
            node=self.dice.choice([None, *(f"n{i}" for i in range(NODES))]),
            phase=self.dice.choice(["Running"] * 5 + ["Succeeded"]),
            owner=self.dice.choice([None, ("ReplicaSet", "web"), ("Job", "nightly")]),
        )
        self.pods[pod.key] = pod
        self.cache.put_pod(as_sent(pod))

    def drop_pod(self) -> None:
        key = f"default/p{self.dice.randrange(PODS)}"
        self.pods.pop(key, None)
        self.cache.drop_pod(key)

    def relist_nodes(self) -> None:
        self.nodes = dict(self.dice.sample(list(self.nodes.items()), len(self.nodes) // 2))
        self.cache.replace_nodes(self.nodes.values())

    def relist_pods(self) -> None:
        self.pods = dict(self.dice.sample(list(self.pods.items()), len(self.pods) // 2))
        self.cache.replace_pods(map(as_sent, self.pods.values()))


def as_sent(pod: Pod) -> Pod:
    """Another object: what the cache works out of it, or has it share, is not in ours."""
    return msgspec.json.decode(msgspec.json.encode(pod), type=Pod)


def assert_same(live: Snapshot, fresh: Snapshot) -> None:
    assert sorted(live.nodes.names) == sorted(fresh.nodes.names)
    ours, theirs = live.nodes.take(live.find(list(fresh.nodes.names))), fresh.nodes
    for column in ("cpu.allocatable", "cpu.requested", "cpu.free", "pods.requested"):
        assert np.array_equal(ours[column], theirs[column]), column
    for where in (APP == "a", ~(APP == "a")):
        assert np.array_equal(ours.count(where), theirs.count(where))
        assert np.array_equal(ours.count(where, by=RACK), theirs.count(where, by=RACK))
        assert np.array_equal(ours.sum("cpu", where, by=RACK), theirs.sum("cpu", where, by=RACK))
    assert [ours[RACK][row] for row in range(len(ours))] == [theirs[RACK][row] for row in range(len(theirs))]
    assert sorted(pod.uid for pod in live.pods) == sorted(pod.uid for pod in fresh.pods)


@pytest.mark.parametrize("seed", range(40))
def test_snapshots_equal_a_fresh_list_whatever_happened(seed: int) -> None:
    story = Story(seed)
    taken = []

    for _ in range(150):
        story.step()
        if story.dice.random() < 0.3:
            fresh = Snapshot.build(story.nodes.values(), story.pods.values())
            taken.append((story.cache.snapshot(), fresh))
            assert_same(*taken[-1])
    for live, fresh in taken:
        assert_same(live, fresh)


@pytest.mark.parametrize("seed", range(5))
def test_of_nodes_alone_nodes_are_followed_and_pods_are_unknown(seed: int) -> None:
    story = Story(seed)
    story.cache = Cache(nodes_only=True)

    for _ in range(60):
        story.dice.choice((story.put_node, story.put_node, story.drop_node, story.relist_nodes))()
        ours, theirs = story.cache.snapshot(), Snapshot.build(story.nodes.values(), None)
        rows = theirs.find(ours.nodes.names)
        assert sorted(ours.nodes.names) == sorted(story.nodes)
        assert np.array_equal(ours.nodes["cpu.allocatable"], theirs.nodes["cpu.allocatable"][rows])
        racks = [theirs.nodes[RACK][row] for row in rows.tolist()]
        assert [ours.nodes[RACK][row] for row in range(len(rows))] == racks
    assert not ours.pods_known
    for asked in ("cpu.free", "cpu.requested"):
        with pytest.raises(PodsUnknown):
            ours.nodes[asked]
    with pytest.raises(PodsUnknown, match="without nodesOnly"):
        _ = ours.pods


def test_pods_that_wait_are_told_in_the_order_in_which_they_came() -> None:
    cache = Cache()
    for number in range(3000):
        cache.put_pod(make_pod(f"p{number}"))
    before = cache.snapshot()
    for number in range(3000):
        if number % 10:
            cache.drop_pod(f"default/p{number}")
    few = cache.snapshot()
    cache.put_pod(make_pod("p0", labels={"is": "different"}))
    cache.put_pod(make_pod("last"))

    assert [pod.name for pod in before.elsewhere or ()] == [f"p{number}" for number in range(3000)]
    left = [f"p{number}" for number in range(0, 3000, 10)]
    assert [pod.name for pod in few.elsewhere or ()] == left
    assert [pod.name for pod in cache.snapshot().elsewhere or ()] == [*left[1:], "p0", "last"]


def test_what_was_worked_out_of_a_pod_holds_while_its_spec_is_the_same() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    first, placed = make_pod("p", cpu="1"), make_pod("p", cpu="1", node="a", labels={"is": "different"})
    known = first.requests
    cache.put_pod(first)
    cache.put_pod(placed)
    assert placed.requests is known

    larger = make_pod("p", cpu="2", node="a")
    cache.put_pod(larger)
    assert larger.requests["cpu"] == 2000
    assert cache.snapshot().nodes["cpu.free"].tolist() == [2000]


def test_a_pod_with_another_request_is_summed_up_anew() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    for cpu, free in (("100m", 3900), ("300m", 3700), ("200m", 3800)):
        cache.put_pod(make_pod("p", node="a", cpu=cpu))
        assert cache.snapshot().nodes["cpu.free"].tolist() == [free]

    # Told twice between two snapshots, with a neighbour that came and one that only ran on.
    cache.put_pod(make_pod("p", node="a", cpu="200m", phase="Running"))
    cache.put_pod(make_pod("q", node="a", cpu="1"))
    cache.put_pod(make_pod("p", node="a", cpu="500m"))

    assert cache.snapshot().nodes["cpu.free"].tolist() == [2500]
    assert cache.snapshot().nodes["pods.requested"].tolist() == [2]


def test_a_snapshot_does_not_change_when_the_cluster_does() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    before = cache.snapshot()
    assert before.nodes["cpu.free"].tolist() == [4000]

    cache.put_pod(make_pod("p", node="a", cpu=1))
    cache.put_node(make_node("b", cpu=8).object)

    assert before.nodes["cpu.free"].tolist() == [4000]
    assert before.nodes.count().tolist() == [0]
    assert cache.snapshot().nodes["cpu.free"].tolist() == [3000, 8000]


def test_nothing_new_gives_the_same_snapshot_again() -> None:
    cache = Cache()
    cache.put_node(make_node("a").object)

    assert cache.snapshot() is cache.snapshot()


def test_pods_of_a_node_that_comes_back_are_counted_again() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    cache.put_pod(make_pod("p", node="a", cpu=1))
    cache.drop_node("a")
    assert len(cache.snapshot().nodes) == 0

    cache.put_node(make_node("a", cpu=4).object)

    assert cache.snapshot().nodes["cpu.free"].tolist() == [3000]


def test_a_pod_that_arrives_before_its_node_is_counted_when_the_node_comes() -> None:
    cache = Cache()
    cache.put_pod(make_pod("early", node="a", cpu=1))

    cache.put_node(make_node("a", cpu=4).object)

    assert cache.snapshot().nodes["cpu.free"].tolist() == [3000]


def test_a_long_story_is_folded_without_losing_count() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    for number in range(6000):
        cache.put_pod(make_pod(f"p{number}", node="a", labels={"app": "db"}))
        if number % 3:
            cache.drop_pod(f"default/p{number}")
        if number % 1000 == 0:
            cache.snapshot()

    assert cache.snapshot().nodes.count(APP == "db").tolist() == [2000]


def test_snapshots_are_taken_while_policy_threads_read_the_last_one() -> None:
    cache = Cache()
    for number in range(200):
        cache.put_node(make_node(f"n{number}", labels={"rack": str(number % 7)}).object)
    stop = threading.Event()
    errors: list[BaseException] = []
    handed: list[Snapshot] = [cache.snapshot()]

    def read() -> None:
        column = 0
        try:
            while not stop.is_set():
                column += 1
                nodes = handed[-1].nodes
                assert len(nodes[Label(f"label-{column % 500}")]) == len(nodes)
                assert nodes.count(APP.isin([f"a{column % 50}"])).sum() >= 0
                assert (nodes["cpu.free"] <= nodes["cpu.allocatable"]).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(400):
            pod = make_pod(f"p{number}", node=f"n{number % 200}", labels={"app": f"a{number}"}, cpu="100m")
            cache.put_pod(pod)
            if number % 5 == 0:
                cache.put_node(make_node(f"n{number % 200}", cpu=8).object)
            handed.append(cache.snapshot())
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)

    assert errors == []


def test_a_list_does_not_take_an_assumption_away() -> None:
    """A pod that was made after the list, and is bound by now, is not in it."""
    cache = Cache()
    cache.put_node(make_node("a").object)
    late = make_pod("late", uid="l")
    cache.assume(late, "a")

    cache.replace_pods([])

    assert cache.snapshot().nodes.count().tolist() == [1]
    assert cache.doubtful == {"default/late"}
    cache.drop_pod("default/late")
    assert cache.snapshot().nodes.count().tolist() == [0]


def test_a_list_of_the_latest_state_knows_better_than_a_bind_that_was_answered_before() -> None:
    """Where an older etcd was restored, the bind has never been, and no watch will ever tell."""
    cache = Cache()
    cache.put_node(make_node("a").object)
    unbound, gone, late, asked = (make_pod(name, uid=name) for name in ("unbound", "gone", "late", "asked"))
    for pod in (unbound, gone, late, asked):
        cache.put_pod(pod)
        cache.assume(pod, "a")
    cache.bound(unbound, 10.0)
    cache.bound(gone, 10.0)
    cache.bound(late, 30.0)

    cache.end_assumptions(20.0)
    cache.replace_pods([unbound, late, asked])

    assert {pod.name: pod.node_name for pod in cache.pods} == {"unbound": "", "late": "a", "asked": "a"}
    assert cache.assumed_uids == {"late", "asked"}
    assert cache.doubtful == set()
    assert cache.snapshot().nodes.count().tolist() == [2]


def test_that_a_bind_of_ours_is_told_by_the_watch_changes_nothing() -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    pod = make_pod("web", uid="w", cpu=1)
    cache.put_pod(pod)
    cache.assume(pod, "a", {"got": "device-1"})
    before, version = cache.snapshot(), cache.version

    told = _told(make_pod("web", uid="w", cpu=1, node="a", phase="Pending", annotations={"got": "device-1"}))
    cache.put_pod(told)

    assert cache.snapshot() is before
    assert cache.version == version
    assert not cache.assumes(pod)
    assert cache.pod("default/web") is told, "the next one who writes to it needs its version"


@pytest.mark.parametrize("again", [False, True], ids=["", "after it was to get something else"])
def test_a_pod_that_does_not_get_its_place_has_the_annotations_that_it_had(again: bool) -> None:
    cache = Cache()
    cache.put_node(make_node("a").object)
    pod = make_pod("web", uid="w", annotations={"devices": "any two", "team": "blue"})
    cache.put_pod(pod)
    cache.assume(pod, "a", {"devices": "0,1", "at": "noon"})
    changed = make_pod("web", uid="w", annotations={"devices": "any two", "team": "red"})
    cache.put_pod(changed)
    if again:
        cache.assume_anew(pod, {"devices": "2,3"})
    shown = cache.pod("default/web")
    assert shown is not None
    assert shown.annotations["team"] == "red"
    assert shown.annotations["devices"] == ("2,3" if again else "0,1")

    cache.forget(pod)

    assert cache.pod("default/web") == changed


def test_no_annotations_are_no_change_however_they_are_written() -> None:
    cache = Cache()
    cache.put_node(make_node("a").object)
    pod = _told(make_pod("web", uid="w"), annotations=None)
    cache.assume(pod, "a")
    before = cache.snapshot()

    cache.put_pod(_told(make_pod("web", uid="w", node="a", phase="Pending"), annotations=None))

    assert cache.snapshot() is before


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(make_pod("web", uid="other", node="a", cpu=1), id="it is another pod"),
        pytest.param(make_pod("web", uid="w", node="a", cpu=2), id="it asks for something else"),
        pytest.param(
            make_pod("web", uid="w", node="a", cpu=1, labels={"app": "b"}), id="it has other labels"
        ),
        pytest.param(
            make_pod("web", uid="w", node="a", cpu=1, annotations={"b": ""}), id="other annotations"
        ),
        pytest.param(make_pod("web", uid="w", node="a", cpu=1, owner=("Job", "b")), id="another owner"),
        pytest.param(make_pod("web", uid="w", node="a", cpu=1, phase="Unknown"), id="another status"),
        pytest.param(make_pod("web", uid="w", node="b", cpu=1), id="it is on another node"),
    ],
)
def test_whatever_else_is_told_of_a_placed_pod_is_seen(told: Pod) -> None:
    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    cache.put_node(make_node("b", cpu=4).object)
    cache.put_pod(make_pod("web", uid="w", node="a", cpu=1))
    before = cache.snapshot()

    cache.put_pod(told)

    after = cache.snapshot()
    assert after is not before
    assert list(after.pods) == [told]
    assert_same(after, Snapshot.build([make_node(name, cpu=4).object for name in "ab"], [told]))


def test_what_a_resize_leaves_is_free_when_the_kubelet_has_done_it() -> None:
    def resized(has: str) -> Pod:
        body = msgspec.to_builtins(make_pod("web", uid="w", node="a", cpu="1"))
        held = {"name": "main", "resources": {"requests": {"cpu": has}}}
        return msgspec.convert(body | {"status": {"phase": "Running", "containerStatuses": [held]}}, type=Pod)

    cache = Cache()
    cache.put_node(make_node("a", cpu=4).object)
    cache.put_pod(resized("4"))
    assert cache.snapshot().nodes["cpu.free"].tolist() == [0]

    cache.put_pod(resized("1"))

    assert cache.snapshot().nodes["cpu.free"].tolist() == [3000]


def _told(pod: Pod, **changes: object) -> Pod:
    """The pod as the API server has it after a write."""
    assert pod.metadata is not None
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", **changes)
    return msgspec.structs.replace(pod, metadata=metadata)


def _versioned(node: NodeObject, version: str) -> NodeObject:
    assert node.metadata is not None
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, resource_version=version)
    )


def test_a_kubelet_that_says_that_it_is_still_there_changes_nothing() -> None:
    cache = Cache()
    node = make_node("n", labels={"rack": "a"}).object
    cache.put_node(_versioned(node, "1"))
    before, version = cache.snapshot(), cache.version

    cache.put_node(_versioned(node, "2"))

    assert cache.snapshot() is before
    assert cache.version == version
    cache.put_node(make_node("n", labels={"rack": "b"}).object)
    assert cache.snapshot().era is not before.era
    assert cache.snapshot().nodes[RACK][0] == "b"


def test_the_last_picture_has_the_same_nodes_until_something_but_pods_changes() -> None:
    cache = Cache()
    cache.put_node(make_node("n").object)
    cache.put_node(make_node("m").object)
    assert cache.same_nodes is None
    first = cache.snapshot()
    assert cache.same_nodes is first

    cache.put_pod(make_pod("p", node="n"))
    assert cache.same_nodes is first, "it is of no matter that pods are others"
    assert cache.snapshot() is not first
    assert cache.snapshot().era is first.era


@pytest.mark.parametrize("change", ["a node", "a node less", "a node more", "a bind in doubt"])
def test_after_a_change_it_takes_a_new_picture(change: str) -> None:
    cache = Cache()
    cache.put_node(make_node("n").object)
    cache.put_node(make_node("m").object)
    before = cache.snapshot()
    changes: dict[str, Callable[[], None]] = {
        "a node": lambda: cache.put_node(make_node("n", labels={"rack": "b"}).object),
        "a node less": lambda: cache.drop_node("n"),
        "a node more": lambda: cache.put_node(make_node("o").object),
        "a bind in doubt": lambda: cache.doubt("uid", "n"),
    }
    changes[change]()

    assert cache.same_nodes is None
    after = cache.snapshot()
    assert cache.same_nodes is after
    assert (after.era is before.era) == (change == "a bind in doubt")


def test_pods_that_came_and_went_leave_nothing_where_nobody_takes_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cache_module, "_GONE_LIMIT", 50)
    cache = Cache()
    cache.put_node(make_node("n").object)

    for number in range(5_000):
        for node in (None, "n"):
            cache.put_pod(make_pod(f"p{number}", uid=str(number), node=node))
        cache.drop_pod(f"default/p{number}")

    kept = sum(map(len, cache._added.values())) + len(cache._waiting) + len(cache._tally._since)
    assert kept <= 2 * 50 + cache_module._GAP_LIMIT + _FOLD
    assert cache.snapshot().nodes.count().tolist() == [0]
