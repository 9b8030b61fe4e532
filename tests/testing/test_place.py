"""Pods are placed one after another, each with those before it in sight; gangs as a whole."""

import cProfile
from typing import Any

import pytest

import bayplan
from bayplan.authoring.hooks import PolicyError
from bayplan.kube.pod import Pod
from bayplan.testing import Placed, make_cluster, make_node, make_pod, place

RACK = bayplan.Label("rack")
PROFILE = list(bayplan.Profile.default().policies)


@bayplan.gang
def by_job(pod: Pod) -> bayplan.Gang | None:
    job = pod.labels.get("job")
    return bayplan.Gang(job, size=3, within=RACK) if job else None


def member(number: int, *, cpu: str = "2", size: int = 3, **more: Any) -> Pod:
    labels = {"bayplan.dev/gang": "train", "bayplan.dev/gang-size": str(size)}
    return make_pod(f"train-{number}", labels=labels, cpu=cpu, **more)


def of_job(number: int, **more: Any) -> Pod:
    return make_pod(f"rank-{number}", labels={"job": "ranks"}, cpu=2, **more)


def racks() -> list[Any]:
    """Two racks: the first has room for two members, the second for four."""
    return [
        make_node("a1", cpu=4, labels={"rack": "a"}),
        *(make_node(name, cpu=4, labels={"rack": "b"}) for name in ("b1", "b2")),
    ]


def test_each_pod_sees_those_before_it() -> None:
    cluster = make_cluster([make_node("one", cpu=2), make_node("other", cpu=2)])

    said = place(PROFILE, [make_pod(f"p{n}", cpu=2) for n in range(3)], cluster)

    assert sorted(said.nodes.values()) == ["one", "other"]
    assert said.refused == {"p2": "0/2 nodes are available: 2 Insufficient cpu."}


def test_the_more_important_comes_first() -> None:
    cluster = make_cluster([make_node("one", cpu=2)])

    said = place(PROFILE, [make_pod("low", cpu=2), make_pod("high", cpu=2, priority=10)], cluster)

    assert said.nodes == {"high": "one"}


def test_a_gang_is_placed_as_a_whole() -> None:
    cluster = make_cluster([make_node("one", cpu=4), make_node("other", cpu=2)])

    said = place(PROFILE, [member(n) for n in range(3)], cluster)

    assert sorted(said.nodes) == ["train-0", "train-1", "train-2"]
    assert len(said.cluster.pods_on("one")) == 2


def test_a_gang_of_which_one_does_not_fit_is_not_placed_and_holds_nothing() -> None:
    cluster = make_cluster([make_node("one", cpu=4)])

    said = place(PROFILE, [*(member(n) for n in range(3)), make_pod("alone", cpu=4)], cluster)

    assert said.nodes == {"alone": "one"}
    assert said.refused == {
        "train-0": "gang default/train: member train-2 does not fit:"
        " 0/1 nodes are available: 1 Insufficient cpu.",
        "train-1": "gang default/train: member train-2 does not fit:"
        " 0/1 nodes are available: 1 Insufficient cpu.",
        "train-2": "0/1 nodes are available: 1 Insufficient cpu. gang default/train: 2 others would fit."
        " A gang evicts nobody.",
    }


def test_a_gang_that_is_not_complete_waits() -> None:
    said = place(PROFILE, [member(0), member(1)], make_cluster(["one"]))

    assert (said.nodes, set(said.refused.values())) == (
        {},
        {"gang default/train: 2 of 3 members are there"},
    )


def test_a_gang_hook_and_the_rack_that_it_wants() -> None:
    said = place([*PROFILE, by_job], [of_job(n) for n in range(3)], make_cluster(racks()))

    assert said.domains == {"ranks": "b"}
    assert {node[0] for node in said.nodes.values()} == {"b"}


def test_members_that_have_a_node_count_and_the_others_go_into_their_rack() -> None:
    cluster = make_cluster(racks(), [of_job(0, node="a1")])

    said = place([*PROFILE, by_job], [of_job(1), of_job(2)], cluster)

    assert said.nodes == {}
    assert said.refused["rank-2"].endswith(
        "gang default/ranks: 1 other would fit in rack a. A gang evicts nobody."
    )


def test_members_beyond_the_size_join_those_that_stand() -> None:
    said = place([*PROFILE, by_job], [of_job(n) for n in range(5)], make_cluster(racks()))

    assert sorted(said.nodes) == ["rank-0", "rank-1", "rank-2", "rank-3"]
    assert said.refused["rank-4"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_members_that_do_not_agree_are_told_so() -> None:
    said = place(PROFILE, [member(0, size=2), member(1, size=3)], make_cluster(["one"]))

    assert "members do not agree" in said.refused["train-0"]


def test_a_gate_keeps_a_pod_out() -> None:
    @bayplan.gate
    def never(pod: Pod) -> str | None:
        return "not today" if pod.name == "p" else None

    said = place(never, [make_pod("p"), make_pod("q")], make_cluster(["one"]))

    assert (said.nodes, said.refused) == ({"q": "one"}, {"p": "not today"})


def test_what_is_handed_out_is_seen_by_the_next() -> None:
    @bayplan.policy
    class Slots:
        slot = bayplan.Units("example.com/slot", capacity=bayplan.NodeAnnotation("slots"))

        @bayplan.filter
        def free(self, pod: Pod, nodes: Any) -> Any:
            return bayplan.Reason("no slot").where(nodes[self.slot].max(axis=1) < 1)

        @bayplan.allocate
        def take(self, pod: Pod, node: Any) -> Any:
            return self.slot.take(int(node[self.slot].argmax()), 1)

    cluster = make_cluster([make_node("one", annotations={"slots": "1,1"})])

    said = place(Slots, [make_pod(f"p{n}", requests={"example.com/slot": 1}) for n in range(3)], cluster)

    assert len(said.nodes) == 2
    assert said.annotations.keys() == said.nodes.keys()
    assert said.refused == {"p2": "0/1 nodes are available: 1 no slot."}


@pytest.mark.parametrize("kind", ["filter", "gang"])
def test_a_hook_that_fails_raises(kind: str) -> None:
    def wrong(pod: Pod, **_: Any) -> None:
        raise KeyError(pod.name)

    @bayplan.gang
    def gang(pod: Pod) -> None:
        wrong(pod)

    @bayplan.filter
    def rule(pod: Pod, node: Any) -> None:
        wrong(pod)

    with pytest.raises(PolicyError, match="KeyError"):
        place(gang if kind == "gang" else rule, [make_pod("p")], make_cluster(["one"]))


def test_the_answer_is_a_placed() -> None:
    assert isinstance(place(PROFILE, [], make_cluster(["one"])), Placed)


def test_pods_of_one_name_cannot_be_told_apart() -> None:
    with pytest.raises(ValueError, match="two pods have the same name"):
        place(PROFILE, [make_pod(), make_pod()], make_cluster(["one"]))


def test_who_joins_a_gang_and_has_no_place_does_not_keep_others_from_joining_it() -> None:
    there = [member(n, size=2, node="one") for n in range(2)]
    cluster = make_cluster([make_node("one", cpu=8)], there)

    said = place(PROFILE, [member(2, size=2, cpu="5"), member(3, size=2, cpu="2")], cluster)

    assert said.nodes == {"train-3": "one"}
    assert said.refused == {
        "train-2": "0/1 nodes are available: 1 Insufficient cpu."
        " gang default/train: its 2 members have their nodes. A gang evicts nobody."
    }


def test_a_pod_takes_no_more_work_where_many_pods_are() -> None:
    """Counted in calls; each pod looked at all pods of the cluster, and kept a list of them."""

    def calls(there: int, count: int) -> int:
        cluster = make_cluster(
            [make_node("one", cpu=100, pods=5000)], [make_pod(f"p{n}", node="one") for n in range(there)]
        )
        with cProfile.Profile() as counted:
            said = place(PROFILE, [make_pod(f"new-{n}", cpu="100m") for n in range(count)], cluster)
        assert len(said.nodes) == count
        return sum(entry.callcount for entry in counted.getstats())

    calls(1, 1)
    few, many = (calls(there, 40) - calls(there, 20) for there in (10, 1000))
    assert many < 1.2 * few


def test_a_pod_that_has_a_node_does_not_take_its_own_room() -> None:
    there = make_pod("there", cpu=3, node="small")
    cluster = make_cluster([make_node("small", cpu=4), make_node("large", cpu=8)], [there])

    said = place(PROFILE, [there], cluster)

    assert said.nodes == {"there": "small"}
    assert said.cluster.nodes["cpu.requested"].tolist() == [3000, 0]
