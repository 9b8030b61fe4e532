"""ResourceLimits: shares, numbers, headroom, factors and usage, exact to the milli-CPU and the byte."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.load import load
from bayplan.config.rehearse import rehearse
from bayplan.policies.resource_limits import ResourceLimits
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy
from bayplan.testing.run import Result

BATCH = {"tier": "batch"}
ALL_BATCH = {"podSelector": {"matchLabels": BATCH}}
FACTOR = "example.com/overcommit-cpu"
INT64_MAX = 2**63 - 1


def within(pod: dict[str, Any], cluster: Snapshot, **limit: Any) -> Result:
    """What one limit says of a pod."""
    return run_policy(ResourceLimits, make_pod(**pod), cluster, args={"limits": [limit]})


@pytest.mark.parametrize(
    ("share", "there", "asked", "passed"),
    [
        pytest.param(0.5, "1500m", "500m", True, id="an exact fit is a fit"),
        pytest.param(0.5, "1500m", "501m", False, id="one milli too much"),
        pytest.param("50%", "1500m", "501m", False, id="in percent"),
        pytest.param("0.5", "1500m", "500m", True, id="as a text"),
        pytest.param("12.5%", None, "500m", True, id="part of a percent"),
        pytest.param("33.3333%", None, "1333m", True, id="what is cut off is not theirs"),
        pytest.param("33.3333%", None, "1334m", False, id="nor rounded up to be"),
        pytest.param(1, "3900m", "100m", True, id="the whole node"),
        pytest.param(0.5, "3000m", None, True, id="who asks for nothing takes nothing"),
        pytest.param(0.5, "1m", f"{INT64_MAX}m", False, id="who asks for everything does not wrap round"),
    ],
)
def test_a_share_of_the_node(share: Any, there: str | None, asked: str | None, passed: bool) -> None:
    cluster = make_cluster([make_node("n", cpu=4)], [make_pod("there", node="n", labels=BATCH, cpu=there)])

    result = within({"labels": BATCH, "cpu": asked}, cluster, pods=ALL_BATCH, share={"cpu": share})

    assert bool(result.passed) is passed


def test_bytes_are_exact() -> None:
    cluster = make_cluster([make_node("n", memory=2**50 + 3)])
    half = (2**50 + 3) // 2

    limit = {"pods": ALL_BATCH, "share": {"memory": "50%"}}

    assert within({"labels": BATCH, "memory": half}, cluster, **limit).passed == ["n"]
    assert within({"labels": BATCH, "memory": half + 1}, cluster, **limit).passed == []


def test_a_virtual_node_with_endless_memory_has_room() -> None:
    cluster = make_cluster([make_node("virtual", memory=INT64_MAX)])

    result = within({"memory": "1Ti"}, cluster, share={"memory": 0.5}, overcommit={"memory": 100})

    assert result.passed == ["virtual"]


def test_other_pods_neither_count_nor_are_held_to_it() -> None:
    cluster = make_cluster([make_node("n", cpu=4)], [make_pod("web", node="n", cpu=3)])
    limit = {"pods": ALL_BATCH, "share": {"cpu": 0.25}}

    assert within({"labels": BATCH, "cpu": 1}, cluster, **limit).passed == ["n"]
    assert within({"cpu": 4}, cluster, **limit).passed == ["n"]


def test_each_team_has_its_own_number_of_pods() -> None:
    cluster = make_cluster(
        ["two-of-red", "one-of-each", "empty"],
        [
            make_pod("a", node="two-of-red", labels={"team": "red"}),
            make_pod("b", node="two-of-red", labels={"team": "red"}),
            make_pod("c", node="one-of-each", labels={"team": "red"}),
            make_pod("d", node="one-of-each", labels={"team": "blue"}),
        ],
    )
    limit = {"pods": {"sameLabel": "team"}, "maxPods": 2}

    red = within({"labels": {"team": "red"}}, cluster, **limit)

    assert red.refused == {"two-of-red": "the node has 2 of these pods already"}
    assert red.details == {"two-of-red": "2 there"}
    assert len(within({"labels": {"team": "blue"}}, cluster, **limit).passed) == 3
    assert len(within({}, cluster, **limit).passed) == 3


def test_no_pods_at_all_is_a_number_too() -> None:
    assert within({"labels": BATCH}, make_cluster(["n"]), pods=ALL_BATCH, maxPods=0).passed == []


@pytest.mark.parametrize(
    ("headroom", "pod", "passed"),
    [
        pytest.param({"cpu": "500m"}, {"cpu": "500m"}, True, id="just enough stays"),
        pytest.param({"cpu": "500m"}, {"cpu": "501m"}, False, id="one milli too little stays"),
        pytest.param({"cpu": 0.5}, {"cpu": "501m"}, False, id="half a core"),
        pytest.param({"memory": "10%"}, {"memory": 9000}, True, id="a part of the node"),
        pytest.param({"memory": "10%"}, {"memory": 9001}, False, id="one byte too much"),
        pytest.param({"memory": "10.005%"}, {"memory": 8999}, True, id="what is kept"),
        pytest.param({"memory": "10.005%"}, {"memory": 9000}, False, id="what is kept is rounded up"),
        pytest.param({"memory": "1k"}, {"memory": 9001}, False, id="an amount"),
        pytest.param({"cpu": 4}, {"memory": 1}, True, id="who asks for nothing takes nothing"),
        pytest.param(
            {"cpu": "500m"}, {"cpu": 1, "owner": ("DaemonSet", "d")}, True, id="it is kept for daemons"
        ),
    ],
)
def test_headroom(headroom: dict[str, Any], pod: dict[str, Any], passed: bool) -> None:
    there = make_pod("there", node="n", cpu=1)
    cluster = make_cluster([make_node("n", cpu=2, memory=10_000)], [there])

    assert bool(within(pod, cluster, headroom=headroom).passed) is passed


@pytest.mark.parametrize(
    ("overcommit", "labels", "asked", "passed"),
    [
        pytest.param({"cpu": 0.5}, {}, "1", True, id="half of the node"),
        pytest.param({"cpu": 0.5}, {}, "1001m", False, id="more than half of the node"),
        pytest.param({"cpu": "150%"}, {}, "3", True, id="more than the node"),
        pytest.param({"cpu": {"label": FACTOR}}, {FACTOR: "0.5"}, "1001m", False, id="as the node says"),
        pytest.param(
            {"cpu": {"label": FACTOR}}, {FACTOR: "2.01"}, "4020m", True, id="as the node says, exactly"
        ),
        pytest.param({"cpu": {"label": FACTOR}}, {FACTOR: "2.01"}, "4021m", False, id="and no milli more"),
        pytest.param({"cpu": {"label": FACTOR}}, {FACTOR: "0"}, "1m", False, id="nothing"),
        pytest.param({"cpu": {"label": FACTOR}}, {}, "2", True, id="a node that says nothing is as it is"),
        pytest.param({"cpu": {"label": FACTOR, "default": 0.5}}, {}, "2", False, id="or as the default says"),
    ],
)
def test_a_factor(overcommit: dict[str, Any], labels: dict[str, str], asked: str, passed: bool) -> None:
    cluster = make_cluster([make_node("n", cpu=2, labels=labels)])

    assert bool(within({"cpu": asked}, cluster, overcommit=overcommit).passed) is passed


@pytest.mark.parametrize("said", ["lots", "-1", "101", "1e308", "nan"])
def test_a_factor_that_is_none_is_not_guessed(said: str) -> None:
    cluster = make_cluster([make_node("typo", labels={FACTOR: said}), "plain"])

    result = within({"cpu": 1}, cluster, overcommit={"cpu": {"label": FACTOR}})

    assert result.refused == {"typo": f"node's label {FACTOR} is no factor"}


def test_a_factor_counts_in_shares_and_headroom() -> None:
    cluster = make_cluster([make_node("n", cpu=4)], [make_pod("web", node="n", cpu=1)])
    limit = {"pods": ALL_BATCH, "overcommit": {"cpu": 0.5}}

    assert within({"labels": BATCH, "cpu": 1}, cluster, **limit, share={"cpu": 0.5}).passed == ["n"]
    assert within({"labels": BATCH, "cpu": "1001m"}, cluster, **limit, share={"cpu": 0.5}).passed == []
    assert within({"labels": BATCH, "cpu": 1}, cluster, **limit, headroom={"cpu": "1m"}).passed == []


def measured(**percent: float) -> Snapshot:
    """Nodes of 4 CPUs with so much of them used, and ``silent``, about which nothing is known."""
    return make_cluster(
        [*(make_node(name, cpu=4) for name in percent), make_node("silent", cpu=4)],
        sources={"load": {name: {"cpu": value} for name, value in percent.items()}},
    )


def test_what_is_used_in_fact() -> None:
    usage = {"source": "load.cpu", "unit": "percent", "max": "80%"}
    cluster = measured(cool=40, warm=54, warmer=56, hot=90)

    result = within({"cpu": 1}, cluster, usage=usage)

    assert result.passed == ["cool", "warm", "silent"]
    assert result.refused["warmer"] == "too much cpu is used on the node"
    assert result.details["warmer"] == "81% with the pod, at most 80%"


def test_pods_that_came_since_it_was_measured_count() -> None:
    usage = {"source": "load.cpu", "unit": "percent", "max": 0.8}
    cluster = measured(n=40)
    args = {"limits": [{"usage": usage}]}

    first = bind(ResourceLimits, make_pod("first", cpu=1), "n", cluster, args=args)
    second = bind(ResourceLimits, make_pod("second", cpu=1), "n", first.cluster, args=args)

    assert first.refusal == ""
    assert second.refusal == "node n: too much cpu is used on the node, just now"


def test_a_pod_that_went_since_it_was_measured_takes_nothing_off() -> None:
    """It may have been idle: what was measured is still used as far as anybody knows."""
    went = make_pod("went", cpu=3, node="n", uid="went")
    cluster = make_cluster([make_node("n", cpu=4)], [went], sources={"load": {"n": {"cpu": 0.95}}}).without(
        {"went"}
    )

    result = within({"cpu": "100m"}, cluster, usage={"source": "load.cpu", "max": "80%"})

    assert result.passed == []


def test_a_node_about_which_nothing_is_known_can_be_refused() -> None:
    usage = {"source": "load.cpu", "unit": "fraction", "max": 1, "onMissing": "fail"}

    result = within({}, measured(known=0.5), usage=usage)

    assert result.refused == {"silent": "load.cpu says nothing of the node"}


def test_each_refusal_says_what_is_wrong() -> None:
    cluster = make_cluster(
        [make_node("n", cpu=4, memory="10Gi")], [make_pod("there", node="n", labels=BATCH, cpu="1800m")]
    )

    share = within({"labels": BATCH, "cpu": "500m"}, cluster, pods=ALL_BATCH, share={"cpu": 0.5})
    room = within({"memory": "9.5Gi"}, cluster, headroom={"memory": "1Gi"})
    own = within({"memory": "9.5Gi"}, cluster, headroom={"memory": "1Gi"}, reason="ask the platform team")

    assert share.refused == {"n": "these pods have their share of the node's cpu"}
    assert share.details == {"n": "1800m of 2000m requested, 500m needed"}
    assert room.refused == {"n": "too little memory would be left"}
    assert room.details == {"n": "10Gi free, 9.5Gi needed, 1Gi must stay"}
    assert own.refused == {"n": "ask the platform team"}


def test_evicting_pods_helps() -> None:
    cluster = make_cluster([make_node("n", cpu=1)], [make_pod("there", node="n")])

    for limit in ({"share": {"cpu": 0.5}}, {"headroom": {"cpu": 1}}, {"maxPods": 1}):
        refusal = within({"cpu": 1}, cluster, **limit).filtered.refusal(0)

        assert refusal is not None
        assert refusal.reason.preemptible
        assert refusal.reason.helped_by == {"pods", "nodes"}


def test_several_limits_hold_at_once() -> None:
    cluster = make_cluster(
        [make_node("small", cpu=1), make_node("full", cpu=8), make_node("fits", cpu=8)],
        [make_pod("there", node="full", labels=BATCH)],
    )
    limits = [{"pods": ALL_BATCH, "maxPods": 1}, {"share": {"cpu": 0.5}}]

    result = run_policy(ResourceLimits, make_pod(labels=BATCH, cpu=1), cluster, args={"limits": limits})

    assert result.passed == ["fits"]


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        pytest.param({}, "give at least one of `share`, `maxPods`", id="no limit"),
        pytest.param(
            {"share": {"cpu": 40}}, "share.cpu: 40 is more than the whole node; did you mean 40%?", id="40"
        ),
        pytest.param({"share": {"cpu": "140%"}}, "share.cpu: '140%' is more than the whole node", id="140%"),
        pytest.param(
            {"share": {"cpu": 0}}, "share.cpu: want more than nothing, such as 0.4 or 40%; got 0", id="0"
        ),
        pytest.param(
            {"share": {"cpu": "half"}}, "share.cpu: 'half' is neither a number such as 0.4", id="a word"
        ),
        pytest.param({"share": {"cpu": "500m"}}, "share.cpu: '500m' is neither a number", id="a quantity"),
        pytest.param({"share": {"cpu": -0.5}}, "share.cpu: -0.5 is neither a number", id="less than nothing"),
        pytest.param({"share": {"cpu": "0.0000001"}}, "finer than a millionth", id="too fine"),
        pytest.param({"share": {"cpu": True}}, "Expected `int | float | str`, got `bool`", id="yes"),
        pytest.param({"share": {"memroy": 0.5}}, "no resource 'memroy'; did you mean 'memory'?", id="a typo"),
        pytest.param({"share": {"pods": 0.5}}, "pods are counted by `maxPods`", id="pods"),
        pytest.param({"maxPods": -1}, "Expected `int` >= 0", id="fewer than no pods"),
        pytest.param({"headroom": {"cpu": "5mm"}}, "headroom.cpu: '5mm' is not a quantity", id="no quantity"),
        pytest.param({"headroom": {"cpu": 0}}, "headroom.cpu: want more than nothing", id="no headroom"),
        pytest.param({"headroom": {"cpu": "-1"}}, "headroom.cpu: want more than nothing", id="negative"),
        pytest.param(
            {"headroom": {"memory": 0.1}}, "headroom.memory: 0.1 of memory is next to nothing", id="0.1"
        ),
        pytest.param({"headroom": {"cpu": "110%"}}, "headroom.cpu: '110%' is more than the whole", id="110%"),
        pytest.param({"overcommit": {"cpu": 0}}, "overcommit.cpu: 0 is no factor", id="factor 0"),
        pytest.param({"overcommit": {"cpu": 101}}, "overcommit.cpu: 101 is no factor", id="factor 101"),
        pytest.param(
            {"overcommit": {"cpu": {"label": "x", "default": "no"}}},
            "overcommit.cpu: 'no' is neither",
            id="default",
        ),
        pytest.param(
            {"usage": {"source": "s", "max": 80}}, "max: 80 is more .*; did you mean 80%?", id="usage 80"
        ),
    ],
)
def test_a_mistake_is_an_error_at_load(limit: dict[str, Any], message: str) -> None:
    (found,) = load("ResourceLimits")

    with pytest.raises(ValueError, match=message):
        found.make(args={"limits": [limit]})


@pytest.mark.parametrize(
    "limit", [{"share": {"cpu": 0.5}}, {"maxPods": 1}, {"headroom": {"cpu": 1}}, {"overcommit": {"cpu": 0.5}}]
)
def test_it_is_refused_at_load_where_pods_are_not_known(limit: dict[str, Any]) -> None:
    (found,) = load("ResourceLimits")
    policy = found.make(args={"limits": [{"pods": ALL_BATCH, **limit}]})

    assert "needs the placed pods" in rehearse([policy], pods_known=False)[0]


_SIZES = st.integers(1, 3000)


@given(
    share=st.integers(1, 100),
    sizes=st.tuples(_SIZES, _SIZES, _SIZES),
    pods=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 900), st.sampled_from(["red", "blue"])), max_size=30
    ),
)
@settings(deadline=None, max_examples=60)
def test_whoever_is_bound_in_whatever_order_no_team_passes_its_share_and_nobody_is_refused_needlessly(
    share: int, sizes: tuple[int, int, int], pods: list[tuple[int, int, str]]
) -> None:
    cluster = make_cluster([make_node(f"n{n}", cpu=f"{size}m") for n, size in enumerate(sizes)])
    args = {"limits": [{"pods": {"sameLabel": "team"}, "share": {"cpu": f"{share}%"}}]}
    used: dict[tuple[int, str], int] = {}

    for number, (node, cpu, team) in enumerate(pods):
        pod = make_pod(f"p{number}", labels={"team": team}, cpu=f"{cpu}m")
        bound = bind(ResourceLimits, pod, f"n{node}", cluster, args=args)
        after = used.get((node, team), 0) + cpu
        fits = after <= Fraction(share, 100) * sizes[node] or cpu == 0

        assert (bound.refusal == "") is fits
        cluster = bound.cluster
        used[node, team] = after if fits else used.get((node, team), 0)
