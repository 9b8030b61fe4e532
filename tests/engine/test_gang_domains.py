"""Which racks a gang is tried in, in which order, and which are too small to be tried."""

import math

from bayplan import Label, Profile
from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice, choose
from bayplan.engine.gang_domains import Domain, read_domains, worth_trying
from bayplan.engine.guard import Attempt
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod

DEFAULT = Profile.default().policies
RACK = Label("rack")


def first_choice(cluster: Snapshot, *policies: Policy, cpu: float = 1) -> Choice:
    return choose(policies or DEFAULT, make_pod("first", cpu=cpu), cluster, now=Attempt().now)


def domains(cluster: Snapshot, count: int = 4, *policies: Policy, cpu: float = 1) -> list[Domain]:
    pods = [make_pod(f"m-{number}", cpu=cpu) for number in range(count)]
    return read_domains(cluster, RACK, pods, first_choice(cluster, *policies, cpu=cpu))


def test_how_much_of_a_rack_the_gang_fills_is_of_the_scarcest_resource() -> None:
    nodes = [make_node(f"n{number}", cpu=4, memory="1Gi", labels={"rack": "r"}) for number in range(2)]
    pods = [make_pod(f"m-{number}", cpu=1, memory="512Mi") for number in range(3)]
    cluster = make_cluster(nodes)

    (found,) = read_domains(cluster, RACK, pods, first_choice(cluster))

    assert found.fill == 0.75
    assert found.rows.tolist() == [0, 1]


def test_a_node_that_is_over_its_size_does_not_take_from_the_others() -> None:
    nodes = [make_node(name, cpu=4, labels={"rack": "r"}) for name in ("over", "free")]
    cluster = make_cluster(nodes, [make_pod("huge", cpu=40, node="over")])

    (found,) = domains(cluster, 4)

    assert found.fill == 1.0


def test_a_rack_without_a_resource_cannot_be_filled() -> None:
    cluster = make_cluster([make_node("a", labels={"rack": "r"})])
    pods = [make_pod("m", requests={"example.com/gpu": 1})]

    (found,) = read_domains(cluster, RACK, pods, first_choice(cluster))

    assert math.isinf(found.fill)


def test_of_racks_that_are_liked_equally_the_fullest_is_first() -> None:
    nodes = [
        make_node(f"{rack}-{number}", labels={"rack": rack})
        for rack in ("many", "few")
        for number in range(2)
    ]
    nodes += [make_node(f"many-{number}", labels={"rack": "many"}) for number in range(2, 5)]

    found = domains(make_cluster(nodes), 4)

    assert [domain.name for domain in found] == ["few", "many"]


def test_racks_that_are_too_small_are_not_tried() -> None:
    nodes = [make_node("small", cpu=3, labels={"rack": "s"}), make_node("large", cpu=4, labels={"rack": "l"})]

    found = domains(make_cluster(nodes), 4)

    assert [domain.name for domain in worth_trying(found, DEFAULT, 4)] == ["l"]


def test_where_all_are_too_small_the_one_with_the_most_room_is_tried_for_its_reasons() -> None:
    nodes = [make_node(f"n{cpu}", cpu=cpu, labels={"rack": f"r{cpu}"}) for cpu in (1, 3, 2)]

    found = domains(make_cluster(nodes), 4)

    assert [domain.name for domain in worth_trying(found, DEFAULT, 4)] == ["r3"]


def test_without_a_rule_about_resources_no_rack_is_too_small() -> None:
    policies = tuple(policy for policy in DEFAULT if policy.name != "NodeResourcesFit")
    cluster = make_cluster([make_node("small", cpu=1, labels={"rack": "s"})])

    found = domains(cluster, 4, *policies)

    assert [domain.name for domain in worth_trying(found, policies, 4)] == ["s"]


def test_a_rack_that_would_not_have_the_first_member_comes_last_and_is_not_tried() -> None:
    nodes = [
        make_node("cordoned", cpu=64, labels={"rack": "a"}, unschedulable=True),
        make_node("open", cpu=8, labels={"rack": "b"}),
    ]

    found = domains(make_cluster(nodes), 4)

    assert [domain.name for domain in found] == ["b", "a"]
    assert [domain.name for domain in worth_trying(found, DEFAULT, 4)] == ["b"]


def test_a_rack_in_shreds_is_not_tried_although_its_sum_would_do() -> None:
    shreds = [make_node(f"s{number}", cpu=1.5, labels={"rack": "shreds"}) for number in range(4)]
    cluster = make_cluster([*shreds, make_node("whole", cpu=5, labels={"rack": "whole"})])

    found = domains(cluster, 5)

    assert all(domain.fill <= 1 for domain in found)
    assert {domain.name: domain.holds for domain in found} == {"shreds": 4, "whole": 5}
    assert [domain.name for domain in worth_trying(found, DEFAULT, 5)] == ["whole"]
