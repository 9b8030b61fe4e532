"""InterPodAffinity: required and preferred terms, of the pod and of those that are placed."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.kube.pod import Pod
from bayplan.policies.default_profile.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.load import PodsUnknown
from bayplan.snapshot.objects import Objects
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy
from tests.policies.default_profile.random_pods import Raw, World, namespace, pod, read, selects, world

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB, DB = {"app": "web"}, {"app": "db"}


def near(labels: dict[str, str], key: str = "rack", **more: Any) -> Raw:
    """A term about pods with these labels."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def affine(kind: str = "podAffinity", *terms: Raw, wishes: tuple[tuple[int, Raw], ...] = ()) -> Raw:
    """A spec with these terms."""
    wanted = [{"weight": weight, "podAffinityTerm": term} for weight, term in wishes]
    return {"affinity": {kind: {REQUIRED: list(terms), PREFERRED: wanted}}}


def racks(*pods: Pod) -> Snapshot:
    """Two nodes in rack 1, one in rack 2, one in none."""
    return make_cluster(
        [
            make_node("first-of-1", labels={"rack": "1"}),
            make_node("second-of-1", labels={"rack": "1"}),
            make_node("rack-2", labels={"rack": "2"}),
            make_node("no-rack"),
        ],
        pods,
    )


def test_a_pod_goes_where_the_pods_are_that_it_wants_near() -> None:
    cluster = racks(make_pod("db", labels=DB, node="first-of-1"))

    result = run_policy(InterPodAffinity, make_pod(spec=affine("podAffinity", near(DB))), cluster)

    assert result.passed == ["first-of-1", "second-of-1"]
    assert result.refused == {"rack-2": AFFINITY, "no-rack": AFFINITY}


def test_one_pod_must_satisfy_all_terms_and_not_one_pod_each() -> None:
    cluster = racks(
        make_pod("db", labels=DB, node="first-of-1"),
        make_pod("fast", labels={"disk": "ssd"}, node="first-of-1"),
        make_pod("fast-db", labels={**DB, "disk": "ssd"}, node="rack-2"),
    )
    wanted = affine("podAffinity", near(DB), near({"disk": "ssd"}))

    assert run_policy(InterPodAffinity, make_pod(spec=wanted), cluster).passed == ["rack-2"]


def test_the_first_of_a_group_goes_anywhere_that_has_the_label() -> None:
    wanted = affine("podAffinity", near(WEB))

    assert run_policy(InterPodAffinity, make_pod(labels=WEB, spec=wanted), racks()).passed == [
        "first-of-1",
        "second-of-1",
        "rack-2",
    ]
    assert run_policy(InterPodAffinity, make_pod(labels=DB, spec=wanted), racks()).passed == []


def test_a_group_that_has_begun_outside_of_every_domain_has_not_begun() -> None:
    cluster = racks(make_pod("web", labels=WEB, node="no-rack"))
    pod = make_pod(labels=WEB, spec=affine("podAffinity", near(WEB)))

    assert "rack-2" in run_policy(InterPodAffinity, pod, cluster).passed


@pytest.mark.parametrize(
    ("term", "passed"),
    [
        pytest.param(near(DB), ["rack-2", "no-rack"], id="the whole rack is refused, and no node outside"),
        pytest.param(near(DB, "kubernetes.io/hostname"), 4, id="a label that no node has refuses nobody"),
        pytest.param(near(DB, namespaces=["elsewhere"]), 4, id="pods of other namespaces do not count"),
        pytest.param({"topologyKey": "rack"}, 4, id="without a selector it means no pod"),
        pytest.param(
            {"topologyKey": "rack", "labelSelector": {}},
            ["rack-2", "no-rack"],
            id="an empty selector means every pod of the namespace",
        ),
    ],
)
def test_a_pod_stays_apart_from_pods_that_it_does_not_want(term: Raw, passed: list[str] | int) -> None:
    cluster = racks(make_pod("db", labels=DB, node="first-of-1"))

    result = run_policy(InterPodAffinity, make_pod(spec=affine("podAntiAffinity", term)), cluster)

    assert result.passed == passed or len(result.passed) == passed
    assert set(result.refused.values()) <= {ANTI_AFFINITY}


def test_placed_pods_keep_others_away_too() -> None:
    guarded = make_pod("db", labels=DB, node="first-of-1", spec=affine("podAntiAffinity", near(WEB)))

    result = run_policy(InterPodAffinity, make_pod(labels=WEB), racks(guarded))

    assert result.refused == {"first-of-1": EXISTING, "second-of-1": EXISTING}
    assert run_policy(InterPodAffinity, make_pod(labels=DB), racks(guarded)).refused == {}


def test_only_eviction_can_help_against_anti_affinity() -> None:
    cluster = racks(
        make_pod("db", labels=DB, node="first-of-1", spec=affine("podAntiAffinity", near(WEB))),
        make_pod("cache", labels={"app": "cache"}, node="rack-2"),
    )
    spec = affine("podAntiAffinity", near({"app": "cache"}))
    spec["affinity"]["podAffinity"] = {REQUIRED: [{"topologyKey": "rack", "labelSelector": {}}]}

    decision = run_policy(InterPodAffinity, make_pod(labels=WEB, spec=spec), cluster).filtered

    said = [decision.refusal(row) for row in range(4)]
    assert [(one.reason.text, one.reason.preemptible) for one in said if one] == [
        (EXISTING, True),
        (EXISTING, True),
        (ANTI_AFFINITY, True),
        (AFFINITY, False),
    ]


NAMESPACES = {"blue": {"team": "blue"}, "red": {"team": "red"}, "default": {}}


@pytest.mark.parametrize(
    ("term", "meant"),
    [
        pytest.param({}, {"default"}, id="nothing said is the pod's own"),
        pytest.param({"namespaces": ["blue"]}, {"blue"}, id="named ones"),
        pytest.param({"namespaceSelector": {}}, {"blue", "red", "default"}, id="an empty selector is all"),
        pytest.param({"namespaceSelector": {"matchLabels": {"team": "red"}}}, {"red"}, id="by their labels"),
        pytest.param(
            {"namespaces": ["default"], "namespaceSelector": {"matchLabels": {"team": "red"}}},
            {"default", "red"},
            id="either by name or by label",
        ),
    ],
)
def test_the_namespaces_of_a_term(term: Raw, meant: set[str]) -> None:
    places = [make_node(name, labels={"rack": name}) for name in NAMESPACES]
    pods = [make_pod(name, namespace=name, labels=DB, node=name) for name in NAMESPACES]
    cluster = _with_namespaces(make_cluster(places, pods))
    wanted = affine("podAntiAffinity", near(DB, **term))

    # A pod's own terms, and those of a placed pod, are looked up in different ways.
    result = run_policy(InterPodAffinity, make_pod(spec=wanted), cluster)
    apart = make_pod("apart", node="blue", spec=wanted)
    placed = _with_namespaces(make_cluster(places, [apart]))
    refused = {
        name
        for name in NAMESPACES
        if run_policy(InterPodAffinity, make_pod(namespace=name, labels=DB), placed).refused
    }

    assert set(result.refused) == meant
    assert refused == meant


def test_a_term_for_namespaces_without_a_label_means_all_as_kube_scheduler_has_it() -> None:
    cluster = _with_namespaces(
        make_cluster(
            [make_node("blue", labels={"rack": "blue"})],
            [make_pod("db", namespace="blue", labels=DB, node="blue")],
        )
    )
    absent = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    wanted = affine("podAntiAffinity", near(DB, namespaceSelector=absent))

    assert run_policy(InterPodAffinity, make_pod(spec=wanted), cluster).passed == []


@pytest.mark.parametrize(
    ("kind", "scores"),
    [
        pytest.param("podAffinity", [100, 100, 25, 0], id="near is better"),
        pytest.param("podAntiAffinity", [0, 0, 75, 100], id="apart is better"),
    ],
)
def test_preferred_terms_of_the_pod(kind: str, scores: list[int]) -> None:
    cluster = racks(
        *(make_pod(f"db-{number}", labels=DB, node="first-of-1") for number in range(2)),
        *(make_pod(f"web-{number}", labels=WEB, node="rack-2") for number in range(1)),
    )
    wished = affine(kind, wishes=((60, near(DB)), (30, near(WEB))))

    result = run_policy(InterPodAffinity, make_pod(spec=wished), cluster)

    assert list(result.scores.values()) == scores


def test_preferred_terms_and_required_affinity_of_placed_pods() -> None:
    cluster = racks(
        make_pod("wisher", node="rack-2", spec=affine("podAffinity", wishes=((1, near(WEB)),))),
        make_pod("follower", node="first-of-1", spec=affine("podAffinity", near(WEB))),
    )
    pod = make_pod(labels=WEB)

    assert list(run_policy(InterPodAffinity, pod, cluster).scores.values()) == [100, 100, 100, 0]
    heavy = run_policy(InterPodAffinity, pod, cluster, args={"hardPodAffinityWeight": 3})
    assert list(heavy.scores.values()) == [100, 100, 33, 0]
    off = run_policy(InterPodAffinity, pod, cluster, args={"hardPodAffinityWeight": 0})
    assert list(off.scores.values()) == [0, 0, 100, 0]


def test_what_placed_pods_prefer_can_be_ignored_for_pods_without_a_wish() -> None:
    cluster = racks(make_pod("wisher", node="rack-2", spec=affine("podAffinity", wishes=((1, near(WEB)),))))
    args = {"ignorePreferredTermsOfExistingPods": True}
    wisher = make_pod(labels=WEB, spec=affine("podAffinity", wishes=((1, near({"app": "none"})),)))

    assert np.isnan(_wishes(make_pod(labels=WEB), cluster, args)).all()
    assert list(_wishes(wisher, cluster, args)) == [0, 0, 100, 0]


def test_wishes_that_cancel_each_other_out_are_an_opinion_and_no_wish_is_none() -> None:
    cluster = racks(make_pod("db", labels=DB, node="rack-2"))
    both = affine("podAffinity", wishes=((7, near(DB)),))
    both["affinity"]["podAntiAffinity"] = {PREFERRED: [{"weight": 7, "podAffinityTerm": near(DB)}]}

    assert list(_wishes(make_pod(spec=both), cluster)) == [0, 0, 0, 0]
    assert np.isnan(_wishes(make_pod(), cluster)).all()
    assert np.isnan(_wishes(make_pod(spec=both), racks(make_pod("db", labels=DB, node="no-rack")))).all()


def test_two_that_want_to_be_apart_are_not_bound_to_one_node() -> None:
    lonely = affine("podAntiAffinity", near(WEB))
    first = bind(InterPodAffinity, make_pod("first", labels=WEB, spec=lonely), "first-of-1", racks())
    second = make_pod("second", labels=WEB, spec=lonely)

    assert first.refusal == ""
    assert ANTI_AFFINITY in bind(InterPodAffinity, second, "second-of-1", first.cluster).refusal
    assert bind(InterPodAffinity, second, "rack-2", first.cluster).refusal == ""


def test_a_what_if_changes_nothing_for_the_cluster_that_it_was_made_of() -> None:
    lonely = affine("podAntiAffinity", near(WEB))
    cluster = racks(make_pod("first", labels=WEB, node="first-of-1", spec=lonely))
    asking = make_pod(labels=WEB)
    # Terms are the same and the labels are not, so that it is of a kind that nobody has seen.
    later = cluster.placed(make_pod("second", labels={**WEB, "new": "kind"}, spec=lonely), "rack-2")

    assert run_policy(InterPodAffinity, asking, later).passed == ["no-rack"]
    assert run_policy(InterPodAffinity, asking, cluster).passed == ["rack-2", "no-rack"]


def test_it_fails_where_pods_are_not_known() -> None:
    nodes = racks().nodes.objects
    cluster = Snapshot.build(nodes, None)

    with pytest.raises(PodsUnknown):
        InterPodAffinity(InterPodAffinityArgs()).near_and_apart(make_pod(), cluster.nodes, cluster)


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_nodes_are_refused_as_if_every_pod_had_been_looked_at(seed: int) -> None:
    dice = random.Random(seed)
    there = world(dice)
    asking = pod(dice, "asking")
    cluster = there.snapshot(dice)
    rows = _some_rows(dice, there)
    policy = InterPodAffinity(InterPodAffinityArgs())

    verdict = policy.near_and_apart(read(asking), cluster.nodes.take(rows), cluster)

    said = [None] * len(rows) if verdict is None else [verdict.reason(row) for row in range(len(rows))]
    expected = [_why_not(asking, there.nodes[row], there) for row in rows.tolist()]
    assert [one and one.text for one in said] == expected


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_nodes_are_scored_as_if_every_pod_had_been_looked_at(seed: int) -> None:
    dice = random.Random(seed)
    there = world(dice)
    asking = pod(dice, "asking")
    cluster = there.snapshot(dice)
    rows = _some_rows(dice, there)
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=dice.choice((0, 1, 40)),
        ignore_preferred_terms_of_existing_pods=dice.random() < 0.2,
    )

    scores = InterPodAffinity(args).wishes(read(asking), cluster.nodes.take(rows), cluster)

    expected = _scores(asking, [there.nodes[row] for row in rows.tolist()], there, args)
    if expected is None:
        assert np.isnan(scores)
    else:
        assert np.asarray(scores).tolist() == expected


def _wishes(pod: Pod, cluster: Snapshot, args: dict[str, Any] | None = None) -> Any:
    settled = msgspec.convert(args or {}, InterPodAffinityArgs)
    return np.atleast_1d(InterPodAffinity(settled).wishes(pod, cluster.nodes, cluster))


def _with_namespaces(cluster: Snapshot) -> Snapshot:
    found = [("Namespace", namespace(name, labels)) for name, labels in NAMESPACES.items()]
    return Snapshot(cluster.nodes, cluster.pods, objects=Objects.of(found))


def _some_rows(dice: random.Random, there: World) -> Any:
    count = len(there.nodes)
    return np.array(sorted(dice.sample(range(count), dice.randint(1, count))), dtype=np.intp)


def _terms(owner: Raw, kind: str, strength: str) -> list[Raw]:
    found: list[Raw] = owner["spec"]["affinity"].get(kind, {}).get(strength, [])
    return found


def _own_means(term: Raw, owner: Raw, other: Raw, there: World) -> bool:
    """Whether a term of the pod that is to be placed means another pod."""
    chooser, named = term.get("namespaceSelector"), term.get("namespaces") or []
    place = other["metadata"]["namespace"]
    if chooser is None and not named:
        inside = place == owner["metadata"]["namespace"]
    else:
        known = place in there.namespaces and selects(chooser, there.namespaces[place])
        inside = place in named or known or selects(chooser, {})
    return inside and selects(term.get("labelSelector"), other["metadata"]["labels"])


def _placed_means(term: Raw, owner: Raw, other: Raw, there: World) -> bool:
    """Whether a term of a placed pod means the one that is to be placed."""
    chooser, named = term.get("namespaceSelector"), term.get("namespaces") or []
    place = other["metadata"]["namespace"]
    if chooser is None and not named:
        inside = place == owner["metadata"]["namespace"]
    else:
        inside = place in named or selects(chooser, there.namespaces.get(place, {}))
    return inside and selects(term.get("labelSelector"), other["metadata"]["labels"])


def _neighbours(node: Raw, key: str, there: World) -> Iterator[Raw]:
    """The pods in the node's domain."""
    for other in there.nodes:
        labels = other["metadata"]["labels"]
        if key in labels and labels[key] == node["metadata"]["labels"].get(key):
            yield from there.on(other["metadata"]["name"])


def _why_not(asking: Raw, node: Raw, there: World) -> str | None:
    wanted = _terms(asking, "podAffinity", REQUIRED)
    if wanted and not _is_near(wanted, asking, node, there):
        return AFFINITY
    for term in _terms(asking, "podAntiAffinity", REQUIRED):
        for other in _neighbours(node, term["topologyKey"], there):
            if _own_means(term, asking, other, there):
                return ANTI_AFFINITY
    for key in node["metadata"]["labels"]:
        for other in _neighbours(node, key, there):
            for term in _terms(other, "podAntiAffinity", REQUIRED):
                if term["topologyKey"] == key and _placed_means(term, other, asking, there):
                    return EXISTING
    return None


def _is_near(wanted: list[Raw], asking: Raw, node: Raw, there: World) -> bool:
    if any(term["topologyKey"] not in node["metadata"]["labels"] for term in wanted):
        return False

    def means(other: Raw) -> bool:
        return all(_own_means(term, asking, other, there) for term in wanted)

    if all(any(map(means, _neighbours(node, term["topologyKey"], there))) for term in wanted):
        return True
    begun = any(
        term["topologyKey"] in other["metadata"]["labels"] and means(one)
        for other in there.nodes
        for one in there.on(other["metadata"]["name"])
        for term in wanted
    )
    return not begun and means(asking)


def _scores(asking: Raw, nodes: list[Raw], there: World, args: InterPodAffinityArgs) -> list[int] | None:
    wishes = [*_terms(asking, "podAffinity", PREFERRED), *_terms(asking, "podAntiAffinity", PREFERRED)]
    if args.ignore_preferred_terms_of_existing_pods and not wishes:
        return None
    weights: dict[tuple[str, str], int] = {}
    for node in there.nodes:
        for other in there.on(node["metadata"]["name"]):
            for key, weight in _said(asking, other, there, args.hard_pod_affinity_weight):
                if key in node["metadata"]["labels"]:
                    domain = (key, node["metadata"]["labels"][key])
                    weights[domain] = weights.get(domain, 0) + weight
    if not weights:
        return None
    raw = [sum(weights.get(label, 0) for label in node["metadata"]["labels"].items()) for node in nodes]
    low, high = min(raw), max(raw)
    return [int(100.0 * ((one - low) / (high - low))) if high > low else 0 for one in raw]


def _said(asking: Raw, other: Raw, there: World, hard_weight: int) -> Iterator[tuple[str, int]]:
    """What speaks for or against the other pod's domain, by topology key."""
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for wish in _terms(asking, kind, PREFERRED):
            if _own_means(wish["podAffinityTerm"], asking, other, there):
                yield wish["podAffinityTerm"]["topologyKey"], sign * wish["weight"]
        for wish in _terms(other, kind, PREFERRED):
            if _placed_means(wish["podAffinityTerm"], other, asking, there):
                yield wish["podAffinityTerm"]["topologyKey"], sign * wish["weight"]
    for term in _terms(other, "podAffinity", REQUIRED):
        if hard_weight and _placed_means(term, other, asking, there):
            yield term["topologyKey"], hard_weight
