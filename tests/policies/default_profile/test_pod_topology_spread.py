"""PodTopologySpread: rules and wishes to be spread evenly, own ones and those by default."""

import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.pod import Pod
from bayplan.policies.default_profile.pod_topology_spread import PodTopologySpread, PodTopologySpreadArgs
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.load import PodsUnknown
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy
from tests.policies.default_profile.random_pods import (
    HOSTNAME,
    KEYS,
    ZONE,
    Raw,
    World,
    pod,
    read,
    selector,
    selects,
    world,
)

UNEVEN = "node(s) didn't match pod topology spread constraints"
OUTSIDE = "node(s) didn't match pod topology spread constraints (missing required label)"
WEB = {"app": "web"}
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


def spread(key: str = "rack", skew: int = 1, action: str = HARD, **more: Any) -> Raw:
    """A spec with one constraint about web pods."""
    return {"topologySpreadConstraints": [constraint(key, skew, action, **more)]}


def constraint(key: str = "rack", skew: int = 1, action: str = HARD, **more: Any) -> Raw:
    """A constraint about web pods."""
    chosen = {"labelSelector": {"matchLabels": WEB}}
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": action, **chosen, **more}


def racks(*counts: int | None, label: str = "rack") -> Snapshot:
    """A node in each of racks 0, 1, ... with so many web pods; ``None`` is a node in no rack."""
    nodes = [
        make_node(_name(number, count), labels={label: str(number)} if count is not None else {})
        for number, count in enumerate(counts)
    ]
    pods = [
        make_pod(f"web-{number}-{one}", node=f"rack-{number}", labels=WEB)
        for number, count in enumerate(counts)
        for one in range(count or 0)
    ]
    return make_cluster(nodes, pods)


def _name(number: int, count: int | None) -> str:
    return "no-rack" if count is None else f"rack-{number}"


@pytest.mark.parametrize(
    ("spec", "counts", "passed"),
    [
        pytest.param(spread(), (1, 1, 2), [0, 1], id="one ahead of the emptiest is enough"),
        pytest.param(spread(skew=2), (1, 2, 3), [0, 1], id="two ahead would be three"),
        pytest.param(spread(minDomains=3), (1, 2, 1), [0, 2], id="enough domains"),
        pytest.param(spread(minDomains=4), (1, 1, 0), [2], id="too few domains: the emptiest is 0"),
        pytest.param(spread(minDomains=4), (1, 1, 1), [], id="too few domains, and none is empty"),
        pytest.param(spread(labelSelector=None), (5, 0), [0, 1], id="without a selector no pod counts"),
        pytest.param(spread(labelSelector={}), (5, 0), [0, 1], id="an empty selector counts no pod either"),
        pytest.param(spread(action=SOFT), (5, 0), [0, 1], id="a wish refuses nobody"),
    ],
)
def test_a_domain_that_is_ahead_is_refused(spec: Raw, counts: tuple[int, ...], passed: list[int]) -> None:
    result = run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spec), racks(*counts))

    assert result.passed == [f"rack-{number}" for number in passed]
    assert set(result.refused.values()) <= {UNEVEN}


def test_a_pod_that_does_not_count_itself_may_go_where_one_that_does_may_not() -> None:
    cluster = racks(1, 0)

    assert run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spread()), cluster).passed == ["rack-1"]
    assert len(run_policy(PodTopologySpread, make_pod(spec=spread()), cluster).passed) == 2


def test_a_node_without_the_label_is_refused_whatever_is_evicted() -> None:
    decision = run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spread()), racks(1, 0, None)).filtered

    said = [decision.refusal(row) for row in range(3)]
    assert [one and (one.reason.text, one.reason.preemptible) for one in said] == [
        (UNEVEN, True),
        None,
        (OUTSIDE, False),
    ]


def test_the_constraint_that_comes_first_gives_the_reason() -> None:
    cluster = racks(1, 0, 0)
    there, missing = constraint(), constraint("nobody-has-it")

    def said(*constraints: Raw) -> str:
        spec = {"topologySpreadConstraints": list(constraints)}
        return run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spec), cluster).refused["rack-0"]

    assert said(missing, there) == OUTSIDE
    # No node counts that is not in a domain of each, so nothing is ahead.
    assert said(there, missing) == OUTSIDE
    assert said(there, constraint("rack", 5)) == UNEVEN


def test_a_node_that_is_both_ahead_and_outside_is_told_what_comes_first() -> None:
    both = [make_node(name, labels={"rack": name, "row": "1"}) for name in ("full", "empty")]
    pods = [make_pod("web", labels=WEB, node="full")]
    cluster = make_cluster([*both, make_node("no-row", labels={"rack": "full"})], pods)

    def said(*keys: str) -> str:
        spec = {"topologySpreadConstraints": [constraint(key) for key in keys]}
        return run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spec), cluster).refused["no-row"]

    assert said("rack", "row") == UNEVEN
    assert said("row", "rack") == OUTSIDE


def test_pods_that_are_going_and_pods_of_other_namespaces_do_not_count() -> None:
    base = make_pod("going", labels=WEB, node="rack-0")
    assert base.metadata is not None
    metadata = msgspec.structs.replace(base.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    going = msgspec.structs.replace(base, metadata=metadata)
    other = make_pod("other", namespace="other", labels=WEB, node="rack-0")
    nodes = list(racks(0, 0).nodes)

    result = run_policy(
        PodTopologySpread, make_pod(labels=WEB, spec=spread()), make_cluster(nodes, [going, other])
    )

    assert len(result.passed) == 2


def test_with_match_label_keys_only_pods_of_the_same_revision_count() -> None:
    nodes = list(racks(0, 0).nodes)
    cluster = make_cluster(nodes, [make_pod("old", labels={**WEB, "hash": "1"}, node="rack-0")])
    spec = spread(matchLabelKeys=["hash", "not-there"])

    def passed(revision: str) -> int:
        return len(
            run_policy(
                PodTopologySpread, make_pod(labels={**WEB, "hash": revision}, spec=spec), cluster
            ).passed
        )

    assert passed("1") == 1
    assert passed("2") == 2


ASKED = {"nodeTaintsPolicy": "Honor"}


@pytest.mark.parametrize(
    ("more", "effect", "tolerations", "passed"),
    [
        pytest.param({}, "NoSchedule", [], False, id="taints do not matter unless asked"),
        pytest.param(ASKED, "NoSchedule", [], True, id="a tainted node is left out if asked"),
        pytest.param(ASKED, "NoExecute", [], True, id="one that evicts too"),
        pytest.param(ASKED, "PreferNoSchedule", [], False, id="but not one that only warns"),
        pytest.param(ASKED, "NoSchedule", [{"operator": "Exists"}], False, id="nor one that is tolerated"),
    ],
)
def test_domains_that_the_pod_cannot_use_for_their_taints(
    more: Raw, effect: str, tolerations: list[Raw], passed: bool
) -> None:
    full = make_node("full", labels={"rack": "0"})
    empty = make_node("empty", labels={"rack": "1"}, taints=[{"key": "x", "effect": effect}])
    cluster = make_cluster([full, empty], [make_pod("web", labels=WEB, node="full")])
    asking = make_pod(labels=WEB, spec=spread(**more), tolerations=tolerations)

    assert ("full" in run_policy(PodTopologySpread, asking, cluster).passed) is passed


def test_domains_that_the_pod_cannot_use_for_its_node_selector_count_only_if_asked() -> None:
    cluster = racks(1, 0)

    def passed(**more: Any) -> bool:
        spec = {**spread(**more), "nodeSelector": {"rack": "0"}}
        return "rack-0" in run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spec), cluster).passed

    assert passed()
    assert passed(nodeAffinityPolicy="Honor")
    assert not passed(nodeAffinityPolicy="Ignore")


def test_wishes_prefer_domains_with_fewer_pods() -> None:
    result = run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spread(action=SOFT)), racks(0, 1, 4))

    # Three domains weigh log(5) a pod: 0, 2 and 6, turned about.
    assert list(result.scores.values()) == [100, 66, 0]


def test_a_larger_skew_makes_the_difference_smaller() -> None:
    spec = spread(skew=5, action=SOFT)

    result = run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spec), racks(0, 1, 4))

    assert list(result.scores.values()) == [100, 80, 40]


def test_a_node_outside_of_a_domain_is_worst_and_all_alike_are_best() -> None:
    asking = make_pod(labels=WEB, spec=spread(action=SOFT))

    assert list(run_policy(PodTopologySpread, asking, racks(0, 0, None)).scores.values()) == [100, 100, 0]
    assert list(run_policy(PodTopologySpread, asking, racks(None)).scores.values()) == [0]


def test_nodes_without_a_hostname_are_not_counted_among_the_hosts() -> None:
    cluster = racks(0, 1, 4, None, label=HOSTNAME)

    result = run_policy(PodTopologySpread, make_pod(labels=WEB, spec=spread(HOSTNAME, 1, SOFT)), cluster)

    # Three hosts weigh log(5) a pod: 0, 2 and 6; four would make it 0, 2 and 7.
    assert list(result.scores.values()) == [100, 66, 0, 0]


def test_a_pod_without_wishes_gets_no_opinion() -> None:
    assert np.isnan(_evenly(make_pod(labels=WEB), racks(0, 4)))
    assert np.isnan(_evenly(make_pod(labels=WEB, spec=spread()), racks(0, 4)))


def owned(kind: str, version: str = "apps/v1") -> Pod:
    """A web pod that a controller called ``web`` made."""
    reference = {"apiVersion": version, "kind": kind, "name": "web", "uid": "u", "controller": True}
    metadata = {"name": "web-new", "namespace": "default", "labels": WEB, "ownerReferences": [reference]}
    return msgspec.convert({"metadata": metadata}, Pod)


SERVICE: Raw = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": WEB}}
SET: Raw = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"selector": {"matchLabels": WEB}}}


@pytest.mark.parametrize(
    ("workload", "asking", "spread_out"),
    [
        pytest.param(("Service", SERVICE), make_pod(labels=WEB), True, id="a service that selects it"),
        pytest.param(
            ("Service", SERVICE), make_pod(labels={"app": "db"}), False, id="a service that does not"
        ),
        pytest.param(
            ("Service", {**SERVICE, "spec": {}}), make_pod(labels=WEB), False, id="one without pods"
        ),
        pytest.param(("ReplicaSet", SET), owned("ReplicaSet"), True, id="its ReplicaSet"),
        pytest.param(("StatefulSet", SET), owned("StatefulSet"), True, id="its StatefulSet"),
        pytest.param(("StatefulSet", SET), owned("StatefulSet", "kruise/v1"), False, id="another API's"),
        pytest.param(
            ("ReplicaSet", SET), make_pod(labels=WEB), False, id="a ReplicaSet that did not make it"
        ),
        pytest.param(("ReplicaSet", {**SET, "spec": {}}), owned("ReplicaSet"), False, id="no selector"),
        pytest.param(
            ("ReplicationController", SERVICE),
            owned("ReplicationController", "v1"),
            True,
            id="its ReplicationController",
        ),
    ],
)
def test_pods_that_belong_together_are_spread_by_default(
    workload: tuple[str, Raw], asking: Pod, spread_out: bool
) -> None:
    dice = random.Random(0)
    nodes = [{"metadata": {"name": name, "labels": {HOSTNAME: name}}} for name in ("full", "empty")]
    there = World(nodes, [(_web(number), "full") for number in range(3)], {}, [workload])

    scores = _evenly(asking, there.snapshot(dice))

    # log(4) x 3 + 2 is 6 and 2: nodes without a zone are spread over their hosts all the same.
    assert np.atleast_1d(scores).tolist() == [33, 100] if spread_out else np.isnan(scores)


def _web(number: int) -> Raw:
    return {"metadata": {"name": f"w-{number}", "uid": f"w-{number}", "labels": WEB}, "spec": {}}


def test_own_constraints_of_any_kind_take_the_place_of_the_defaults() -> None:
    dice = random.Random(0)
    nodes = [{"metadata": {"name": name, "labels": {HOSTNAME: name}}} for name in ("full", "empty")]
    there = World(nodes, [(_web(0), "full")], {}, [("Service", SERVICE)])

    assert np.isnan(_evenly(make_pod(labels=WEB, spec=spread(HOSTNAME, 9)), there.snapshot(dice)))


def test_a_list_of_defaults_is_a_rule_where_it_says_so() -> None:
    rule = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": HARD}
    args = {"defaultingType": "List", "defaultConstraints": [rule]}
    nodes = [{"metadata": {"name": name, "labels": {HOSTNAME: name}}} for name in ("full", "empty")]
    cluster = World(nodes, [(_web(0), "full")], {}, [("Service", SERVICE)]).snapshot(random.Random(0))

    result = run_policy(PodTopologySpread, make_pod(labels=WEB), cluster, args=args)

    assert result.passed == ["empty"]
    assert np.isnan(_evenly(make_pod(labels=WEB), cluster, args))
    assert run_policy(PodTopologySpread, make_pod(labels={"app": "db"}), cluster, args=args).passed == [
        "full",
        "empty",
    ]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param(
            {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": SOFT}]},
            "defaultingType: List",
            id="a list with the system's defaults",
        ),
        pytest.param(
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": SOFT}] * 2,
            },
            "rack with ScheduleAnyway is there twice",
            id="one twice",
        ),
        pytest.param(
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 0, "topologyKey": "rack", "whenUnsatisfiable": SOFT}],
            },
            "maxSkew",
            id="no skew at all",
        ),
    ],
)
def test_defaults_that_cannot_be_meant_are_told(args: Raw, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(args, PodTopologySpreadArgs)


def test_two_pods_at_once_do_not_both_take_the_last_place() -> None:
    cluster = racks(0, 0)
    first = bind(PodTopologySpread, make_pod("first", labels=WEB, spec=spread()), "rack-0", cluster)
    second = make_pod("second", labels=WEB, spec=spread())

    assert bind(PodTopologySpread, second, "rack-0", first.cluster).refusal
    assert bind(PodTopologySpread, second, "rack-1", first.cluster).refusal == ""


def test_it_fails_where_pods_are_not_known() -> None:
    cluster = Snapshot.build(racks(0).nodes.objects, None)

    with pytest.raises(PodsUnknown):
        PodTopologySpread(PodTopologySpreadArgs()).even(make_pod(), cluster.nodes, cluster)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_nodes_are_refused_as_if_every_pod_had_been_counted(seed: int) -> None:
    dice = random.Random(seed)
    there, asking, rows, cluster = _case(dice)
    policy = PodTopologySpread(PodTopologySpreadArgs())

    verdict = policy.even(read(asking), cluster.nodes.take(rows), cluster)

    said = [None] * len(rows) if verdict is None else [verdict.reason(row) for row in range(len(rows))]
    hard = [one for one in _constraints(asking) if one["whenUnsatisfiable"] == HARD]
    expected = [_why_not(asking, there.nodes[row], hard, there) for row in rows.tolist()]
    assert [one and one.text for one in said] == expected


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["own", "system", "list"]))
def test_nodes_are_scored_as_if_every_pod_had_been_counted(seed: int, whose: str) -> None:
    dice = random.Random(seed)
    there, asking, rows, cluster = _case(dice, own=whose == "own", workloads=True)
    args: Raw = {}
    if whose == "list":
        some = [_constraint(dice, SOFT) for _ in range(dice.randint(1, 2))]
        kept = {one["topologyKey"]: {k: v for k, v in one.items() if k in DEFAULT_KEYS} for one in some}
        args = {"defaultingType": "List", "defaultConstraints": list(kept.values())}

    scores = _evenly(read(asking), cluster, args, rows)

    soft = [one for one in _constraints(asking) if one["whenUnsatisfiable"] == SOFT]
    if whose != "own":
        defaults = args.get("defaultConstraints") or [
            {"topologyKey": HOSTNAME, "maxSkew": 3},
            {"topologyKey": ZONE, "maxSkew": 5},
        ]
        together = _together(asking, there)
        soft = [{**one, "labelSelector": together} for one in defaults] if together != {} else []
    nodes = [there.nodes[row] for row in rows.tolist()]
    expected = _scores(asking, nodes, soft, there, need_all=whose != "system")
    assert np.isnan(scores) if expected is None else scores.tolist() == expected


DEFAULT_KEYS = ("topologyKey", "maxSkew", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy")


def _evenly(pod: Pod, cluster: Snapshot, args: Raw | None = None, rows: Any = None) -> Any:
    settled = msgspec.convert(args or {}, PodTopologySpreadArgs)
    nodes = cluster.nodes if rows is None else cluster.nodes.take(rows)
    return PodTopologySpread(settled).evenly(pod, nodes, cluster)


def _case(
    dice: random.Random, *, own: bool = True, workloads: bool = False
) -> tuple[World, Raw, Any, Snapshot]:
    """A cluster, a pod that asks, the rows it asks about, and the snapshot."""
    there = world(dice)
    asking = pod(dice, "asking")
    if own:
        some = [_constraint(dice, dice.choice((HARD, SOFT))) for _ in range(dice.randint(1, 3))]
        asking["spec"]["topologySpreadConstraints"] = some
    if dice.random() < 0.3:
        asking["spec"]["tolerations"] = [{"operator": "Exists"}]
    if dice.random() < 0.3:
        asking["spec"]["nodeSelector"] = {"rack": dice.choice("12")}
    if dice.random() < 0.3:
        term = {"matchExpressions": [{"key": ZONE, "operator": dice.choice(("Exists", "DoesNotExist"))}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        asking["spec"]["affinity"]["nodeAffinity"] = required
    if workloads:
        there.workloads += _workloads(dice, asking)
    count = len(there.nodes)
    rows = np.array(sorted(dice.sample(range(count), dice.randint(1, count))), dtype=np.intp)
    return there, asking, rows, there.snapshot(dice)


def _workloads(dice: random.Random, asking: Raw) -> list[tuple[str, Raw]]:
    place = {"namespace": asking["metadata"]["namespace"]}
    services = [
        (
            "Service",
            {"metadata": {"name": f"s-{one}", **place}, "spec": {"selector": {key: dice.choice("ab")}}},
        )
        for one, key in enumerate(("app", "tier"))
        if dice.random() < 0.6
    ]
    if dice.random() < 0.5:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}
        asking["metadata"]["ownerReferences"] = [owner]
        chosen = selector(dice, ("app", "tier"))
        services.append(("ReplicaSet", {"metadata": {"name": "rs", **place}, "spec": {"selector": chosen}}))
    return services


def _constraint(dice: random.Random, action: str) -> Raw:
    made: Raw = {
        "topologyKey": dice.choice(KEYS[:3] if dice.random() < 0.95 else KEYS),
        "maxSkew": dice.randint(1, 3),
        "whenUnsatisfiable": action,
    }
    if dice.random() < 0.9:
        made["labelSelector"] = selector(dice, ("app", "tier"))
    if dice.random() < 0.3 and action == HARD:
        made["minDomains"] = dice.randint(1, 4)
    if dice.random() < 0.3:
        made["matchLabelKeys"] = [dice.choice(("app", "tier"))]
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if dice.random() < 0.4:
            made[policy] = dice.choice(("Honor", "Ignore"))
    return made


def _constraints(asking: Raw) -> list[Raw]:
    found: list[Raw] = asking["spec"].get("topologySpreadConstraints", [])
    return found


def _together(asking: Raw, there: World) -> Raw:
    """What the Services and the ReplicaSet of a pod select, as one selector."""
    labels: dict[str, str] = {}
    expressions: list[Raw] = []
    for kind, raw in there.workloads:
        chosen = raw["spec"]["selector"]
        if kind == "Service" and all(asking["metadata"]["labels"].get(k) == v for k, v in chosen.items()):
            labels.update(chosen)
        elif kind == "ReplicaSet":
            same = chosen.get("matchLabels", {})
            expressions += [{"key": k, "operator": "In", "values": [v]} for k, v in same.items()]
            expressions += chosen.get("matchExpressions", [])
    return {"matchLabels": labels, "matchExpressions": expressions} if labels or expressions else {}


def _meant(one: Raw, asking: Raw) -> Raw | None:
    """The constraint's selector with what ``matchLabelKeys`` adds."""
    chosen = one.get("labelSelector")
    if chosen is None:
        return None
    mine = asking["metadata"]["labels"]
    added = [
        {"key": key, "operator": "In", "values": [mine[key]]}
        for key in one.get("matchLabelKeys", [])
        if key in mine
    ]
    return {**chosen, "matchExpressions": [*chosen.get("matchExpressions", []), *added]}


def _count(one: Raw, asking: Raw, node: Raw, there: World) -> int:
    """The pods on a node that a constraint counts."""
    chosen = _meant(one, asking)
    if chosen is not None and not chosen.get("matchLabels") and not chosen.get("matchExpressions"):
        return 0
    return sum(
        selects(chosen, other["metadata"]["labels"])
        and other["metadata"]["namespace"] == asking["metadata"]["namespace"]
        and "deletionTimestamp" not in other["metadata"]
        for other in there.on(node["metadata"]["name"])
    )


def _usable(one: Raw, asking: Raw, node: Raw) -> bool:
    """Whether a constraint takes the node into account."""
    labels = node["metadata"]["labels"]
    if one.get("nodeAffinityPolicy", "Honor") == "Honor":
        if any(labels.get(key) != value for key, value in asking["spec"].get("nodeSelector", {}).items()):
            return False
        required = asking["spec"]["affinity"].get("nodeAffinity")
        if required:
            terms = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            if (ZONE in labels) != (terms[0]["matchExpressions"][0]["operator"] == "Exists"):
                return False
    if one.get("nodeTaintsPolicy", "Ignore") == "Honor" and not asking["spec"].get("tolerations"):
        return all(taint["effect"] == "PreferNoSchedule" for taint in node["spec"]["taints"])
    return True


def _has_all(node: Raw, constraints: list[Raw]) -> bool:
    return all(one["topologyKey"] in node["metadata"]["labels"] for one in constraints)


def _why_not(asking: Raw, node: Raw, hard: list[Raw], there: World) -> str | None:
    for one in hard:
        key = one["topologyKey"]
        if key not in node["metadata"]["labels"]:
            return OUTSIDE
        counts: dict[str, int] = {}
        for other in there.nodes:
            if _has_all(other, hard) and _usable(one, asking, other):
                domain = other["metadata"]["labels"][key]
                counts[domain] = counts.get(domain, 0) + _count(one, asking, other, there)
        lowest = min(counts.values()) if counts and len(counts) >= one.get("minDomains", 1) else 0
        itself = int(selects(_meant(one, asking), asking["metadata"]["labels"]))
        if counts.get(node["metadata"]["labels"][key], 0) + itself - lowest > one["maxSkew"]:
            return UNEVEN
    return None


def _scores(
    asking: Raw, nodes: list[Raw], soft: list[Raw], there: World, *, need_all: bool
) -> list[int] | None:
    if not soft:
        return None
    scored = [node for node in nodes if not need_all or _has_all(node, soft)]
    raw = {
        node["metadata"]["name"]: _raw(asking, node, scored, soft, there, need_all=need_all)
        for node in scored
    }
    lowest, highest = min(raw.values(), default=0), max(raw.values(), default=0)
    found = []
    for node in nodes:
        one = raw.get(node["metadata"]["name"])
        if one is None:
            found.append(0)
        else:
            found.append(100 if highest == 0 else 100 * (highest + lowest - one) // highest)
    return found


def _raw(asking: Raw, node: Raw, scored: list[Raw], soft: list[Raw], there: World, *, need_all: bool) -> int:
    total = 0.0
    for one in soft:
        key = one["topologyKey"]
        if key not in node["metadata"]["labels"]:
            continue
        if key == HOSTNAME:
            size, count = len(scored), _count(one, asking, node, there)
        else:
            size = len({other["metadata"]["labels"].get(key, "") for other in scored})
            count = sum(
                _count(one, asking, other, there)
                for other in there.nodes
                if (not need_all or _has_all(other, soft))
                and _usable(one, asking, other)
                and other["metadata"]["labels"].get(key, "") == node["metadata"]["labels"][key]
            )
        total += count * math.log(size + 2) + (one["maxSkew"] - 1)
    return math.floor(total + 0.5)
