"""A gang is judged as one unit: all members have a place, in one rack, or none has."""

import cProfile
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayplan
from bayplan import Gang, Label, Pod, Profile
from bayplan.authoring.load import Definition, load
from bayplan.authoring.registry import Policy
from bayplan.engine.gang import Plan, member_order, plan_gang
from bayplan.engine.guard import Attempt
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.row import Node
from bayplan.state.cache import Cache
from bayplan.testing import make_cluster, make_node, make_pod

DEFAULT = Profile.default().policies
RACK = Label("rack")
ANYWHERE, IN_RACK = Gang("g", size=2), Gang("g", size=2, within=RACK)


@bayplan.filter
def broken(pod, nodes):  # type: ignore[no-untyped-def]
    raise RuntimeError("oh")


@bayplan.score(range=(0, 100))
def by_label(pod, node):  # type: ignore[no-untyped-def]
    return float(node.labels.get("liked", 0))


def own(hook: object, **settings: float) -> Policy:
    name = hook.__name__  # type: ignore[attr-defined]
    return Definition(name, ((name, hook),), None, ()).make(**settings)  # type: ignore[arg-type]


def node(name: str, rack: str = "", *, cpu: float = 4, **labels: str) -> Node:
    return make_node(name, cpu=cpu, labels={**({"rack": rack} if rack else {}), **labels})


def members(count: int, *, cpu: float = 1) -> list[Pod]:
    return [make_pod(f"m-{number}", cpu=cpu) for number in range(count)]


def plan(gang: Gang, pods: Sequence[Pod], cluster: Snapshot, *policies: Policy, pinned: str = "") -> Plan:
    return plan_gang((*DEFAULT, *policies), gang, pods, cluster, attempt=Attempt(), pinned=pinned)


def test_each_member_sees_those_before_it_on_their_nodes() -> None:
    cluster = make_cluster([node("a", cpu=2), node("b", cpu=2)])

    found = plan(ANYWHERE, members(4), cluster)

    assert found.fits
    assert sorted(seat.node for seat in found.seats) == ["a", "a", "b", "b"]
    assert cluster.nodes["cpu.requested"].tolist() == [0, 0], "the cluster itself is as it was"


def test_rules_are_asked_once_for_each_member_also_where_something_is_handed_out() -> None:
    """They see the same cluster when a member has its place as when one was looked for."""
    asked: list[str] = []

    @bayplan.filter(recheck=True)
    def counted(pod, nodes):  # type: ignore[no-untyped-def]
        asked.append(pod.name)

    (definition,) = load("SharedResource")
    gpus = definition.make(args={"resource": "example.com/memory", "capacity": "example.com/gpus"})

    assert plan(ANYWHERE, members(2), make_cluster([node("a"), node("b")]), gpus, own(counted)).fits
    assert asked == ["m-0", "m-1"]


def test_the_member_that_has_no_place_is_named_in_kube_schedulers_words() -> None:
    found = plan(ANYWHERE, members(3), make_cluster([node("a", cpu=2)]))

    assert found.misfit is not None
    assert found.misfit.pod.name == "m-2"
    assert found.misfit.sentence == "0/1 nodes are available: 1 Insufficient cpu."
    assert [seat.pod.name for seat in found.seats] == ["m-0", "m-1"]


def test_all_members_are_in_one_rack_although_others_have_better_nodes() -> None:
    nodes = [node("best", "small", cpu=32), node("a", "large", cpu=4), node("b", "large", cpu=4)]
    taken = make_pod("there", cpu=28, node="best")

    found = plan(IN_RACK, members(6), make_cluster(nodes, [taken]))

    assert found.fits
    assert (found.domain, {seat.node for seat in found.seats}) == ("large", {"a", "b"})


def test_a_rack_whose_sum_would_do_is_left_when_one_member_does_not_fit_into_any_node_of_it() -> None:
    nodes = [node(f"s{number}", "shreds", cpu=1) for number in range(8)] + [node("whole", "w", cpu=8)]

    found = plan(IN_RACK, members(2, cpu=3), make_cluster(nodes))

    assert (found.domain, found.fits) == ("w", True)


def test_nodes_in_no_rack_are_for_nobody_who_wants_one() -> None:
    found = plan(IN_RACK, members(2), make_cluster([node("nowhere", cpu=8)]))

    assert found.misfit is not None
    assert found.misfit.sentence == "no node has the label rack."
    assert not found.misfit.choice.found
    refusal = found.misfit.choice.filtered.refusal(0)
    assert refusal is not None
    assert (refusal.reason.text, refusal.detail) == ("node lacks the label of the gang's domain", "rack")


def test_those_who_have_a_node_decide_the_rack() -> None:
    nodes = [node("a", "r1", cpu=8), node("b", "r2", cpu=8)]

    assert plan(IN_RACK, members(2), make_cluster(nodes), pinned="r2").domain == "r2"
    full = plan(IN_RACK, members(2, cpu=5), make_cluster(nodes), pinned="r2")
    assert not full.fits
    assert full.domain == "r2"
    gone = plan(IN_RACK, members(2), make_cluster(nodes), pinned="r3").misfit
    assert gone is not None
    assert gone.sentence == "no node has the label rack=r3."
    assert gone.choice.feasible == []


def test_the_rack_that_policies_like_most_is_tried_first() -> None:
    nodes = [node("a", "r1", liked="10"), node("b", "r2", liked="90"), node("c", "r3", liked="50")]

    found = plan(IN_RACK, members(2), make_cluster(nodes), own(by_label, weight=100))

    assert found.domain == "r2"


def test_where_no_rack_will_do_the_reasons_are_of_the_one_that_held_most() -> None:
    nodes = [node("a", "r1", cpu=2), node("b", "r2", cpu=3), node("c", "r3", cpu=1)]

    found = plan(IN_RACK, members(4), make_cluster(nodes))

    assert found.misfit is not None
    assert (found.domain, len(found.seats), found.domains) == ("r2", 3, 3)


def test_the_decision_about_a_member_is_over_all_nodes_and_says_which_are_outside() -> None:
    nodes = [node("out", "r1", cpu=1), node("in", "r2", cpu=8), node("tight", "r2", cpu="0.5")]  # type: ignore[arg-type]

    (first, _) = plan(IN_RACK, members(2), make_cluster(nodes)).seats

    assert first.choice is not None
    filtered = first.choice.filtered
    assert filtered.passed_names == ["in"]
    outside, small = filtered.refusal(0), filtered.refusal(2)
    assert outside is not None
    assert small is not None
    assert (outside.policy, outside.detail) == ("Gang", "the gang is in r2")
    assert small.reason.text == "Insufficient cpu"


def test_a_policy_that_fails_is_an_error_and_no_want_of_a_node() -> None:
    found = plan(IN_RACK, members(2), make_cluster([node("a", "r1")]), own(broken))

    assert found.misfit is not None
    assert "RuntimeError: oh" in found.misfit.error


def test_devices_that_one_member_gets_are_taken_for_the_next() -> None:
    (definition,) = load("SharedResource")
    policy = definition.make(args={"resource": "example.com/memory", "capacity": "example.com/gpus"})
    gpus = make_node("a", annotations={"example.com/gpus": "8,8"}, allocatable={"example.com/memory": 16})
    pods = [make_pod(f"m-{number}", requests={"example.com/memory": 5}) for number in range(3)]

    two, three = (plan(ANYWHERE, pods[:count], make_cluster([gpus]), policy) for count in (2, 3))

    assert two.fits
    assert len({str(seat.annotations) for seat in two.seats}) == 2
    assert not three.fits


def test_the_most_important_comes_first_then_the_largest_then_by_number() -> None:
    pods = [
        make_pod("p-10", cpu=1),
        make_pod("p-9", cpu=1),
        make_pod("large", cpu=2),
        make_pod("urgent", cpu=1, priority=5),
    ]

    assert [pod.name for pod in sorted(pods, key=member_order)] == ["urgent", "large", "p-9", "p-10"]


def test_names_of_digits_and_letters_can_be_compared() -> None:
    names = ["9", "a", "a9b", "a10b", "a", "10"]

    found = [pod.name for pod in sorted(map(make_pod, names), key=member_order)]

    assert found == ["9", "10", "a", "a", "a9b", "a10b"]


@settings(max_examples=60, deadline=None)
@given(
    racks=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    within=st.booleans(),
)
def test_a_plan_is_whole_or_nothing_in_one_rack_and_no_node_is_over_its_size(
    racks: list[list[int]], sizes: list[int], within: bool
) -> None:
    nodes = [
        node(f"{rack}-{number}", f"r{rack}", cpu=cpu)
        for rack, cpus in enumerate(racks)
        for number, cpu in enumerate(cpus)
    ]
    pods = sorted((make_pod(f"m-{n}", cpu=cpu) for n, cpu in enumerate(sizes)), key=member_order)
    cluster = make_cluster(nodes)

    found = plan(IN_RACK if within else ANYWHERE, pods, cluster)

    assert found.fits == (len(found.seats) == len(pods))
    after = cluster
    for seat in found.seats:
        after = after.placed(seat.pod, seat.node)
    assert (after.nodes["cpu.free"] >= 0).all()
    if within:
        assert len({seat.node.partition("-")[0] for seat in found.seats}) <= 1
    if not found.fits:
        alone = [cpus[0] for cpus in racks if len(cpus) == 1]
        assert all(cpu < sum(sizes) for cpu in alone), "one node with room for all is found"


@pytest.mark.parametrize("within", [pytest.param(True, id="in one rack"), pytest.param(False, id="anywhere")])
def test_a_gang_without_nodes_is_told_so(within: bool) -> None:
    found = plan(IN_RACK if within else ANYWHERE, members(1), make_cluster([]))

    assert found.misfit is not None
    assert found.misfit.sentence in ("no nodes available to schedule pods", "no node has the label rack.")


@pytest.mark.parametrize("within", [pytest.param(True, id="in one rack"), pytest.param(False, id="anywhere")])
def test_a_member_takes_no_more_work_in_a_large_gang_than_in_a_small_one(within: bool) -> None:
    """Counted in calls; members that keep away from each other are counted for each one."""
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "g"}}}
    terms = [{"weight": 1, "podAffinityTerm": apart}]
    spec = {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}}
    cache = Cache()
    for number in range(20):
        cache.put_node(node(f"n{number}", "r", cpu=64, **{"kubernetes.io/hostname": f"n{number}"}).object)

    def calls(size: int) -> float:
        pods = [make_pod(f"m-{n}", cpu=1, labels={"app": "g"}, spec=spec) for n in range(size)]
        with cProfile.Profile() as counted:
            assert plan(IN_RACK if within else ANYWHERE, pods, cache.snapshot()).fits
        return sum(entry.callcount for entry in counted.getstats()) / size

    # Once for what is kept, such as the columns of the table.
    calls(1)
    assert calls(400) < 1.2 * calls(50)


def test_a_rule_may_read_the_list_of_pods_late_in_a_large_gang() -> None:
    seen: list[int] = []

    @bayplan.filter
    def looks_at_the_last(pod, cluster, nodes):  # type: ignore[no-untyped-def]
        if pod.name == "m-1499":
            seen.append(len(cluster.pods))

    cluster = make_cluster([make_node("a", cpu=2000, pods=2000)])

    assert plan(ANYWHERE, members(1500), cluster, own(looks_at_the_last)).fits
    assert seen == [1499]


@pytest.mark.parametrize("within", [pytest.param(True, id="in one rack"), pytest.param(False, id="anywhere")])
def test_of_a_large_gang_the_first_decisions_are_kept(within: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision has numbers for every node: those about 1,000 members on 5,000 nodes took a gigabyte."""
    monkeypatch.setattr("bayplan.engine.gang._KEPT_ROWS", 4)
    cluster = make_cluster([node("a", "r"), node("b", "r")])

    found = plan(IN_RACK if within else ANYWHERE, members(5), cluster)

    assert found.fits
    assert [seat.choice is not None for seat in found.seats] == [True, True, False, False, False]
